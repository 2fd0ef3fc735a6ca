//! J1, J3: the first closure of a `join` runs at once and here, the second waits at the tail of
//! this worker's deque, and a thief takes the oldest. With one worker the order is that of plain
//! calls.
//!
//! The walk through fib(4) by tasks with one and two workers, as a log. It says which thread ran
//! what. A join pushes one of its two branches and calls the other, which by the walk its thread
//! would pop in the next step; so the order of the steps is the same, and a deque has one branch
//! less.
//!
//! It fails when `join_on` in `fork_join/steps.rs` calls the first closure after the second.

use crate::common;

use std::{
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

use common::{Gate, runtime};
use ws_executor::{
    join,
    runtime::{Builder, Handle, Sysmon},
    trace::{Event, EventKind, Level},
};

/// Which thread ran which call, in the order of their beginnings.
#[derive(Default)]
struct Log(Mutex<Vec<(ThreadId, String)>>);

impl Log {
    fn note(&self, call: &str) {
        let entry = (thread::current().id(), call.to_owned());
        self.0.lock().unwrap().push(entry);
    }

    fn calls(&self) -> Vec<String> {
        let log = self.0.lock().unwrap();
        log.iter().map(|(_, call)| call.clone()).collect()
    }

    fn who(&self, call: &str) -> ThreadId {
        let log = self.0.lock().unwrap();
        log.iter().find(|entry| entry.1 == call).unwrap().0
    }

    fn by(&self, thread: ThreadId) -> Vec<String> {
        let log = self.0.lock().unwrap();
        let own = log.iter().filter(|(by, _)| *by == thread);
        own.map(|(_, call)| call.clone()).collect()
    }
}

/// Each call is named by its path: `fib(4)/fib(2)` is the second branch of the root.
fn fib(log: &Log, path: &str, n: u64) -> u64 {
    let path = if path.is_empty() {
        format!("fib({n})")
    } else {
        format!("{path}/fib({n})")
    };
    log.note(&path);
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(log, &path, n - 1), || fib(log, &path, n - 2));
    a + b
}

fn plain(calls: &mut Vec<String>, path: &str, n: u64) {
    let path = if path.is_empty() {
        format!("fib({n})")
    } else {
        format!("{path}/fib({n})")
    };
    calls.push(path.clone());
    if n >= 2 {
        plain(calls, &path, n - 1);
        plain(calls, &path, n - 2);
    }
}

#[test]
fn one_worker_runs_fib_4_as_plain_calls_do() {
    common::limited(|| {
        let log = Log::default();
        let result = runtime(1).block_on(async { fib(&log, "", 4) });
        let mut expected = Vec::new();
        plain(&mut expected, "", 4);
        assert_eq!((result, log.calls()), (3, expected));
        assert_eq!(log.by(thread::current().id()).len(), 9);
    });
}

/// T1 is held in the innermost call of fib(3) until T2 has taken the oldest branch, which is fib(2)
/// of the root; T2 is held in it until T1 has finished fib(3), and so runs all of it.
#[test]
fn with_two_workers_the_thief_takes_the_oldest_branch_of_fib_4() {
    common::limited(|| {
        // Without the monitor, which gives the permit of a thread that is held here to a third.
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (log, taken, rest) = (Log::default(), Gate::default(), Gate::default());
        let t1 = thread::current().id();
        let result = runtime.block_on(async {
            let fib_3 = || {
                log.note("fib(3)");
                let (fib_2, fib_1) = join(
                    || {
                        log.note("fib(2)");
                        // Two branches are on the deque now: fib(2) of the root, fib(1) of fib(3).
                        taken.pass();
                        fib(&log, "fib(2)", 1) + fib(&log, "fib(2)", 0)
                    },
                    || fib(&log, "fib(3)", 1),
                );
                rest.open();
                fib_2 + fib_1
            };
            let fib_2 = || {
                taken.open();
                rest.pass();
                fib(&log, "stolen", 2)
            };
            let (a, b) = join(fib_3, fib_2);
            a + b
        });
        assert_eq!(result, 3);
        let t2 = log.who("stolen/fib(2)");
        assert_ne!(t1, t2);
        assert_eq!(
            log.by(t1)[..5],
            [
                "fib(3)",
                "fib(2)",
                "fib(2)/fib(1)",
                "fib(2)/fib(0)",
                "fib(3)/fib(1)"
            ]
        );
        // The second branch of it may have been taken in turn: see below by whom.
        assert_eq!(log.by(t2)[..2], ["stolen/fib(2)", "stolen/fib(2)/fib(1)"]);
        assert_eq!(log.calls().len(), 8);
    });
}

