//! Captures of threads under load: no crash, no hang, and most stacks are whole.
//!
//! Threads compute in deep recursion, allocate, wait in calls, and come and go, while the test
//! looks at them: 10,000 times in a release build, 1,000 times in a debug build.
//! `WS_STACK_CAPTURES` is another number.
//!
//! Fails if `frame_pointer::find` answers none: then more than one stack of twenty is cut.
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

static STOP: AtomicBool = AtomicBool::new(false);
static LOCK: Mutex<u64> = Mutex::new(0);
/// The one of those that come and go that came last.
static NEWEST: AtomicU32 = AtomicU32::new(0);

fn goes_on() -> bool {
    !STOP.load(Relaxed)
}

type Work = Box<dyn FnMut() + Send>;

/// What threads do until the end.
fn works() -> Vec<(&'static str, Work)> {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let contend = || *contends(&LOCK) += black_box(recurses(3)) & 1;
    vec![
        ("recursion", Box::new(|| _ = black_box(recurses(300)))),
        ("allocation", Box::new(|| _ = black_box(allocates(100)))),
        ("a lock", Box::new(contend)),
        ("a lock", Box::new(contend)),
        (
            "sleeps",
            Box::new(|| thread::sleep(Duration::from_micros(200))),
        ),
        (
            "reads",
            Box::new(move || _ = here.read(&mut [0; 16]).unwrap()),
        ),
        (
            "writes",
            Box::new(move || {
                // The other side ends first.
                let _ = there.write_all(&[1; 16]);
                thread::yield_now();
            }),
        ),
        (
            "starts",
            Box::new(|| {
                let short = thread::spawn(|| {
                    NEWEST.store(register_thread(), Relaxed);
                    black_box(recurses(20))
                });
                short.join().unwrap();
            }),
        ),
    ]
}

fn captures() -> usize {
    let number = std::env::var("WS_STACK_CAPTURES");
    let default = if cfg!(debug_assertions) {
        1_000
    } else {
        10_000
    };
    number.map_or(default, |number| number.parse().expect("a number"))
}

#[test]
fn captures_under_load_harm_nobody() {
    // What: how many stacks were whole, cut, not to be had.
    let mut seen: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    thread::scope(|scope| {
        let subjects = works().into_iter().map(|(what, mut work)| {
            let subject = Subject::start(scope, move || {
                while goes_on() {
                    work();
                }
            });
            (what, subject.thread)
        });
        let subjects: Vec<_> = subjects.collect();
        for number in 0..captures() {
            let (what, thread) = match number % (subjects.len() + 1) {
                0 => ("short", NEWEST.load(Relaxed)),
                index => subjects[index - 1],
            };
            let counts = seen.entry(what).or_default();
            let (index, reason) = match capture(thread, LIMIT).stack {
                Ok(captured) => {
                    let stack = captured.resolve();
                    assert!(!stack.frames().is_empty());
                    let cut = stack.cut().map(str::to_owned);
                    (usize::from(cut.is_some()), cut)
                }
                Err(error) => (2, Some(error.to_string())),
            };
            counts[index] += 1;
            if let Some(reason) = reason {
                *reasons.entry(format!("{what}: {reason}")).or_default() += 1;
            }
        }
        STOP.store(true, Relaxed);
    });
    for (what, [whole, cut, none]) in &seen {
        eprintln!("{what:>10}: {whole} whole, {cut} cut, {none} none");
    }
    for (reason, count) in &reasons {
        eprintln!("{count:>6} {reason}");
    }
    let sum = |index: usize| seen.values().map(|counts| counts[index]).sum::<usize>();
    let (whole, cut) = (sum(0), sum(1));
    let all = whole + cut;
    assert!(cut * 20 < all, "{cut} of {all} are cut");
}
