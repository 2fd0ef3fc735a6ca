//! A small broker of AMQP: durable queues, confirmations, acknowledgements, heartbeats.
//!
//! # How it works
//!
//! [`Disk`] is what outlives a crash. A message is on it before the broker confirms it, and leaves
//! it with its acknowledgement. All else is gone with a crash: connections, and which message is at
//! which worker. After a restart every message on the disk is given out again, and says so.
//!
//! A write takes [`WRITE`]. So there is a time between a message and its confirmation, in which a
//! crash may fall.
//!
//! Its answers are those of RabbitMQ to what the worker asks. It has no exchanges, and one channel
//! for each connection. `jobs.rs` lets lapin itself talk to it.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use amq_protocol::{
    frame::{AMQPContentHeader, AMQPFrame},
    protocol::{AMQPClass, BasicProperties, basic, channel, confirm, connection, queue},
    types::FieldTable,
};
use lapin::frames;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{sleep, timeout},
};

/// How long a message takes to the disk.
const WRITE: Duration = Duration::from_millis(2);

/// Seconds.
const HEARTBEAT: u16 = 10;

#[derive(Clone, Debug)]
pub struct Message {
    pub body: Vec<u8>,
    /// It was given out before.
    redelivered: bool,
}

/// What outlives a crash.
#[derive(Debug, Default)]
pub struct Disk {
    next: u64,
    /// Messages that are not acknowledged, by queue.
    pub queues: BTreeMap<String, BTreeMap<u64, Message>>,
    /// The bodies of those that are, in their order.
    pub acknowledged: Vec<Vec<u8>>,
}

pub type SharedDisk = Arc<Mutex<Disk>>;

/// What is gone with a crash.
struct Broker {
    disk: SharedDisk,
    /// Messages on the disk that no worker has.
    ready: Mutex<BTreeMap<String, VecDeque<u64>>>,
    /// Told when there is another one.
    more: watch::Sender<()>,
}

