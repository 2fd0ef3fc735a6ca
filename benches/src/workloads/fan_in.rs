//! What does a message cost when a thousand producers feed one consumer?
//!
//! 1,000 tasks send 1,000 messages each into one bounded channel, and one task takes them out. The
//! channel is full most of the time, so that producers wait and are woken.

use async_channel::bounded;

use super::{Figure, Row, in_task, twice};
use crate::rt::Rt;

const PRODUCERS: usize = 1_000;
const SLOTS: usize = 1_024;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new("fan_in_1M", "a message", Figure::Time, |params| {
        let each = params.size(1_000, 300);
        in_task::<R, _>(params, twice(PRODUCERS * each, move || fan_in::<R>(each)))
    })
    .also(super::TOKIO_MAIN)]
}

async fn fan_in<R: Rt>(each: usize) {
    let (sender, receiver) = bounded(SLOTS);
    for _ in 0..PRODUCERS {
        let sender = sender.clone();
        R::detach(async move {
            for message in 0..each {
                sender.send(message).await.expect("the consumer takes all");
            }
        });
    }
    drop(sender);
    let mut count = 0;
    while receiver.recv().await.is_ok() {
        count += 1;
    }
    assert_eq!(count, PRODUCERS * each, "no message is lost");
}
