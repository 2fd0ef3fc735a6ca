//! A task keeps its priority on every way that it goes: overflow, steal, wake from a foreign
//! thread, yield, budget, hand-over of a blocked worker's queue, revocation of a stuck one's. And a
//! new priority counts at the next queueing. (O1, with the moves of I1.)
//!
//! They fail when a way puts tasks into a plain queue without asking `is_ordered`: `push` in
//! `permit/env.rs`, `push_special` and `requeue_special` in `sched/push.rs`; and when `flush` in
//! `sched/wait.rs` leaves the ordered queue where it is. A revocation is looked at where it is
//! made, in `sched/priority/tests.rs`.

use crate::common;

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Poll, Waker},
    time::Duration,
};

use common::{Count, Gate, OnDrop, Random, scaled};
use ws_executor::{
    block_in_place,
    runtime::{Builder, Priorities, Runtime, Sysmon},
    task::{self, Priority},
};

/// One worker, whose order is exact.
fn strict() -> Builder {
    Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .priorities(Priorities::Strict)
}

/// Names, in the order in which they were noted.
#[derive(Clone, Default)]
struct Order {
    names: Arc<Mutex<Vec<&'static str>>>,
    count: Arc<Count>,
}

impl Order {
    fn note(&self, name: &'static str) {
        self.names.lock().unwrap().push(name);
        self.count.add();
    }

    fn wait_for(&self, count: usize) -> Vec<&'static str> {
        self.count.wait_for(count);
        self.names.lock().unwrap().clone()
    }

    /// Spawns a task that notes its name, on the current runtime.
    fn spawn(&self, priority: impl Into<Priority>, name: &'static str) {
        let order = self.clone();
        drop(
            task::Builder::new()
                .priority(priority)
                .spawn(async move { order.note(name) }),
        );
    }

    /// Low, default and high ones, in the wrong order.
    fn spawn_mixed(&self) {
        for _ in 0..3 {
            self.spawn(-1, "low");
            self.spawn(0, "default");
            self.spawn(1, "high");
        }
    }
}

const SORTED: [&str; 9] = [
    "high", "high", "high", "default", "default", "default", "low", "low", "low",
];

/// Runs `first` in a task, and nothing else until it is over.
fn begin(runtime: &Runtime, first: impl FnOnce() + Send + 'static) {
    drop(runtime.spawn(async move { first() }));
}

fn limited_with_strict(test: impl FnOnce(Runtime) + Send + 'static) {
    common::limited(|| test(strict().build().unwrap()));
}

#[test]
fn a_yield() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            for (priority, name) in [(-1, "low"), (0, "default"), (1, "high")] {
                let order = spawner.clone();
                let task = task::Builder::new().priority(priority);
                drop(task.spawn(async move {
                    for _ in 0..3 {
                        order.note(name);
                        task::yield_now().await;
                    }
                }));
            }
        });
        assert_eq!(order.wait_for(9), SORTED);
    });
}

#[test]
fn a_budget_that_is_spent() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        // So many that are done already cost more than one poll's budget.
        let done: Vec<_> = (0..1_000).map(|_| runtime.spawn(async {})).collect();
        while !done.iter().all(task::JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        begin(&runtime, move || {
            spawner.spawn(0, "default");
            let order = spawner.clone();
            let mut all = Box::pin(async move {
                for handle in done {
                    handle.await.unwrap();
                }
                order.note("high");
            });
            let task = task::Builder::new().priority(1);
            drop(task.spawn(poll_fn(move |cx| {
                counted.fetch_add(1, Relaxed);
                all.as_mut().poll(cx)
            })));
        });
        assert_eq!(order.wait_for(2), ["high", "default"]);
        assert!(
            polls.load(Relaxed) > 1,
            "the budget was spent at least once"
        );
    });
}

#[test]
fn a_wake_from_a_foreign_thread() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let (asleep, told) = (Arc::new(Count::new()), waker.clone());
        let (counted, noted) = (asleep.clone(), order.clone());
        let sleeper = task::Builder::new().priority(1);
        let mut polled = false;
        drop(sleeper.spawn_on(
            poll_fn(move |cx| {
                if polled {
                    noted.note("high");
                    return Poll::Ready(());
                }
                polled = true;
                *told.lock().unwrap() = Some(cx.waker().clone());
                counted.add();
                Poll::Pending
            }),
            runtime.handle(),
        ));
        asleep.wait_for(1);
        // The worker is held while work comes from here.
        let (begun, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (told, held) = (begun.clone(), gate.clone());
        begin(&runtime, move || {
            told.open();
            held.pass();
        });
        begun.pass();
        for _ in 0..3 {
            let order = order.clone();
            drop(runtime.spawn(async move { order.note("default") }));
        }
        waker.lock().unwrap().take().unwrap().wake();
        gate.open();
        assert_eq!(order.wait_for(4), ["high", "default", "default", "default"]);
    });
}

