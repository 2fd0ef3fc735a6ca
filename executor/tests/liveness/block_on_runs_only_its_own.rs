//! What a thread does in `block_on`: it polls its own root, and the tasks that this made runnable
//! on it, but never a task of others. Its future need not be `Send`. It may be called inside a
//! task, by many threads at a time, and while every permit is taken (S3, H4). With as many such
//! threads as permits, all busy, tasks of others have their turn all the same (L4).
//!
//! It fails when `step` in `sched/find.rs` goes on to the global queue, or steals, in `Scope::Own`;
//! and the one about roots that are always ready, by a hang, when a thread there keeps its permit
//! whatever waits (`leaves_others_out`).

use crate::common;

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
};

use common::{Count, on_a_worker, runtime};
use futures::channel::oneshot;
use ws_executor::{runtime::Handle, task};

/// A gate that futures can wait for.
#[derive(Default)]
struct AsyncGate(Mutex<Option<oneshot::Sender<()>>>);

impl AsyncGate {
    fn new() -> (Arc<Self>, oneshot::Receiver<()>) {
        let (send, receive) = oneshot::channel();
        (Arc::new(Self(Mutex::new(Some(send)))), receive)
    }

    fn open(&self) {
        self.0.lock().unwrap().take().unwrap().send(()).unwrap();
    }
}

