//! Which channel is the fastest between tasks of this runtime?
//!
//! A channel belongs to no runtime: a user may take any. So the same three programs run over each
//! of those that people take: 1,000 pairs of tasks that each send a number to and fro over channels
//! of one slot; one producer and one consumer with 64 slots; eight producers and one consumer with
//! 64 slots. `docs/channels.md` has the table.

use std::future::Future;

use super::{Figure, Row, in_task, twice};
use crate::rt::Rt;

const PAIRS: usize = 1_000;
const SLOTS: usize = 64;
const PRODUCERS: usize = 8;

/// A channel with a limit, of one consumer at least.
trait Channel: 'static {
    /// The rows: pairs, one producer, eight producers.
    const ROWS: [&'static str; 3];

    type Sender: Clone + Send + Sync + 'static;
    type Receiver: Send + 'static;

    fn bounded(slots: usize) -> (Self::Sender, Self::Receiver);

    /// False if no receiver is left.
    fn send(sender: &Self::Sender, message: usize) -> impl Future<Output = bool> + Send;

    /// None if no sender is left.
    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Option<usize>> + Send;
}

macro_rules! channels {
    ($(
        $name:ident: $sender:ty, $receiver:ty
            = $bounded:path, $send:ident, $receive:ident, $rows:expr;
    )*) => {
        $(
            enum $name {}

            impl Channel for $name {
                const ROWS: [&'static str; 3] = $rows;

                type Sender = $sender;
                type Receiver = $receiver;

                fn bounded(slots: usize) -> (Self::Sender, Self::Receiver) {
                    $bounded(slots)
                }

                async fn send(sender: &Self::Sender, message: usize) -> bool {
                    sender.$send(message).await.is_ok()
                }

                async fn receive(receiver: &mut Self::Receiver) -> Option<usize> {
                    Into::<Answer>::into(receiver.$receive().await).0
                }
            }
        )*
    };
}

/// What a receiver says: an option, or a result whose error means that no sender is left.
struct Answer(Option<usize>);

impl From<Option<usize>> for Answer {
    fn from(answer: Option<usize>) -> Self {
        Self(answer)
    }
}

impl<E> From<Result<usize, E>> for Answer {
    fn from(answer: Result<usize, E>) -> Self {
        Self(answer.ok())
    }
}

type CrossfireArray = crossfire::mpsc::Array<usize>;

channels! {
    AsyncChannel: async_channel::Sender<usize>, async_channel::Receiver<usize>
        = async_channel::bounded, send, recv,
        [
            "channel_pairs_async_channel",
            "channel_1_to_1_async_channel",
            "channel_8_to_1_async_channel",
        ];
    Crossfire: crossfire::MAsyncTx<CrossfireArray>, crossfire::AsyncRx<CrossfireArray>
        = crossfire::mpsc::bounded_async, send, recv,
        [
            "channel_pairs_crossfire",
            "channel_1_to_1_crossfire",
            "channel_8_to_1_crossfire",
        ];
    Flume: flume::Sender<usize>, flume::Receiver<usize>
        = flume::bounded, send_async, recv_async,
        [
            "channel_pairs_flume",
            "channel_1_to_1_flume",
            "channel_8_to_1_flume",
        ];
    Kanal: kanal::AsyncSender<usize>, kanal::AsyncReceiver<usize>
        = kanal::bounded_async, send, recv,
        [
            "channel_pairs_kanal",
            "channel_1_to_1_kanal",
            "channel_8_to_1_kanal",
        ];
    TokioMpsc: tokio::sync::mpsc::Sender<usize>, tokio::sync::mpsc::Receiver<usize>
        = tokio::sync::mpsc::channel, send, recv,
        [
            "channel_pairs_tokio",
            "channel_1_to_1_tokio",
            "channel_8_to_1_tokio",
        ];
}

pub(super) fn rows<R: Rt>() -> Vec<Row> {
    [
        rows_of::<R, AsyncChannel>(),
        rows_of::<R, Crossfire>(),
        rows_of::<R, Flume>(),
        rows_of::<R, Kanal>(),
        rows_of::<R, TokioMpsc>(),
    ]
    .concat()
}

fn rows_of<R: Rt, C: Channel>() -> [Row; 3] {
    let [pairs, one, eight] = C::ROWS;
    [
        Row::new(pairs, "a round trip", Figure::Time, |params| {
            let trips = params.size(200, 100);
            in_task::<R, _>(
                params,
                twice(PAIRS * trips, move || in_pairs::<R, C>(trips)),
            )
        }),
        Row::new(one, "a message", Figure::Time, |params| {
            let messages = params.size(500_000, 100_000);
            in_task::<R, _>(params, twice(messages, move || fan_in::<R, C>(1, messages)))
        }),
        Row::new(eight, "a message", Figure::Time, |params| {
            let each = params.size(50_000, 10_000);
            let work = move || fan_in::<R, C>(PRODUCERS, each);
            in_task::<R, _>(params, twice(PRODUCERS * each, work))
        }),
    ]
    .map(Row::full_only)
}

async fn in_pairs<R: Rt, C: Channel>(trips: usize) {
    let mut joins = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let (ping, mut pinged) = C::bounded(1);
        let (pong, mut ponged) = C::bounded(1);
        R::detach(async move {
            while let Some(trip) = C::receive(&mut pinged).await {
                assert!(C::send(&pong, trip).await, "the partner waits for it");
            }
        });
        joins.push(R::spawn(async move {
            for trip in 0..trips {
                assert!(C::send(&ping, trip).await, "the partner lives");
                assert_eq!(C::receive(&mut ponged).await, Some(trip), "the answer");
            }
        }));
    }
    for join in joins {
        join.await;
    }
}

async fn fan_in<R: Rt, C: Channel>(producers: usize, each: usize) {
    let (sender, mut receiver) = C::bounded(SLOTS);
    for _ in 0..producers {
        let sender = sender.clone();
        R::detach(async move {
            for message in 0..each {
                assert!(C::send(&sender, message).await, "the consumer takes all");
            }
        });
    }
    drop(sender);
    // In a task of its own, as the producers are.
    let consumer = R::spawn(async move {
        let mut count = 0;
        while C::receive(&mut receiver).await.is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(consumer.await, producers * each, "no message is lost");
}
