//! WebSocket: the server and the client of tokio-tungstenite, and axum's server.

use axum::{
    Router,
    extract::ws::{Message as AxumMessage, WebSocket, WebSocketUpgrade},
    routing::get,
};
use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, accept_async, connect_async, tungstenite::Message,
};

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The text backwards.
fn turned(text: &str) -> String {
    text.chars().rev().collect()
}

/// Sends texts ahead, and reads the answers; then a long message, a ping, and the end.
async fn talk(server: String) -> Result<Vec<String>, Error> {
    let (mut stream, _) = connect_async(format!("ws://{server}/")).await?;
    let mut answers = Vec::new();
    for n in 0..20 {
        stream.send(Message::text(format!("text {n}"))).await?;
    }
    for _ in 0..20 {
        answers.push(next_text(&mut stream).await?);
    }
    let long = "ab".repeat(40_000);
    stream.send(Message::text(long.as_str())).await?;
    let answer = next_text(&mut stream).await?;
    assert_eq!(answer, turned(&long));
    answers.push(answer.len().to_string());
    stream.send(Message::Ping("are you there".into())).await?;
    match stream.next().await.ok_or_else(|| wrong("the end"))?? {
        Message::Pong(said) => answers.push(format!("{said:?}")),
        other => return Err(wrong(&format!("{other} is no pong"))),
    }
    stream.close(None).await?;
    while let Some(message) = stream.next().await {
        answers.push(format!("{:?}", message?));
    }
    Ok(answers)
}

async fn next_text(stream: &mut Stream) -> Result<String, Error> {
    match stream.next().await.ok_or_else(|| wrong("the end"))?? {
        Message::Text(text) => Ok(text.to_string()),
        other => Err(wrong(&format!("{other} is no text"))),
    }
}

async fn serve_tungstenite(listener: TcpListener) -> Result<(), Error> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut stream = accept_async(stream).await?;
            while let Some(message) = stream.next().await {
                if let Message::Text(text) = message? {
                    stream.send(Message::text(turned(&text))).await?;
                }
            }
            Ok::<(), Error>(())
        });
    }
}

struct Tungstenite;

impl Protocol for Tungstenite {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve_tungstenite(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        talk(server).await
    }
}

struct Axum;

impl Protocol for Axum {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        async fn turn(mut socket: WebSocket) {
            while let Some(Ok(message)) = socket.recv().await {
                if let AxumMessage::Text(text) = message {
                    let answer = AxumMessage::Text(turned(&text).into());
                    if socket.send(answer).await.is_err() {
                        return;
                    }
                }
            }
        }
        let upgrade = get(async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(turn));
        Ok(axum::serve(listener, Router::new().route("/", upgrade)).await?)
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        talk(server).await
    }
}

/// A client that connects again when its connection is gone.
struct Stubborn;

impl Protocol for Stubborn {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve_tungstenite(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let url = &format!("ws://{server}/");
        let open = tokio::sync::Mutex::new(None::<Stream>);
        let mut answers = Vec::new();
        for n in 0..20 {
            let answer = again(|| async {
                let mut place = open.lock().await;
                let mut stream = match place.take() {
                    Some(stream) => stream,
                    None => connect_async(url).await?.0,
                };
                stream.send(Message::text(format!("text {n}"))).await?;
                let answer = next_text(&mut stream).await?;
                *place = Some(stream);
                Ok(answer)
            });
            answers.push(answer.await);
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn tungstenite_is_as_on_sockets() {
    check::<Tungstenite>(0..200, Faults::Network);
}

#[test]
fn the_server_of_axum_is_as_on_sockets() {
    check::<Axum>(0..200, Faults::Network);
}

#[test]
fn a_client_connects_again_to_a_server_that_crashes() {
    check::<Stubborn>(0..200, Faults::Crashes);
}
