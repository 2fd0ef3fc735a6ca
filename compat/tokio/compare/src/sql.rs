//! sqlx with PostgreSQL.

use std::time::Duration;

use sqlx::postgres::PgPoolOptions;

use crate::{
    Result,
    measure::{Numbers, calls},
};

const CONNECTIONS: u32 = 4;
/// Some of them wait for a connection.
const TASKS: usize = 8;

pub async fn inserts(length: Duration) -> Result<Numbers> {
    let server = ws_test_servers::postgres();
    let url = format!("postgres://ws@{}/postgres", server.address());
    let options = PgPoolOptions::new().max_connections(CONNECTIONS);
    let pool = options.connect(&url).await?;
    sqlx::query("CREATE TABLE rows (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL)")
        .execute(&pool)
        .await?;
    let clients = vec![pool; TASKS];
    calls(clients, length, async |pool| {
        let insert = sqlx::query("INSERT INTO rows (name) VALUES ($1)").bind("a name");
        insert.execute(&pool).await?;
        Ok(pool)
    })
    .await
}
