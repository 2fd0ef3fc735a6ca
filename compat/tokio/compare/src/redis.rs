//! redis.

use std::time::Duration;

use redis::AsyncCommands;

use crate::{
    Result,
    measure::{Numbers, calls},
};

const TASKS: usize = 32;

/// Commands of many tasks on one connection, which the library pipelines.
pub async fn pipelined(length: Duration) -> Result<Numbers> {
    let server = ws_test_servers::redis();
    let client = redis::Client::open(format!("redis://{}/", server.address()))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let clients = vec![connection; TASKS];
    calls(clients, length, async |mut connection| {
        let () = connection.set("key", "value").await?;
        Ok(connection)
    })
    .await
}
