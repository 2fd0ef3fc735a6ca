//! L5: a burst of `spawn_blocking` costs no hand-off for each. A thread that comes back from a call
//! takes the next one, also where no permit is free; not one that has pinned work, which nobody
//! else may do. And what else is queued is not sent round with every call.
//!
//! It fails when `step_without_permit` does not look for the next call, when `next_call` does not
//! ask for pinned tasks, and when `spawn_call` puts all calls into `runnext`, or those of a
//! `block_on`, or those of a `block_on` with a priority into its P's ordered queue. A thread that
//! pinned tasks or a root wait for passes its calls on, which it does not when `passes_call_on`
//! says no. A call is left when `hand_call` in `sched/threads.rs` does not take it out of the P of
//! a thread that woke up by itself.

use crate::common;

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use common::{Count, Gate, limited, take_all_permits};
use futures::channel::oneshot;
use ws_executor::{
    block_in_place,
    runtime::{Builder, Runtime, Sysmon},
    spawn_blocking, spawn_pinned,
    task::{self, JoinHandle, yield_now},
    time::{sleep, timeout},
};

/// Nobody takes a permit from a thread that blocks without a word.
fn unwatched(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
}

/// A call that has begun, and its gate.
fn call(runtime: &Runtime) -> (Arc<Gate>, JoinHandle<()>) {
    let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
    let call = {
        let (gate, begun) = (gate.clone(), begun.clone());
        runtime.handle().spawn_blocking(move || {
            begun.add();
            gate.pass();
        })
    };
    begun.wait_for(1);
    (gate, call)
}

