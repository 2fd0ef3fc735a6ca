//! Runtimes, where tokio's own tests do not look: their end, hooks, names, and what a join costs.

use std::{
    cell::Cell,
    collections::HashMap,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier, Mutex, Once,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, LocalRuntime, Runtime},
    task::{self, JoinHandle, JoinSet, LocalSet},
    time::sleep,
};

fn both() -> [Runtime; 2] {
    [Builder::new_multi_thread(), Builder::new_current_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().unwrap())
}

// Fails (it never ends) if timers and sockets work for as long as a blocking call takes.
#[test]
fn the_end_waits_for_no_timer_and_no_socket() {
    for runtime in both() {
        let (began, begins) = mpsc::channel();
        let (handle, told) = (runtime.handle().clone(), began.clone());
        let sleeps = runtime.spawn_blocking(move || {
            told.send(()).unwrap();
            handle.block_on(sleep(Duration::from_secs(3600)));
        });
        let (handle, told) = (runtime.handle().clone(), began);
        let accepts = runtime.spawn_blocking(move || {
            handle.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                told.send(()).unwrap();
                listener.accept().await.map(drop)
            })
        });
        begins.recv().unwrap();
        begins.recv().unwrap();
        drop(runtime);
        assert!(now(sleeps).unwrap_err().is_panic());
        let error = now(accepts).unwrap().unwrap_err();
        assert!(tokio::runtime::is_rt_shutdown_err(&error), "{error}");
    }
}

/// What a task that has ended gives.
fn now<T>(mut handle: JoinHandle<T>) -> Result<T, task::JoinError> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(&mut handle).poll(&mut cx) {
        Poll::Ready(joined) => joined,
        Poll::Pending => panic!("it has not ended"),
    }
}

// Fails if a join takes from another budget than the rest.
#[test]
fn a_join_takes_from_the_budget_of_all() {
    for runtime in both() {
        let task = runtime.spawn(async {
            let mut handles: Vec<_> = (0..300).map(|n| tokio::spawn(async move { n })).collect();
            while !handles.iter().all(JoinHandle::is_finished) {
                task::yield_now().await;
            }
            let mut cx = Context::from_waker(Waker::noop());
            for handle in handles.drain(..100) {
                let mut joins = std::pin::pin!(task::unconstrained(handle));
                assert!(joins.as_mut().poll(&mut cx).is_ready());
            }
            for handle in handles.drain(..127) {
                assert!(std::pin::pin!(handle).poll(&mut cx).is_ready());
            }
            assert!(!task::coop::has_budget_remaining());
            assert!(std::pin::pin!(&mut handles[0]).poll(&mut cx).is_pending());
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn hooks_are_those_of_the_runtimes_own_threads() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let hook = || {
        let calls = calls.clone();
        move || {
            let current = Handle::try_current().is_ok();
            calls
                .lock()
                .unwrap()
                .push((thread::current().id(), current));
        }
    };
    for mut builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
        let runtime = builder
            .worker_threads(1)
            .on_thread_start(hook())
            .on_thread_stop(hook())
            .on_thread_park(hook())
            .enable_all()
            .build()
            .unwrap();
        let is_multi = runtime.metrics().num_workers() == 1 && {
            runtime.handle().runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread
        };
        runtime.block_on(async {
            tokio::spawn(async {}).await.unwrap();
            if is_multi {
                sleep(Duration::from_millis(1)).await;
            }
            task::spawn_blocking(|| ()).await.unwrap();
        });
        drop(runtime);
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        let own = thread::current().id();
        if is_multi {
            assert!(calls.iter().all(|(thread, _)| *thread != own), "{calls:?}");
        }
        let elsewhere = calls.iter().filter(|(thread, _)| *thread != own);
        assert!(elsewhere.clone().count() >= 2, "{calls:?}");
        assert!(elsewhere.clone().all(|(_, current)| *current), "{calls:?}");
    }
}

#[test]
fn each_thread_has_the_name_that_it_was_given() {
    let names = AtomicUsize::new(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name_fn(move || format!("n{}", names.fetch_add(1, SeqCst)))
        .build()
        .unwrap();
    let name = || thread::current().name().unwrap().to_owned();
    let [one, other] = [(); 2].map(|()| {
        let (told, tells) = mpsc::channel();
        let (goes_on, waits) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            told.send(name()).unwrap();
            let _ = waits.recv();
        });
        (tells.recv().unwrap(), goes_on)
    });
    assert_ne!(one.0, other.0);
    assert!(one.0.starts_with('n') && !one.0.contains('-'), "{}", one.0);
    drop((one, other));
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let default = runtime.block_on(runtime.spawn_blocking(name)).unwrap();
    assert_eq!(default, "tokio-rt-worker");
}

// Fails (it never ends) if the panic takes the permit with it.
#[test]
fn a_name_that_cannot_be_had_keeps_no_task_waiting() {
    let refuses: [fn() -> String; 2] = [|| panic!("no name"), || "a\0b".into()];
    for name in refuses {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name_fn(name)
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
    }
}

#[test]
fn what_tokio_has_no_limit_for_is_no_error() {
    let mut builder = Builder::new_multi_thread();
    builder
        .thread_stack_size(16 * 1024)
        .max_blocking_threads(usize::MAX);
    drop(builder.build().unwrap());
    drop(builder.thread_stack_size(4 << 30).build().unwrap());
}

#[test]
fn a_local_runtime_comes_before_a_local_set() {
    let runtime = LocalRuntime::new().unwrap();
    let joined = runtime.block_on(async {
        let set = LocalSet::new();
        let handle = set
            .run_until(poll_fn(|_| {
                Poll::Ready(task::spawn_local(task::yield_now()))
            }))
            .await;
        drop(set);
        handle.await
    });
    joined.unwrap();
}

#[test]
#[should_panic = "dropped out of order"]
fn a_guard_must_not_leave_its_block_on() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let guard = runtime.block_on(async { handle.enter() });
    drop(guard);
}

