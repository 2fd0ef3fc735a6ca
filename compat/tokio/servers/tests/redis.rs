//! redis: a connection of many tasks, a connection manager beside a Redis that is killed and comes
//! again, and subscribers.

use futures_util::{StreamExt, TryStreamExt};
use redis::AsyncCommands;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_connection_manager_connects_again() -> redis::RedisResult<()> {
    let mut server = ws_test_servers::redis();
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut manager = client.get_connection_manager().await?;
    let () = manager.set("key", 1).await?;
    let got: i32 = manager.incr("key", 41).await?;
    assert_eq!(got, 42);

    server.restart();
    // What is under way when the connection ends is an error; the manager connects again by itself.
    let mut tries = 0;
    loop {
        match manager.get::<_, Option<i32>>("key").await {
            Ok(got) => break assert_eq!(got, None),
            Err(error) => assert!(error.is_io_error() && tries < 100, "{error}"),
        }
        tries += 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_share_a_connection() -> redis::RedisResult<()> {
    let server = ws_test_servers::redis();
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let mut tasks = JoinSet::new();
    for task in 0..200 {
        let mut connection = connection.clone();
        tasks.spawn(async move {
            let key = format!("key {task}");
            let (before, after, _): (i32, i32, i32) = redis::pipe()
                .atomic()
                .set(&key, task)
                .ignore()
                .get(&key)
                .incr(&key, 1000)
                .incr("all", 1)
                .query_async(&mut connection)
                .await?;
            assert_eq!((before, after), (task, task + 1000));
            redis::RedisResult::Ok(())
        });
    }
    for done in tasks.join_all().await {
        done?;
    }
    let all: i32 = connection.clone().get("all").await?;
    assert_eq!(all, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_reaches_each_subscriber() -> redis::RedisResult<()> {
    let server = ws_test_servers::redis();
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let mut subscribers = JoinSet::new();
    for _ in 0..10 {
        let mut pubsub = client.get_async_pubsub().await?;
        pubsub.subscribe("news").await?;
        subscribers.spawn(async move {
            let news = pubsub
                .on_message()
                .map(|message| message.get_payload::<i32>());
            news.take(100).try_collect::<Vec<_>>().await
        });
    }
    let mut publisher = client.get_multiplexed_async_connection().await?;
    for n in 0..100 {
        let reached: i32 = publisher.publish("news", n).await?;
        assert_eq!(reached, 10);
    }
    for got in subscribers.join_all().await {
        assert_eq!(got?, Vec::from_iter(0..100));
    }
    Ok(())
}
