//! S1, S2, S3, I1, I2, I6: at most `workers` threads run tasks, whatever these do. Tasks that
//! block, spin, yield, panic, wake, abort and spawn at random leave nothing behind: each future is
//! polled by one thread at a time and dropped once, each handle resolves, and at the end there are
//! as many permits as at the beginning.
//!
//! It fails when `begin_blocking` in `permit/sleep.rs` does not release the permit that it took
//! (one is lost: a hang), when `WorkerStateCell::revoke` stores instead of swapping (one is
//! doubled), and when `Settle` in `cell/state.rs` forgets a wake that came during the poll (a task
//! is lost: a hang).
//!
//! *Running* is counted by the polls. A thread that was in a blocking call may end its poll without
//! a permit, and one that the monitor has revoked is beyond the count: so polls are counted up to
//! their first blocking call, and the bound is asserted in the runs without the monitor. With it
//! the permits are counted at rest.

use crate::common;

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use common::{Count, Gate, OnDrop, Random, limited, listen_to_panics, scaled};
use futures::channel::oneshot;
use ws_executor::{
    runtime::{Builder, Handle, Runtime, Sysmon},
    task,
};

#[derive(Default)]
struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
    /// Polls that go on, and the most that did at once.
    running: AtomicUsize,
    most: AtomicUsize,
    /// Polls of a future that another thread was polling.
    twice: AtomicUsize,
}