#[test]
#[should_panic = "dropped out of order"]
fn a_guard_must_not_leave_the_block_on_of_a_handle() {
    let [runtime, _] = both();
    let handle = runtime.handle().clone();
    let _guard = handle.block_on(async { runtime.enter() });
}

#[test]
fn a_runtime_of_ws_keeps_its_id() {
    let runtime = ws_executor::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let handle = Handle::current();
    assert_eq!(handle.id(), handle.id());
}

/// A future of so many bytes.
async fn large<const N: usize>() -> u8 {
    let bytes = std::hint::black_box([1; N]);
    task::yield_now().await;
    std::hint::black_box(bytes)[N - 1]
}

// Fails (it ends the process) if a large future is moved from call to call as it is: tokio puts it
// into a box at once. Tests run on threads with stacks of 2 MiB, as workers do.
#[test]
fn a_large_future_goes_onto_the_heap() {
    const N: usize = 50_000;
    for runtime in both() {
        assert_eq!(runtime.block_on(large::<N>()), 1);
        assert_eq!(runtime.handle().block_on(large::<N>()), 1);
        runtime.block_on(async {
            let mut set = task::JoinSet::new();
            set.spawn(large::<N>());
            set.spawn_on(large::<N>(), &tokio::runtime::Handle::current());
            let local = task::LocalSet::new();
            set.spawn_local_on(large::<N>(), &local);
            let bytes = [1; N];
            set.spawn_blocking(move || std::hint::black_box(bytes)[N - 1]);
            let here = async { task::spawn_local(large::<N>()).await };
            assert_eq!(local.run_until(here).await.unwrap(), 1);
            local.await;
            assert_eq!(set.join_all().await, [1; 4]);
            assert_eq!(tokio::spawn(large::<N>()).await.unwrap(), 1);
        });
    }
    let local = Builder::new_current_thread()
        .build_local(Default::default())
        .unwrap();
    assert_eq!(local.block_on(local.spawn_local(large::<N>())).unwrap(), 1);
}

// Fails (it hangs) if a handle's `block_on` needs something of a runtime whose thread waits for it.
#[test]
fn a_handle_waits_without_its_current_thread_runtime() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let answer = runtime.block_on(async move {
        let other = thread::spawn(move || {
            handle.block_on(async {
                // It takes more units than one poll has: each poll begins with a full budget.
                let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
                for n in 0..1000 {
                    sender.send(n).unwrap();
                }
                let mut sum = 0;
                for _ in 0..1000 {
                    sum += receiver.recv().await.unwrap();
                }
                sum
            })
        });
        other.join().unwrap()
    });
    assert_eq!(answer, 499_500);
}

// Fails if the drop leaves a blocking call behind after a second, or after any time.
#[test]
fn the_drop_waits_for_what_blocks() {
    for runtime in both() {
        let (ended, after) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        runtime.spawn_blocking(move || {
            begun.send(()).unwrap();
            thread::sleep(Duration::from_millis(1500));
            ended.send(()).unwrap();
        });
        begins.recv().unwrap();
        drop(runtime);
        after.try_recv().unwrap();
    }
}

