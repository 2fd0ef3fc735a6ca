//! How does the cost of an operation grow with tasks, workers, timers and connections?
//!
//! `ws-scaling` measures all of it and prints the tables of `docs/scaling.md`; `ws-scaling TABLE`
//! one of them, and `ws-scaling costs` what the steps of the scheduler cost on this machine, for
//! the simulated table. `cargo xtask scaling` runs them and puts them in.
//!
//! What is measured is CPU time, of all threads of a process of its own, for one operation. It does
//! not count what other programs take, but it does grow when they take the caches. So each row is
//! measured [`TURNS`] times, and the least is shown: nothing makes a program take less than it
//! needs.
#![expect(
    clippy::print_stdout,
    reason = "a program that reports on its standard output"
)]

use std::error::Error;
use std::future::poll_fn;
use std::hint;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::UnixStream;
use ws::runtime::Builder;
use ws::task::{JoinHandle, yield_now};
use ws::time::sleep;

#[path = "../sys.rs"]
#[expect(dead_code, reason = "the suite uses the rest")]
mod sys;

/// How often each row is measured.
const TURNS: usize = 3;
/// A row of few things does them over and over, until there were so many operations.
const OPERATIONS: usize = 100_000;

/// One table: what grows, and what is measured at each size.
struct Table {
    name: &'static str,
    head: &'static str,
    /// What is measured, by the name of its row.
    kinds: &'static [&'static str],
    /// Size and workers.
    sizes: &'static [(usize, usize)],
}

const TABLES: &[Table] = &[
    Table {
        name: "tasks",
        head: "tasks alive at once",
        kinds: &["spawn_join", "park_wake"],
        sizes: &[
            (1, 2),
            (10, 2),
            (100, 2),
            (1_000, 2),
            (10_000, 2),
            (100_000, 2),
            (1_000_000, 2),
            (10_000_000, 2),
        ],
    },
    Table {
        name: "workers",
        head: "workers",
        kinds: &["spawn_join", "yield", "pairs"],
        sizes: &[
            (100_000, 1),
            (100_000, 2),
            (100_000, 3),
            (100_000, 4),
            (100_000, 6),
            (100_000, 8),
        ],
    },
    Table {
        name: "timers",
        head: "timers at once",
        kinds: &["arm_drop", "sleeps"],
        sizes: &[
            (1, 2),
            (10, 2),
            (100, 2),
            (1_000, 2),
            (10_000, 2),
            (100_000, 2),
            (200_000, 2),
            (1_000_000, 2),
        ],
    },
    Table {
        name: "connections",
        head: "connections at once",
        kinds: &["echo"],
        sizes: &[(1, 2), (10, 2), (100, 2), (1_000, 2), (9_000, 2)],
    },
];

/// What came of a turn.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// CPU time of an operation.
    cpu_ns: f64,
    /// Voluntary context switches of an operation.
    switches: f64,
    /// Resident memory at its peak, beyond that of the empty runtime, for each thing at once.
    bytes: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["row", kind, size, workers] => {
            let cost = turn(kind, size.parse()?, workers.parse()?)?;
            println!("{} {} {}", cost.cpu_ns, cost.switches, cost.bytes);
        }
        ["costs"] => costs()?,
        [] => {
            for table in TABLES {
                table.print()?;
            }
        }
        [name] => {
            let table = TABLES.iter().find(|table| table.name == name);
            table.ok_or_else(|| format!("no table `{name}`"))?.print()?;
        }
        _ => return Err("usage: ws-scaling [TABLE | costs]".into()),
    }
    Ok(())
}

impl Table {
    fn print(&self) -> Result<(), Box<dyn Error>> {
        print!("| {} |", self.head);
        for kind in self.kinds {
            print!(" {kind}, ns | switches |");
            if self.name != "workers" {
                print!(" bytes |");
            }
        }
        let columns = if self.name == "workers" { 2 } else { 3 };
        println!("\n| ---: |{}", " ---: |".repeat(columns * self.kinds.len()));
        for &(size, workers) in self.sizes {
            let grows = if self.name == "workers" {
                workers
            } else {
                size
            };
            print!("| {grows} |");
            for kind in self.kinds {
                let cost = least(kind, size, workers)?;
                print!(" {:.0} | {:.4} |", cost.cpu_ns, cost.switches);
                if self.name != "workers" {
                    print!(" {:.0} |", cost.bytes);
                }
            }
            println!();
        }
        println!();
        Ok(())
    }
}

