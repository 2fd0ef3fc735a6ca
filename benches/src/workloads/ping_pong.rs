//! How fast do two tasks talk to each other, when many pairs do so at once?
//!
//! 1,000 pairs. Over channels of one slot, each pair lives on and makes many round trips; over
//! oneshots, each round trip is a pair of new tasks, as a request to a fresh handler is.

use async_channel::{Receiver, Sender, bounded};
use futures::channel::oneshot;

use super::{Figure, Row, in_task, twice};
use crate::rt::Rt;

const PAIRS: usize = 1_000;

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    [
        Row::new("ping_pong_1000", "a round trip", Figure::Time, |params| {
            let trips = params.size(400, 200);
            in_task::<R, _>(
                params,
                twice(PAIRS * trips, move || over_channels::<R>(trips)),
            )
        })
        .also(super::TOKIO_MAIN),
        Row::new(
            "ping_pong_oneshot",
            "two tasks and a round trip",
            Figure::Time,
            |params| {
                let rounds = params.size(100, 50);
                in_task::<R, _>(
                    params,
                    twice(PAIRS * rounds, move || over_oneshots::<R>(rounds)),
                )
            },
        )
        .full_only(),
    ]
}

async fn over_channels<R: Rt>(trips: usize) {
    let mut joins = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let (ping, pinged) = bounded(1);
        let (pong, ponged) = bounded(1);
        R::detach(answer(pinged, pong));
        joins.push(R::spawn(ask(ping, ponged, trips)));
    }
    for join in joins {
        join.await;
    }
}

async fn answer(pinged: Receiver<usize>, pong: Sender<usize>) {
    while let Ok(trip) = pinged.recv().await {
        pong.send(trip)
            .await
            .expect("who asks waits for the answer");
    }
}

async fn ask(ping: Sender<usize>, ponged: Receiver<usize>, trips: usize) {
    for trip in 0..trips {
        ping.send(trip)
            .await
            .expect("the partner lives as long as this channel");
        assert_eq!(ponged.recv().await, Ok(trip), "the answer to this question");
    }
}

async fn over_oneshots<R: Rt>(rounds: usize) {
    for _ in 0..rounds {
        let mut joins = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            joins.push(R::spawn(async {
                let (ping, pinged) = oneshot::channel();
                let (pong, ponged) = oneshot::channel();
                R::detach(async move {
                    pinged.await.expect("who asks sends");
                    pong.send(()).expect("who asks waits for the answer");
                });
                ping.send(()).expect("the partner waits");
                ponged.await.expect("the partner answers");
            }));
        }
        for join in joins {
            join.await;
        }
    }
}