/// Serves for ever, with what is on the disk.
pub async fn serve(listener: TcpListener, disk: SharedDisk) -> io::Result<()> {
    let mut ready = BTreeMap::new();
    for (name, messages) in &mut disk.lock().unwrap().queues {
        messages.values_mut().for_each(|one| one.redelivered = true);
        ready.insert(name.clone(), messages.keys().copied().collect());
    }
    let broker = Arc::new(Broker {
        disk,
        ready: Mutex::new(ready),
        more: watch::Sender::new(()),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        let mut client = Client::new(broker.clone(), stream);
        tokio::spawn(async move { client.serve().await });
    }
}

struct Client {
    broker: Arc<Broker>,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    come: Vec<u8>,
    /// A message that is on its way to this queue.
    publishing: Option<String>,
    published: u64,
    /// The consumer, and its queue.
    consumer: Option<(String, String)>,
    at_most: u16,
    tag: u64,
    /// What it has and did not acknowledge: the tag, the queue, and the message.
    given: BTreeMap<u64, (String, u64)>,
}

/// What it has is there for others.
impl Drop for Client {
    fn drop(&mut self) {
        let mut disk = self.broker.disk.lock().unwrap();
        let mut ready = self.broker.ready.lock().unwrap();
        for (_, (queue, id)) in std::mem::take(&mut self.given) {
            if let Some(message) = disk.queues.get_mut(&queue).and_then(|all| all.get_mut(&id)) {
                message.redelivered = true;
                ready.entry(queue).or_default().push_front(id);
            }
        }
        drop((disk, ready));
        self.broker.more.send_replace(());
    }
}

impl Client {
    fn new(broker: Arc<Broker>, stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            broker,
            reader,
            writer,
            come: Vec::new(),
            publishing: None,
            published: 0,
            consumer: None,
            at_most: 0,
            tag: 0,
            given: BTreeMap::new(),
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        let mut more = self.broker.more.subscribe();
        let heartbeat = Duration::from_secs(HEARTBEAT.into());
        let mut silent = 0;
        loop {
            self.give_out().await?;
            while let Some(frame) = frames::take(&mut self.come)? {
                if !self.answer(frame).await? {
                    return Ok(());
                }
            }
            let mut bytes = [0; 4096];
            tokio::select! {
                read = timeout(heartbeat / 2, self.reader.read(&mut bytes)) => match read {
                    Ok(read) => match read? {
                        0 => return Ok(()),
                        count => {
                            self.come.extend_from_slice(&bytes[..count]);
                            silent = 0;
                        }
                    },
                    // It says that it is there, and misses a client that says nothing.
                    Err(_) if silent < 4 => {
                        silent += 1;
                        self.send(&[AMQPFrame::Heartbeat]).await?;
                    }
                    Err(_) => return Ok(()),
                },
                _ = more.changed() => {}
            }
        }
    }

    async fn send(&mut self, frames: &[AMQPFrame]) -> io::Result<()> {
        let bytes: Vec<u8> = frames.iter().flat_map(frames::bytes).collect();
        self.writer.write_all(&bytes).await
    }

    async fn say(&mut self, channel: u16, class: AMQPClass) -> io::Result<()> {
        self.send(&[AMQPFrame::Method(channel, class)]).await
    }

    /// Gives the consumer what there is, up to its limit.
    async fn give_out(&mut self) -> io::Result<()> {
        let Some((consumer, queue)) = self.consumer.clone() else {
            return Ok(());
        };
        while self.given.len() < self.at_most.into() {
            let (id, message) = {
                let disk = self.broker.disk.lock().unwrap();
                let mut ready = self.broker.ready.lock().unwrap();
                let Some(id) = ready.get_mut(&queue).and_then(VecDeque::pop_front) else {
                    return Ok(());
                };
                (id, disk.queues[&queue][&id].clone())
            };
            self.tag += 1;
            self.given.insert(self.tag, (queue.clone(), id));
            let deliver = basic::AMQPMethod::Deliver(basic::Deliver {
                consumer_tag: consumer.as_str().into(),
                delivery_tag: self.tag,
                redelivered: message.redelivered,
                exchange: "".into(),
                routing_key: queue.as_str().into(),
            });
            let header = AMQPContentHeader {
                class_id: 60,
                body_size: message.body.len() as u64,
                properties: BasicProperties::default(),
            };
            self.send(&[
                AMQPFrame::Method(1, AMQPClass::Basic(deliver)),
                AMQPFrame::Header(1, header),
                AMQPFrame::Body(1, message.body),
            ])
            .await?;
        }
        Ok(())
    }

    /// False: the connection ends.
    async fn answer(&mut self, frame: AMQPFrame) -> io::Result<bool> {
        match frame {
            AMQPFrame::ProtocolHeader(_) => {
                let start = connection::AMQPMethod::Start(connection::Start {
                    version_major: 0,
                    version_minor: 9,
                    server_properties: FieldTable::default(),
                    mechanisms: "PLAIN".into(),
                    locales: "en_US".into(),
                });
                self.say(0, AMQPClass::Connection(start)).await?;
            }
            AMQPFrame::Method(_, AMQPClass::Connection(method)) => {
                return self.answer_connection(method).await;
            }
            AMQPFrame::Method(channel, AMQPClass::Channel(method)) => match method {
                channel::AMQPMethod::Open(_) => {
                    let ok = channel::AMQPMethod::OpenOk(channel::OpenOk {});
                    self.say(channel, AMQPClass::Channel(ok)).await?;
                }
                channel::AMQPMethod::Close(_) => {
                    let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
                    self.say(channel, AMQPClass::Channel(ok)).await?;
                }
                _ => {}
            },
            AMQPFrame::Method(_, AMQPClass::Queue(queue::AMQPMethod::Declare(declare))) => {
                self.declare(declare.queue.as_str()).await?;
            }
            AMQPFrame::Method(_, AMQPClass::Confirm(_)) => {
                let ok = confirm::AMQPMethod::SelectOk(confirm::SelectOk {});
                self.say(1, AMQPClass::Confirm(ok)).await?;
            }
            AMQPFrame::Method(_, AMQPClass::Basic(method)) => self.answer_basic(method).await?,
            AMQPFrame::Body(_, body) => self.publish(body).await?,
            _ => {}
        }
        Ok(true)
    }

    async fn answer_connection(&mut self, method: connection::AMQPMethod) -> io::Result<bool> {
        let answer = match method {
            connection::AMQPMethod::StartOk(_) => connection::AMQPMethod::Tune(connection::Tune {
                channel_max: 1,
                frame_max: 131_072,
                heartbeat: HEARTBEAT,
            }),
            connection::AMQPMethod::Open(_) => {
                connection::AMQPMethod::OpenOk(connection::OpenOk {})
            }
            connection::AMQPMethod::Close(_) => {
                let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
                self.say(0, AMQPClass::Connection(ok)).await?;
                return Ok(false);
            }
            _ => return Ok(true),
        };
        self.say(0, AMQPClass::Connection(answer)).await?;
        Ok(true)
    }

    async fn answer_basic(&mut self, method: basic::AMQPMethod) -> io::Result<()> {
        let answer = match method {
            basic::AMQPMethod::Qos(qos) => {
                self.at_most = qos.prefetch_count;
                basic::AMQPMethod::QosOk(basic::QosOk {})
            }
            basic::AMQPMethod::Consume(consume) => {
                let tag = consume.consumer_tag;
                self.consumer = Some((tag.to_string(), consume.queue.to_string()));
                basic::AMQPMethod::ConsumeOk(basic::ConsumeOk { consumer_tag: tag })
            }
            basic::AMQPMethod::Cancel(cancel) => {
                self.consumer = None;
                let consumer_tag = cancel.consumer_tag;
                basic::AMQPMethod::CancelOk(basic::CancelOk { consumer_tag })
            }
            basic::AMQPMethod::Publish(publish) => {
                self.publishing = Some(publish.routing_key.to_string());
                return Ok(());
            }
            basic::AMQPMethod::Ack(ack) => {
                self.acknowledged(ack.delivery_tag);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.say(1, AMQPClass::Basic(answer)).await
    }

    async fn declare(&mut self, name: &str) -> io::Result<()> {
        let count = {
            let mut disk = self.broker.disk.lock().unwrap();
            disk.queues.entry(name.to_owned()).or_default().len()
        };
        let ok = queue::AMQPMethod::DeclareOk(queue::DeclareOk {
            queue: name.into(),
            message_count: count as u32,
            consumer_count: 0,
        });
        self.say(1, AMQPClass::Queue(ok)).await
    }

    async fn publish(&mut self, body: Vec<u8>) -> io::Result<()> {
        let Some(name) = self.publishing.take() else {
            return Ok(());
        };
        sleep(WRITE).await;
        {
            let mut disk = self.broker.disk.lock().unwrap();
            disk.next += 1;
            let id = disk.next;
            let redelivered = false;
            let message = Message { body, redelivered };
            let messages = disk.queues.entry(name.clone()).or_default();
            messages.insert(id, message);
            let mut ready = self.broker.ready.lock().unwrap();
            ready.entry(name).or_default().push_back(id);
        }
        self.broker.more.send_replace(());
        self.published += 1;
        let ack = basic::AMQPMethod::Ack(basic::Ack {
            delivery_tag: self.published,
            multiple: false,
        });
        self.say(1, AMQPClass::Basic(ack)).await
    }

    fn acknowledged(&mut self, tag: u64) {
        let Some((queue, id)) = self.given.remove(&tag) else {
            return;
        };
        let mut disk = self.broker.disk.lock().unwrap();
        let message = disk.queues.get_mut(&queue).and_then(|all| all.remove(&id));
        disk.acknowledged
            .extend(message.map(|message| message.body));
    }
}
