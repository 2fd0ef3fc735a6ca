//! A NATS server: subjects with wildcards, queue groups, replies, headers.
//!
//! A connection has a task that reads, and a task that writes what comes out of its channel. The
//! subscriptions of all connections are in one table, in the order of their connections.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_simulated::{Error, wrong};

const INFO: &str = concat!(
    r#"INFO {"server_id":"ID","server_name":"small","version":"2.10.0","go":"","host":"","#,
    r#""port":4222,"headers":true,"max_payload":1048576,"proto":1}"#,
    "\r\n"
);

/// The key of a subscription: its connection, and its id there.
type Key = (u64, String);

struct Subscription {
    subject: String,
    queue: Option<String>,
    /// How many more messages it wants, if it has said so.
    left: Option<u64>,
    to: UnboundedSender<Vec<u8>>,
}

#[derive(Default)]
struct Table {
    subscriptions: BTreeMap<Key, Subscription>,
    /// How many messages went to queue groups: the members take turns.
    turns: usize,
}

type Shared = Arc<Mutex<Table>>;

/// Serves for ever.
pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let table = Shared::default();
    for id in 0.. {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(talk(id, stream, table.clone()));
    }
    Ok(())
}

async fn talk(id: u64, stream: TcpStream, table: Shared) -> Result<(), Error> {
    let (reader, mut writer) = stream.into_split();
    let (to, mut out): (_, UnboundedReceiver<Vec<u8>>) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(bytes) = out.recv().await {
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    });
    let connection = Connection { id, to, table };
    let ended = connection.serve(BufReader::new(reader)).await;
    let mut table = connection.table.lock().unwrap();
    table.subscriptions.retain(|(of, _), _| *of != id);
    ended
}

/// A message as it was published.
struct Message<'a> {
    subject: &'a str,
    reply: Option<&'a str>,
    /// The length of the headers, which are in front of the payload.
    headers: usize,
    bytes: &'a [u8],
}

struct Connection {
    id: u64,
    to: UnboundedSender<Vec<u8>>,
    table: Shared,
}

impl Connection {
    async fn serve(&self, mut reader: BufReader<OwnedReadHalf>) -> Result<(), Error> {
        self.to.send(INFO.into())?;
        let mut line = String::new();
        while reader.read_line(&mut line).await? > 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["CONNECT", ..] | ["PONG"] => {}
                ["PING"] => self.to.send("PONG\r\n".into())?,
                ["SUB", subject, id] => self.subscribe(subject, None, id),
                ["SUB", subject, queue, id] => self.subscribe(subject, Some(queue), id),
                ["UNSUB", id] => self.unsubscribe(id, 0),
                ["UNSUB", id, left] => self.unsubscribe(id, left.parse()?),
                ["PUB", subject, size] => {
                    let bytes = payload(&mut reader, size).await?;
                    self.publish(&Message {
                        subject,
                        reply: None,
                        headers: 0,
                        bytes: &bytes,
                    });
                }
                ["PUB", subject, reply, size] => {
                    let (bytes, reply) = (payload(&mut reader, size).await?, Some(reply));
                    self.publish(&Message {
                        subject,
                        reply,
                        headers: 0,
                        bytes: &bytes,
                    });
                }
                ["HPUB", subject, headers, size] => {
                    let bytes = payload(&mut reader, size).await?;
                    let headers = headers.parse()?;
                    self.publish(&Message {
                        subject,
                        reply: None,
                        headers,
                        bytes: &bytes,
                    });
                }
                ["HPUB", subject, reply, headers, size] => {
                    let (bytes, reply) = (payload(&mut reader, size).await?, Some(reply));
                    let headers = headers.parse()?;
                    self.publish(&Message {
                        subject,
                        reply,
                        headers,
                        bytes: &bytes,
                    });
                }
                _ => return Err(wrong(&format!("{line:?} is unknown"))),
            }
            line.clear();
        }
        Ok(())
    }

    fn subscribe(&self, subject: &str, queue: Option<&str>, id: &str) {
        let subscription = Subscription {
            subject: subject.to_owned(),
            queue: queue.map(str::to_owned),
            left: None,
            to: self.to.clone(),
        };
        let key = (self.id, id.to_owned());
        self.table
            .lock()
            .unwrap()
            .subscriptions
            .insert(key, subscription);
    }

    /// Ends a subscription, once it has got so many messages since it was made.
    fn unsubscribe(&self, id: &str, left: u64) {
        let key = (self.id, id.to_owned());
        let all = &mut self.table.lock().unwrap().subscriptions;
        if left == 0 {
            all.remove(&key);
        } else if let Some(subscription) = all.get_mut(&key) {
            subscription.left = Some(left);
        }
    }

    fn publish(&self, message: &Message) {
        let reached = self.table.lock().unwrap().deliver(message);
        if !reached && let Some(subject) = message.reply {
            let bytes = b"NATS/1.0 503\r\n\r\n";
            let nobody = Message {
                subject,
                reply: None,
                headers: bytes.len(),
                bytes,
            };
            self.table.lock().unwrap().deliver(&nobody);
        }
    }
}

/// The payload behind a line, and the end of that line.
async fn payload(reader: &mut BufReader<OwnedReadHalf>, size: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; size.parse::<usize>()? + 2];
    reader.read_exact(&mut bytes).await?;
    match bytes.split_off(bytes.len() - 2)[..] {
        [b'\r', b'\n'] => Ok(bytes),
        _ => Err(io::Error::other("a payload has no end").into()),
    }
}

impl Table {
    /// To each subscription, and to one of each queue group. Whether there was any.
    fn deliver(&mut self, message: &Message) -> bool {
        let mut groups = BTreeMap::<Option<String>, Vec<Key>>::new();
        for (key, subscription) in &self.subscriptions {
            if matches(&subscription.subject, message.subject) {
                groups
                    .entry(subscription.queue.clone())
                    .or_default()
                    .push(key.clone());
            }
        }
        let reached = !groups.is_empty();
        for (queue, keys) in groups {
            if queue.is_none() {
                keys.iter().for_each(|key| self.send(key, message));
            } else {
                self.turns += 1;
                self.send(&keys[self.turns % keys.len()], message);
            }
        }
        reached
    }

    fn send(&mut self, key: &Key, message: &Message) {
        let subscription = self.subscriptions.get_mut(key).expect("it was just found");
        let (subject, id) = (message.subject, &key.1);
        let reply = message
            .reply
            .map(|reply| format!("{reply} "))
            .unwrap_or_default();
        let (headers, size) = (message.headers, message.bytes.len());
        let head = match headers {
            0 => format!("MSG {subject} {id} {reply}{size}\r\n"),
            _ => format!("HMSG {subject} {id} {reply}{headers} {size}\r\n"),
        };
        // A connection that ends takes no more.
        let _ = subscription
            .to
            .send([head.as_bytes(), message.bytes, b"\r\n"].concat());
        if let Some(left) = &mut subscription.left {
            *left -= 1;
            if *left == 0 {
                self.subscriptions.remove(key);
            }
        }
    }
}

/// Whether a subscription with wildcards wants a subject.
fn matches(wanted: &str, subject: &str) -> bool {
    let (mut wanted, mut subject) = (wanted.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), subject.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}
