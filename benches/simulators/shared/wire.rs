//! What goes over the network: a length of four bytes, and a message of bincode.
use std::io;

use kv::api::{Answer, Command};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::seam::{AsyncReadExt as _, AsyncWriteExt as _, TcpStream, connect};

/// The port of a node.
pub const PORT: u16 = 7000;

/// One entry of the log. The first one of a leader has no command.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    pub term: u64,
    pub command: Option<Command>,
}

/// "Take these entries": also the heartbeat of a leader.
#[derive(Debug, Deserialize, Serialize)]
pub struct Append {
    pub term: u64,
    pub leader: usize,
    /// How many entries come before these, and the term of the last one of them.
    pub before: usize,
    pub before_term: u64,
    pub entries: Vec<Entry>,
    /// How many entries a majority has.
    pub commit: usize,
}

#[derive(Debug, Deserialize, Serialize)]
pub enum Request {
    /// "Vote for me": with the term of my last entry, and how many there are.
    Vote {
        term: u64,
        candidate: usize,
        last: (u64, usize),
    },
    Append(Append),
    Command(Command),
}

#[derive(Debug, Deserialize, Serialize)]
pub enum Reply {
    Vote {
        term: u64,
        granted: bool,
    },
    /// How many entries are the leader's; or where it may try again.
    Append {
        term: u64,
        matched: Result<usize, usize>,
    },
    Done(Answer),
    /// Another node may lead.
    NotLeader(Option<usize>),
}

pub async fn send(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let body = bincode::serialize(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend(body);
    stream.write_all(&frame).await?;
    stream.flush().await
}

pub async fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let mut body = vec![0; u32::from_le_bytes(len) as usize];
    stream.read_exact(&mut body).await?;
    bincode::deserialize(&body).map_err(io::Error::other)
}

/// Asks over a connection that is kept for the next request, and made if there is none.
pub async fn ask(kept: &mut Option<TcpStream>, host: &str, request: &Request) -> io::Result<Reply> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => connect(host, PORT).await?,
    };
    send(&mut stream, request).await?;
    let reply = receive(&mut stream).await?;
    *kept = Some(stream);
    Ok(reply)
}
