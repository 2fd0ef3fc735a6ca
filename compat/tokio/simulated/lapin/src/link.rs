//! The two tasks of a connection, and those that wait for its answers.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use amq_protocol::{
    frame::{AMQPContentHeader, AMQPFrame, ProtocolVersion},
    protocol::{AMQPClass, BasicProperties, basic, connection},
    types::{FieldTable, LongString},
};
use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{Acker, Confirmation, Delivery, Error, Result, frames};

/// The one channel.
const CHANNEL: u16 = 1;

type Answer<T> = oneshot::Sender<Result<T>>;

/// A connection. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    frames: mpsc::UnboundedSender<Vec<AMQPFrame>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Why it is gone.
    gone: Option<Error>,
    /// Those that wait for an answer, in the order of their questions.
    asked: VecDeque<Answer<()>>,
    /// Those that wait for a confirmation, by the number of the message.
    published: BTreeMap<u64, Answer<Confirmation>>,
    last_published: u64,
    deliveries: Option<mpsc::UnboundedSender<Result<Delivery>>>,
    /// A delivery whose message has not come yet.
    incoming: Option<basic::Deliver>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// What has come and was not read yet.
struct Reader<S> {
    stream: S,
    come: Vec<u8>,
}

impl<S: AsyncReadExt + Unpin> Reader<S> {
    async fn next(&mut self) -> io::Result<AMQPFrame> {
        loop {
            if let Some(frame) = frames::take(&mut self.come)? {
                return Ok(frame);
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.come.extend_from_slice(&more[..count]),
            }
        }
    }

    async fn next_of_connection(&mut self) -> Result<connection::AMQPMethod> {
        match self.next().await? {
            AMQPFrame::Method(0, AMQPClass::Connection(method)) => Ok(method),
            other => Err(Error::new(format!("the broker says {other}"))),
        }
    }
}

impl Link {
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        let (stream, mut writer) = stream.into_split();
        let mut reader = Reader {
            stream,
            come: Vec::new(),
        };
        let heartbeat = shake_hands(&mut reader, &mut writer).await?;
        let (frames, mut outgoing) = mpsc::unbounded();
        let link = Self(Arc::new(Inner {
            frames,
            state: Mutex::default(),
        }));
        // It ends with the other task, which has the last clones: see `fail`.
        let to_read = link.clone();
        drop(ws::spawn(async move {
            loop {
                match timeout(heartbeat * 2, reader.next()).await {
                    Ok(Ok(frame)) => to_read.take(frame),
                    Ok(Err(error)) => return to_read.fail(&error.into()),
                    Err(_) => return to_read.fail(&Error::new("no heartbeat of the broker")),
                }
                if to_read.state().gone.is_some() {
                    return;
                }
            }
        }));
        let to_write = link.clone();
        drop(ws::spawn(async move {
            loop {
                let frames = match timeout(heartbeat / 2, outgoing.next()).await {
                    Ok(Some(frames)) => frames,
                    Ok(None) => return,
                    Err(_) => vec![AMQPFrame::Heartbeat],
                };
                let bytes: Vec<u8> = frames.iter().flat_map(frames::bytes).collect();
                if let Err(error) = writer.write_all(&bytes).await {
                    to_write.fail(&error.into());
                }
                if to_write.state().gone.is_some() {
                    return;
                }
            }
        }));
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends frames, after a look at whether the connection is there.
    fn send(&self, state: &State, frames: Vec<AMQPFrame>) -> Result<()> {
        match &state.gone {
            Some(error) => Err(error.clone()),
            None => self.0.frames.unbounded_send(frames).map_err(Error::new),
        }
    }

    pub(crate) fn tell(&self, class: AMQPClass) -> Result<()> {
        self.send(&self.state(), vec![AMQPFrame::Method(CHANNEL, class)])
    }

    pub(crate) async fn ask(&self, class: AMQPClass) -> Result<()> {
        self.ask_on(CHANNEL, class).await
    }

    pub(crate) async fn ask_connection(&self, class: AMQPClass) -> Result<()> {
        self.ask_on(0, class).await
    }

