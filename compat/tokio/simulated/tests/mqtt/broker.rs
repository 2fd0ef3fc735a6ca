//! A broker of MQTT 3.1.1 with the packets of rumqttc: sessions, and delivery at least once.
//!
//! Each client id has a session, with its subscriptions and with the messages that it has not
//! acknowledged. A session that is not clean outlives its connection. On the next one it gets those
//! messages again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::BytesMut;
use rumqttc::{
    ConnAck, Connect, ConnectReturnCode, Packet, PubAck, Publish, QoS, SubAck, Subscribe,
    SubscribeReasonCode, matches, mqttbytes,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    sync::mpsc::{UnboundedSender, unbounded_channel},
};
use tokio_simulated::{Error, wrong};

const LARGEST: usize = 1 << 20;

#[derive(Default)]
struct Session {
    /// Its topics, with wildcards.
    topics: Vec<(String, QoS)>,
    /// What is not acknowledged.
    sent: BTreeMap<u16, Publish>,
    last_id: u16,
    /// Its connection, and the number of that.
    to: Option<(u64, UnboundedSender<Packet>)>,
}

type Sessions = Arc<Mutex<BTreeMap<String, Session>>>;

/// Serves for ever.
pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let sessions = Sessions::default();
    for number in 0.. {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(talk(number, stream, sessions.clone()));
    }
    Ok(())
}

async fn talk(number: u64, stream: TcpStream, sessions: Sessions) -> Result<(), Error> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = Reader {
        from: reader,
        bytes: BytesMut::new(),
    };
    let Some(Packet::Connect(connect)) = reader.next().await? else {
        return Err(wrong("the first packet is no CONNECT"));
    };
    let (to, mut out) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(packet) = out.recv().await {
            let mut bytes = BytesMut::new();
            Packet::write(&packet, &mut bytes, LARGEST)?;
            writer.write_all(&bytes).await?;
        }
        Ok::<_, Error>(writer.shutdown().await?)
    });
    begin(&sessions, number, &connect, to.clone())?;
    let ended = serve_session(&mut reader, &connect.client_id, &to, &sessions).await;
    let mut sessions = sessions.lock().unwrap();
    if let Some(session) = sessions.get_mut(&connect.client_id)
        && session.to.as_ref().is_some_and(|(of, _)| *of == number)
    {
        session.to = None;
        if connect.clean_session {
            sessions.remove(&connect.client_id);
        }
    }
    ended
}

/// Begins a session or goes on with it: what is not acknowledged is sent again.
fn begin(
    sessions: &Sessions,
    number: u64,
    connect: &Connect,
    to: UnboundedSender<Packet>,
) -> Result<(), Error> {
    let mut sessions = sessions.lock().unwrap();
    if connect.clean_session {
        sessions.remove(&connect.client_id);
    }
    let is_there = sessions.contains_key(&connect.client_id);
    let session = sessions.entry(connect.client_id.clone()).or_default();
    to.send(Packet::ConnAck(ConnAck::new(
        ConnectReturnCode::Success,
        is_there,
    )))?;
    for publish in session.sent.values_mut() {
        publish.dup = true;
        to.send(Packet::Publish(publish.clone()))?;
    }
    session.to = Some((number, to));
    Ok(())
}

async fn serve_session(
    reader: &mut Reader,
    client: &str,
    to: &UnboundedSender<Packet>,
    sessions: &Sessions,
) -> Result<(), Error> {
    while let Some(packet) = reader.next().await? {
        match packet {
            Packet::PingReq => to.send(Packet::PingResp)?,
            Packet::Subscribe(Subscribe { pkid, filters }) => {
                let mut sessions = sessions.lock().unwrap();
                let session = sessions
                    .get_mut(client)
                    .ok_or_else(|| wrong("no session"))?;
                let mut codes = Vec::new();
                for filter in filters {
                    session.topics.retain(|(topic, _)| *topic != filter.path);
                    session.topics.push((filter.path, filter.qos));
                    codes.push(SubscribeReasonCode::Success(filter.qos));
                }
                to.send(Packet::SubAck(SubAck::new(pkid, codes)))?;
            }
            Packet::Publish(publish) => {
                let (pkid, qos) = (publish.pkid, publish.qos);
                for session in sessions.lock().unwrap().values_mut() {
                    session.deliver(&publish);
                }
                if qos == QoS::AtLeastOnce {
                    to.send(Packet::PubAck(PubAck::new(pkid)))?;
                }
            }
            Packet::PubAck(PubAck { pkid }) => {
                if let Some(session) = sessions.lock().unwrap().get_mut(client) {
                    session.sent.remove(&pkid);
                }
            }
            Packet::Disconnect => return Ok(()),
            other => return Err(wrong(&format!("{other:?} is not served"))),
        }
    }
    Ok(())
}

impl Session {
    fn deliver(&mut self, publish: &Publish) {
        let mut wanted = self.topics.iter();
        let Some((_, qos)) = wanted.find(|(topic, _)| matches(&publish.topic, topic)) else {
            return;
        };
        let mut publish = publish.clone();
        publish.dup = false;
        publish.pkid = 0;
        if *qos == QoS::AtMostOnce {
            publish.qos = QoS::AtMostOnce;
        }
        if publish.qos == QoS::AtLeastOnce {
            self.last_id = self.last_id % u16::MAX + 1;
            publish.pkid = self.last_id;
            self.sent.insert(publish.pkid, publish.clone());
        }
        if let Some((_, to)) = &self.to {
            // A connection that ends takes no more.
            let _ = to.send(Packet::Publish(publish));
        }
    }
}

struct Reader {
    from: OwnedReadHalf,
    bytes: BytesMut,
}

impl Reader {
    /// The next packet, or none at the end.
    async fn next(&mut self) -> Result<Option<Packet>, Error> {
        loop {
            match Packet::read(&mut self.bytes, LARGEST) {
                Ok(packet) => return Ok(Some(packet)),
                Err(mqttbytes::Error::InsufficientBytes(_)) => {}
                Err(error) => return Err(error.into()),
            }
            if self.from.read_buf(&mut self.bytes).await? == 0 {
                return Ok(None);
            }
        }
    }
}
