//! A TCP server that sends back what it gets: a task for each connection.
//!
//! ```text
//! cargo run --example echo -- 127.0.0.1:7000
//! nc 127.0.0.1 7000
//! ```

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{env, io};

use futures::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream};

#[ws::main]
async fn main() -> io::Result<()> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7000")).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        ws::spawn(async move {
            match echo(stream).await {
                Ok(bytes) => println!("{peer}: {bytes} bytes"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}

/// Sends back what comes until the peer has no more, and returns how much it was.
async fn echo(mut stream: TcpStream) -> io::Result<u64> {
    let mut buffer = vec![0; 16 * 1024];
    let mut total = 0;
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            stream.close().await?;
            return Ok(total);
        }
        stream.write_all(&buffer[..read]).await?;
        total += read as u64;
    }
}