    async fn ask_on(&self, channel: u16, class: AMQPClass) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state();
            self.send(&state, vec![AMQPFrame::Method(channel, class)])?;
            state.asked.push_back(answer);
        }
        answered.await.map_err(|_| Error::new("no answer"))?
    }

    pub(crate) fn publish(
        &self,
        publish: basic::Publish,
        payload: &[u8],
        properties: BasicProperties,
    ) -> Result<oneshot::Receiver<Result<Confirmation>>> {
        let header = AMQPContentHeader {
            class_id: 60,
            body_size: payload.len() as u64,
            properties,
        };
        let method = AMQPClass::Basic(basic::AMQPMethod::Publish(publish));
        let frames = vec![
            AMQPFrame::Method(CHANNEL, method),
            AMQPFrame::Header(CHANNEL, header),
            AMQPFrame::Body(CHANNEL, payload.to_vec()),
        ];
        let (answer, confirmed) = oneshot::channel();
        let mut state = self.state();
        self.send(&state, frames)?;
        state.last_published += 1;
        let number = state.last_published;
        state.published.insert(number, answer);
        Ok(confirmed)
    }

    pub(crate) fn deliveries(&self) -> mpsc::UnboundedReceiver<Result<Delivery>> {
        let (send, receive) = mpsc::unbounded();
        self.state().deliveries = Some(send);
        receive
    }

    pub(crate) fn no_more_deliveries(&self) {
        self.state().deliveries = None;
    }

    /// The connection is gone: all that wait are told, and both tasks end.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = self.state();
        if state.gone.is_some() {
            return;
        }
        state.gone = Some(error.clone());
        for answer in state.asked.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
        for (_, answer) in std::mem::take(&mut state.published) {
            let _ = answer.send(Err(error.clone()));
        }
        if let Some(deliveries) = state.deliveries.take() {
            let _ = deliveries.unbounded_send(Err(error.clone()));
        }
        self.0.frames.close_channel();
    }

    fn take(&self, frame: AMQPFrame) {
        let mut state = self.state();
        match frame {
            AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::Deliver(deliver))) => {
                state.incoming = Some(deliver);
            }
            AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::Ack(ack))) => {
                state.confirm(ack.delivery_tag, ack.multiple);
            }
            AMQPFrame::Method(_, _) => {
                if let Some(answer) = state.asked.pop_front() {
                    let _ = answer.send(Ok(()));
                }
            }
            AMQPFrame::Body(_, data) => {
                if let (Some(deliver), Some(deliveries)) =
                    (state.incoming.take(), &state.deliveries)
                {
                    let acker = Acker {
                        tag: deliver.delivery_tag,
                        link: self.clone(),
                    };
                    let redelivered = deliver.redelivered;
                    let _ = deliveries.unbounded_send(Ok(Delivery {
                        redelivered,
                        data,
                        acker,
                    }));
                }
            }
            _ => {}
        }
    }
}

impl State {
    fn confirm(&mut self, number: u64, multiple: bool) {
        let first = if multiple { 0 } else { number };
        let later = self.published.split_off(&(number + 1));
        let confirmed = self.published.split_off(&first);
        self.published.extend(later);
        for (_, answer) in confirmed {
            let _ = answer.send(Ok(Confirmation::Ack(None)));
        }
    }
}

/// Gives the time between two heartbeats.
async fn shake_hands<R, W>(reader: &mut Reader<R>, writer: &mut W) -> Result<Duration>
where
    R: AsyncReadExt + Unpin,
    W: AsyncWriteExt + Unpin,
{
    let say = |method| AMQPFrame::Method(0, AMQPClass::Connection(method));
    let header = AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1());
    writer.write_all(&frames::bytes(&header)).await?;
    let connection::AMQPMethod::Start(_) = reader.next_of_connection().await? else {
        return Err(Error::new("the broker does not start"));
    };
    let start = connection::AMQPMethod::StartOk(connection::StartOk {
        client_properties: FieldTable::default(),
        mechanism: "PLAIN".into(),
        response: LongString::from("\0guest\0guest"),
        locale: "en_US".into(),
    });
    writer.write_all(&frames::bytes(&say(start))).await?;
    let connection::AMQPMethod::Tune(tune) = reader.next_of_connection().await? else {
        return Err(Error::new("the broker does not tune"));
    };
    let heartbeat = Duration::from_secs(u64::from(tune.heartbeat));
    let tuned = connection::AMQPMethod::TuneOk(connection::TuneOk {
        channel_max: tune.channel_max,
        frame_max: tune.frame_max,
        heartbeat: tune.heartbeat,
    });
    let open = connection::AMQPMethod::Open(connection::Open {
        virtual_host: "/".into(),
    });
    let both = [frames::bytes(&say(tuned)), frames::bytes(&say(open))].concat();
    writer.write_all(&both).await?;
    match reader.next_of_connection().await? {
        connection::AMQPMethod::OpenOk(_) => Ok(heartbeat),
        other => Err(Error::new(format!("the broker says {other:?}"))),
    }
}
