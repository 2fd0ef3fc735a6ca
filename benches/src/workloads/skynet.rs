//! How does a tree of tasks spread over the workers and come back?
//!
//! Each task spawns ten and adds up their outputs, until there are a million leaves. It is the
//! workload of <https://github.com/atemerev/skynet>.

use super::{Figure, Row, in_task};
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

const WIDTH: u64 = 10;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    let row = Row::new("skynet", "a leaf", Figure::Time, |params| {
        in_task::<R, _>(params, skynet::<R>(params.size(1_000_000, 100_000)))
    });
    [row.heavy().also(super::TOKIO_MAIN)]
}

async fn skynet<R: Rt>(leaves: usize) -> Measure {
    let size = leaves as u64;
    node::<R>(0, size / WIDTH).await;
    let meter = Meter::start();
    let sum = node::<R>(0, size).await;
    let measure = meter.stop(leaves);
    assert_eq!(sum, size * (size - 1) / 2, "every leaf was counted once");
    measure
}

/// A task for the leaves `first..first + size`, which answers with the sum of their numbers.
fn node<R: Rt>(first: u64, size: u64) -> R::Join<u64> {
    R::spawn(async move {
        if size == 1 {
            return first;
        }
        let part = size / WIDTH;
        let mut joins = Vec::with_capacity(WIDTH as usize);
        for index in 0..WIDTH {
            joins.push(node::<R>(first + index * part, part));
        }
        let mut sum = 0;
        for join in joins {
            sum += join.await;
        }
        sum
    })
}
