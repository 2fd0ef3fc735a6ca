//! redis with its connection manager, beside a Redis that is killed and comes again.

use redis::AsyncCommands;

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