common::with_workers! {
    /// As many roots as there are permits, each always ready and with a task on its own P, and a
    /// task that any worker may run: it does run (L4).
    fn roots_that_are_always_ready_leave_a_permit_to_others(workers: usize) {
        let runtime = runtime(workers);
        let (busy, over) = (Arc::new(Count::new()), Arc::new(AtomicBool::new(false)));
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let (busy, over) = (busy.clone(), over.clone());
                    runtime.block_on(async move {
                        let spins = over.clone();
                        let child = task::spawn(async move {
                            busy.add();
                            while !spins.load(SeqCst) {
                                task::yield_now().await;
                            }
                        });
                        while !over.load(SeqCst) {
                            task::yield_now().await;
                        }
                        child.await.unwrap();
                    });
                });
            }
            busy.wait_for(workers);
            let ends = over.clone();
            runtime.spawn(async move { ends.store(true, SeqCst) });
        });
    }

    /// Thousands of others' tasks, from the global queue and from other workers' queues, while the
    /// thread waits and while it runs its own tasks.
    fn no_stranger_runs_on_it(workers: usize) {
        let runtime = runtime(workers);
        let (wrong, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(Count::new()));
        let handle = runtime.handle().clone();
        let stop = Arc::new(AtomicBool::new(false));
        let feeder = {
            let (wrong, ran, stop) = (wrong.clone(), ran.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let (wrong, counted) = (wrong.clone(), ran.clone());
                    let stranger = handle.spawn(async move {
                        let children: Vec<_> = (0..5).map(|_| {
                            let (wrong, counted) = (wrong.clone(), counted.clone());
                            ws_executor::spawn(async move {
                                task::yield_now().await;
                                wrong.fetch_add(usize::from(!on_a_worker()), SeqCst);
                                counted.add();
                            })
                        }).collect();
                        for child in children {
                            child.await.unwrap();
                        }
                        wrong.fetch_add(usize::from(!on_a_worker()), SeqCst);
                    });
                    while !stranger.is_finished() && !stop.load(Relaxed) {
                        thread::yield_now();
                    }
                }
            })
        };
        for round in 0..50 {
            runtime.block_on(async {
                for _ in 0..10 {
                    assert_eq!(ws_executor::spawn(async move {
                        task::yield_now().await;
                        round
                    }).await.unwrap(), round);
                }
            });
            let seen = ran.get();
            let (gate, open) = AsyncGate::new();
            thread::scope(|scope| {
                scope.spawn(|| {
                    // Tasks of others run all the while that it waits.
                    ran.wait_for(seen + 5);
                    gate.open();
                });
                runtime.block_on(open).unwrap();
            });
        }
        stop.store(true, Relaxed);
        feeder.join().unwrap();
        assert_eq!(wrong.load(SeqCst), 0, "a stranger's task ran on a thread in block_on");
    }

    /// What it spawned and left behind goes on elsewhere.
    fn what_it_leaves_behind_goes_on(workers: usize) {
        let runtime = runtime(workers);
        let done = Arc::new(Count::new());
        for n in 1..=100 {
            let counted = done.clone();
            runtime.block_on(async move {
                for _ in 0..3 {
                    let counted = counted.clone();
                    drop(ws_executor::spawn(async move {
                        task::yield_now().await;
                        counted.add();
                    }));
                }
            });
            done.wait_for(3 * n);
        }
    }

    fn inside_a_task(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let tasks: Vec<_> = (0..4 * workers).map(|n| {
            let handle = handle.clone();
            // Every worker is in such a task at once: the permits go on to others.
            runtime.spawn(async move {
                let inner = handle.clone();
                handle.block_on(async move {
                    let inner = inner.clone();
                    ws_executor::spawn(async move {
                        task::yield_now().await;
                        inner.block_on(async { ws_executor::spawn(async move { n }).await.unwrap() })
                    }).await.unwrap()
                })
            })
        }).collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap(), n);
        }
    }

    fn inside_block_on_and_run(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        runtime.block_on(async {
            assert_eq!(handle.block_on(ws_executor::spawn(async { 5 })).unwrap(), 5);
            assert_eq!(ws_executor::spawn(async { 6 }).await.unwrap(), 6);
        });
        runtime.run_local(async move {
            assert_eq!(handle.block_on(ws_executor::spawn(async { 5 })).unwrap(), 5);
            let not_send = Rc::new(6);
            assert_eq!(ws_executor::spawn(async { 6 }).await.unwrap(), *not_send);
        });
    }

    /// All permits are held by tasks that do not come back before the call has returned.
    fn while_all_permits_are_taken(workers: usize) {
        let runtime = runtime(workers);
        let (gate, stuck) = common::take_all_permits(&runtime, workers);
        assert_eq!(runtime.block_on(async { 5 }), 5);
        runtime.block_on(async { task::yield_now().await });
        let (woken, open) = AsyncGate::new();
        thread::scope(|scope| {
            scope.spawn(|| woken.open());
            runtime.block_on(open).unwrap();
        });
        runtime.block_on(async {
            ws_executor::time::sleep(std::time::Duration::from_millis(1)).await;
        });
        gate.open();
        for task in stuck {
            runtime.block_on(task).unwrap();
        }
    }

    fn a_future_that_is_not_send(workers: usize) {
        let runtime = runtime(workers);
        let sum = Rc::new(Cell::new(0));
        let local = [1, 2, 3];
        let borrowed = runtime.block_on(async {
            for n in &local {
                let n = *n;
                sum.set(sum.get() + ws_executor::spawn(async move { n }).await.unwrap());
                task::yield_now().await;
            }
            &local[1]
        });
        assert_eq!((sum.get(), *borrowed), (6, 2));
    }

    fn from_many_foreign_threads(workers: usize) {
        let runtime = runtime(workers);
        thread::scope(|scope| {
            for n in 0..32 {
                let runtime = &runtime;
                scope.spawn(move || {
                    for m in 0..50 {
                        let answer = runtime.block_on(async move {
                            let (send, receive) = oneshot::channel();
                            let task = ws_executor::spawn(async move {
                                task::yield_now().await;
                                send.send(n).unwrap();
                                m
                            });
                            (receive.await.unwrap(), task.await.unwrap())
                        });
                        assert_eq!(answer, (n, m));
                    }
                });
            }
        });
        // Once the workers sleep, nothing is left: a lost permit would be missing for ever.
        loop {
            let metrics = runtime.handle().metrics();
            if metrics.live_tasks == 0 && metrics.free_permits == workers {
                break;
            }
            thread::yield_now();
        }
    }

    /// More of them at once than there can be Ps: the last ones poll their roots without.
    fn more_threads_than_processors(workers: usize) {
        let builder = ws_executor::runtime::Builder::new().workers(workers);
        let runtime = builder.max_threads(workers + 1).build().unwrap();
        let threads = 2 * (workers + 1) + 8;
        let waiting = Arc::new(Count::new());
        let gates: Vec<_> = (0..threads).map(|_| AsyncGate::new()).collect();
        thread::scope(|scope| {
            let mut open = Vec::new();
            for (gate, receive) in gates {
                open.push(gate);
                let (runtime, waiting) = (&runtime, waiting.clone());
                scope.spawn(move || {
                    runtime.block_on(async {
                        let child = ws_executor::spawn(async { 5 });
                        task::yield_now().await;
                        waiting.add();
                        receive.await.unwrap();
                        assert_eq!(child.await.unwrap(), 5);
                    });
                });
            }
            waiting.wait_for(threads);
            open.iter().for_each(|gate| gate.open());
        });
        assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
    }

    /// Fails if the root's first poll is no turn of its (`Worker::root_has_its_turn`).
    fn the_first_yield_lets_others_have_a_turn(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..10 {
            runtime.block_on(async {
                let pinned = task::spawn_local(async {});
                task::yield_now().await;
                assert!(pinned.is_finished());
            });
        }
        // Others may have taken it, if there are any.
        if workers == 1 {
            runtime.block_on(async {
                let child = ws_executor::spawn(async {});
                task::yield_now().await;
                assert!(child.is_finished());
            });
        }
    }

    /// The context is that of the runtime meanwhile, and nothing is left of it afterwards.
    fn the_context_is_a_stack(workers: usize) {
        let runtime = runtime(workers);
        assert!(Handle::try_current().is_err());
        runtime.block_on(async { assert!(Handle::try_current().is_ok()) });
        assert!(Handle::try_current().is_err());
        let caught = std::panic::catch_unwind(|| drop(ws_executor::spawn(async {})));
        assert!(caught.is_err(), "spawned without a runtime");
    }
}