common::with_workers! {
    fn a_thread_that_comes_back_takes_the_next(workers: usize) {
        let runtime = unwatched(workers);
        let (gate, first) = call(&runtime);
        let (stop, takers) = take_all_permits(&runtime, workers);
        let (send, done) = mpsc::channel();
        let others: Vec<_> = (0..20).map(|n| {
            let send = send.clone();
            runtime.handle().spawn_blocking(move || send.send(n).unwrap())
        }).collect();
        gate.open();
        // In their order, one after the other on that thread, while no permit is free.
        for n in 0..20 {
            assert_eq!(done.recv().unwrap(), n);
        }
        stop.open();
        for task in takers.into_iter().chain(others).chain([first]) {
            runtime.block_on(task).unwrap();
        }
    }

    /// The thread of a root has nobody else to poll it.
    fn a_root_is_not_held_up_by_its_calls(workers: usize) {
        for priority in [0, 1, -1] {
            let runtime = unwatched(workers);
            let answer = runtime.block_on(async {
                let (send, receive) = mpsc::channel();
                let call = task::Builder::new().priority(priority);
                let call = call.spawn_blocking(move || receive.recv().unwrap());
                for _ in 0..100 {
                    yield_now().await;
                }
                send.send(7).unwrap();
                call.await.unwrap()
            });
            assert_eq!(answer, 7);
        }
    }

    /// Nor does it wait for one that never ends by itself.
    fn a_root_may_give_up_its_calls(workers: usize) {
        for priority in [0, 1, -1] {
            let runtime = Builder::new().workers(workers).build().unwrap();
            let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
            let in_time = runtime.block_on(async {
                let (gate, begun) = (gate.clone(), begun.clone());
                let call = task::Builder::new().priority(priority);
                let call = call.spawn_blocking(move || {
                    begun.add();
                    gate.pass();
                });
                timeout(Duration::from_millis(10), call).await
            });
            assert!(in_time.is_err());
            begun.wait_for(1);
            gate.open();
        }
    }

    /// Each call is spawned by a task of its own, as in most programs.
    fn a_burst_moves_no_queues(workers: usize) {
        const CALLS: u64 = 2_000;
        let runtime = unwatched(workers);
        let burst = runtime.spawn(async {
            let tasks: Vec<_> = (0..CALLS).map(|n| {
                ws_executor::spawn(async move { spawn_blocking(move || n).await.unwrap() })
            }).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(runtime.block_on(burst).unwrap(), CALLS * (CALLS - 1) / 2);
        let metrics = runtime.handle().metrics();
        let moved: u64 = metrics.processors.iter().map(|p| p.global).sum();
        // A task is polled twice and a call once, each from the global queue at most. Seen
        // otherwise: 245 moves a call.
        assert!(moved <= 10 * CALLS, "{moved} tasks came from the global queue");
    }
}

/// Spawns a call that is over when its spawner goes on.
async fn outlast_a_call(priority: i64) {
    let gate = Arc::new(Gate::default());
    let held = gate.clone();
    let call = task::Builder::new().priority(priority);
    let call = call.spawn_blocking(move || held.pass());
    for _ in 0..100 {
        yield_now().await;
    }
    gate.open();
    call.await.unwrap();
}

common::with_workers! {
    /// Nobody else may run what is pinned: another thread runs the call.
    fn a_pinned_task_is_not_held_up_by_calls(workers: usize) {
        for priority in [0, 1, -1] {
            let runtime = unwatched(workers);
            let _entered = runtime.enter();
            let tasks: Vec<_> = (0..workers + 1)
                .map(|_| spawn_pinned(move || outlast_a_call(priority)))
                .collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
        }
    }

    fn a_root_that_is_a_worker_is_not_held_up_by_calls(workers: usize) {
        for priority in [0, 1, -1] {
            unwatched(workers).run_local(outlast_a_call(priority));
        }
    }

    /// The same for a call that a foreign thread spawns, and the worker finds when it has nothing
    /// else to do.
    fn a_pinned_task_is_not_held_up_by_the_calls_of_others(workers: usize) {
        let runtime = unwatched(workers);
        let (gate, idle) = (Arc::new(Gate::default()), Arc::new(Count::new()));
        let tasks: Vec<_> = (0..workers).map(|_| {
            let (wake, woken) = oneshot::channel::<()>();
            let (gate, idle) = (gate.clone(), idle.clone());
            let _entered = runtime.enter();
            let task = spawn_pinned(move || async move {
                idle.add();
                woken.await.unwrap();
                gate.open();
            });
            (wake, task)
        }).collect();
        idle.wait_for(workers);
        let calls: Vec<_> = (0..2 * workers).map(|_| {
            let gate = gate.clone();
            runtime.handle().spawn_blocking(move || gate.pass())
        }).collect();
        for (wake, task) in tasks {
            wake.send(()).unwrap();
            runtime.block_on(task).unwrap();
        }
        for call in calls {
            runtime.block_on(call).unwrap();
        }
    }

    /// The threads that calls are handed to end all the time, and so does the runtime: each call is
    /// run, or dropped.
    fn no_call_is_left_with_a_thread_that_ends(workers: usize) {
        for _ in 0..50 {
            let alive = Arc::new(());
            let runtime = Builder::new()
                .workers(workers)
                .keep_alive(Duration::from_micros(100))
                .shutdown_grace(common::GRACE)
                .build()
                .unwrap();
            let held = alive.clone();
            runtime.run_local(async move {
                for _ in 0..20 {
                    let held = held.clone();
                    spawn_blocking(move || drop(held)).await.unwrap();
                    sleep(Duration::from_micros(100)).await;
                }
                for _ in 0..5 {
                    let held = held.clone();
                    drop(spawn_blocking(move || drop(held)));
                    yield_now().await;
                }
            });
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    /// Where no other thread can be had, a bound one runs its calls itself.
    fn a_bound_thread_without_others_runs_calls(workers: usize) {
        let runtime = Builder::new().workers(workers).max_threads(workers + 1).build().unwrap();
        let (stop, takers) = take_all_permits(&runtime, workers + 1);
        runtime.run_local(async {
            let here = thread::current().id();
            for priority in [0, 1, -1] {
                let call = task::Builder::new().priority(priority);
                let call = call.spawn_blocking(|| thread::current().id());
                assert_eq!(call.await.unwrap(), here);
            }
            stop.open();
            for task in takers {
                task.await.unwrap();
            }
        });
    }
}

/// Nobody else may do that, and a call may take for ever: this one waits for the pinned task.
#[test]
fn a_thread_with_pinned_work_takes_none() {
    limited(|| {
        let runtime = unwatched(1);
        let (wake, woken) = oneshot::channel::<()>();
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let released = Arc::new(Gate::default());
        let pinned = {
            let (begun, gate, released) = (begun.clone(), gate.clone(), released.clone());
            let _entered = runtime.enter();
            spawn_pinned(move || async move {
                // Its thread has the only permit, and runs this next.
                let call = ws_executor::spawn(async move {
                    block_in_place(|| {
                        begun.add();
                        gate.pass();
                    });
                });
                woken.await.unwrap();
                released.open();
                call.await.unwrap();
            })
        };
        begun.wait_for(1);
        let (stop, takers) = take_all_permits(&runtime, 1);
        let second = runtime.handle().spawn_blocking(move || released.pass());
        wake.send(()).unwrap();
        let before = parks(&runtime);
        gate.open();
        // It parks without a permit, and the second call stays where it is.
        while parks(&runtime) == before {
            thread::yield_now();
        }
        stop.open();
        for task in takers.into_iter().chain([second, pinned]) {
            runtime.block_on(task).unwrap();
        }
    });
}

fn parks(runtime: &Runtime) -> u64 {
    let metrics = runtime.handle().metrics();
    metrics.processors.iter().map(|p| p.parks).sum()
}
