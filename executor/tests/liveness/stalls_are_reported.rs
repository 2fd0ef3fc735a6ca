//! L2: a poll that takes long is reported, with its task, where that was spawned, how long it runs,
//! how much of that time its thread was on a core, and whether it blocks, computes or waits for a
//! core; once a poll, and at most once a second, the rest being counted. While it goes on it is
//! reported again, at growing distances, and so is its end, with the whole time. What announces
//! that it blocks is not reported, and a runtime without a threshold reports nothing.
//!
//! A computation is reported if it comes to no fork for that long.
//!
//! It fails when the monitor (`monitor/`) does not ask the branch deque, when `View` in
//! `monitor/observe.rs` forgets a stuck worker once its permit was taken, when `begun` in
//! `sched/stall/track.rs` does not hold back a report within the second, when a monitor that sleeps
//! for good sleeps through the next report, and when `begin_blocking` in `sched/worker.rs` does not
//! say that it is announced.

use crate::common;

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use common::{Count, Gate, limited, listen_to_log, logged, pass_looks};
use ws_executor::{
    runtime::{Builder, Runtime, StallKind, StallPhase, StallReport},
    task,
};

/// Collects the reports.
#[derive(Default)]
struct Reports {
    all: Mutex<Vec<StallReport>>,
    changed: Condvar,
}

impl Reports {
    /// Those that tell of the begin of a stall, once there are so many.
    fn wait_for(&self, count: usize) -> Vec<StallReport> {
        self.wait_until(|all| {
            let begun = all
                .iter()
                .filter(|report| report.phase == StallPhase::Begun);
            let begun: Vec<_> = begun.cloned().collect();
            (begun.len() >= count).then_some(begun)
        })
    }

    /// The first that tells this of that task.
    fn wait_for_phase(&self, id: task::Id, phase: StallPhase) -> StallReport {
        self.wait_until(|all| {
            let mut all = all.iter();
            all.find(|report| (report.id, report.phase) == (id, phase))
                .cloned()
        })
    }

    fn wait_until<R>(&self, look: impl Fn(&[StallReport]) -> Option<R>) -> R {
        let mut all = self.all.lock().unwrap();
        loop {
            if let Some(found) = look(&all) {
                return found;
            }
            all = self.changed.wait(all).unwrap();
        }
    }

    /// How many tell of the begin of a stall.
    fn len(&self) -> usize {
        self.wait_for(0).len()
    }

    /// Begins that were counted and not reported, up to the last of so many that were.
    fn suppressed(&self, begun: usize) -> u64 {
        self.wait_until(|all| {
            let mut begins = (0..all.len()).filter(|at| all[*at].phase == StallPhase::Begun);
            let last = begins.nth(begun - 1)?;
            Some(all[..=last].iter().map(|report| report.suppressed).sum())
        })
    }
}

const THRESHOLD: Duration = Duration::from_millis(20);

fn reporting(workers: usize) -> (Runtime, Arc<Reports>) {
    let reports = Arc::new(Reports::default());
    let hook = reports.clone();
    let builder = Builder::new().workers(workers).stall_threshold(THRESHOLD);
    let runtime = builder
        .on_stall(move |report| {
            hook.all.lock().unwrap().push(report.clone());
            hook.changed.notify_all();
        })
        .build()
        .unwrap();
    (runtime, reports)
}

