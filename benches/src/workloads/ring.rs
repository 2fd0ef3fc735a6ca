//! What does a hop cost when there is only one thing to do in the whole program?
//!
//! 1,000 tasks in a ring hand one token round. There is no parallelism in it, so a second core
//! that is kept busy is wasted: CPU time for a hop should be the time for a hop, and context
//! switches next to none.

use async_channel::{Receiver, Sender, bounded};

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

const TASKS: usize = 1_000;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new("ring_1000", "a hop", Figure::Time, |params| {
        in_task::<R, _>(params, ring::<R>(params.size(500, 200)))
    })
    .also(super::TOKIO_MAIN)]
}

async fn ring<R: Rt>(laps: usize) -> Measure {
    let (first, start) = bounded(1);
    let mut inbox = start;
    for _ in 1..TASKS {
        let (outbox, next) = bounded(1);
        R::detach(pass_on(inbox, outbox));
        inbox = next;
    }
    // The last member is here: it counts the laps.
    lap(&first, &inbox, 1).await;
    let meter = Meter::start();
    lap(&first, &inbox, laps).await;
    let measure = meter.stop(TASKS * laps);
    let busy = measure.cpu_ns / measure.wall_ns;
    measure.with("cores_busy", busy)
}

async fn pass_on(inbox: Receiver<usize>, outbox: Sender<usize>) {
    while let Ok(token) = inbox.recv().await {
        if outbox.send(token + 1).await.is_err() {
            // The root has gone home: the ring is being taken down.
            return;
        }
    }
}

async fn lap(first: &Sender<usize>, last: &Receiver<usize>, laps: usize) {
    for _ in 0..laps {
        first.send(0).await.expect("the ring is closed");
        assert_eq!(
            last.recv().await,
            Ok(TASKS - 1),
            "every member passed the token on"
        );
    }
}
