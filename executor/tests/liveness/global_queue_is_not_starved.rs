//! L4, F3: each worker looks at the global queue first at least once in 61 of its ticks, however
//! much local work it has. A task that a foreign thread spawns comes to its first poll, while every
//! worker has tasks that are always ready.
//!
//! It fails when `look_for_all` in `sched/looks.rs` does not look at the global queue. The last
//! ones fail when tasks that go on have no queue of their own (`grq.rs`), when there is no
//! exchange, when it takes one task from there and no batch, and when it counts ticks alone and no
//! time.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, ThreadId},
};

use common::{Count, Gate, runtime};
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    task,
};

/// A tick may end without a poll, and never with two; so in `TICKS` polls of one thread there is a
/// look.
const TICKS: usize = 61;

/// Tasks that yield for ever, `each` on each worker; they count the polls of their thread.
struct Hogs {
    stop: Arc<AtomicBool>,
    tasks: Vec<task::JoinHandle<()>>,
}

thread_local! {
    static POLLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn hog(runtime: &Runtime, workers: usize, each: usize) -> Hogs {
    let stop = Arc::new(AtomicBool::new(false));
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let tasks = (0..workers)
        .map(|_| {
            let (begun, gate, stop) = (begun.clone(), gate.clone(), stop.clone());
            runtime.spawn(async move {
                begun.add();
                // Every worker has one of these: nobody is idle, and nobody steals.
                gate.pass();
                let local: Vec<_> = (0..each)
                    .map(|_| {
                        let stop = stop.clone();
                        ws_executor::spawn(async move {
                            while !stop.load(Relaxed) {
                                POLLS.set(POLLS.get() + 1);
                                task::yield_now().await;
                            }
                        })
                    })
                    .collect();
                for task in local {
                    task.await.unwrap();
                }
            })
        })
        .collect();
    begun.wait_for(workers);
    gate.open();
    Hogs { stop, tasks }
}

impl Hogs {
    fn end(self, runtime: &Runtime) {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

common::with_workers! {
    fn a_foreign_task_gets_its_turn(workers: usize) {
        let runtime = runtime(workers);
        let hogs = hog(&runtime, workers, 10);
        let done = Arc::new(Count::new());
        for n in 1..=100 {
            let counted = done.clone();
            drop(runtime.spawn(async move { counted.add() }));
            done.wait_for(n);
        }
        hogs.end(&runtime);
    }

    /// While the global queue is never empty, no more than 61 polls of local tasks lie between two
    /// of its tasks on one thread.
    fn within_61_ticks_of_each_worker(workers: usize) {
        // Without the monitor, which would bring another thread for those that are held up.
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        // More than will wait in the global queue: else workers take them in batches.
        let hogs = hog(&runtime, workers, 100);
        // All workers are held up until the queue is full: else they might empty it meanwhile.
        let (held, open) = (Arc::new(Count::new()), Arc::new(AtomicBool::new(false)));
        for _ in 0..workers {
            let (held, open) = (held.clone(), open.clone());
            drop(runtime.spawn(async move {
                held.add();
                while !open.load(SeqCst) {
                    thread::yield_now();
                }
            }));
        }
        held.wait_for(workers);
        let (ran, most) = (Arc::new(Count::new()), Arc::new(AtomicUsize::new(0)));
        let tasks = 90;
        for _ in 0..tasks {
            let (ran, most) = (ran.clone(), most.clone());
            drop(runtime.spawn(async move {
                thread_local! {
                    /// Whether this thread has run one of these before.
                    static AGAIN: std::cell::Cell<Option<ThreadId>> =
                        const { std::cell::Cell::new(None) };
                }
                let polls = POLLS.replace(0);
                if AGAIN.replace(Some(thread::current().id())).is_some() {
                    most.fetch_max(polls, SeqCst);
                }
                ran.add();
            }));
        }
        open.store(true, SeqCst);
        ran.wait_for(tasks);
        hogs.end(&runtime);
        assert!(
            most.load(SeqCst) <= TICKS,
            "{} polls without a look at the global queue", most.load(SeqCst)
        );
    }

    /// The same for tasks that spawn others and so always have something in `runnext`.
    fn beside_a_chain_of_spawns(workers: usize) {
        fn link(stop: Arc<AtomicBool>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                if !stop.load(Relaxed) {
                    drop(ws_executor::spawn(link(stop.clone())));
                }
            })
        }
        let runtime = runtime(workers);
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..2 * workers {
            drop(runtime.spawn(link(stop.clone())));
        }
        let done = Arc::new(Count::new());
        for n in 1..=100 {
            let counted = done.clone();
            drop(runtime.spawn(async move { counted.add() }));
            done.wait_for(n);
        }
        stop.store(true, Relaxed);
    }
}

/// A new task does not wait for thousands that are always ready to have their turn: it is taken at
/// one of the next two looks, and then at once.
#[test]
fn a_new_task_does_not_wait_for_those_that_go_on() {
    common::limited(|| {
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (all, stop, polls) = always_ready(&runtime, 3_000, 0);
        for _ in 0..10 {
            let polled = polls.clone();
            let task = runtime.spawn(async move { polled.load(Relaxed) });
            // From here on it waits, however long this thread took to get here. It may be over.
            let before = polls.load(Relaxed);
            let after = runtime.block_on(task).unwrap();
            let between = after.saturating_sub(before);
            assert!(between <= 3 * TICKS, "{between} polls");
        }
        stop.store(true, Relaxed);
        for task in all {
            runtime.block_on(task).unwrap();
        }
    });
}

/// Of thousands of tasks that are always ready, most wait in the global queue. One of them has its
/// turn when the others have had some; with a look at every 61st tick alone they have 58. With one
/// worker, since another's may stand still for as long as the system likes.
#[test]
fn a_long_global_queue_gets_its_share() {
    common::limited(|| a_queue_gets_its_share(3_000));
}

/// The same where fewer wait there than in the local queue.
#[test]
fn a_short_global_queue_gets_its_share() {
    common::limited(|| a_queue_gets_its_share(500));
}

/// So many tasks that always want to go on, until the flag is set; all have begun. Each poll
/// counts, and spins so often.
fn always_ready(
    runtime: &Runtime,
    tasks: usize,
    spins: usize,
) -> (Vec<task::JoinHandle<()>>, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (stop, polls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let begun = Arc::new(Count::new());
    let all = (0..tasks)
        .map(|_| {
            let (stop, polls, begun) = (stop.clone(), polls.clone(), begun.clone());
            runtime.spawn(async move {
                begun.add();
                while !stop.load(Relaxed) {
                    polls.fetch_add(1, Relaxed);
                    (0..spins).for_each(|_| std::hint::spin_loop());
                    task::yield_now().await;
                }
            })
        })
        .collect();
    begun.wait_for(tasks);
    (all, stop, polls)
}

fn a_queue_gets_its_share(tasks: usize) {
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let (all, stop, polls) = always_ready(&runtime, tasks, 0);
    let polled = polls.clone();
    let one_of_them = runtime.spawn(async move {
        for _ in 0..10 {
            let before = polled.load(Relaxed);
            task::yield_now().await;
            let between = polled.load(Relaxed) - before;
            assert!(between <= 12 * tasks, "{between} polls of {tasks} tasks");
        }
    });
    runtime.block_on(one_of_them).unwrap();
    stop.store(true, Relaxed);
    for task in all {
        runtime.block_on(task).unwrap();
    }
}

/// A worker that has less than its share of what waits takes a batch, not one task at every 61st
/// tick.
#[test]
fn a_short_local_queue_fills_up() {
    const TASKS: usize = 3_000;
    common::limited(|| {
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (gate, polls) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
        let (held, done) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let hog = {
            let (gate, polls, held) = (gate.clone(), polls.clone(), held.clone());
            let stop = done.clone();
            runtime.spawn(async move {
                held.add();
                gate.pass();
                while stop.get() < TASKS {
                    polls.fetch_add(1, Relaxed);
                    task::yield_now().await;
                }
            })
        };
        held.wait_for(1);
        for _ in 0..TASKS {
            let done = done.clone();
            drop(runtime.spawn(async move { done.add() }));
        }
        gate.open();
        runtime.block_on(hog).unwrap();
        let polled = polls.load(Relaxed);
        assert!(polled <= TASKS, "{polled} polls of one task beside {TASKS}");
    });
}

/// Where polls are slow, those in the global queue do not wait for 61 of them each.
#[test]
fn slow_polls_do_not_hold_it_up() {
    const TASKS: usize = 50;
    common::limited(|| {
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        // More than will wait in the global queue, so that there is no exchange.
        let (tasks, stop, polls) = always_ready(&runtime, 2 * TASKS, 10_000);
        let done = Arc::new(Count::new());
        for _ in 0..TASKS {
            let done = done.clone();
            drop(runtime.spawn(async move { done.add() }));
        }
        let before = polls.load(Relaxed);
        done.wait_for(TASKS);
        let polled = polls.load(Relaxed) - before;
        stop.store(true, Relaxed);
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert!(
            polled <= TICKS * TASKS / 2,
            "{polled} polls for {TASKS} tasks"
        );
    });
}