#[test]
fn a_wake_by_another_task() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            let bells = [(-1, "low"), (0, "default"), (1, "high")].map(|(priority, name)| {
                let (ring, rung) = futures::channel::oneshot::channel::<()>();
                let order = spawner.clone();
                let task = task::Builder::new().priority(priority);
                drop(task.spawn(async move {
                    rung.await.unwrap();
                    order.note(name);
                }));
                ring
            });
            // When the three wait, it wakes them in the wrong order.
            let ringer = task::Builder::new().priority(Priority::LOWEST);
            drop(ringer.spawn(async move {
                for bell in bells {
                    bell.send(()).unwrap();
                }
            }));
        });
        assert_eq!(order.wait_for(3), ["high", "default", "low"]);
    });
}

#[test]
fn a_wake_by_a_timer() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            for (priority, name) in [(-1, "low"), (0, "default"), (1, "high")] {
                let order = spawner.clone();
                let task = task::Builder::new().priority(priority);
                drop(task.spawn(async move {
                    for _ in 0..3 {
                        ws_executor::time::sleep(Duration::ZERO).await;
                        order.note(name);
                    }
                }));
            }
        });
        let names = order.wait_for(9);
        assert_eq!(names.iter().filter(|name| **name == "high").count(), 3);
        assert_eq!(names[0], "high");
    });
}

#[test]
fn an_overflow() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            for _ in 0..1_000 {
                spawner.spawn(-1, "low");
            }
            spawner.spawn_mixed();
        });
        let names = order.wait_for(1_009);
        assert_eq!(names[..7], SORTED[..7]);
        assert!(names[6..].iter().all(|name| *name == "low"));
    });
}

#[test]
fn a_worker_that_says_it_blocks() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            spawner.spawn_mixed();
            // The queue goes to another worker meanwhile.
            let names = block_in_place(|| spawner.wait_for(9));
            assert_eq!(names, SORTED);
            spawner.note("end");
        });
        let names = order.wait_for(10);
        assert_eq!(names[..9], SORTED);
    });
}

#[test]
fn a_worker_that_is_stuck() {
    common::limited(|| {
        let builder = Builder::new().workers(1).priorities(Priorities::Strict);
        let runtime = builder.stall_threshold(None).build().unwrap();
        let order = Order::default();
        let (spawner, end) = (order.clone(), Arc::new(Gate::default()));
        let held = end.clone();
        begin(&runtime, move || {
            // Whoever comes for its permit too early, as this thread lost its core, has this to do
            // until all are there.
            let all = Arc::new(Gate::default());
            let are_there = all.clone();
            let first = task::Builder::new().priority(Priority::HIGHEST);
            drop(first.spawn(async move {
                while !are_there.is_open() {
                    task::yield_now().await;
                }
            }));
            spawner.spawn_mixed();
            all.open();
            // The monitor takes its permit, and its queue.
            held.pass();
        });
        let names = order.wait_for(9);
        end.open();
        assert_eq!(names, SORTED);
    });
}

/// What is low goes to a worker that never runs dry, and so takes nothing low from another: only if
/// it is flushed, to the queue that all share.
#[test]
fn what_a_worker_has_that_says_it_blocks_is_handed_in() {
    common::limited(|| {
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (stop, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(Gate::default()));
        let (stopped, ended) = (stop.clone(), end.clone());
        begin(&runtime, move || {
            let ran = Arc::new(Gate::default());
            let opener = ran.clone();
            let task = task::Builder::new().priority(Priority::LOWEST);
            drop(task.spawn(async move { opener.open() }));
            // They are flushed as well, and whoever has them is busy.
            for _ in 0..2 {
                let stopped = stopped.clone();
                drop(ws_executor::spawn(async move {
                    while stopped.load(Relaxed) == 0 {
                        task::yield_now().await;
                    }
                }));
            }
            block_in_place(|| ran.pass());
            stopped.store(1, Relaxed);
            ended.open();
        });
        end.pass();
    });
}

#[test]
fn a_steal() {
    common::limited(|| {
        let runtime = strict().workers(2).build().unwrap();
        let (thief_begun, thief) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (told, held) = (thief_begun.clone(), thief.clone());
        begin(&runtime, move || {
            told.open();
            held.pass();
        });
        thief_begun.pass();
        let order = Order::default();
        let (filled, end) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (told, held, spawner) = (filled.clone(), end.clone(), order.clone());
        begin(&runtime, move || {
            spawner.spawn_mixed();
            told.open();
            held.pass();
        });
        filled.pass();
        thief.open();
        let names = order.wait_for(9);
        end.open();
        // The default ones come from another queue, and one of them from `runnext`, which is stolen
        // last.
        let ordered = |names: &[&'static str]| -> Vec<_> {
            names
                .iter()
                .copied()
                .filter(|name| *name != "default")
                .collect()
        };
        assert_eq!(ordered(&names), ordered(&SORTED));
        assert_eq!(names[..3], SORTED[..3]);
    });
}