/// The cheapest of some turns, each in a process of its own.
fn least(kind: &str, size: usize, workers: usize) -> Result<Cost, Box<dyn Error>> {
    let mut turns = Vec::new();
    for _ in 0..TURNS {
        let output = Command::new(std::env::current_exe()?)
            .args(["row", kind, &size.to_string(), &workers.to_string()])
            .output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{kind} {size}: {}: {why}", output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next().ok_or("a turn prints three numbers");
        turns.push(Cost {
            cpu_ns: next()??,
            switches: next()??,
            bytes: next()??,
        });
    }
    turns.sort_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns));
    Ok(turns[0])
}

fn turn(kind: &str, size: usize, workers: usize) -> Result<Cost, Box<dyn Error>> {
    sys::raise_file_limit()?;
    let runtime = Builder::new().workers(workers).build()?;
    let kind = kind.to_owned();
    // A small one first: threads are started, and code is paged in.
    runtime.run(rounds(kind.clone(), size.min(100), OPERATIONS / 100))?;
    let runtime = Builder::new().workers(workers).build()?;
    let (before, resident) = (sys::usage(), sys::rss_bytes()?);
    let operations = runtime.run(rounds(kind, size, OPERATIONS))? as f64;
    let after = sys::usage();
    let peak = sys::peak_rss_kib()? * 1024;
    Ok(Cost {
        cpu_ns: (after.cpu_ns - before.cpu_ns) as f64 / operations,
        switches: (after.voluntary - before.voluntary) as f64 / operations,
        bytes: peak.saturating_sub(resident) as f64 / size as f64,
    })
}

/// A row's work, until there were about so many operations. How many there were.
async fn rounds(kind: String, size: usize, least: usize) -> Result<usize, String> {
    let times = match &*kind {
        // The first lasts for as long as one of them, and the second makes trips instead of rounds.
        "sleeps" => 4,
        "echo" => 1,
        _ => least.div_ceil(size),
    };
    let mut operations = 0;
    for _ in 0..times {
        operations += match &*kind {
            "spawn_join" => spawn_join(size).await,
            "park_wake" => park_wake(size).await,
            "yield" => yields(size).await,
            "pairs" => pairs(size).await,
            "arm_drop" => arm_drop(size).await,
            "sleeps" => sleeps(size).await,
            "echo" => echo(size, least.div_ceil(size)).await,
            _ => return Err(format!("no row `{kind}`")),
        };
    }
    Ok(operations)
}

async fn all<T>(joins: Vec<JoinHandle<T>>) {
    for join in joins {
        join.await.expect("no task panics");
    }
}

/// Tasks that end at once, joined when all are spawned. One operation is a task.
async fn spawn_join(tasks: usize) -> usize {
    all((0..tasks).map(|_| ws::spawn(async {})).collect()).await;
    tasks
}

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.waker.wake();
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            match self.rung.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Tasks that wait until all are there, and are woken one after the other. One operation is all
/// that a task does.
async fn park_wake(tasks: usize) -> usize {
    let bells: Arc<[Bell]> = (0..tasks).map(|_| Bell::default()).collect();
    let waits = |number: usize| {
        let bells = Arc::clone(&bells);
        ws::spawn(async move { bells[number].wait().await })
    };
    let joins = (0..tasks).map(waits).collect();
    yield_now().await;
    bells.iter().for_each(Bell::ring);
    all(joins).await;
    tasks
}

/// A hundred tasks that yield in turns. One operation is a yield.
async fn yields(times: usize) -> usize {
    let yields = |_| {
        ws::spawn(async move {
            for _ in 0..times / 100 {
                yield_now().await;
            }
        })
    };
    all((0..100).map(yields).collect()).await;
    times
}

/// A hundred pairs of tasks, each with a ball. One operation is a throw.
async fn pairs(times: usize) -> usize {
    let mut joins = Vec::new();
    for _ in 0..100 {
        let (to, from) = (async_channel::bounded(1), async_channel::bounded(1));
        let (there, back) = (to.0, from.1);
        joins.push(ws::spawn(async move {
            for throw in 0..times / 200 {
                there.send(throw).await.expect("it is caught");
                assert_eq!(back.recv().await, Ok(throw));
            }
        }));
        let (there, back) = (from.0, to.1);
        joins.push(ws::spawn(async move {
            while let Ok(throw) = back.recv().await {
                if there.send(throw).await.is_err() {
                    return;
                }
            }
        }));
    }
    all(joins).await;
    times
}

/// Timers that are armed, all of them, and then dropped. One operation is a timer.
async fn arm_drop(timers: usize) -> usize {
    let mut armed = Vec::with_capacity(timers);
    for number in 0..timers {
        let mut timer = Box::pin(sleep(Duration::from_secs(3600 + number as u64 % 97)));
        assert!(futures::poll!(timer.as_mut()).is_pending());
        armed.push(timer);
    }
    drop(armed);
    timers
}

