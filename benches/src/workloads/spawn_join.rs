//! What does it cost to spawn a task and to await its output?
//!
//! 100,000 tasks that do nothing are spawned and then joined in order: by a task, whose spawns can
//! be local pushes; by the root in `block_on`, which is where most `main` functions stand; and by
//! a thread that the runtime does not know.

use super::{Figure, Row, in_block_on, in_task, twice};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};

pub(super) fn rows<R: Rt>() -> [Row; 3] {
    let operation = "a task spawned and joined";
    [
        Row::new("spawn_join_100k", operation, Figure::Time, |params| {
            let n = size(params);
            in_task::<R, _>(params, twice(n, move || spawn_and_join::<R>(n)))
        }),
        Row::new(
            "spawn_join_100k_block_on",
            operation,
            Figure::Time,
            |params| {
                let n = size(params);
                in_block_on::<R, _>(params, twice(n, move || spawn_and_join::<R>(n)))
            },
        ),
        Row::new(
            "spawn_join_100k_foreign",
            operation,
            Figure::Time,
            foreign::<R>,
        )
        .full_only(),
    ]
}

fn size(params: Params) -> usize {
    params.size(100_000, 50_000)
}

async fn spawn_and_join<R: Rt>(n: usize) {
    let mut joins = Vec::with_capacity(n);
    for index in 0..n {
        joins.push(R::spawn(async move { index }));
    }
    check(join_all::<R>(joins).await, n);
}

async fn join_all<R: Rt>(joins: Vec<R::Join<usize>>) -> usize {
    let mut sum = 0;
    for join in joins {
        sum += join.await;
    }
    sum
}

fn check(sum: usize, n: usize) {
    assert_eq!(sum, n * (n - 1) / 2, "every task ran once");
}

fn foreign<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let n = size(params);
    let runtime = R::build(params.workers);
    let handle = runtime.handle();
    let work = || {
        let joins = (0..n)
            .map(|index| handle.spawn(async move { index }))
            .collect();
        check(handle.block_on(join_all::<R>(joins)), n);
    };
    work();
    let meter = Meter::start();
    work();
    Ok(Outcome::Measured(meter.stop(n)))
}
