//! I7: a pinned (`!Send`) task is only ever polled and dropped on its own thread, whoever wakes it;
//! those of a `block_on` are dropped when it returns, on that thread. A busy runtime does not
//! starve them.
//!
//! It fails when `push_foreign` in `sched/inject.rs` puts a pinned task into the global queue, and
//! (starvation) when neither a worker's 61st tick nor the monitor looks at the threads that want a
//! permit.

use crate::common;

use std::{
    cell::Cell,
    future::{pending, poll_fn},
    panic::catch_unwind,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Poll, Waker},
    thread::{self, ThreadId},
};

use common::{Count, OnDrop, runtime};
use futures::task::{LocalSpawn, LocalSpawnExt, Spawn, SpawnExt};
use ws_executor::{runtime::Runtime, task};

/// Not `Send`, and checks that it never changes its thread.
struct Here {
    id: ThreadId,
    _not_send: Rc<()>,
    moved: Arc<AtomicUsize>,
}

impl Here {
    fn new(moved: &Arc<AtomicUsize>) -> Self {
        Self {
            id: thread::current().id(),
            _not_send: Rc::new(()),
            moved: moved.clone(),
        }
    }

    fn check(&self) {
        if thread::current().id() != self.id {
            self.moved.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.check();
    }
}

/// Wakers that foreign threads use.
#[derive(Default)]
struct Wakers(Mutex<Vec<Waker>>);

/// Pending `times` times, woken by whoever reads `wakers`.
fn woken_by_others(wakers: &Arc<Wakers>, times: usize) -> impl Future<Output = ()> + use<> {
    let wakers = wakers.clone();
    let mut left = times;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        wakers.0.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    })
}

/// Runs `body` while two foreign threads wake whatever waits.
fn while_others_wake<R>(wakers: &Arc<Wakers>, body: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let waker = wakers.0.lock().unwrap().pop();
                    match waker {
                        Some(waker) => waker.wake(),
                        None => thread::yield_now(),
                    }
                }
            });
        }
        let _stop = OnDrop(|| stop.store(true, Relaxed));
        body()
    })
}

/// Keeps every worker busy with tasks that are always ready.
fn busy(runtime: &Runtime, workers: usize) -> (Arc<AtomicBool>, Vec<task::JoinHandle<()>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Count::new());
    let tasks = (0..10 * workers)
        .map(|_| {
            let (stop, begun) = (stop.clone(), begun.clone());
            runtime.spawn(async move {
                begun.add();
                while !stop.load(Relaxed) {
                    task::yield_now().await;
                }
            })
        })
        .collect();
    begun.wait_for(10 * workers);
    (stop, tasks)
}

