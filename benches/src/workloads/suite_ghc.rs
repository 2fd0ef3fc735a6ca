//! How do runtimes do at GHC's benchmarks for parallel programs?
//!
//! The shapes of nofib's `smp` folder (H6); `peers/ghc` has the same on GHC.
//!
//! | row | is |
//! | --- | --- |
//! | `callback001` | 64 foreign threads call into the runtime, each call spawns a task and awaits it |
//! | `callback002` | one foreign thread does |
//! | `chan` | one task writes to an unbounded channel, another reads |
//! | `sieve` | independent computations, one a task: how well they spread |
//! | `threads001` | tasks that do nothing are created |
//! | `threads003` | 500 tasks in a line add one to what they get; each value is put in by a task of its own |
//! | `threads006` | tasks are created, and then cancelled in turn |
//! | `threads007` | many tasks wait for the same channel when the program ends |
//!
//! The first two are `call_spawn_foreign_64` and `call_spawn_foreign_1`, under these names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use async_channel::{bounded, unbounded};
use futures::channel::oneshot;

use super::suite_tokio::Last;
use super::{Figure, Row, calls, in_task, twice};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};

/// The stages of `threads003`.
const STAGES: usize = 500;
/// The primes that each task of `sieve` looks for.
const PRIMES: usize = 500;

pub(super) fn rows<R: Rt>() -> Vec<Row> {
    let call = "a call that spawns";
    let rows = [
        Row::new("ghc_callback001", call, Figure::Time, |params| {
            calls::spawning_calls::<R>(params, 64, params.size(40_000, 20_000))
        }),
        Row::new("ghc_callback002", call, Figure::Time, |params| {
            calls::spawning_calls::<R>(params, 1, params.size(20_000, 4_000))
        }),
        Row::new("ghc_chan", "a message", Figure::Time, |params| {
            let n = params.size(1_000_000, 200_000);
            in_task::<R, _>(params, twice(n, move || chan::<R>(n)))
        })
        .also(super::TOKIO_MAIN),
        Row::new("ghc_sieve", "a computation", Figure::Time, |params| {
            let n = params.size(300, 100);
            in_task::<R, _>(params, twice(n, move || sieve::<R>(n)))
        })
        .also(super::TOKIO_MAIN),
        Row::new("ghc_threads001", "a task created", Figure::Time, |params| {
            let n = params.size(500_000, 100_000);
            in_task::<R, _>(params, twice(n, move || create::<R>(n)))
        })
        .also(super::TOKIO_MAIN),
        Row::new(
            "ghc_threads003",
            "a value passed on",
            Figure::Time,
            |params| {
                let n = params.size(2_000, 500);
                in_task::<R, _>(params, twice(n * STAGES, move || line::<R>(n)))
            },
        )
        .also(super::TOKIO_MAIN),
        Row::new(
            "ghc_threads006",
            "a task cancelled",
            Figure::Time,
            |params| {
                let n = params.size(200_000, 50_000);
                in_task::<R, _>(params, twice(n, move || cancel::<R>(n)))
            },
        )
        .also(super::TOKIO_MAIN),
        Row::new(
            "ghc_threads007",
            "a waiting task at the end",
            Figure::Time,
            |params| end::<R>(params, params.size(200_000, 50_000)),
        ),
    ];
    rows.map(Row::full_only).into()
}

async fn chan<R: Rt>(n: usize) {
    let (sender, receiver) = unbounded();
    R::detach(async move {
        for message in 0..n {
            sender.send(message).await.expect("the reader takes all");
        }
    });
    let reader = R::spawn(async move {
        for message in 0..n {
            assert_eq!(receiver.recv().await, Ok(message), "in order");
        }
    });
    reader.await;
}

async fn sieve<R: Rt>(n: usize) {
    let joins: Vec<_> = (0..n)
        .map(|index| R::spawn(async move { primes_from(index as u64 + 2) }))
        .collect();
    for join in joins {
        assert!(join.await > 0, "there is such a number");
    }
}

/// The last of the numbers that a sieve lets through which begins at `first`. The same machine code
/// for all runtimes.
#[inline(never)]
fn primes_from(first: u64) -> u64 {
    let mut found = Vec::new();
    let mut number = first;
    while found.len() <= PRIMES {
        if !found.iter().any(|prime| number.is_multiple_of(*prime)) {
            found.push(number);
        }
        number += 1;
    }
    found[PRIMES]
}

async fn create<R: Rt>(n: usize) {
    let (done, ended) = oneshot::channel();
    let last = Arc::new(Last::new(n, done));
    for _ in 0..n {
        let last = Arc::clone(&last);
        R::detach(async move { last.one() });
    }
    ended.await.expect("the last task says so");
}

async fn line<R: Rt>(n: usize) {
    let (first, mut inbox) = bounded(1);
    for _ in 0..STAGES {
        let (outbox, next) = bounded(1);
        R::detach(async move {
            while let Ok(value) = inbox.recv().await {
                if outbox.send(value + 1).await.is_err() {
                    return;
                }
            }
        });
        inbox = next;
    }
    let sum = R::spawn(async move {
        let mut sum = 0;
        for _ in 0..n {
            sum += inbox.recv().await.expect("the line is whole");
        }
        sum
    });
    for _ in 0..n {
        let first = first.clone();
        R::detach(async move { first.send(0_usize).await.expect("the line is whole") });
    }
    assert_eq!(sum.await, n * STAGES, "every stage added one");
}

async fn cancel<R: Rt>(n: usize) {
    let joins: Vec<_> = (0..n).map(|_| R::spawn(async {})).collect();
    for join in joins {
        R::cancel(join).await;
    }
}

fn end<R: Rt>(params: Params, n: usize) -> Result<Outcome, BoxError> {
    let runtime = R::build_to_drop(params.workers);
    let handle = runtime.handle();
    let (sender, receiver) = bounded::<()>(1);
    let waiting = Arc::new(AtomicUsize::new(0));
    for _ in 0..n {
        let (receiver, waiting) = (receiver.clone(), Arc::clone(&waiting));
        handle.detach(async move {
            waiting.fetch_add(1, Ordering::Relaxed);
            receiver
                .recv()
                .await
                .expect("nothing is sent, and the task is dropped first");
        });
    }
    while waiting.load(Ordering::Relaxed) < n {
        thread::sleep(Duration::from_millis(1));
    }
    // A handle may keep the tasks alive.
    drop(handle);
    let meter = Meter::start();
    drop(runtime);
    let measure = meter.stop(n);
    // Until here, or they would have been woken.
    drop(sender);
    Ok(Outcome::Measured(measure))
}

#[cfg(test)]
mod tests {
    use super::rows;
    use crate::rt::WsRt;

    /// Here, and in the program that GHC builds (H6).
    #[test]
    fn every_program_has_its_row() {
        let rows = rows::<WsRt>();
        let theirs = include_str!("../../peers/ghc/Main.hs");
        for program in [
            "callback001",
            "callback002",
            "chan",
            "sieve",
            "threads001",
            "threads003",
            "threads006",
            "threads007",
        ] {
            let name = format!("ghc_{program}");
            assert!(rows.iter().any(|row| row.name == name), "no row {name}");
            assert!(
                theirs.contains(&format!("\"{name}\"")),
                "not on GHC: {name}"
            );
        }
    }
}
