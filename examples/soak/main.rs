//! A soak: random load of every kind, which checks itself, for as long as one likes.
//!
//! ```text
//! cargo run --release --example soak -- --minutes 2
//! cargo run --release --example soak -- --minutes 60 --seed 7
//! ```
//!
//! It goes in epochs of a second or two. Each has a runtime of its own, of 1, 2, 4 or 8 workers,
//! and an end of its own: a drop, a shutdown in the background, one within a task. All loads run at
//! the same time, beside tasks that block and compute. At the end of an epoch the books must
//! balance: every future that was made was dropped, every permit is back, no thread and no
//! descriptor is left. A watchdog ends the process when an epoch hangs, after it has said which,
//! and what was alive.

#![expect(clippy::print_stdout, reason = "a program that reports")]

mod books;
mod forks;
mod loads;

use std::{
    process::{self, ExitCode},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use lexopt::prelude::*;
use ws::runtime::{Builder, Handle, Runtime, Sysmon};

use books::{Books, Resources, Tally};

/// An epoch that takes longer hangs.
const EPOCH_MAX: Duration = Duration::from_secs(120);
/// For this time the loads of an epoch begin again.
const EPOCH: Duration = Duration::from_millis(1500);

struct Args {
    minutes: f64,
    seed: u64,
}

fn args() -> Result<Args, lexopt::Error> {
    let mut args = Args {
        minutes: 2.0,
        seed: 1,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("minutes") => args.minutes = parser.value()?.parse()?,
            Long("seed") => args.seed = parser.value()?.parse()?,
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(args)
}

/// Says what was alive, and ends the process, unless it is called off in time.
struct Watchdog {
    alive: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Watchdog {
    fn new(epoch: u64, what: String, handle: Handle) -> Self {
        let (alive, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            if ended.recv_timeout(EPOCH_MAX) == Err(RecvTimeoutError::Timeout) {
                eprintln!("epoch {epoch} hangs: {what}");
                eprintln!("{:#?}", handle.metrics());
                handle
                    .dump()
                    .iter()
                    .take(50)
                    .for_each(|task| eprintln!("{task}"));
                process::abort();
            }
        });
        Self { alive, thread }
    }

    /// When it returns, its hold on the runtime is gone too.
    fn call_off(self) {
        drop(self.alive);
        self.thread.join().expect("a watchdog does not panic");
    }
}

/// How an epoch's runtime ends, while tasks still wait.
fn end(runtime: Runtime, how: u64) {
    match how {
        0 => drop(runtime),
        1 => runtime.shutdown_background(),
        2 => runtime.shutdown_timeout(Duration::from_secs(60)),
        _ => {
            let handle = runtime.handle().clone();
            drop(handle.spawn(async move { drop(runtime) }));
        }
    }
}

fn epoch(seed: u64, number: u64, tally: &mut Tally) {
    let (workers, sysmon) = ([1, 2, 4, 8][number as usize % 4], number % 3 != 2);
    let how = number / 4 % 4;
    let runtime = Builder::new()
        .workers(workers)
        .sysmon(if sysmon { Sysmon::On } else { Sysmon::Off })
        .seed(seed ^ number)
        .keep_alive(Duration::from_millis(20))
        .stall_threshold(None)
        .build()
        .expect("the knobs are right");
    let what = format!("{workers} workers, sysmon {sysmon}, end {how}, seed {seed}");
    let watchdog = Watchdog::new(number, what.clone(), runtime.handle().clone());
    let books = Books::new(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let begin = Instant::now();
    while begin.elapsed() < EPOCH {
        loads::all(&runtime, &books, sysmon);
    }
    books.at_rest(&runtime, workers, &what);
    loads::left_waiting(&runtime, &books, workers);
    end(runtime, how);
    books.balance(&what);
    tally.add(&books);
    watchdog.call_off();
}

/// What tasks panic with on purpose is not worth a word.
fn quiet_about_the_expected() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref() != Some(&loads::EXPECTED) {
            before(info);
        }
    }));
}

fn main() -> ExitCode {
    let args = match args() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("soak: {error}\nusage: soak [--minutes N] [--seed N]");
            return ExitCode::from(2);
        }
    };
    quiet_about_the_expected();
    let (begin, limit) = (
        Instant::now(),
        Duration::from_secs_f64(args.minutes.max(0.0) * 60.0),
    );
    let mut tally = Tally::default();
    let mut number = 0;
    // The first ones warm up what stays: the allocator, the handlers of signals.
    let mut base = None;
    while number < 4 || begin.elapsed() < limit {
        epoch(args.seed, number, &mut tally);
        number += 1;
        Resources::wait_for_threads();
        let ended = Instant::now();
        let mut now = Resources::now();
        if number == 4 {
            base = Some(now);
            println!("after four epochs: {now}");
        }
        if let Some(base) = base {
            // A thread that was just born is not called as the runtime's threads are, and holds it
            // all the same.
            while now.files > base.files && ended.elapsed() < EPOCH_MAX {
                thread::yield_now();
                now = Resources::now();
            }
            assert!(
                now.files <= base.files,
                "descriptors are left: {now}, at first {base}"
            );
        }
    }
    println!(
        "{number} epochs in {:.0?}, seed {}: {}",
        begin.elapsed(),
        args.seed,
        Resources::now()
    );
    println!("{tally}");
    println!("nothing lost, nothing left");
    ExitCode::SUCCESS
}
