//! An API under overload: health checks come first, and batch work last.
//!
//! ```text
//! cargo run --release --example priorities
//! ```
//!
//! A thread stands for the network: requests come in, a little more than the half of what the machine can
//! serve, and every 10 ms a health check that an orchestrator would restart us for. Meanwhile 500 tasks of
//! batch work take every moment that they get. It runs twice for two seconds, once with all tasks equal and
//! once with priorities, and prints how long each kind took from its arrival to its answer.
//!
//! The priority is one line in [`Class::spawn`]; nothing else differs. Even so the batch work goes on, and gets
//! what is left over: a runtime with `Builder::strict_priorities` would stop it while requests wait.
//!
//! The same with tokio, which has one queue for all, beside it is a row of the benchmarks and not here, so that
//! this package needs no second runtime: `cargo bench-all --only urgent_among_10k,fifo_among_10k`.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{
    fmt, hint,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ws::{
    runtime::Handle,
    task::{Builder, JoinHandle, Priority, yield_now},
};

/// How long each of the two runs takes.
const RUN: Duration = Duration::from_secs(2);
/// What one worker computes for a request.
const REQUEST: Duration = Duration::from_micros(500);
/// The time between two health checks, each of which computes next to nothing.
const CHECK_EVERY: Duration = Duration::from_millis(10);
const BATCH_TASKS: usize = 500;
/// What a batch task computes before it lets others have a turn.
const BATCH_STEP: Duration = Duration::from_micros(100);

#[derive(Clone, Copy)]
enum Class {
    HealthCheck,
    Request,
    Batch,
}

impl Class {
    fn priority(self) -> Priority {
        match self {
            Class::HealthCheck => Priority::HIGHEST,
            Class::Request => Priority::DEFAULT,
            Class::Batch => Priority::LOWEST,
        }
    }

    fn spawn<F>(self, ranked: bool, handle: &Handle, future: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut task = Builder::new();
        if ranked {
            task = task.priority(self.priority());
        }
        task.spawn_on(future, handle)
    }
}

#[ws::main]
async fn main() {
    let workers = Handle::current().metrics().workers;
    println!("{workers} workers, {BATCH_TASKS} batch tasks, {RUN:?} each:");
    println!("                              p50         p99        most");
    for ranked in [false, true] {
        let report = overload(ranked, workers).await;
        println!(
            "{}",
            if ranked {
                "with priorities"
            } else {
                "all equal"
            }
        );
        println!("  health checks    {}", report.checks);
        println!("  requests         {}", report.requests);
        println!("  batch steps done {:>9}", report.batch_steps);
    }
}

struct Report {
    checks: Latencies,
    requests: Latencies,
    batch_steps: usize,
}

/// One run under overload.
async fn overload(ranked: bool, workers: usize) -> Report {
    let handle = Handle::current();
    let stop = Arc::new(AtomicBool::new(false));
    let steps = Arc::new(AtomicUsize::new(0));
    let mut tasks: Vec<_> = (0..BATCH_TASKS)
        .map(|_| {
            let (stop, steps) = (stop.clone(), steps.clone());
            let batch = async move {
                while !stop.load(Relaxed) {
                    compute(BATCH_STEP);
                    steps.fetch_add(1, Relaxed);
                    yield_now().await;
                }
            };
            Class::Batch.spawn(ranked, &handle, batch)
        })
        .collect();

    let (checks, requests) = (Arc::default(), Arc::default());
    let network = ws::spawn_blocking({
        let (checks, requests) = (Arc::clone(&checks), Arc::clone(&requests));
        move || network(ranked, workers, &handle, &checks, &requests)
    });
    tasks.extend(network.await.expect("the network does not panic"));
    stop.store(true, Relaxed);
    for task in tasks {
        task.await.expect("no task panics");
    }
    Report {
        checks: Latencies::of(&checks),
        requests: Latencies::of(&requests),
        batch_steps: steps.load(Relaxed),
    }
}

/// Brings requests and health checks for the time of a run, whether or not anybody keeps up with them.
fn network(
    ranked: bool,
    workers: usize,
    handle: &Handle,
    checks: &Arc<Mutex<Vec<Duration>>>,
    requests: &Arc<Mutex<Vec<Duration>>>,
) -> Vec<JoinHandle<()>> {
    let request_every = REQUEST * 9 / 5 / u32::try_from(workers).expect("a small number");
    let began = Instant::now();
    let (mut next_request, mut next_check) = (began, began);
    let mut answers = Vec::new();
    while began.elapsed() < RUN {
        let now = Instant::now();
        while next_request <= now {
            let answered = requests.clone();
            let request = async move {
                compute(REQUEST);
                answered.lock().expect("no panic").push(now.elapsed());
            };
            answers.push(Class::Request.spawn(ranked, handle, request));
            next_request += request_every;
        }
        if next_check <= now {
            let answered = checks.clone();
            let check = async move { answered.lock().expect("no panic").push(now.elapsed()) };
            answers.push(Class::HealthCheck.spawn(ranked, handle, check));
            next_check += CHECK_EVERY;
        }
        thread::sleep(next_request.min(next_check).duration_since(now));
    }
    answers
}

/// Keeps the core busy.
fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        hint::spin_loop();
    }
}

/// Sorted.
struct Latencies(Vec<Duration>);

impl Latencies {
    fn of(noted: &Mutex<Vec<Duration>>) -> Self {
        let mut noted = noted.lock().expect("no panic").clone();
        noted.sort_unstable();
        Self(noted)
    }

    /// The latency that so many hundredths did not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for percent in [50, 99, 100] {
            let millis = self.percentile(percent).as_secs_f64() * 1e3;
            write!(f, "{millis:>9.2} ms")?;
        }
        Ok(())
    }
}