#[test]
fn so_many_calls_block_at_a_time() {
    const MOST: usize = 2;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(MOST);
    let runtime = builder.build().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    // Two at a time there must be, or none of them goes on.
    let pair = Arc::new(std::sync::Barrier::new(MOST));
    let calls: Vec<_> = (0..10 * MOST)
        .map(|_| {
            let (running, pair) = (running.clone(), pair.clone());
            runtime.spawn_blocking(move || {
                let most = running.fetch_add(1, SeqCst) + 1;
                pair.wait();
                thread::yield_now();
                running.fetch_sub(1, SeqCst);
                most
            })
        })
        .collect();
    for call in calls {
        assert!(runtime.block_on(call).unwrap() <= MOST);
    }
}

// Fails (it hangs) if only one of those that wait for their turn to drive is told.
#[test]
fn whoever_is_left_drives_the_tasks() {
    let mut builder = Builder::new_current_thread();
    let runtime = Arc::new(builder.enable_all().build().unwrap());
    let (begun, begins) = mpsc::channel();
    let threads = [(); 4].map(|()| {
        let (runtime, begun) = (runtime.clone(), begun.clone());
        let (end, ends) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                // One of them drives by now, and the others wait for their turn.
                begun.send(()).unwrap();
                ends.await.unwrap();
            });
        });
        (thread, end)
    });
    threads.iter().for_each(|_| begins.recv().unwrap());
    for (thread, end) in threads {
        // It is run by one of those that are left, and the end is told to none of the others.
        drop(runtime.spawn(async { end.send(()).unwrap() }));
        thread.join().unwrap();
    }
}

#[test]
#[should_panic = "timers are disabled"]
fn sockets_bring_no_timers() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async { sleep(Duration::ZERO).await });
}

// Fails (it ends the process) if the size of the stacks does not reach the threads.
#[test]
fn threads_have_the_stack_that_they_were_given() {
    const BYTES: usize = 6 << 20;
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.thread_stack_size(4 * BYTES).build().unwrap();
    let deep = runtime.spawn_blocking(|| std::hint::black_box([1_u8; BYTES])[BYTES - 1]);
    assert_eq!(runtime.block_on(deep).unwrap(), 1);
}

// Fails (it ends the process) if the drop of a runtime panics while its thread unwinds.
#[test]
fn a_runtime_goes_with_a_panic() {
    let [outer, _] = both();
    let task = outer.spawn(async {
        let _inner = Runtime::new().unwrap();
        panic!("on purpose");
    });
    assert!(outer.block_on(task).unwrap_err().is_panic());
}

#[test]
fn the_panic_of_a_task_goes_on_in_join_all() {
    let [runtime, _] = both();
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut set = task::JoinSet::new();
            set.spawn(async { std::panic::panic_any(7_u32) });
            set.join_all().await;
        });
    }));
    assert_eq!(joined.unwrap_err().downcast_ref(), Some(&7_u32));
}

// Fails if the time does not reach the runtime: the thread that idles longer would be the first to
// end.
#[test]
fn an_idle_thread_ends_after_the_time_that_it_was_given() {
    const CALLS: usize = 4;
    let (told, ends) = mpsc::channel();
    let times = [
        ("late", Duration::from_secs(3600)),
        ("soon", Duration::from_millis(1)),
    ];
    let _runtimes = times.map(|(which, keep_alive)| {
        let told = told.clone();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_keep_alive(keep_alive)
            .on_thread_stop(move || _ = told.send(which))
            .build()
            .unwrap();
        // So many threads there must be, more than are needed afterwards.
        let all = Arc::new(Barrier::new(CALLS));
        let calls = [(); CALLS].map(|()| {
            let all = all.clone();
            runtime.spawn_blocking(move || _ = all.wait())
        });
        for call in calls {
            runtime.block_on(call).unwrap();
        }
        runtime
    });
    let first = ends.recv_timeout(Duration::from_secs(60));
    assert_eq!(first.expect("no thread has ended"), "soon");
}

