//! async-nats, and a small NATS server.

#[path = "nats/server.rs"]
mod server;

use std::time::Duration;

use async_nats::{Client, ConnectOptions, HeaderMap, Message};
use futures::StreamExt;
use tokio::net::TcpListener;
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};

async fn connect(server: &str) -> Result<Client, Error> {
    let options = ConnectOptions::new()
        .connection_timeout(Duration::from_secs(30))
        .ping_interval(Duration::from_secs(1))
        .request_timeout(None);
    Ok(options.connect(format!("nats://{server}")).await?)
}

fn text(message: &Message) -> String {
    let payload = String::from_utf8_lossy(&message.payload);
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get("id"));
    format!("{} {payload} {id:?}", message.subject)
}

/// Doubles the numbers that come, as a member of a group.
async fn doubles(client: Client) -> Result<(), Error> {
    let mut requests = client.queue_subscribe("double", "workers".into()).await?;
    while let Some(request) = requests.next().await {
        let n: u64 = std::str::from_utf8(&request.payload)?.parse()?;
        let reply = request.reply.ok_or_else(|| wrong("nobody waits"))?;
        let headers = request.headers.unwrap_or_default();
        let answer = (2 * n).to_string().into();
        client.publish_with_headers(reply, headers, answer).await?;
    }
    Ok(())
}

struct Nats;

impl Protocol for Nats {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        server::serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let (publisher, receiver) = (connect(&server).await?, connect(&server).await?);
        let nobody = receiver.request("nobody", "".into()).await.unwrap_err();
        let mut answers = vec![format!("{:?}", nobody.kind())];
        let mut one = receiver.subscribe("numbers.one").await?;
        let mut all = receiver.subscribe("numbers.*").await?;
        receiver.flush().await?;
        // The server has both, since it answers one after the other.
        let _ = receiver.request("nobody", "".into()).await;
        let publish = tokio::spawn(async move {
            for n in 0..100 {
                let subject = ["numbers.one", "numbers.two"][n % 2];
                publisher.publish(subject, n.to_string().into()).await?;
            }
            Ok::<_, Error>(publisher.flush().await?)
        });
        let end = || wrong("the end");
        for n in 0..100 {
            answers.push(text(&all.next().await.ok_or_else(end)?));
            if n % 2 == 0 {
                answers.push(text(&one.next().await.ok_or_else(end)?));
            }
        }
        publish.await??;

        for _ in 0..3 {
            let worker = connect(&server).await?;
            tokio::spawn(doubles(worker));
        }
        let calls = (0..50).map(|n| {
            let client = receiver.clone();
            let mut headers = HeaderMap::new();
            headers.insert("id", n.to_string());
            let payload = n.to_string();
            tokio::spawn(async move {
                again(|| async {
                    let payload = payload.clone().into();
                    let request = client.request_with_headers("double", headers.clone(), payload);
                    Ok(request.await?)
                })
                .await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let mut answer = call.await?;
            answer.subject = "double".into(); // the inbox has a random name
            answers.push(text(&answer));
        }
        Ok(answers)
    }
}

/// A client and a worker that connect again by themselves.
struct Manager;

impl Protocol for Manager {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        server::serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let worker = again(|| connect(&server)).await;
        let serving = tokio::spawn(doubles(worker));
        let client = again(|| connect(&server)).await;
        let mut answers = Vec::new();
        for n in 0..20 {
            let answer = again(|| async {
                let mut answer = client.request("double", n.to_string().into()).await?;
                answer.subject = "double".into();
                Ok(text(&answer))
            });
            answers.push(answer.await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Its subscription is the first one, and outlives all crashes.
        assert!(!serving.is_finished());
        Ok(answers)
    }
}

#[test]
fn nats_is_as_on_sockets() {
    check::<Nats>(0..100, Faults::Network);
}

#[test]
fn subscriptions_outlive_crashes_of_the_server() {
    check::<Manager>(0..100, Faults::Crashes);
}
