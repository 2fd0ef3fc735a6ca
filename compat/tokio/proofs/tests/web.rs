//! axum as its own documentation has it, with reqwest and tokio-tungstenite as clients.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Json, Router,
    extract::{
        Path,
        ws::{Message, WebSocketUpgrade},
    },
    response::Response,
    routing::{get, post},
};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot},
    task::JoinHandle,
};

async fn echo(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            if let Message::Text(_) = message
                && socket.send(message).await.is_err()
            {
                return;
            }
        }
    })
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "done"
}

/// A request for `/noticed` has come.
static UNDER_WAY: Notify = Notify::const_new();

async fn noticed() -> &'static str {
    UNDER_WAY.notify_one();
    slow().await
}

struct Server {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
}

async fn serve() -> Server {
    let app = Router::new()
        .route("/", get(|| async { "Hello, World!" }))
        .route(
            "/double/{n}",
            get(|Path(n): Path<u64>| async move { Json(2 * n) }),
        )
        .route(
            "/sum",
            post(|Json(all): Json<Vec<u64>>| async move { Json(all.iter().sum::<u64>()) }),
        )
        .route("/slow", get(slow))
        .route("/noticed", get(noticed))
        .route("/ws", get(echo));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let ended = tokio::spawn(async move { server.await });
    Server { addr, stop, ended }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered() {
    let server = serve().await;
    let url = format!("http://{}", server.addr);
    let client = reqwest::Client::new();
    let hello = client.get(&url).send().await.unwrap().text().await.unwrap();
    assert_eq!(hello, "Hello, World!");
    let double: u64 = client
        .get(format!("{url}/double/21"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(double, 42);
    let sum: u64 = client
        .post(format!("{url}/sum"))
        .json(&[1, 2, 3])
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(sum, 6);
    let many = (0..200).map(|n| {
        let request = client.get(format!("{url}/double/{n}"));
        async move { request.send().await.unwrap().json::<u64>().await.unwrap() }
    });
    let doubled = futures_util::future::join_all(many).await;
    assert!(
        doubled
            .iter()
            .enumerate()
            .all(|(n, double)| *double == 2 * n as u64)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_waits_for_the_request_under_way() {
    let server = serve().await;
    let request = tokio::spawn(reqwest::get(format!("http://{}/noticed", server.addr)));
    UNDER_WAY.notified().await;
    server.stop.send(()).unwrap();
    assert_eq!(
        request.await.unwrap().unwrap().text().await.unwrap(),
        "done"
    );
    server.ended.await.unwrap().unwrap();
    assert!(
        reqwest::get(format!("http://{}/", server.addr))
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_socket_echoes() {
    let server = serve().await;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{}/ws", server.addr))
        .await
        .unwrap();
    for text in ["one", "two", "three"] {
        socket.send(text.into()).await.unwrap();
        assert_eq!(
            socket.next().await.unwrap().unwrap().into_text().unwrap(),
            text
        );
    }
    socket.close(None).await.unwrap();
}

#[tokio::test]
async fn a_client_gives_up_in_time() {
    let server = serve().await;
    let client = reqwest::Client::builder()
        .timeout(Duration::from_millis(5))
        .build()
        .unwrap();
    let error = client
        .get(format!("http://{}/slow", server.addr))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
}