common::with_workers! {
    fn on_workers_woken_from_foreign_threads(workers: usize) {
        let runtime = runtime(workers);
        let (moved, wakers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Wakers::default()));
        while_others_wake(&wakers, || {
            let tasks: Vec<_> = (0..8 * workers).map(|_| {
                let (moved, wakers) = (moved.clone(), wakers.clone());
                runtime.spawn(async move {
                    let inside = moved.clone();
                    let pinned = ws_executor::spawn_local(async move {
                        let here = Here::new(&inside);
                        for _ in 0..20 {
                            woken_by_others(&wakers, 1).await;
                            here.check();
                            task::yield_now().await;
                            here.check();
                        }
                    });
                    pinned.await.unwrap();
                })
            }).collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
        });
        assert_eq!(moved.load(SeqCst), 0);
    }

    fn in_block_on_woken_from_foreign_threads(workers: usize) {
        let runtime = runtime(workers);
        let (moved, wakers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Wakers::default()));
        while_others_wake(&wakers, || {
            runtime.block_on(async {
                let sum = Rc::new(Cell::new(0));
                let tasks: Vec<_> = (0..20).map(|_| {
                    let (moved, wakers, sum) = (moved.clone(), wakers.clone(), sum.clone());
                    ws_executor::spawn_local(async move {
                        let here = Here::new(&moved);
                        for _ in 0..20 {
                            woken_by_others(&wakers, 1).await;
                            here.check();
                            sum.set(sum.get() + 1);
                        }
                    })
                }).collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!(sum.get(), 400);
            });
        });
        assert_eq!(moved.load(SeqCst), 0);
    }

    /// `spawn_pinned` goes to a worker, not to the thread in `block_on`, which would cancel it at
    /// its end.
    fn spawn_pinned_outlives_its_block_on(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..20 {
            let begun = Arc::new(AtomicBool::new(false));
            let (send, receive) = futures::channel::oneshot::channel();
            let (handle,) = runtime.block_on(async {
                let begins = begun.clone();
                let handle = ws_executor::spawn_pinned(move || async move {
                    begins.store(true, SeqCst);
                    receive.await.unwrap()
                });
                while !begun.load(SeqCst) {
                    task::yield_now().await;
                }
                (handle,)
            });
            send.send(5).unwrap();
            assert_eq!(runtime.block_on(handle).unwrap(), 5);
        }
    }

    /// Woken by tasks on all workers, through channels.
    fn woken_by_tasks(workers: usize) {
        let runtime = runtime(workers);
        let moved = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..50).map(|n| {
                let moved = moved.clone();
                let (send, receive) = futures::channel::oneshot::channel();
                drop(ws_executor::spawn(async move {
                    task::yield_now().await;
                    send.send(n).unwrap();
                }));
                ws_executor::spawn_pinned(move || async move {
                    let here = Here::new(&moved);
                    let got = receive.await.unwrap();
                    here.check();
                    got
                })
            }).collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), n);
            }
        });
        assert_eq!(moved.load(SeqCst), 0);
    }

    /// When `block_on` returns, what is pinned to it is gone, even what waits for ever.
    fn dropped_when_block_on_returns(workers: usize) {
        let runtime = runtime(workers);
        for how in 0..4u32 {
            let (moved, dropped) = (Arc::new(AtomicUsize::new(0)), Rc::new(Cell::new(0)));
            let wakers = Arc::new(Wakers::default());
            let handles = runtime.block_on(async {
                let handles: Vec<_> = (0..10).map(|_| {
                    let (moved, dropped) = (moved.clone(), dropped.clone());
                    let wakers = wakers.clone();
                    let here = Here::new(&moved);
                    let count = OnDrop(move || dropped.set(dropped.get() + 1));
                    ws_executor::spawn_local(async move {
                        let _own = (here, count);
                        match how {
                            0 => pending().await,
                            1 => loop { task::yield_now().await },
                            2 => woken_by_others(&wakers, 1).await,
                            _ => ws_executor::time::sleep(std::time::Duration::MAX).await,
                        }
                    })
                }).collect();
                // The last ones are never polled, and those before them wait.
                for _ in 0..10 * (3 - how) {
                    task::yield_now().await;
                }
                handles
            });
            assert_eq!(dropped.get(), 10, "how {how}");
            assert_eq!(moved.load(SeqCst), 0);
            for waker in wakers.0.lock().unwrap().drain(..) {
                waker.wake();
            }
            for handle in handles {
                assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
            }
        }
    }

    /// A worker's pinned tasks are dropped on that worker when the runtime ends.
    fn dropped_at_shutdown_on_their_threads(workers: usize) {
        let runtime = runtime(workers);
        let moved = Arc::new(AtomicUsize::new(0));
        let (parked, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
        for _ in 0..20 * workers {
            let (moved, parked, dropped) = (moved.clone(), parked.clone(), dropped.clone());
            drop(runtime.spawn(async move {
                drop(ws_executor::spawn_local(async move {
                    let _here = Here::new(&moved);
                    let _count = OnDrop(move || dropped.add());
                    parked.add();
                    pending::<()>().await;
                }));
            }));
        }
        parked.wait_for(20 * workers);
        drop(runtime);
        assert_eq!(dropped.get(), 20 * workers);
        assert_eq!(moved.load(SeqCst), 0, "dropped on another thread");
    }

    /// A thread in `block_on` finds no permit free, and no worker ever runs dry; its pinned tasks
    /// run.
    fn not_starved_by_a_busy_runtime(workers: usize) {
        let runtime = runtime(workers);
        let (stop, tasks) = busy(&runtime, workers);
        for _ in 0..20 {
            runtime.block_on(async {
                let turns = Rc::new(Cell::new(0));
                let (send, receive) = futures::channel::oneshot::channel();
                let other = ws_executor::spawn_local({
                    let turns = turns.clone();
                    async move {
                        receive.await.unwrap();
                        turns.set(turns.get() + 1);
                    }
                });
                let local = ws_executor::spawn_local({
                    let turns = turns.clone();
                    async move {
                        for _ in 0..10 {
                            turns.set(turns.get() + 1);
                            task::yield_now().await;
                        }
                        send.send(()).unwrap();
                    }
                });
                local.await.unwrap();
                other.await.unwrap();
                assert_eq!(turns.get(), 11);
            });
        }
        stop.store(true, Relaxed);
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    /// Pinned to workers, beside tasks that are always ready; and these go on as well.
    fn not_starved_on_a_worker_and_not_starving(workers: usize) {
        let runtime = runtime(workers);
        let (stop, tasks) = busy(&runtime, workers);
        let pinned = Arc::new(Count::new());
        for _ in 0..workers {
            let (stop, pinned) = (stop.clone(), pinned.clone());
            drop(runtime.spawn(async move {
                let _own = Rc::new(());
                drop(ws_executor::spawn_local(async move {
                    while !stop.load(Relaxed) {
                        pinned.add();
                        task::yield_now().await;
                    }
                }));
            }));
        }
        pinned.wait_for(1000);
        // A plain task still gets its turn beside the pinned ones.
        runtime.block_on(runtime.spawn(async { task::yield_now().await })).unwrap();
        stop.store(true, Relaxed);
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    /// futures' own trait for it.
    fn through_local_spawn(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        assert!(handle.spawn_local(async {}).is_err(), "this thread is no worker");
        assert!(handle.status().is_ok() && handle.status_local().is_err());
        runtime.block_on(async {
            assert!(handle.status_local().is_ok());
            let turns = Rc::new(Cell::new(0));
            let counted = turns.clone();
            let (send, receive) = futures::channel::oneshot::channel();
            handle.spawn_local(async move {
                counted.set(counted.get() + 1);
                send.send(()).unwrap();
            }).unwrap();
            receive.await.unwrap();
            assert_eq!(turns.get(), 1);
            assert_eq!(handle.spawn_with_handle(async { 5 }).unwrap().await, 5);
        });
        // Inside another runtime's `block_on` this thread is that one's.
        let other = common::runtime(1);
        other.block_on(async {
            assert!(handle.status_local().is_err() && handle.spawn_local(async {}).is_err());
        });
        drop(runtime);
        assert!(handle.status().is_err() && handle.status_local().is_err());
        assert!(SpawnExt::spawn(&handle, async {}).is_err());
    }

    /// A thread that can have no pinned task is told which of two reasons there are.
    fn where_there_can_be_none_it_says_why(workers: usize) {
        let said = || {
            let panic = catch_unwind(|| drop(ws_executor::spawn_local(async {}))).unwrap_err();
            *panic.downcast::<&'static str>().unwrap()
        };
        assert!(said().contains("is no worker"), "{}", said());
        let (runtime, other) = (runtime(workers), common::runtime(1));
        other.block_on(async {
            let _entered = runtime.handle().enter();
            assert!(said().contains("has no P"), "{}", said());
        });
    }
}
