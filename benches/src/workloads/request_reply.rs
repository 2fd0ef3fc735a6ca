//! What does a question from one task to another cost, and from `main` to a task?
//!
//! The root sends a request over a channel and awaits the answer, over and over: as a task, and in
//! `block_on`. Where the thread of `main` is not a worker, each way of the latter is the wake-up of
//! a thread.

use async_channel::bounded;

use super::{Figure, Row, in_block_on, in_task};
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    let operation = "a round trip";
    [
        Row::new("request_reply", operation, Figure::Time, |params| {
            in_task::<R, _>(params, ask::<R>(params.size(200_000, 50_000)))
        }),
        Row::new(
            "request_reply_block_on",
            operation,
            Figure::Time,
            |params| in_block_on::<R, _>(params, ask::<R>(params.size(20_000, 5_000))),
        ),
    ]
}

async fn ask<R: Rt>(trips: usize) -> Measure {
    let (request, requests) = bounded::<usize>(1);
    let (reply, replies) = bounded::<usize>(1);
    let server = R::spawn(async move {
        while let Ok(question) = requests.recv().await {
            reply
                .send(question + 1)
                .await
                .expect("the root waits for the answer");
        }
    });
    let ask = async |trips: usize| {
        for trip in 0..trips {
            request
                .send(trip)
                .await
                .expect("the server lives as long as this channel");
            assert_eq!(
                replies.recv().await,
                Ok(trip + 1),
                "the answer to this question"
            );
        }
    };
    ask(trips / 10).await;
    let meter = Meter::start();
    ask(trips).await;
    let measure = meter.stop(trips);
    request.close();
    server.await;
    measure
}
