//! Captures of threads under load: no crash, no hang, and most stacks are whole.
//!
//! Threads compute in deep recursion, allocate, wait in calls, and come and go, while the test looks
//! at them 10,000 times. `WS_STACK_CAPTURES` is another number.
//!
//! Fails if the copy is made while the thread runs (the CPU clock is not compared): then walks end
//! in the middle.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "unwind"))]

mod support;

use std::{
    collections::BTreeMap,
    hint::black_box,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use support::Subject;
use ws_stack::{capture, register_thread};

/// What a runtime may wait for.
const LIMIT: Duration = Duration::from_millis(50);

#[inline(never)]
fn recurses(depth: u32) -> u64 {
    let local = black_box([u64::from(depth); 4]);
    if depth == 0 {
        return (0..2_000u64).fold(0, |sum, next| black_box(sum ^ next));
    }
    recurses(depth - 1) + local[1]
}

#[inline(never)]
fn allocates(rounds: u32) -> usize {
    (0..rounds)
        .map(|round| black_box(vec![format!("{round}"); 10]).len())
        .sum()
}

#[inline(never)]
fn contends(lock: &Mutex<u64>) -> MutexGuard<'_, u64> {
    lock.lock().unwrap()
}

fn captures() -> usize {
    let number = std::env::var("WS_STACK_CAPTURES");
    number.map_or(10_000, |number| number.parse().expect("a number"))
}

#[test]
fn ten_thousand_captures() {
    let captures = captures();
    let stop = AtomicBool::new(false);
    let goes_on = || !stop.load(Relaxed);
    let lock = Mutex::new(0);
    // The one that comes and goes.
    let newest = AtomicU32::new(0);
    let mut seen: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    thread::scope(|scope| {
        let mut subjects = Vec::new();
        let start = |run: &'static str, f: Box<dyn FnOnce() + Send + '_>| {
            (run, Subject::start(scope, f).thread)
        };
        subjects.push(start(
            "recursion",
            Box::new(|| {
                while goes_on() {
                    black_box(recurses(300));
                }
            }),
        ));
        subjects.push(start(
            "allocation",
            Box::new(|| {
                while goes_on() {
                    black_box(allocates(100));
                }
            }),
        ));
        for _ in 0..2 {
            subjects.push(start(
                "a lock",
                Box::new(|| {
                    while goes_on() {
                        *contends(&lock) += black_box(recurses(3)) & 1;
                    }
                }),
            ));
        }
        subjects.push(start(
            "sleeps",
            Box::new(|| {
                while goes_on() {
                    thread::sleep(Duration::from_micros(200));
                }
            }),
        ));
        let (mut here, mut there) = UnixStream::pair().unwrap();
        subjects.push(start(
            "reads",
            Box::new(move || {
                let mut bytes = [0; 16];
                while here.read(&mut bytes).unwrap() > 0 {}
            }),
        ));
        subjects.push(start(
            "writes",
            Box::new(move || {
                while goes_on() {
                    there.write_all(&[1; 16]).unwrap();
                    thread::yield_now();
                }
            }),
        ));
        scope.spawn(|| {
            while goes_on() {
                let short = scope.spawn(|| {
                    newest.store(register_thread(), Relaxed);
                    black_box(recurses(20))
                });
                short.join().unwrap();
            }
        });
        for number in 0..captures {
            let (what, thread) = match number % (subjects.len() + 1) {
                0 => ("short", newest.load(Relaxed)),
                index => subjects[index - 1],
            };
            let counts = seen.entry(what).or_default();
            match capture(thread, LIMIT).stack {
                Ok(captured) => {
                    let stack = captured.resolve();
                    assert!(!stack.frames().is_empty());
                    counts[usize::from(stack.cut().is_some())] += 1;
                    if let Some(cut) = stack.cut() {
                        *refusals.entry(format!("{what}, cut: {cut}")).or_default() += 1;
                    }
                }
                Err(error) => {
                    counts[2] += 1;
                    *refusals.entry(format!("{what}: {error}")).or_default() += 1;
                }
            }
        }
        stop.store(true, Relaxed);
    });
    let (mut whole, mut cut) = (0, 0);
    for (what, counts) in &seen {
        whole += counts[0];
        cut += counts[1];
        eprintln!(
            "{what:>10}: {} whole, {} cut, {} none",
            counts[0], counts[1], counts[2]
        );
    }
    for (why, count) in &refusals {
        eprintln!("{count:>6} {why}");
    }
    assert!(
        whole > 0 && cut * 20 <= whole,
        "{cut} of {} are cut",
        whole + cut
    );
}
