//! What does a trip through the run queue cost?
//!
//! 1,000 tasks yield 1,000 times each: nothing is allocated, nothing waits, and every poll goes
//! through the queue.

use super::{Figure, Row, in_task, twice};
use crate::rt::Rt;

const TASKS: usize = 1_000;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [
        Row::new("yield_1000x1000", "a yield", Figure::Time, |params| {
            let each = params.size(1_000, 500);
            in_task::<R, _>(params, twice(TASKS * each, move || yields::<R>(each)))
        })
        .also(super::TOKIO_MAIN),
    ]
}

async fn yields<R: Rt>(each: usize) {
    let mut joins = Vec::with_capacity(TASKS);
    for _ in 0..TASKS {
        joins.push(R::spawn(async move {
            for _ in 0..each {
                R::yield_now().await;
            }
        }));
    }
    for join in joins {
        join.await;
    }
}
