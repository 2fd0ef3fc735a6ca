//! The overload of the example `priorities`, for any runtime.

use std::{
    fmt::Display,
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How often each contender has its turn, and how long that is: what else the machine does hits all
/// alike.
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(400);
/// What one worker computes for a request.
const REQUEST: Duration = Duration::from_micros(500);
/// The time between two health checks. A check computes next to nothing.
const CHECK_EVERY: Duration = Duration::from_millis(10);
const BATCH_TASKS: usize = 500;
/// What a batch task computes before it lets others have a turn.
const BATCH_STEP: Duration = Duration::from_micros(100);

/// What a task is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    HealthCheck,
    Request,
    Batch,
}

/// What the load asks of a runtime.
pub(crate) trait Runtime {
    fn spawn(&self, class: Class, future: impl Future<Output = ()> + Send + 'static);

    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// A runtime, and what was seen of it.
pub(crate) struct Contender {
    name: &'static str,
    turn: Box<dyn FnMut(&mut Report)>,
    report: Report,
}

impl Contender {
    pub(crate) fn new(name: &'static str, workers: usize, runtime: impl Runtime + 'static) -> Self {
        Self {
            name,
            turn: Box::new(move |report| overload(&runtime, workers, report)),
            report: Report::default(),
        }
    }
}

/// How long tasks took from their arrival to their answer, and what was done beside them.
#[derive(Default)]
struct Report {
    checks: Vec<Duration>,
    requests: Vec<Duration>,
    batch_steps: usize,
}

/// The load on all of them in turns. Prints a column for each.
pub(crate) fn side_by_side(mut contenders: Vec<Contender>) {
    for _ in 0..ROUNDS {
        for Contender { turn, report, .. } in &mut contenders {
            turn(report);
        }
    }
    for Contender { report, .. } in &mut contenders {
        report.checks.sort_unstable();
        report.requests.sort_unstable();
    }
    row("", contenders.iter().map(|contender| contender.name));
    let reports = || contenders.iter().map(|contender| &contender.report);
    for percent in [50, 99, 100] {
        let checks = reports().map(|report| millis(&report.checks, percent));
        row(&format!("health checks, {percent} %"), checks);
    }
    for percent in [50, 99, 100] {
        let requests = reports().map(|report| millis(&report.requests, percent));
        row(&format!("requests, {percent} %"), requests);
    }
    row("batch steps", reports().map(|report| report.batch_steps));
}

fn row(title: &str, cells: impl Iterator<Item = impl Display>) {
    print!("{title:20}");
    cells.for_each(|cell| print!(" {cell:>16}"));
    println!();
}

/// The latency that so many percent of these, which are sorted, did not exceed.
fn millis(latencies: &[Duration], percent: usize) -> String {
    let rank = (latencies.len() * percent).div_ceil(100).max(1);
    let latency = latencies.get(rank - 1).copied().unwrap_or_default();
    format!("{:.2} ms", latency.as_secs_f64() * 1e3)
}

/// One turn. This thread is the network: it brings requests and health checks, whether or not
/// anybody keeps up.
fn overload<R: Runtime>(runtime: &R, workers: usize, report: &mut Report) {
    let stop = Arc::new(AtomicBool::new(false));
    let (checked, checks) = mpsc::channel();
    let (answered, requests) = mpsc::channel();
    let (counted, batches) = mpsc::channel();
    for _ in 0..BATCH_TASKS {
        let (stop, counted) = (stop.clone(), counted.clone());
        runtime.spawn(Class::Batch, async move {
            let mut steps = 0;
            while !stop.load(Relaxed) {
                compute(BATCH_STEP);
                steps += 1;
                R::yield_now().await;
            }
            counted.send(steps).expect("the network listens");
        });
    }
    // These alone keep each worker busy for 5/9 of the time.
    let request_every = REQUEST * 9 / 5 / u32::try_from(workers).expect("a small number");
    let began = Instant::now();
    let (mut next_request, mut next_check) = (began, began);
    while began.elapsed() < TURN {
        let now = Instant::now();
        while next_request <= now {
            let (answered, due) = (answered.clone(), next_request);
            runtime.spawn(Class::Request, async move {
                compute(REQUEST);
                answered.send(due.elapsed()).expect("the network listens");
            });
            next_request += request_every;
        }
        while next_check <= now {
            let (checked, due) = (checked.clone(), next_check);
            runtime.spawn(Class::HealthCheck, async move {
                checked.send(due.elapsed()).expect("the network listens");
            });
            next_check += CHECK_EVERY;
        }
        thread::sleep(
            next_request
                .min(next_check)
                .saturating_duration_since(Instant::now()),
        );
    }
    stop.store(true, Relaxed);
    drop((checked, answered, counted));
    // Until all tasks have ended.
    report.checks.extend(checks);
    report.requests.extend(requests);
    report.batch_steps += batches.iter().sum::<usize>();
}

/// Keeps the core busy.
fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        hint::spin_loop();
    }
}