#[test]
fn a_new_priority_counts_at_the_next_queueing() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            let names = ["first", "second", "third"];
            let handles = names.map(|name| {
                let order = spawner.clone();
                ws_executor::spawn(async move {
                    task::yield_now().await;
                    order.note(name);
                })
            });
            handles[1].set_priority(Priority::HIGHEST);
            handles[2].abort_handle().set_priority(-1);
            assert_eq!(handles[2].priority(), Priority::new(-1));
            // Back again, before it ever counted.
            handles[0].set_priority(5);
            handles[0].set_priority(Priority::DEFAULT);
        });
        assert_eq!(order.wait_for(3), ["second", "first", "third"]);
    });
}

#[test]
fn a_task_changes_its_own() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            let (order, slot) = (
                spawner.clone(),
                Arc::new(Mutex::new(None::<task::AbortHandle>)),
            );
            let own = slot.clone();
            let handle = task::Builder::new().priority(1).spawn(async move {
                order.note("high");
                own.lock().unwrap().take().unwrap().set_priority(-1);
                task::yield_now().await;
                order.note("low");
            });
            *slot.lock().unwrap() = Some(handle.abort_handle());
            spawner.spawn(0, "default");
        });
        assert_eq!(order.wait_for(3), ["high", "default", "low"]);
    });
}

/// In the fork deque a parent would pass those above it, or wait behind those below: so its child
/// waits.
#[test]
fn a_fork_is_a_spawn() {
    limited_with_strict(|runtime| {
        let order = Order::default();
        let spawner = order.clone();
        begin(&runtime, move || {
            for (priority, name) in [(-1, "low"), (0, "default"), (1, "high")] {
                let order = spawner.clone();
                let task = task::Builder::new().priority(priority);
                drop(task.spawn(async move {
                    let noted = order.clone();
                    let child = ws_executor::fork(async move { noted.note("child") }).await;
                    order.note(name);
                    child.await.unwrap();
                }));
            }
        });
        let names = ["high", "child", "child", "default", "low", "child"];
        assert_eq!(order.wait_for(6), names);
    });
}

#[test]
fn inside_block_on() {
    common::limited(|| {
        let runtime = strict().build().unwrap();
        let order = Order::default();
        runtime.block_on(async {
            order.spawn_mixed();
            while order.count.get() < 9 {
                task::yield_now().await;
            }
        });
        assert_eq!(order.wait_for(9), SORTED);
    });
}

common::with_workers! {
    /// S2, S7: whatever is in which queue at the end is dropped, once.
    fn shutdown_drops_what_is_ordered(workers: usize) {
        for early in [false, true] {
            let runtime = common::runtime(workers);
            let (made, dropped) = (Arc::new(Count::new()), Arc::new(AtomicUsize::new(0)));
            let ready = Arc::new(Count::new());
            for number in 0..scaled(3_000).max(200) as i64 {
                let (dropped, made, ready) = (dropped.clone(), made.clone(), ready.clone());
                let guard = OnDrop(move || {
                    dropped.fetch_add(1, Relaxed);
                });
                let task = task::Builder::new().priority(number * 31 % 29 - 14);
                made.add();
                drop(task.spawn_on(
                    async move {
                        let _guard = guard;
                        ready.add();
                        loop {
                            task::yield_now().await;
                        }
                    },
                    runtime.handle(),
                ));
            }
            if !early {
                ready.wait_for(100);
            }
            drop(runtime);
            assert_eq!(dropped.load(Relaxed), made.get(), "early: {early}");
        }
    }

    /// S1, S2: tasks of all priorities that spawn, yield, sleep, block, wake and change their own,
    /// all at once.
    fn nothing_is_lost(workers: usize) {
        for seed in 1..=10_u64 {
            let builder = Builder::new().workers(workers).seed(seed);
            let runtime = builder.shutdown_grace(common::GRACE).build().unwrap();
            let ended = Arc::new(Count::new());
            let tasks = 40;
            for number in 0..tasks {
                let priority = (number * 5 % 7) as i64 - 3;
                let task = task::Builder::new().priority(priority);
                drop(task.spawn_on(program(seed * 1_000 + number, 3, ended.clone()), runtime.handle()));
            }
            let expected = usize::try_from(tasks).unwrap() * (1 + 2 + 4 + 8);
            ended.wait_for(expected);
            drop(runtime);
            assert_eq!(ended.get(), expected, "seed {seed}");
        }
    }
}

/// Does this and that, has two children of other priorities unless `depth` is 0, and counts its
/// end.
fn program(
    seed: u64,
    depth: u32,
    ended: Arc<Count>,
) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut random = Random::new(seed);
        let mut children = vec![];
        if depth > 0 {
            for _ in 0..2 {
                let task = task::Builder::new().priority(random.below(11) as i64 - 5);
                children.push(task.spawn(program(random.next(), depth - 1, ended.clone())));
            }
        }
        for _ in 0..random.below(8) {
            match random.below(5) {
                0 | 1 => task::yield_now().await,
                2 => ws_executor::time::sleep(Duration::from_micros(random.below(50) as u64)).await,
                3 => block_in_place(std::thread::yield_now),
                _ => {
                    for child in &children {
                        child.set_priority(random.below(11) as i64 - 5);
                    }
                }
            }
        }
        for child in children {
            child.await.unwrap();
        }
        ended.add();
    })
}
