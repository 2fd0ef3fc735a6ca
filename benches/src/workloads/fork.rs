//! What does an asynchronous fork cost?
//!
//! Fibonacci's numbers without a cut-off, and skynet, where a call is a task: with `ws::fork`,
//! which runs the child first, and on the others with a spawn, which is what they have. Both await
//! the handles at the join point.

use std::pin::Pin;

use super::{Figure, Row, in_task, twice};
use crate::measure::Measure;
use crate::rt::Rt;

const WIDTH: u64 = 10;

pub(super) fn rows<R: Rt>() -> [Row; 4] {
    [
        Row::new("fork_fib_1w", "a fork", Figure::Time, |params| {
            in_task::<R, _>(params.on(1), fibs::<R>(params.size(25, 20)))
        })
        .heavy(),
        Row::new("fork_fib_2w", "a fork", Figure::Time, |params| {
            in_task::<R, _>(params.on(2), fibs::<R>(params.size(25, 20)))
        })
        .heavy(),
        Row::new("fork_skynet_1w", "a leaf", Figure::Time, |params| {
            in_task::<R, _>(params.on(1), skynet::<R>(params.size(1_000_000, 100_000)))
        })
        .heavy(),
        Row::new("fork_skynet_2w", "a leaf", Figure::Time, |params| {
            in_task::<R, _>(params.on(2), skynet::<R>(params.size(1_000_000, 100_000)))
        })
        .heavy(),
    ]
}

/// How many forks there are below a call.
fn forks(n: usize) -> usize {
    if n < 2 {
        0
    } else {
        1 + forks(n - 1) + forks(n - 2)
    }
}

async fn fibs<R: Rt>(n: usize) -> Measure {
    twice(forks(n), || async move {
        fib::<R>(n as u64).await;
    })
    .await
}

fn fib<R: Rt>(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let a = R::fork(fib::<R>(n - 1)).await;
        let b = fib::<R>(n - 2).await;
        a.await + b
    })
}

async fn skynet<R: Rt>(leaves: usize) -> Measure {
    let size = leaves as u64;
    twice(leaves, || async move {
        let sum = node::<R>(0, size).await;
        assert_eq!(sum, size * (size - 1) / 2, "every leaf was counted once");
    })
    .await
}

fn node<R: Rt>(first: u64, size: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if size == 1 {
            return first;
        }
        let part = size / WIDTH;
        let mut joins = Vec::with_capacity(WIDTH as usize);
        for index in 0..WIDTH {
            joins.push(R::fork(node::<R>(first + index * part, part)).await);
        }
        let mut sum = 0;
        for join in joins {
            sum += join.await;
        }
        sum
    })
}