thread_local! {
    /// Whether the poll on this thread is counted as running.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

impl Tally {
    fn begin(&self) {
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(running, SeqCst);
        COUNTED.set(true);
    }

    fn end(&self) {
        if COUNTED.replace(false) {
            self.running.fetch_sub(1, SeqCst);
        }
    }
}

/// Counts the life of a future, and its polls.
struct Watched<F> {
    future: Pin<Box<F>>,
    polling: AtomicBool,
    tally: Arc<Tally>,
}

impl<F> Watched<F> {
    fn new(tally: &Arc<Tally>, future: F) -> Self {
        tally.made.fetch_add(1, SeqCst);
        Self {
            future: Box::pin(future),
            polling: AtomicBool::new(false),
            tally: tally.clone(),
        }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.polling.swap(true, SeqCst) {
            self.tally.twice.fetch_add(1, SeqCst);
        }
        let tally = self.tally.clone();
        tally.begin();
        let _end = OnDrop(|| tally.end());
        let poll = self.future.as_mut().poll(cx);
        self.polling.store(false, SeqCst);
        poll
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        self.tally.dropped.fetch_add(1, SeqCst);
    }
}

/// Blocks this thread until a task that was spawned before lets it go.
fn block(random: &mut Random, tally: &Arc<Tally>, sysmon: Sysmon) {
    let gate = Arc::new(Gate::default());
    let opens = gate.clone();
    drop(ws_executor::spawn(Watched::new(tally, async move {
        opens.open();
    })));
    // Without the monitor nobody comes by if it is not announced.
    if sysmon == Sysmon::Off || random.below(4) > 0 {
        tally.end();
        ws_executor::block_in_place(|| gate.pass());
    } else {
        gate.pass();
    }
}

fn spin(random: &mut Random) {
    for n in 0..random.below(2000) {
        std::hint::black_box(n);
    }
}

type Boxed = Pin<Box<dyn Future<Output = u64> + Send>>;

/// What it returns is how many of its own kind have come to their end below it, itself included.
fn program(seed: u64, depth: u32, tally: Arc<Tally>, sysmon: Sysmon) -> Boxed {
    let own = tally.clone();
    let future = async move {
        let mut random = Random::new(seed);
        let mut ended = 1;
        for _ in 0..=random.below(3) {
            let next = random.next();
            let child = |tally: &Arc<Tally>| program(next, depth - 1, tally.clone(), sysmon);
            match random.below(if depth == 0 { 6 } else { 11 }) {
                0 => task::yield_now().await,
                1 => spin(&mut random),
                2 => block(&mut random, &tally, sysmon),
                3 => {
                    let (send, receive) = oneshot::channel();
                    drop(ws_executor::spawn(Watched::new(&tally, async move {
                        task::yield_now().await;
                        send.send(1).unwrap();
                    })));
                    ended += receive.await.unwrap() - 1;
                }
                4 => {
                    let job = ws_executor::spawn_blocking(std::thread::yield_now);
                    if random.below(3) == 0 {
                        job.abort();
                    }
                    // It ran, or it was cancelled: it resolves.
                    drop(job.await);
                }
                5 => {
                    let panics = ws_executor::spawn(Watched::new(&tally, async move {
                        if next.is_multiple_of(2) {
                            task::yield_now().await;
                        }
                        panic!("expected: at random");
                    }));
                    assert!(panics.await.unwrap_err().is_panic());
                }
                6 | 7 => ended += ws_executor::spawn(child(&tally)).await.unwrap(),
                8 => {
                    let all: Vec<_> = (0..random.below(8) as u64)
                        .map(|n| {
                            let seed = next.wrapping_add(n);
                            ws_executor::spawn(program(seed, depth - 1, tally.clone(), sysmon))
                        })
                        .collect();
                    for one in all {
                        ended += one.await.unwrap();
                    }
                }
                9 => {
                    let child = ws_executor::spawn(child(&tally));
                    if random.below(2) == 0 {
                        task::yield_now().await;
                    }
                    child.abort();
                    match child.await {
                        Ok(more) => ended += more,
                        Err(error) => assert!(error.is_cancelled()),
                    }
                }
                _ => drop(ws_executor::spawn(child(&tally))),
            }
        }
        ended
    };
    Box::pin(Watched::new(&own, future))
}

/// Waits until nothing is alive and nobody runs; then all permits are there, and no more.
fn comes_to_rest(handle: &Handle, workers: usize) {
    loop {
        let metrics = handle.metrics();
        assert!(metrics.free_permits <= workers, "{metrics:?}");
        assert!(metrics.spinning <= workers, "I6: {metrics:?}");
        if metrics.live_tasks == 0 && metrics.free_permits == workers && metrics.spinning == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// As many threads run as there are permits: so many can meet, and none of them announces anything.
fn all_permits_run(runtime: &Runtime, tally: &Arc<Tally>, workers: usize) {
    let meet = Arc::new(Barrier::new(workers));
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let tasks: Vec<_> = (0..3 * workers)
        .map(|_| {
            let (meet, begun, gate) = (meet.clone(), begun.clone(), gate.clone());
            runtime.spawn(Watched::new(tally, async move {
                meet.wait();
                begun.add();
                gate.pass();
            }))
        })
        .collect();
    begun.wait_for(workers);
    gate.open();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

fn rounds(workers: usize, sysmon: Sysmon, from: u64) {
    listen_to_panics();
    // Together they are more than a thousand.
    const EACH: usize = 200;
    const PER_RUNTIME: u64 = 40;
    let rounds = scaled(EACH) as u64;
    let mut round = 0;
    while round < rounds {
        let builder = Builder::new().workers(workers).sysmon(sysmon);
        let runtime = builder.seed(from + round).build().unwrap();
        let tally = Arc::new(Tally::default());
        for _ in 0..PER_RUNTIME.min(rounds - round) {
            let seed = from + round;
            round += 1;
            // A round that fails says which.
            let failed = OnDrop(|| {
                if std::thread::panicking() {
                    eprintln!("round {seed}, {workers} workers, sysmon {sysmon:?}");
                }
            });
            let own: Vec<_> = (0..4)
                .map(|n| runtime.spawn(program(4 * seed + n, 3, tally.clone(), sysmon)))
                .collect();
            let more = program(!seed, 2, tally.clone(), sysmon);
            let mut ended = runtime.block_on(async { ws_executor::spawn(more).await.unwrap() });
            for one in own {
                ended += runtime.block_on(one).unwrap();
            }
            assert!(ended >= 5);
            comes_to_rest(runtime.handle(), workers);
            // S2. The count of live tasks is summed up table by table, while the last may come and
            // go.
            while tally.made.load(SeqCst) != tally.dropped.load(SeqCst) {
                std::thread::yield_now();
            }
            assert_eq!(tally.twice.load(SeqCst), 0, "S1");
            drop(failed);
        }
        all_permits_run(&runtime, &tally, workers);
        comes_to_rest(runtime.handle(), workers);
        assert_eq!(tally.running.load(SeqCst), 0);
        let most = tally.most.load(SeqCst);
        assert!(most >= workers, "{most}");
        if sysmon == Sysmon::Off {
            assert_eq!(most, workers, "S3: polls at once");
        }
        drop(runtime);
    }
}

macro_rules! rounds {
    ($($name:ident: $workers:expr, $sysmon:expr, $from:expr;)*) => {
        $(#[test] fn $name() { limited(|| rounds($workers, $sysmon, $from)) })*
    };
}

rounds! {
    with_1: 1, Sysmon::On, 0;
    with_2: 2, Sysmon::On, 1000;
    with_8: 8, Sysmon::On, 2000;
    with_1_and_no_sysmon: 1, Sysmon::Off, 3000;
    with_2_and_no_sysmon: 2, Sysmon::Off, 4000;
    with_8_and_no_sysmon: 8, Sysmon::Off, 5000;
}
