//! Measures one thing that programs do on tokio.
//!
//! `compare ROW [SECONDS]` prints a line: operations per second, the 50th and the 99th percentile
//! of their time in µs, CPU time for each in µs, and the process's peak of memory in KiB.

mod files;
mod grpc;
mod http;
mod measure;
mod processes;
mod redis;
mod sql;
mod timers;
mod websocket;

use std::{env, error::Error, time::Duration};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long a row measures, in seconds.
const SECONDS: u64 = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["clients", address, seconds] = arguments[..] {
        let length = Duration::from_secs(seconds.parse()?);
        return http::clients(address.parse()?, length);
    }
    let (row, seconds) = match arguments[..] {
        [row] => (row, SECONDS),
        [row, seconds] => (row, seconds.parse()?),
        _ => return Err("usage: compare ROW [SECONDS]".into()),
    };
    let length = Duration::from_secs(seconds);
    let numbers = match row {
        "axum" => http::axum(length).await?,
        "axum-blocking" => http::blocking(length).await?,
        "reqwest" => http::reqwest(length).await?,
        "tonic" => grpc::unary(length).await?,
        "redis" => redis::pipelined(length).await?,
        "sqlx" => sql::inserts(length).await?,
        "websocket" => websocket::echo(length).await?,
        "delay-queue" => timers::delay_queue(length).await?,
        "files" => files::read(length).await?,
        "processes" => processes::spawn(length).await?,
        _ => return Err(format!("no row is named {row}").into()),
    };
    println!("{numbers}");
    Ok(())
}