/// Tasks that sleep for 100 to 150 ms at the same time. One operation is a sleep, with its task.
async fn sleeps(timers: usize) -> usize {
    let sleeps = |number: u64| async move {
        sleep(Duration::from_micros(100_000 + number * 7919 % 50_000)).await;
    };
    all((0..timers as u64)
        .map(|number| ws::spawn(sleeps(number)))
        .collect())
    .await;
    timers
}

/// A task at each end of so many Unix sockets, eight bytes there and back. One operation is such a
/// trip.
async fn echo(connections: usize, trips: usize) -> usize {
    let mut joins = Vec::new();
    for _ in 0..connections {
        let (mut here, mut there) = UnixStream::pair().expect("there are enough descriptors");
        joins.push(ws::spawn(async move {
            let mut bytes = [0; 8];
            for trip in 0..trips as u64 {
                here.write_all(&trip.to_le_bytes())
                    .await
                    .expect("the other end reads");
                here.read_exact(&mut bytes)
                    .await
                    .expect("the other end answers");
                assert_eq!(bytes, trip.to_le_bytes());
            }
        }));
        joins.push(ws::spawn(async move {
            let mut bytes = [0; 8];
            while there.read_exact(&mut bytes).await.is_ok() {
                there.write_all(&bytes).await.expect("the other end reads");
            }
        }));
    }
    all(joins).await;
    connections * trips
}

/// What the scheduler's steps cost here, for the simulator: `name=ns` each. The least of many short
/// samples, for the same reason as above; of a wake-up the lower quartile, for that one is never
/// the same.
fn costs() -> Result<(), Box<dyn Error>> {
    const TASKS: usize = 100;
    let spawns = async {
        let (mut spawn_ns, mut poll_ns) = (u64::MAX, u64::MAX);
        for _ in 0..2_000 {
            let began = Instant::now();
            for _ in 0..TASKS {
                drop(ws::spawn(async {}));
            }
            let spawned = Instant::now();
            // To the back: behind all of them.
            yield_now().await;
            spawn_ns = spawn_ns.min(nanos(spawned - began) / TASKS as u64);
            poll_ns = poll_ns.min(nanos(spawned.elapsed()) / TASKS as u64);
        }
        (spawn_ns, poll_ns)
    };
    let (spawn_ns, poll_ns) = Builder::new().workers(1).build()?.run(spawns);
    let line_ns = (0..200).map(|_| line()).min().ok_or("no sample")?;
    let mut wakes: Vec<(u64, u64)> = (0..2_000).map(|_| wake()).collect();
    wakes.sort_unstable_by_key(|&(_, wakes)| wakes);
    let wake_ns = wakes[wakes.len() / 4].1;
    wakes.sort_unstable_by_key(|&(unpark, _)| unpark);
    let unpark_ns = wakes[wakes.len() / 4].0;
    // A thread that goes to sleep makes a system call as its waker does.
    println!(
        "spawn={spawn_ns} poll={poll_ns} line={line_ns} unpark={unpark_ns} wake={wake_ns} park={unpark_ns}"
    );
    Ok(())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("it is short")
}

/// How long a word takes from one CPU to another: two threads count it up in turns.
fn line() -> u64 {
    const TURNS: u64 = 1_000;
    let word = AtomicU64::new(0);
    let count = |parity: u64| {
        let began = Instant::now();
        for turn in 0..TURNS {
            // Gives way now and then: on a busy machine the other may not run.
            let mut looks = 0_u32;
            while word.load(Ordering::Acquire) != 2 * turn + parity {
                hint::spin_loop();
                looks += 1;
                if looks.is_multiple_of(1 << 14) {
                    thread::yield_now();
                }
            }
            word.store(2 * turn + parity + 1, Ordering::Release);
        }
        nanos(began.elapsed()) / (2 * TURNS)
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| count(1));
        let ours = count(0);
        ours.max(other.join().expect("it does not panic"))
    })
}

/// How long an unpark takes, and how long it is until the other thread runs.
fn wake() -> (u64, u64) {
    let asleep = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            asleep.store(true, Ordering::Release);
            thread::park();
            Instant::now()
        });
        while !asleep.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // Until it sleeps indeed; if it does not yet, the sample is too short by a little.
        let until = Instant::now() + Duration::from_micros(100);
        while Instant::now() < until {
            thread::yield_now();
        }
        let began = Instant::now();
        sleeper.thread().unpark();
        let unparked = began.elapsed();
        let woken = sleeper.join().expect("it does not panic");
        (
            nanos(unparked),
            nanos(woken.saturating_duration_since(began)),
        )
    })
}
