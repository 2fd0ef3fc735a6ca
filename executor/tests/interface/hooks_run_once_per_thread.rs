//! The hooks of the builder: `on_thread_start` runs once on each thread of the runtime, before its
//! first task, and `on_thread_stop` once after its last; so they do on a thread in `block_on` or
//! `Runtime::run`, once a call. Each park has its unpark, also that of a root that waits. A hook
//! that panics harms nobody, and no lock of the runtime is held in one (S6, S8, S9).
//!
//! It fails when `call_start` stands in the worker's loop instead of before it, `call_stop` before
//! `clear_away`, a hook is called without its catch, and where `block_on` or `wait_for_root` calls
//! none.

use crate::common;

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, ThreadId},
    time::Duration,
};

use common::{Count, Gate, listen_to_panics};
use ws_executor::runtime::{Builder, Handle, Runtime, Sysmon};

#[derive(Default)]
struct Seen {
    started: Mutex<Vec<ThreadId>>,
    stopped: Mutex<Vec<ThreadId>>,
    parked: AtomicUsize,
    unparked: AtomicUsize,
}

thread_local! {
    static STARTED: Cell<bool> = const { Cell::new(false) };
    static PARKED: Cell<bool> = const { Cell::new(false) };
}

fn watched(workers: usize) -> (Builder, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let (a, b, c, d) = (seen.clone(), seen.clone(), seen.clone(), seen.clone());
    let builder = Builder::new()
        .workers(workers)
        .shutdown_grace(common::GRACE)
        .on_thread_start(move || {
            STARTED.set(true);
            a.started.lock().unwrap().push(thread::current().id());
        })
        .on_thread_stop(move || {
            STARTED.set(false);
            b.stopped.lock().unwrap().push(thread::current().id());
        })
        .on_thread_park(move || {
            assert!(!PARKED.replace(true), "parked twice");
            c.parked.fetch_add(1, SeqCst);
        })
        .on_thread_unpark(move || {
            assert!(PARKED.replace(false), "unparked without a park");
            d.unparked.fetch_add(1, SeqCst);
        });
    (builder, seen)
}

