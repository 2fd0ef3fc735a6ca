//! S7: the end of a runtime has phases. While it drains, no new task begins, every task is
//! cancelled, and blocking calls that were accepted run; timers still fire. When nothing is left,
//! its threads end and are joined. When the grace is over, the end goes on without the thread that
//! asked for it, whatever a user's destructor does.
//!
//! It fails when `begin_draining` in `permit/phase.rs` cancels blocking calls as well; when
//! `shut_down` in `sched/shutdown.rs` begins with the closing; when it clears away on the thread of
//! its caller; and when it does not join the threads.

use crate::common;

use std::{
    cell::RefCell,
    future::pending,
    panic::catch_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use common::{Count, GRACE, Gate, OnDrop, block_on_elsewhere, on_a_worker, runtime};
use ws_executor::{
    runtime::{Builder, Handle, Runtime, UnhandledPanic},
    time,
};

/// The ways to end a runtime and to wait for that.
const WAYS: [fn(Runtime); 2] = [drop, |runtime| runtime.shutdown_timeout(GRACE)];

const CALLS: usize = 50;
/// Long enough that the end has begun before it is over.
const SHORT: Duration = Duration::from_millis(30);

fn spawn_calls(handle: &Handle, ran: &Arc<Count>) {
    for _ in 0..CALLS {
        let ran = ran.clone();
        drop(handle.spawn_blocking(move || {
            thread::yield_now();
            ran.add();
        }));
    }
}

/// What a thread does that waits for a timer of the runtime.
fn sleeps(handle: &Handle) {
    handle.block_on(async { time::sleep(SHORT).await });
}

common::with_workers! {
    fn calls_that_were_accepted_run(workers: usize) {
        for ends in WAYS {
            let (runtime, ran) = (runtime(workers), Arc::new(Count::new()));
            spawn_calls(runtime.handle(), &ran);
            ends(runtime);
            assert_eq!(ran.get(), CALLS);
        }
    }

    fn calls_of_a_root_run(workers: usize) {
        let (runtime, ran) = (runtime(workers), Arc::new(Count::new()));
        let counted = ran.clone();
        runtime.run(async move { spawn_calls(&Handle::current(), &counted) });
        assert_eq!(ran.get(), CALLS);
        let runtime = common::runtime(workers);
        let counted = ran.clone();
        runtime.run_local(async move { spawn_calls(&Handle::current(), &counted) });
        assert_eq!(ran.get(), 2 * CALLS);
    }

    /// Nobody waits for these, and they run all the same.
    fn calls_run_in_the_background(workers: usize) {
        let (runtime, ran) = (runtime(workers), Arc::new(Count::new()));
        spawn_calls(runtime.handle(), &ran);
        runtime.shutdown_background();
        ran.wait_for(CALLS);
    }

    /// Calls that have to wait for a place: there is one.
    fn calls_that_wait_for_room_run(workers: usize) {
        let builder = Builder::new().workers(workers).max_threads(2 * workers + 1);
        let runtime = builder.shutdown_grace(GRACE).build().unwrap();
        let ran = Arc::new(Count::new());
        spawn_calls(runtime.handle(), &ran);
        drop(runtime);
        assert_eq!(ran.get(), CALLS);
    }

    /// A thread waits for a timer in a call, in a task, and in a block that a task announced.
    fn timers_fire_while_it_drains(workers: usize) {
        for ends in WAYS {
            let (runtime, begun) = (runtime(workers), Arc::new(Count::new()));
            let handle = runtime.handle().clone();
            let waits = || {
                let (handle, begun) = (handle.clone(), begun.clone());
                move || {
                    begun.add();
                    sleeps(&handle);
                    7
                }
            };
            let (in_call, in_task, in_place) = (waits(), waits(), waits());
            let tasks = [
                runtime.handle().spawn_blocking(in_call),
                runtime.spawn(async move { in_task() }),
                runtime.spawn(async move { ws_executor::block_in_place(in_place) }),
            ];
            begun.wait_for(tasks.len());
            ends(runtime);
            for task in tasks {
                assert!(task.is_finished(), "its thread is left");
                assert_eq!(block_on_elsewhere(task).unwrap(), 7);
            }
        }
    }

    /// The timer of a thread that is not the runtime's, while a call of the runtime goes on.
    fn timers_of_others_fire_while_it_drains(workers: usize) {
        let (runtime, gate) = (runtime(workers), Arc::new(Gate::default()));
        let (begun, passes) = (Arc::new(Count::new()), gate.clone());
        let began = begun.clone();
        drop(runtime.handle().spawn_blocking(move || {
            began.add();
            passes.pass();
        }));
        begun.wait_for(1);
        let handle = runtime.handle().clone();
        let other = thread::spawn(move || {
            let _guard = handle.enter();
            let sleep = time::sleep(SHORT);
            begun.add();
            block_on_elsewhere(sleep);
            gate.open();
        });
        drop(runtime);
        other.join().unwrap();
    }

    /// One that waits for good is told in time, so that its thread is out before the grace is over;
    /// or soon afterwards, on a machine that is busy.
    fn one_that_waits_for_a_timer_is_told_of_the_end(workers: usize) {
        for background in [false, true] {
            let builder = Builder::new().workers(workers);
            let runtime = builder.shutdown_grace(SHORT).build().unwrap();
            let (handle, begun) = (runtime.handle().clone(), Arc::new(Count::new()));
            let began = begun.clone();
            let waits = runtime.spawn(async move {
                began.add();
                handle.block_on(async { time::sleep(Duration::from_secs(86_400)).await });
            });
            begun.wait_for(1);
            if background {
                runtime.shutdown_background();
            } else {
                drop(runtime);
            }
            assert!(block_on_elsewhere(waits).unwrap_err().is_panic());
        }
    }

    fn a_destructor_may_wait_for_a_timer(workers: usize) {
        for ends in WAYS {
            let (runtime, begun) = (runtime(workers), Arc::new(Count::new()));
            let (handle, timed_out) = (runtime.handle().clone(), Arc::new(Count::new()));
            let counted = timed_out.clone();
            let last = OnDrop(move || {
                let waits = async { time::timeout(SHORT, pending::<()>()).await };
                assert!(handle.block_on(waits).is_err());
                counted.add();
            });
            let began = begun.clone();
            drop(runtime.spawn(async move {
                let _last = last;
                began.add();
                pending::<()>().await;
            }));
            begun.wait_for(1);
            ends(runtime);
            assert_eq!(timed_out.get(), 1);
        }
    }

    /// Nobody serves a timer any more when the hooks for the end of a thread run.
    fn a_hook_that_waits_for_a_timer_is_told_of_the_end(workers: usize) {
        for ends in [drop, Runtime::shutdown_background] {
            let told = Arc::new(Count::new());
            let handle = Arc::new(std::sync::OnceLock::<Handle>::new());
            let (counted, later) = (told.clone(), handle.clone());
            let runtime = Builder::new()
                .workers(workers)
                .shutdown_grace(GRACE)
                .on_thread_stop(move || {
                    let _entered = later.get().unwrap().enter();
                    // Only the end can end that wait. The hook also runs on the thread of the test.
                    let waits = || block_on_elsewhere(time::sleep(GRACE));
                    if on_a_worker() && catch_unwind(waits).is_err() {
                        counted.add();
                    }
                })
                .build()
                .unwrap();
            handle.set(runtime.handle().clone()).unwrap();
            runtime.block_on(runtime.spawn(async {})).unwrap();
            ends(runtime);
            told.wait_for(1);
        }
    }

    /// A destructor that does not return before the end has, of a task that waits and of one that
    /// was never polled.
    fn a_destructor_does_not_hold_up_who_ends_it(workers: usize) {
        for is_polled in [true, false] {
            let (runtime, gate) = (runtime(workers), Arc::new(Gate::default()));
            let (begun, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
            let (passes, counted) = (gate.clone(), dropped.clone());
            let is_foreign = Arc::new(AtomicBool::new(false));
            let (ender, foreign) = (thread::current().id(), is_foreign.clone());
            let last = OnDrop(move || {
                foreign.store(thread::current().id() != ender, SeqCst);
                passes.pass();
                counted.add();
            });
            let began = begun.clone();
            let waits = async move {
                let _last = last;
                began.add();
                pending::<()>().await;
            };
            if is_polled {
                drop(runtime.spawn(waits));
                begun.wait_for(1);
            } else {
                runtime.block_on(async { drop(ws_executor::spawn(waits)) });
            }
            runtime.shutdown_timeout(SHORT);
            gate.open();
            dropped.wait_for(1);
            assert!(is_foreign.load(SeqCst), "it ran on the thread that ends the runtime");
        }
    }

    /// The thread-locals of its threads are dropped when the drop returns.
    fn threads_are_joined(workers: usize) {
        type Last = OnDrop<Box<dyn FnMut()>>;
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        for _ in 0..10 {
            let (runtime, together) = (runtime(workers), Arc::new(Count::new()));
            let dropped = Arc::new(Count::new());
            let tasks: Vec<_> = (0..workers).map(|_| {
                let (together, dropped) = (together.clone(), dropped.clone());
                runtime.spawn(async move {
                    together.add();
                    together.wait_for(workers);
                    let last: Last = OnDrop(Box::new(move || {
                        for _ in 0..100 { thread::yield_now(); }
                        dropped.add();
                    }));
                    LAST.set(Some(last));
                })
            }).collect();
            for task in tasks {
                block_on_elsewhere(task).unwrap();
            }
            drop(runtime);
            assert_eq!(dropped.get(), workers);
        }
    }

    /// Also where the runtime had begun to end by itself.
    fn threads_are_joined_after_a_panic_that_ends_the_runtime(workers: usize) {
        type Last = OnDrop<Box<dyn FnMut()>>;
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        for _ in 0..3 {
            let builder = Builder::new().workers(workers).unhandled_panic(UnhandledPanic::ShutdownRuntime);
            let runtime = builder.shutdown_grace(GRACE).build().unwrap();
            drop(runtime.spawn(std::future::pending::<()>()));
            let (dropped, told) = (Arc::new(Count::new()), Arc::new(Gate::default()));
            let (drops, tells) = (dropped.clone(), told.clone());
            let task = runtime.spawn(async move {
                let last: Last = OnDrop(Box::new(move || {
                    tells.open();
                    thread::sleep(SHORT * 3);
                    drops.add();
                }));
                LAST.set(Some(last));
                panic!("on purpose");
            });
            assert!(block_on_elsewhere(task).is_err());
            // A thread in the background has begun to join the one that ends.
            told.pass();
            drop(runtime);
            assert_eq!(dropped.get(), 1);
        }
    }

    /// Those that end for want of work are, too.
    fn threads_that_ended_before_are_joined(workers: usize) {
        type Last = OnDrop<Box<dyn FnMut()>>;
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let builder = Builder::new().workers(workers).keep_alive(Duration::from_nanos(1));
        let runtime = builder.shutdown_grace(GRACE).build().unwrap();
        let (set, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
        for _ in 0..20 {
            let (sets, dropped) = (set.clone(), dropped.clone());
            block_on_elsewhere(runtime.spawn(async move {
                LAST.with_borrow_mut(|last| {
                    if last.is_none() {
                        sets.add();
                        *last = Some(OnDrop(Box::new(move || {
                            for _ in 0..100 { thread::yield_now(); }
                            dropped.add();
                        })));
                    }
                });
            })).unwrap();
        }
        drop(runtime);
        assert_eq!(dropped.get(), set.get());
    }

    /// A thread-local has the runtime: the wait for the thread that it is on, and for one that
    /// waits for that, has an end.
    fn a_thread_local_ends_its_own_runtime(workers: usize) {
        type Last = OnDrop<Box<dyn FnMut()>>;
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let builder = Builder::new().workers(workers).keep_alive(Duration::from_nanos(1));
        let runtime = builder.shutdown_grace(SHORT).build().unwrap();
        let handle = runtime.handle().clone();
        let (own, ended) = (Arc::new(Mutex::new(Some(runtime))), Arc::new(Count::new()));
        // Two threads. One of them at most waits in the netpoll for good. The first that ends has
        // the runtime.
        let together = Arc::new(Count::new());
        let calls = [(); 2].map(|()| {
            let (own, together, ended) = (own.clone(), together.clone(), ended.clone());
            handle.spawn_blocking(move || {
                together.add();
                together.wait_for(2);
                LAST.set(Some(OnDrop(Box::new(move || {
                    let own = own.lock().unwrap().take();
                    drop(own);
                    ended.add();
                }))));
            })
        });
        for call in calls {
            block_on_elsewhere(call).unwrap();
        }
        ended.wait_for(2);
        assert!(handle.spawn(async {}).is_finished(), "it goes on");
    }
}
