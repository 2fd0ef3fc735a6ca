//! The client `redis`, and the server and the client of mini-redis.

use std::{future::pending, time::Duration};

use redis::{AsyncCommands, AsyncConnectionConfig, SetExpiry, SetOptions};
use tokio::net::TcpListener;
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};

async fn serve(listener: TcpListener) -> Result<(), Error> {
    mini_redis::server::run(listener, pending::<()>()).await
}

struct Redis;

impl Protocol for Redis {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let client = redis::Client::open(format!("redis://{server}/"))?;
        // A second, its own limit for an answer, is less than a packet takes that is lost twice.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let side_by_side: Vec<_> = (0..10)
            .map(|n| {
                let mut connection = connection.clone();
                tokio::spawn(async move {
                    let () = connection.set(format!("key {n}"), n * n).await?;
                    connection.get::<_, String>(format!("key {n}")).await
                })
            })
            .collect();
        let mut answers = Vec::new();
        for task in side_by_side {
            answers.push(task.await??);
        }
        let mut connection = connection;
        let () = connection.set("long", "x".repeat(100_000)).await?;
        let long: String = connection.get("long").await?;
        answers.push(long.len().to_string());
        let none: Option<String> = connection.get("none").await?;
        answers.push(format!("{none:?}"));
        let expires = SetOptions::default().with_expiration(SetExpiry::PX(200));
        let () = connection
            .set_options("brief", "soon gone", expires)
            .await?;
        let brief: Option<String> = connection.get("brief").await?;
        // A packet that was lost may have taken longer than the key lives.
        assert!(brief.is_none_or(|text| text == "soon gone"));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let gone: Option<String> = connection.get("brief").await?;
        answers.push(format!("{gone:?}"));
        Ok(answers)
    }
}

/// A subscriber and a publisher of mini-redis.
struct Subscriber;

impl Protocol for Subscriber {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let client = mini_redis::client::connect(&server).await?;
        let mut subscriber = client.subscribe(vec!["news".to_owned()]).await?;
        let publisher = tokio::spawn(async move {
            let mut client = mini_redis::client::connect(&server).await?;
            for n in 0..20 {
                client.publish("news", format!("number {n}").into()).await?;
            }
            Ok::<(), Error>(())
        });
        let mut answers = Vec::new();
        for _ in 0..20 {
            let message = subscriber.next_message().await?;
            let message = message.ok_or_else(|| wrong("the end"))?;
            answers.push(format!("{message:?}"));
        }
        publisher.await??;
        Ok(answers)
    }
}

/// A connection manager, which connects again by itself. A server that comes again is empty.
struct Manager;

impl Protocol for Manager {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let client = redis::Client::open(format!("redis://{server}/"))?;
        let manager = again(|| async { Ok(client.get_connection_manager().await?) }).await;
        let mut answers = Vec::new();
        for n in 0..20 {
            let answer = again(|| async {
                let mut manager = manager.clone();
                let () = manager.set("n", n).await?;
                let read: Option<String> = manager.get("n").await?;
                read.ok_or_else(|| wrong("it crashed in between"))
            });
            answers.push(answer.await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn redis_is_as_on_sockets() {
    check::<Redis>(0..200, Faults::Network);
}

#[test]
fn subscribers_are_told_as_on_sockets() {
    check::<Subscriber>(0..200, Faults::Network);
}

#[test]
fn a_connection_manager_outlives_crashes_of_the_server() {
    check::<Manager>(0..200, Faults::Crashes);
}