#[test]
fn a_thread_tells_before_and_after_it_sleeps() {
    for mut builder in [Builder::new_multi_thread(), Builder::new_current_thread()] {
        let (told, tells) = mpsc::channel();
        let calls = Arc::new(Mutex::new(HashMap::<_, Vec<_>>::new()));
        let hook = |what| {
            let (calls, told) = (calls.clone(), told.clone());
            move || {
                let mut calls = calls.lock().unwrap();
                calls.entry(thread::current().id()).or_default().push(what);
                // The other side waits for the first one only.
                let _ = told.send(what);
            }
        };
        let runtime = builder
            .worker_threads(1)
            .on_thread_park(hook("sleeps"))
            .on_thread_unpark(hook("woke up"))
            .build()
            .unwrap();
        let (end, ends) = tokio::sync::oneshot::channel();
        let ender = thread::spawn(move || {
            let first = tells.recv_timeout(Duration::from_secs(60));
            assert_eq!(first.expect("no thread sleeps"), "sleeps");
            end.send(()).unwrap();
        });
        runtime.block_on(runtime.spawn(ends)).unwrap().unwrap();
        ender.join().unwrap();
        drop(runtime);
        let calls = calls.lock().unwrap();
        for pair in calls.values().flat_map(|of_thread| of_thread.chunks(2)) {
            assert_eq!(pair, ["sleeps", "woke up"], "{calls:?}");
        }
    }
}

/// The file of the place where it panics.
fn panics_in(f: impl FnOnce()) -> Option<String> {
    thread_local! {
        static FILE: Cell<Option<String>> = const { Cell::new(None) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            FILE.set(info.location().map(|place| place.file().to_owned()));
            others(info);
        }));
    });
    catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    FILE.take()
}

#[test]
fn a_panic_for_want_of_a_runtime_is_at_the_callers_place() {
    let calls: [(&str, fn()); 7] = [
        ("Handle::current", || drop(Handle::current())),
        ("spawn", || drop(tokio::spawn(async {}))),
        ("spawn_blocking", || drop(task::spawn_blocking(|| ()))),
        ("spawn_local", || drop(task::spawn_local(async {}))),
        ("JoinSet::spawn", || _ = JoinSet::new().spawn(async {})),
        ("JoinSet::spawn_blocking", || {
            _ = JoinSet::new().spawn_blocking(|| ())
        }),
        ("JoinSet::spawn_local", || {
            _ = JoinSet::new().spawn_local(async {})
        }),
    ];
    for (name, call) in calls {
        assert_eq!(panics_in(call).as_deref(), Some(file!()), "{name}");
    }
}

#[test]
fn a_task_of_a_local_runtime_on_another_thread_panics_at_the_callers_place() {
    let runtime = LocalRuntime::new().unwrap();
    let handle = runtime.handle().clone();
    let elsewhere = thread::spawn(move || {
        let _entered = handle.enter();
        panics_in(|| drop(task::spawn_local(async {})))
    });
    assert_eq!(elsewhere.join().unwrap().as_deref(), Some(file!()));
}

#[test]
fn tasks_that_nobody_runs_yet_are_counted() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let metrics = runtime.metrics();
    assert_eq!(metrics.global_queue_depth(), 0);
    drop(runtime.spawn(std::future::pending::<()>()));
    let tasks = [(); 3].map(|()| runtime.spawn(async {}));
    assert_eq!(metrics.global_queue_depth(), 4);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(metrics.global_queue_depth(), 0);
    assert_eq!(metrics.num_alive_tasks(), 1);
}

// The future that `block_on` was given wakes itself at each poll.
#[test]
fn so_many_tasks_run_before_the_future_has_its_turn_again() {
    for (given, interval) in [(Some(1), 1), (Some(3), 3), (None, 61)] {
        let mut builder = Builder::new_current_thread();
        if let Some(interval) = given {
            builder.event_interval(interval);
        }
        let runtime = builder.build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..200 {
            let ran = ran.clone();
            runtime.spawn(async move { ran.fetch_add(1, SeqCst) });
        }
        let mut seen = Vec::new();
        runtime.block_on(poll_fn(|cx| {
            seen.push(ran.load(SeqCst));
            cx.waker().wake_by_ref();
            if seen.len() < 3 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        }));
        assert_eq!(seen, [0, interval, 2 * interval]);
    }
}

#[test]
#[should_panic = "event_interval must be greater than 0"]
fn some_task_must_run_before_events_have_their_turn() {
    Builder::new_current_thread().event_interval(0);
}

// Fails if the runtime is refused, or if the number of its threads overflows.
#[test]
fn more_workers_than_there_may_be_are_as_many_as_there_may_be() {
    for workers in [1025, usize::MAX] {
        let runtime = Builder::new_multi_thread().worker_threads(workers).build();
        assert_eq!(runtime.unwrap().metrics().num_workers(), 1024);
    }
}