/// T2 steals fib(3), and T1 comes to the join before that is done. The fib(2) that T2 has forked is
/// then for T1, or, if T1 found nothing for some microseconds and gave its permit up, for the
/// thread that got that: never for T2, which sits in fib(1) meanwhile. (With a clock that stands
/// still it is always T1: `sched/find/tests/fib_4.rs`.)
#[test]
fn with_two_workers_the_branch_of_a_stolen_fib_3_goes_back_to_its_owner_s_permit() {
    #[derive(Default)]
    struct Walk {
        log: Log,
        stolen: Gate,
        taken: Gate,
        /// What had happened when the last branch was taken.
        events: Mutex<Vec<Event>>,
    }
    fn fib_4(walk: &Walk) -> u64 {
        let fib_3 = || {
            walk.log.note("fib(3)");
            walk.stolen.open();
            let fib_1 = || {
                walk.log.note("fib(3)/fib(1)");
                walk.taken.pass();
                1
            };
            let fib_2 = || {
                *walk.events.lock().unwrap() = Handle::current().recording().events;
                walk.log.note("fib(3)/fib(2)");
                walk.taken.open();
                1
            };
            let (fib_1, fib_2) = join(fib_1, fib_2);
            fib_1 + fib_2
        };
        let fib_2 = || {
            walk.log.note("fib(2)");
            walk.stolen.pass();
            1
        };
        walk.log.note("fib(4)");
        let (fib_2, fib_3) = join(fib_2, fib_3);
        fib_2 + fib_3
    }
    common::limited(|| {
        // Without the monitor, which would take the permit of a thread that waits here for another.
        let builder = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .recorder(16_000)
            .record(Level::Full);
        let runtime = builder.build().unwrap();
        let walk = common::forever(Walk::default());
        let task = runtime.spawn(async move { fib_4(walk) });
        let id = task.id();
        assert_eq!(runtime.block_on(task).unwrap(), 3);
        let (t1, t2) = (walk.log.who("fib(4)"), walk.log.who("fib(3)"));
        assert_ne!(t1, t2);
        assert_eq!(walk.log.by(t1)[..2], ["fib(4)", "fib(2)"]);
        assert_eq!(walk.log.by(t2), ["fib(3)", "fib(3)/fib(1)"]);
        assert_eq!(walk.log.calls().len(), 5);
        let events = walk.events.lock().unwrap();
        let at_1 = events
            .iter()
            .find(|it| it.kind == EventKind::Run && it.task == Some(id))
            .unwrap()
            .processor;
        let gave_up = events
            .iter()
            .any(|it| it.kind == EventKind::Block && it.processor == at_1);
        assert_eq!(walk.log.who("fib(3)/fib(2)") == t1, !gave_up);
    });
}

/// A chain of joins, whose innermost call forks on until the others have taken all branches above
/// it: they take them in the order in which they were pushed. Without the monitor, which gives the
/// permit of a thief that has lost its core for long to a second one: they would note what they
/// took in any order.
#[test]
fn branches_are_stolen_from_the_oldest_on() {
    const DEPTH: usize = 6;
    fn descend(depth: usize, order: &Mutex<Vec<usize>>) {
        if depth == DEPTH {
            while order.lock().unwrap().len() < DEPTH {
                join(|| (), || ());
            }
            return;
        }
        let branch = || order.lock().unwrap().push(depth);
        join(|| descend(depth + 1, order), branch);
    }
    common::limited(|| {
        let order = Mutex::new(Vec::new());
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        runtime.block_on(async { descend(0, &order) });
        assert_eq!(*order.lock().unwrap(), (0..DEPTH).collect::<Vec<_>>());
    });
}

common::with_workers! {
    /// However the branches spread, the result is that of plain calls.
    fn fib_20_is_right(workers: usize) {
        fn fib(n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        let runtime = runtime(workers);
        let here = runtime.block_on(async { fib(20) });
        let task = runtime.block_on(runtime.spawn(async { fib(20) })).unwrap();
        assert_eq!((here, task), (6765, 6765));
    }

    /// Branches borrow from the stack, and each element is touched once.
    fn every_element_is_touched_once(workers: usize) {
        fn touch(numbers: &mut [u32]) {
            if let [number] = numbers {
                *number += 1;
                return;
            }
            let (left, right) = numbers.split_at_mut(numbers.len() / 2);
            join(|| touch(left), || touch(right));
        }
        let mut numbers = vec![0; 10_000];
        let runtime = Arc::new(runtime(workers));
        for _ in 0..10 {
            runtime.block_on(async { touch(&mut numbers) });
        }
        assert!(numbers.iter().all(|&number| number == 10));
    }
}
