//! tokio-tungstenite.

use std::{net::Ipv4Addr, time::Duration};

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{accept_async, client_async, tungstenite::Message};

use crate::{
    Result,
    measure::{Numbers, calls},
};

const CONNECTIONS: usize = 32;
const TEXT: &str = "sixty-four bytes that go to the server and come back from there";

/// Clients and server are in this process.
pub async fn echo(length: Duration) -> Result<Numbers> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        clients.push(client_async(format!("ws://{address}/"), stream).await?.0);
    }
    calls(clients, length, async |mut client| {
        client.send(Message::text(TEXT)).await?;
        let answer = client.next().await.ok_or("the server has closed")??;
        assert_eq!(answer.to_text()?, TEXT);
        Ok(client)
    })
    .await
}

async fn answer(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut socket = accept_async(stream).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() {
            socket.send(message).await?;
        }
    }
    Ok(())
}