common::with_workers! {
    fn start_before_the_first_task_and_stop_after_the_last(workers: usize) {
        let (builder, seen) = watched(workers);
        let runtime = builder.build().unwrap();
        assert!(seen.started.lock().unwrap().is_empty(), "a thread without work");
        let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
        let tasks: Vec<_> = (0..workers).map(|_| {
            let (gate, begun) = (gate.clone(), begun.clone());
            runtime.spawn(async move {
                assert!(STARTED.get(), "a task before the start hook, or after the stop hook");
                begun.add();
                gate.pass();
            })
        }).collect();
        begun.wait_for(workers);
        gate.open();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        let on_drop = runtime.spawn(async {
            let _last = common::OnDrop(|| assert!(STARTED.get() || !common::on_a_worker()));
            std::future::pending::<()>().await;
        });
        drop(runtime);
        assert!(on_drop.is_finished());
        let own = thread::current().id();
        let of_the_runtime = |seen: &Mutex<Vec<ThreadId>>| {
            let mut threads = seen.lock().unwrap().clone();
            threads.retain(|id| *id != own);
            threads
        };
        let mut started = of_the_runtime(&seen.started);
        let mut stopped = of_the_runtime(&seen.stopped);
        assert!(started.len() >= workers, "as many ran at once");
        started.sort_by_key(|id| format!("{id:?}"));
        stopped.sort_by_key(|id| format!("{id:?}"));
        assert_eq!(started, stopped, "each thread starts once and stops once");
        started.dedup();
        assert_eq!(started.len(), stopped.len(), "once per thread");
        assert_eq!(seen.parked.load(SeqCst), seen.unparked.load(SeqCst));
    }

    /// A task that is pinned to a thread is dropped before that thread's stop hook, also if the
    /// runtime ends so abruptly that the thread drops it on its way out.
    fn stop_comes_after_the_drop_of_what_is_pinned(workers: usize) {
        let (builder, _) = watched(workers);
        let runtime = builder.sysmon(Sysmon::Off).build().unwrap();
        let (send, dropped) = mpsc::channel();
        let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
        let _entered = runtime.enter();
        let polled = begun.clone();
        let pinned = ws_executor::spawn_pinned(move || async move {
            let _last = common::OnDrop(move || send.send(STARTED.get()).unwrap());
            polled.add();
            std::future::pending::<()>().await;
        });
        begun.wait_for(1);
        // All threads are in a poll until the end has come.
        for _ in 0..workers {
            let (gate, begun) = (gate.clone(), begun.clone());
            drop(runtime.spawn(async move {
                begun.add();
                gate.pass();
            }));
        }
        begun.wait_for(1 + workers);
        runtime.shutdown_timeout(Duration::ZERO);
        gate.open();
        assert!(dropped.recv().unwrap(), "dropped after the stop hook");
        drop(pinned);
    }

    fn also_on_a_thread_that_waits_once_a_call(workers: usize) {
        let (builder, seen) = watched(workers);
        let runtime = builder.build().unwrap();
        let own = thread::current().id();
        let calls = |seen: &Mutex<Vec<ThreadId>>| {
            seen.lock().unwrap().iter().filter(|id| **id == own).count()
        };
        let root = || async {
            assert!(STARTED.get(), "the root is before the start hook");
            let pinned = ws_executor::spawn_local(async { assert!(STARTED.get()) });
            pinned.await.unwrap();
        };
        runtime.block_on(root());
        assert_eq!((calls(&seen.started), calls(&seen.stopped)), (1, 1));
        runtime.block_on(async {
            // A call in a call has none.
            runtime.block_on(async {});
            assert_eq!((calls(&seen.started), calls(&seen.stopped)), (2, 1));
        });
        let panics = || runtime.block_on(async { std::panic::resume_unwind(Box::new(())) });
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!((calls(&seen.started), calls(&seen.stopped)), (3, 3));
        runtime.run_local(root());
        assert_eq!((calls(&seen.started), calls(&seen.stopped)), (4, 4));
    }

    fn also_on_the_thread_of_main(workers: usize) {
        let (builder, seen) = watched(workers);
        builder.build().unwrap().run(async {
            assert!(STARTED.get(), "the root is before the start hook");
            ws_executor::spawn(async { assert!(STARTED.get()) }).await.unwrap();
        });
        let own = thread::current().id();
        assert!(seen.started.lock().unwrap().contains(&own));
        assert!(seen.stopped.lock().unwrap().contains(&own));
    }

    /// What wakes it comes from another thread, and it waits for no timer.
    fn a_root_that_sleeps_parks(workers: usize) {
        let (builder, seen) = watched(workers);
        let runtime = builder.build().unwrap();
        let (send, receive) = futures::channel::oneshot::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                while seen.parked.load(SeqCst) == 0 {
                    thread::yield_now();
                }
                send.send(()).unwrap();
            });
            runtime.block_on(receive).unwrap();
        });
        drop(runtime);
        assert_eq!(seen.parked.load(SeqCst), seen.unparked.load(SeqCst));
    }

    /// A hook may wait for the runtime whose hook it is.
    fn a_hook_may_call_block_on(workers: usize) {
        let cell = Arc::new(Mutex::new(None::<Handle>));
        let hooks = Arc::new(AtomicUsize::new(0));
        let (own, ran) = (cell.clone(), hooks.clone());
        let builder = Builder::new().workers(workers).shutdown_grace(common::GRACE);
        let runtime = builder
            .on_thread_start(move || {
                let handle = own.lock().unwrap().clone().unwrap();
                handle.block_on(async {});
                ran.fetch_add(1, SeqCst);
            })
            .build()
            .unwrap();
        *cell.lock().unwrap() = Some(runtime.handle().clone());
        runtime.block_on(runtime.spawn(async {})).unwrap();
        assert!(hooks.load(SeqCst) > 0);
        drop(runtime);
        let handle = cell.lock().unwrap().take();
        drop(handle);
    }

    fn a_hook_that_panics_harms_nobody(workers: usize) {
        listen_to_panics();
        let runtime = Builder::new()
            .workers(workers)
            .on_thread_start(|| panic!("expected: start hook"))
            .on_thread_stop(|| panic!("expected: stop hook"))
            .on_thread_park(|| panic!("expected: park hook"))
            .on_thread_unpark(|| panic!("expected: unpark hook"))
            .build()
            .unwrap();
        for _ in 0..100 {
            assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
        }
    }

    /// A thread that drops a runtime in a hook of that runtime is one of the threads that the drop
    /// would wait for.
    fn a_runtime_may_be_dropped_in_its_own_hook(workers: usize) {
        for at_the_start in [true, false] {
            let cell = Arc::new(Mutex::new(None::<Runtime>));
            let dropped = Arc::new(Count::new());
            let hook = {
                let (cell, dropped) = (cell.clone(), dropped.clone());
                move || {
                    let runtime = cell.lock().unwrap().take();
                    if runtime.is_some() {
                        drop(runtime);
                        dropped.add();
                    }
                }
            };
            let builder = Builder::new()
                .workers(workers)
                .keep_alive(Duration::from_millis(1))
                .shutdown_grace(common::GRACE);
            let builder = if at_the_start {
                builder.on_thread_start(hook)
            } else {
                builder.on_thread_stop(hook)
            };
            let runtime = builder.build().unwrap();
            let handle = runtime.handle().clone();
            *cell.lock().unwrap() = Some(runtime);
            if at_the_start {
                drop(handle.spawn(async {}));
            } else {
                // Two threads: one may wait in the netpoll for good, and the other ends.
                let gate = Arc::new(Gate::default());
                let opens = gate.clone();
                drop(handle.spawn(async move { ws_executor::block_in_place(|| gate.pass()) }));
                drop(handle.spawn(async move { opens.open() }));
            }
            dropped.wait_for(1);
        }
    }

    /// A hook may use the runtime: no lock is held.
    fn a_hook_may_call_into_the_runtime(workers: usize) {
        let cell = Arc::new(Mutex::new(None::<Handle>));
        let ran = Arc::new(Count::new());
        let call = {
            let (cell, ran) = (cell.clone(), ran.clone());
            move || {
                let handle = cell.lock().unwrap().clone();
                if let Some(handle) = handle
                    && ran.get() < 1000
                {
                    let ran = ran.clone();
                    drop(handle.spawn(async move { ran.add() }));
                    let _ = handle.metrics();
                }
            }
        };
        let runtime = Builder::new()
            .workers(workers)
            .on_thread_start(call.clone())
            .on_thread_stop(call.clone())
            .on_thread_park(call.clone())
            .on_thread_unpark(call)
            .shutdown_grace(common::GRACE)
            .build()
            .unwrap();
        *cell.lock().unwrap() = Some(runtime.handle().clone());
        for _ in 0..100 {
            assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
        }
        ran.wait_for(1);
        drop(runtime);
        // The hooks keep a handle, which keeps the hooks.
        let handle = cell.lock().unwrap().take();
        drop(handle);
    }
}
