//! A chat over TCP: what one client says, all others read.
//!
//! ```text
//! cargo run --example chat -- 127.0.0.1:7001
//! nc 127.0.0.1 7001        # in as many terminals as you like; the first line is your name
//! ```
//!
//! Each client is two tasks, one that reads and one that writes, and a bounded queue between the
//! room and the latter. A client that does not keep up loses lines, and is told how many: neither
//! the room nor its memory waits for the slowest.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{
    collections::HashMap,
    env,
    io::{self, ErrorKind},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, StreamExt,
    channel::mpsc::{self, Receiver, Sender},
    io::{BufReader, WriteHalf},
};
use ws::net::{TcpListener, TcpStream};

/// Lines that wait for a client before the next ones are lost to it.
const QUEUE_LINES_MAX: usize = 64;
/// A longer line ends the connection: it might have no end.
const LINE_BYTES_MAX: u64 = 4096;

#[ws::main]
async fn main() -> io::Result<()> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7001")).await?;
    println!("listening on {}", listener.local_addr()?);
    let room = Room::default();
    loop {
        let (stream, peer) = listener.accept().await?;
        let room = room.clone();
        ws::spawn(async move {
            if let Err(error) = client(stream, &room).await {
                println!("{peer}: {error}");
            }
        });
    }
}

/// Who is here.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<Members>>);

#[derive(Default)]
struct Members {
    last_id: u64,
    by_id: HashMap<u64, Member>,
}

struct Member {
    lines: Sender<Arc<str>>,
    /// Lines that found its queue full since the last one that did not.
    lost: usize,
}

impl Room {
    /// Lets someone in; who leaves by dropping the ticket.
    fn enter(&self) -> (Ticket, Receiver<Arc<str>>) {
        let (lines, queue) = mpsc::channel(QUEUE_LINES_MAX);
        let mut members = self.lock();
        members.last_id += 1;
        let id = members.last_id;
        members.by_id.insert(id, Member { lines, lost: 0 });
        let room = self.clone();
        (Ticket { room, id }, queue)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Members> {
        // A line or a member too few is no reason to stop: each step leaves the map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the room.
struct Ticket {
    room: Room,
    id: u64,
}

impl Ticket {
    /// Gives a line to all others.
    fn say(&self, line: &str) {
        let line: Arc<str> = format!("{line}\n").into();
        for (id, member) in &mut self.room.lock().by_id {
            if *id != self.id {
                member.give(&line);
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.room.lock().by_id.remove(&self.id);
    }
}

impl Member {
    fn give(&mut self, line: &Arc<str>) {
        if self.lost > 0 {
            let notice = format!("({} lines are missing here)\n", self.lost);
            if self.lines.try_send(notice.into()).is_err() {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if self.lines.try_send(line.clone()).is_err() {
            self.lost += 1;
        }
    }
}

/// The life of a client: a name, then lines until it leaves.
async fn client(stream: TcpStream, room: &Room) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    writer.write_all(b"your name?\n").await?;
    let Some(name) = line(&mut reader).await? else {
        return Ok(());
    };

    let (ticket, queue) = room.enter();
    let writing = ws::spawn(write(writer, queue));
    ticket.say(&format!("* {name} is here"));
    let left = loop {
        match line(&mut reader).await {
            Ok(Some(text)) => ticket.say(&format!("{name}: {text}")),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ticket.say(&format!("* {name} has left"));
    drop(ticket); // ends the queue, and so the task that writes
    let wrote = writing.await.map_err(io::Error::other)?;
    left.and(wrote)
}

async fn write(mut writer: WriteHalf<TcpStream>, mut queue: Receiver<Arc<str>>) -> io::Result<()> {
    while let Some(line) = queue.next().await {
        writer.write_all(line.as_bytes()).await?;
    }
    writer.close().await
}

/// Reads a line, without its end; none if there are no more.
async fn line<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.take(LINE_BYTES_MAX).read_line(&mut line).await?;
    if read as u64 == LINE_BYTES_MAX && !line.ends_with('\n') {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "a line without an end",
        ));
    }
    Ok((read > 0).then(|| line.trim_end().to_owned()))
}