common::with_workers! {
    fn a_task_that_blocks(workers: usize) {
        let (runtime, reports) = reporting(workers);
        for number in 1.. {
            let gate = Arc::new(Gate::default());
            let passes = gate.clone();
            let line = line!() + 2;
            let builder = task::Builder::new().name("blocks");
            let task = builder.spawn_on(async move { passes.pass() }, runtime.handle());
            let report = reports.wait_for(number).remove(number - 1);
            gate.open();
            assert_eq!(report.id, task.id());
            runtime.block_on(task).unwrap();
            assert_eq!(report.name.as_deref(), Some("blocks"));
            assert!(report.location.file().ends_with("stalls_are_reported.rs"));
            assert_eq!(report.location.line(), line);
            assert!(report.running_for >= THRESHOLD);
            assert_eq!(report.suppressed, 0);
            if report.kind != StallKind::Blocked {
                // It had no core for a while, and so it came to its wait between two looks.
                continue;
            }
            let words = report.to_string();
            assert!(words.contains("\"blocks\"") && words.contains("blocks its thread"), "{words}");
            break;
        }
    }

    /// Others go on with its permit at once, and then everything comes to rest: it stalls all the
    /// same.
    fn a_task_whose_permit_was_taken(workers: usize) {
        let (runtime, reports) = reporting(workers);
        let (gate, stuck) = common::take_all_permits(&runtime, workers);
        let passes = Arc::new(Count::new());
        let counted = passes.clone();
        drop(runtime.spawn(async move { counted.add() }));
        passes.wait_for(1);
        let report = reports.wait_for(1).remove(0);
        assert!(stuck.iter().any(|task| task.id() == report.id));
        assert!(report.running_for >= THRESHOLD);
        gate.open();
        for task in stuck {
            runtime.block_on(task).unwrap();
        }
    }

    fn a_task_that_computes(workers: usize) {
        let (runtime, reports) = reporting(workers);
        let seen = reports.clone();
        let task = runtime.spawn(async move {
            while seen.len() == 0 {
                std::hint::spin_loop();
            }
        });
        let report = reports.wait_for(1).remove(0);
        assert_eq!(report.id, task.id());
        assert_eq!(report.name, None);
        assert!(report.running_for >= THRESHOLD);
        assert_ne!(report.kind, StallKind::Blocked);
        runtime.block_on(task).unwrap();
        // The monitor reads the clock and the CPU clock one after the other, and caps the second by
        // the first.
        let report = reports.wait_for_phase(report.id, StallPhase::Ended);
        let tells = !cfg!(any(target_os = "netbsd", target_os = "openbsd"));
        assert_eq!(report.cpu_time.is_some(), tells);
        // In ticks of 15.6 ms.
        let may_be_none = cfg!(windows);
        assert!(report.cpu_time.is_none_or(|time| may_be_none || !time.is_zero()));
        assert!(report.cpu_time.is_none_or(|time| time <= report.running_for));
    }

    /// With one worker its permit is taken. Then nothing goes on, and the monitor sleeps between
    /// its reports.
    fn a_stall_is_reported_to_its_end(workers: usize) {
        let (runtime, reports) = reporting(workers);
        let gate = Arc::new(Gate::default());
        let passes = gate.clone();
        let id = runtime.spawn(async move { passes.pass() }).id();
        let begun = reports.wait_for_phase(id, StallPhase::Begun);
        let passes = Arc::new(Count::new());
        let counted = passes.clone();
        drop(runtime.spawn(async move { counted.add() }));
        passes.wait_for(1);
        let goes_on = reports.wait_for_phase(id, StallPhase::GoesOn);
        assert!(goes_on.running_for >= 2 * begun.running_for);
        gate.open();
        let ended = reports.wait_for_phase(id, StallPhase::Ended);
        assert!(ended.running_for >= goes_on.running_for);
        assert_eq!(ended.kind, goes_on.kind);
        // On a busy machine it may have had no core on its way to the gate; which kind it is: the
        // unit tests.
        let (words, how) = (ended.to_string(), match ended.kind {
            StallKind::Blocked => "blocked its thread",
            StallKind::Descheduled => "waited for a core",
            _ => "computed on its thread",
        });
        assert!(words.contains(how), "{words}");
    }

    /// A computation that goes on forking is not stuck: what begins later and blocks is reported,
    /// and not the computation.
    fn not_a_computation_that_joins(workers: usize) {
        let (runtime, reports) = reporting(workers);
        for number in 1.. {
            let (begun, over) = (Arc::new(Count::new()), Arc::new(AtomicBool::new(false)));
            let (begins, ends) = (begun.clone(), over.clone());
            let computation = runtime.spawn(ws_executor::compute(move || {
                begins.add();
                while !ends.load(Relaxed) {
                    ws_executor::join(std::hint::spin_loop, std::hint::spin_loop);
                }
            }));
            begun.wait_for(1);
            let gate = Arc::new(Gate::default());
            let passes = gate.clone();
            let blocks = runtime.spawn(async move { passes.pass() });
            let report = reports.wait_for(number).remove(number - 1);
            over.store(true, Relaxed);
            gate.open();
            let stalled = blocks.id();
            runtime.block_on(computation).unwrap().unwrap();
            runtime.block_on(blocks).unwrap();
            if report.id == stalled {
                break;
            }
            // One of its leaves had no core for the time of a stall.
        }
    }

    /// One of its leaves takes long.
    fn a_computation_in_a_leaf(workers: usize) {
        let (runtime, reports) = reporting(workers);
        let seen = reports.clone();
        let line = line!() + 1;
        let computation = runtime.spawn(ws_executor::compute(move || {
            for _ in 0..100 {
                ws_executor::join(|| (), || ());
            }
            let spins = || while seen.len() == 0 {
                std::hint::spin_loop();
            };
            ws_executor::join(spins, || ())
        }));
        let report = reports.wait_for(1).remove(0);
        assert_eq!(report.location.line(), line);
        assert!(report.running_for >= THRESHOLD);
        runtime.block_on(computation).unwrap().unwrap();
    }

    /// All permits are taken from stuck tasks, and everything else comes to rest: each stalls all
    /// the same, and those that are not reported are counted in the next report.
    fn at_most_one_a_second(workers: usize) {
        const STUCK: usize = 5;
        let (runtime, reports) = reporting(workers);
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let block = || {
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.spawn(async move {
                begun.add();
                gate.pass();
            })
        };
        let mut tasks: Vec<_> = (0..STUCK).map(|_| block()).collect();
        begun.wait_for(STUCK);
        assert_eq!(reports.wait_for(1)[0].suppressed, 0);
        // One after the other, until one stalls when the second is over.
        while reports.len() < 2 {
            tasks.push(block());
            // Half of them while it is in a hurry: some 50 ms.
            pass_looks(&runtime, 100);
        }
        let all = reports.wait_for(2);
        let (second, stalled) = (all[1].clone(), tasks.len() as u64);
        let suppressed = reports.suppressed(2);
        assert!(suppressed >= STUCK as u64 - 1, "{second:?}");
        assert!(suppressed <= stalled - 2, "{second:?}, {stalled} tasks");
        gate.open();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    fn not_what_is_announced(workers: usize) {
        let (runtime, reports) = reporting(workers);
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let (counted, passes) = (begun.clone(), gate.clone());
        let job = runtime.handle().spawn_blocking(move || {
            counted.add();
            passes.pass();
        });
        let (counted, passes) = (begun.clone(), gate.clone());
        let in_place = runtime.spawn(async move {
            ws_executor::block_in_place(|| {
                counted.add();
                passes.pass();
            });
        });
        begun.wait_for(2);
        // One that had no core for long may be reported before it comes to announcing anything.
        let before = reports.len();
        // It began later, and blocks no longer than these.
        let stalls = gate.clone();
        let task = runtime.spawn(async move { stalls.pass() });
        assert_eq!(reports.wait_for(before + 1)[before].id, task.id());
        gate.open();
        for task in [job, in_place, task] {
            runtime.block_on(task).unwrap();
        }
        assert_eq!(reports.len(), before + 1);
    }

    fn not_if_nobody_wants_to_hear_of_it(workers: usize) {
        let reports = Arc::new(Reports::default());
        let hook = reports.clone();
        let builder = Builder::new().workers(workers).stall_threshold(None);
        let runtime = builder.on_stall(move |report| {
            hook.all.lock().unwrap().push(report.clone());
        }).build().unwrap();
        // The same poll stalls another runtime, which tells when it was long enough for this one.
        let (other, heard) = reporting(1);
        let gate = Arc::new(Gate::default());
        let (passes, too) = (gate.clone(), gate.clone());
        let quiet = runtime.spawn(async move { passes.pass() });
        let loud = other.spawn(async move { too.pass() });
        heard.wait_for(1);
        gate.open();
        runtime.block_on(quiet).unwrap();
        other.block_on(loud).unwrap();
        assert_eq!(reports.len(), 0);
    }

    /// A hook that panics harms nobody: the monitor lives on (S6).
    fn a_hook_that_panics(workers: usize) {
        common::listen_to_panics();
        let called = Arc::new(Count::new());
        let counted = called.clone();
        let builder = Builder::new().workers(workers).stall_threshold(THRESHOLD);
        let runtime = builder.on_stall(move |_| {
            counted.add();
            panic!("expected: in the hook");
        }).build().unwrap();
        let counted = called.clone();
        runtime.block_on(runtime.spawn(async move { counted.wait_for(1) })).unwrap();
        // Permits are still taken from blocked threads.
        let gate = Arc::new(Gate::default());
        let stuck: Vec<_> = (0..workers).map(|_| {
            let gate = gate.clone();
            runtime.spawn(async move { gate.pass() })
        }).collect();
        runtime.block_on(runtime.spawn(async move { gate.open() })).unwrap();
        for task in stuck {
            runtime.block_on(task).unwrap();
        }
    }
}

/// The end of a runtime waits for the monitor, which calls the hook, and for the task that stalls.
#[test]
fn a_hook_that_drops_the_runtime_does_not_wait_for_its_end() {
    limited(|| {
        let runtime = Arc::new(Mutex::new(None::<Runtime>));
        let (of_hook, gate) = (runtime.clone(), Arc::new(Gate::default()));
        let opens = gate.clone();
        let builder = Builder::new().workers(1).stall_threshold(THRESHOLD);
        let builder = builder.shutdown_grace(Duration::MAX);
        let builder = builder.on_stall(move |_| {
            drop(of_hook.lock().unwrap().take());
            opens.open();
        });
        let built = builder.build().unwrap();
        // The hook waits until the runtime is there.
        let mut place = runtime.lock().unwrap();
        let task = built.spawn(async move { gate.pass() });
        *place = Some(built);
        drop(place);
        // The task goes on when the hook is through.
        let other = Builder::new().workers(1).build().unwrap();
        let _ = other.block_on(task);
    });
}

/// Without a hook it is a warning in the log.
#[test]
fn a_warning_by_default() {
    limited(|| {
        listen_to_log();
        let builder = Builder::new().workers(1).stall_threshold(THRESHOLD);
        let runtime = builder.build().unwrap();
        let name = "in the log";
        let builder = task::Builder::new().name(name);
        let task = builder.spawn_on(
            async move {
                while logged(&["WARN", name]).is_empty() {
                    std::thread::yield_now();
                }
            },
            runtime.handle(),
        );
        runtime.block_on(task).unwrap();
        let line = logged(&["WARN", name]).remove(0);
        assert!(line.contains("stalls_are_reported.rs"), "{line}");
        assert!(line.contains("running_for"), "{line}");
    });
}
