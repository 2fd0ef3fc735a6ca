//! How do runtimes do at the benchmarks of Go's scheduler?
//!
//! From `src/runtime/proc_test.go` and `src/time/sleep_test.go`: `PingPongHog`, `CreateGoroutines`,
//! `CreateGoroutinesParallel`, `WakeupParallelSpinning` and `WakeupParallelSyscall` (each with a
//! delay of 0 and of 50 us), `Sleep` and `StartStop` (timers that never fire), and the sieve of
//! primes from its documentation. `peers/go` has the same on Go.
//!
//! Go's programs are changed where tasks could not do the same, in `peers/go`, too: channels have
//! one slot, where the originals have none; and the hog, which Go preempts, yields after each
//! microsecond.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Receiver, bounded};
use futures::channel::oneshot;

use super::suite_tokio::Last;
use super::{Figure, Row, in_task, twice};
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

/// What a sender waits longer than a receiver, so that the receiver mostly waits for it.
const WAKE_DELAY: Duration = Duration::from_micros(5);

/// How long the hog computes between two looks at its flag.
const HOG_SPINS: Duration = Duration::from_micros(1);

pub(super) fn rows<R: Rt>() -> Vec<Row> {
    let created = "a task created";
    let round = "a message each way";
    let rows = [
        Row::new("go_ping_pong_hog", "a round trip", Figure::Time, |params| {
            let trips = params.size(200_000, 50_000);
            in_task::<R, _>(params.on(1), beside_hog::<R>(trips))
        }),
        Row::new("go_create", created, Figure::Time, |params| {
            let n = params.size(400_000, 100_000);
            in_task::<R, _>(params, twice(n, move || create::<R>(1, n)))
        }),
        Row::new("go_create_parallel", created, Figure::Time, |params| {
            let (n, chains) = (params.size(400_000, 100_000), params.workers);
            in_task::<R, _>(params, twice(n, move || create::<R>(chains, n / chains)))
        }),
        Row::new("go_wakeup_spin_0us", round, Figure::Time, |params| {
            in_task::<R, _>(params, wakeups::<R>(params.size(20_000, 5_000), 0, spin))
        }),
        Row::new("go_wakeup_spin_50us", round, Figure::Time, |params| {
            in_task::<R, _>(params, wakeups::<R>(params.size(2_000, 500), 50, spin))
        }),
        Row::new("go_wakeup_syscall_0us", round, Figure::Time, |params| {
            in_task::<R, _>(
                params,
                wakeups::<R>(params.size(2_000, 500), 0, thread::sleep),
            )
        }),
        Row::new("go_wakeup_syscall_50us", round, Figure::Time, |params| {
            in_task::<R, _>(
                params,
                wakeups::<R>(params.size(1_000, 300), 50, thread::sleep),
            )
        }),
        Row::new(
            "go_sleep",
            "a task that sleeps for 1 ns",
            Figure::Time,
            |params| {
                let n = params.size(100_000, 20_000);
                in_task::<R, _>(params, twice(n, move || sleeps::<R>(n)))
            },
        ),
        Row::new("go_sieve", "a number passed on", Figure::Time, |params| {
            in_task::<R, _>(params, sieve::<R>(params.size(300, 100)))
        }),
    ];
    rows.map(|row| row.full_only().also(super::TOKIO_MAIN))
        .into()
}

async fn beside_hog<R: Rt>(trips: usize) -> Measure {
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let hog = R::spawn(async move {
        while !seen.load(Ordering::Relaxed) {
            spin(HOG_SPINS);
            R::yield_now().await;
        }
    });
    let (ping, pinged) = bounded(1);
    let (pong, ponged) = bounded(1);
    R::detach(async move {
        while let Ok(trip) = pinged.recv().await {
            pong.send(trip).await.expect("who asks waits for it");
        }
    });
    let asks = R::spawn(async move {
        let meter = Meter::start();
        for trip in 0..trips {
            ping.send(trip).await.expect("who answers lives");
            assert_eq!(ponged.recv().await, Ok(trip), "the answer to this ping");
        }
        meter.stop(trips)
    });
    let measure = asks.await;
    over.store(true, Ordering::Relaxed);
    hog.await;
    measure
}

async fn create<R: Rt>(chains: usize, length: usize) {
    let (done, ended) = oneshot::channel();
    let last = Arc::new(Last::new(chains, done));
    for _ in 0..chains {
        link::<R>(length, Arc::clone(&last));
    }
    ended.await.expect("the last chain says so");
}

fn link<R: Rt>(left: usize, last: Arc<Last>) {
    R::detach(async move {
        if left == 0 {
            last.one();
        } else {
            link::<R>(left - 1, last);
        }
    });
}

fn spin(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        hint::spin_loop();
    }
}

async fn wakeups<R: Rt>(rounds: usize, delay_us: u64, wait: fn(Duration)) -> Measure {
    let delay = Duration::from_micros(delay_us);
    let (ping, pinged) = bounded(1);
    let (pong, ponged) = bounded(1);
    let other = R::spawn(async move {
        for _ in 0..rounds {
            wait(delay);
            pinged.recv().await.expect("the first task sends");
            wait(delay + WAKE_DELAY);
            pong.send(()).await.expect("the first task receives");
        }
    });
    let first = R::spawn(async move {
        let meter = Meter::start();
        for _ in 0..rounds {
            wait(delay + WAKE_DELAY);
            ping.send(()).await.expect("the other task receives");
            wait(delay);
            ponged.recv().await.expect("the other task sends");
        }
        meter.stop(rounds)
    });
    let measure = first.await;
    other.await;
    measure
}

async fn sleeps<R: Rt>(n: usize) {
    let mut joins = Vec::with_capacity(n);
    for _ in 0..n {
        joins.push(R::spawn(async {
            R::sleep(Duration::from_nanos(1)).await;
        }));
    }
    for join in joins {
        join.await;
    }
}

/// A task for each prime, which passes on what it does not divide.
async fn sieve<R: Rt>(primes: usize) -> Measure {
    let meter = Meter::start();
    let (numbers, mut inbox) = bounded(1);
    R::detach(async move {
        for number in 2_u64.. {
            // The sieve is taken down when it has enough.
            if numbers.send(number).await.is_err() {
                return;
            }
        }
    });
    // How many numbers go through: each meets the primes up to its smallest factor.
    let mut found: Vec<u64> = Vec::with_capacity(primes);
    let mut passed = 0;
    while found.len() < primes {
        let prime = inbox.recv().await.expect("there is always a next prime");
        let from = found.last().map_or(prime, |last| last + 1);
        passed += (from..=prime)
            .map(|number| hops(number, &found))
            .sum::<usize>();
        found.push(prime);
        inbox = filter::<R>(prime, inbox);
    }
    assert!(
        found.is_sorted() && found[..4] == [2, 3, 5, 7],
        "these are primes"
    );
    meter.stop(passed)
}

/// How often a number is passed on before it is a prime or falls out.
fn hops(number: u64, primes: &[u64]) -> usize {
    let factor = primes
        .iter()
        .position(|prime| number.is_multiple_of(*prime));
    factor.map_or(primes.len(), |at| at) + 1
}

fn filter<R: Rt>(prime: u64, inbox: Receiver<u64>) -> Receiver<u64> {
    let (outbox, next) = bounded(1);
    R::detach(async move {
        while let Ok(number) = inbox.recv().await {
            if !number.is_multiple_of(prime) && outbox.send(number).await.is_err() {
                return;
            }
        }
    });
    next
}
