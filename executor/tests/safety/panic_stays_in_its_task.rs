//! S6: a panic in a task, in poll, in drop of the future, the output or the payload, reaches
//! whoever joins it and nobody else. The worker lives on, and the panic hook has run.
//!
//! It fails when a catch of `cell/raw.rs` is taken out, in `poll` or in `replace_future` or in
//! `drop_quietly`: the worker's thread dies, and the test hangs or sees a second thread start. The
//! payloads that nobody sees are counted: one is left when `quietly` or `Scope::fail` forgets it.

use crate::common;

use std::{
    any::Any,
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use common::{Count, OnDrop, listen_to_log, listen_to_panics, logged, panics_of};
use ws_executor::{
    runtime::{Builder, Clock, Runtime, Sysmon, UnhandledPanic},
    task,
};

/// Panics when it is dropped.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("{}", self.0);
        }
    }
}

/// A runtime that counts its threads.
fn counting(workers: usize) -> (Runtime, Arc<AtomicUsize>) {
    listen_to_panics();
    listen_to_log();
    let started = Arc::new(AtomicUsize::new(0));
    let hook = started.clone();
    // Without the monitor: on a busy machine it may take the permit of a thread that waits for a
    // core, and then another thread is started rightly.
    let builder = Builder::new()
        .workers(workers)
        .sysmon(Sysmon::Off)
        .on_thread_start(move || {
            // Not in a test's own `block_on`.
            hook.fetch_add(usize::from(common::on_a_worker()), SeqCst);
        });
    (builder.build().unwrap(), started)
}

/// The runtime still runs tasks, on the threads that it had: no more than `workers` were ever
/// started.
fn lives_on(runtime: &Runtime, started: &AtomicUsize, workers: usize) {
    let done = Arc::new(Count::new());
    for _ in 0..1000 {
        let done = done.clone();
        runtime.spawn(async move {
            task::yield_now().await;
            done.add();
        });
    }
    done.wait_for(1000);
    assert!(
        started.load(SeqCst) <= workers,
        "a worker died and was replaced"
    );
}

/// Its last clone panics when it is dropped.
fn rude_waker() -> Waker {
    struct Rude(#[expect(dead_code, reason = "dropped")] Bomb);
    impl Wake for Rude {
        fn wake(self: Arc<Self>) {}
    }
    Waker::from(Arc::new(Rude(Bomb("expected: rude drop"))))
}

fn message(error: task::JoinError) -> String {
    assert!(error.is_panic() && !error.is_cancelled());
    let payload = error.into_panic();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&'static str>().unwrap()).to_owned(),
    }
}

common::with_workers! {
    fn in_the_first_poll(workers: usize) {
        let (runtime, started) = counting(workers);
        let before = panics_of("expected: first poll");
        for _ in 0..100 {
            let task = runtime.spawn(async { panic!("expected: first poll") });
            assert_eq!(message(runtime.block_on(task).unwrap_err()), "expected: first poll");
        }
        assert!(panics_of("expected: first poll") >= before + 100, "the hook did not run");
        lives_on(&runtime, &started, workers);
    }

    fn in_a_later_poll_with_neighbours(workers: usize) {
        let (runtime, started) = counting(workers);
        let neighbours: Vec<_> = (0..100).map(|n| runtime.spawn(async move {
            for _ in 0..10 { task::yield_now().await; }
            n
        })).collect();
        let task = runtime.spawn(async {
            for _ in 0..5 { task::yield_now().await; }
            panic!("expected: later poll")
        });
        assert_eq!(message(runtime.block_on(task).unwrap_err()), "expected: later poll");
        for (n, neighbour) in neighbours.into_iter().enumerate() {
            assert_eq!(runtime.block_on(neighbour).unwrap(), n);
        }
        lives_on(&runtime, &started, workers);
    }

    /// The future's destructor panics after it was ready: the panic takes the output's place.
    fn in_the_drop_of_the_future(workers: usize) {
        let (runtime, started) = counting(workers);
        let bomb = Bomb("expected: future's drop");
        let task = runtime.spawn(poll_fn(move |_| {
            let _own = &bomb;
            Poll::Ready(Bomb("expected: an output that panics as well"))
        }));
        let error = runtime.block_on(task).map(|_| ()).unwrap_err();
        assert_eq!(message(error), "expected: future's drop");
        lives_on(&runtime, &started, workers);
    }

    fn in_poll_and_in_the_drop_after_it(workers: usize) {
        let (runtime, started) = counting(workers);
        let bomb = Bomb("expected: drop after poll");
        let task = runtime.spawn(poll_fn(move |_| -> Poll<()> {
            let _own = &bomb;
            panic!("expected: poll before drop")
        }));
        assert_eq!(message(runtime.block_on(task).unwrap_err()), "expected: poll before drop");
        lives_on(&runtime, &started, workers);
    }

    /// The future is dropped while the panic of its poll unwinds, as on a plain thread: its
    /// destructors see that, and one that panics in spite of it is reported.
    fn in_poll_is_seen_by_destructors(workers: usize) {
        let (runtime, started) = counting(workers);
        let seen = Arc::new(AtomicUsize::new(0));
        for rude in [false, true] {
            let seen = seen.clone();
            let guard = OnDrop(move || {
                seen.fetch_add(usize::from(std::thread::panicking()), SeqCst);
                assert!(!rude, "expected: a drop in the middle of a panic");
            });
            let task = runtime.spawn(poll_fn(move |_| -> Poll<()> {
                let _own = &guard;
                panic!("expected: seen by destructors")
            }));
            let error = runtime.block_on(task).unwrap_err();
            assert_eq!(message(error), "expected: seen by destructors");
        }
        assert_eq!(seen.load(SeqCst), 2);
        assert!(!logged(&["ERROR", "the drop of a future that panicked"]).is_empty());
        lives_on(&runtime, &started, workers);
    }

    /// What refers to a runtime may cross a `catch_unwind` as it is.
    fn caught_beside_handles(workers: usize) {
        let (runtime, _) = counting(workers);
        let (task, handle) = (runtime.spawn(async { 5 }), runtime.handle().clone());
        let abort = task.abort_handle();
        let caught = std::panic::catch_unwind(|| {
            abort.is_finished();
            handle.block_on(runtime.spawn(async {})).unwrap();
            panic!("expected: beside {}", task.id());
        });
        assert!(caught.is_err());
        assert_eq!(runtime.block_on(task).unwrap(), 5);
    }

    fn in_the_drop_of_an_aborted_future(workers: usize) {
        let (runtime, started) = counting(workers);
        let made = Arc::new(common::Gate::default());
        let opens = made.clone();
        let task = runtime.spawn(async move {
            let _bomb = Bomb("expected: aborted");
            opens.open();
            pending::<()>().await;
        });
        made.pass();
        task.abort();
        assert_eq!(message(runtime.block_on(task).unwrap_err()), "expected: aborted");
        lives_on(&runtime, &started, workers);
    }

    fn in_the_drop_of_an_output_that_nobody_joins(workers: usize) {
        let (runtime, started) = counting(workers);
        let ended = Arc::new(Count::new());
        // Dropped before the task ends, by its runner: and after it has ended, by the handle.
        let early = ended.clone();
        let gate = Arc::new(common::Gate::default());
        let passed = gate.clone();
        drop(runtime.spawn(async move {
            passed.pass();
            (OnDrop(move || early.add()), Bomb("expected: output"))
        }));
        gate.open();
        ended.wait_for(1);
        let late = ended.clone();
        let task = runtime.spawn(async move {
            (OnDrop(move || late.add()), Bomb("expected: output"))
        });
        while !task.is_finished() {
            std::thread::yield_now();
        }
        drop(task);
        assert_eq!(ended.get(), 2);
        lives_on(&runtime, &started, workers);
    }

    fn in_the_drop_of_a_payload_that_nobody_joins(workers: usize) {
        let (runtime, started) = counting(workers);
        let ended = Arc::new(Count::new());
        for _ in 0..100 {
            let ended = ended.clone();
            drop(runtime.spawn(async move {
                panic_any((OnDrop(move || ended.add()), Bomb("expected: payload")));
            }));
        }
        ended.wait_for(100);
        lives_on(&runtime, &started, workers);
    }

    /// Joined, the payload belongs to the joiner, as it is.
    fn payload_is_handed_over_whole(workers: usize) {
        let (runtime, started) = counting(workers);
        let task = runtime.spawn(async { panic_any(Bomb("expected: handed over")) });
        let payload = runtime.block_on(task).unwrap_err().into_panic();
        let bomb = payload.downcast::<Bomb>().unwrap();
        assert_eq!(bomb.0, "expected: handed over");
        std::mem::forget(*bomb);
        lives_on(&runtime, &started, workers);
    }

    fn in_a_pinned_task(workers: usize) {
        let (runtime, started) = counting(workers);
        runtime.block_on(async {
            let local = ws_executor::spawn_local(async { panic!("expected: local") });
            assert_eq!(message(local.await.unwrap_err()), "expected: local");
            let pinned = ws_executor::spawn_pinned(|| async {
                let _bomb = Bomb("expected: pinned");
                task::yield_now().await;
            });
            assert_eq!(message(pinned.await.unwrap_err()), "expected: pinned");
        });
        lives_on(&runtime, &started, workers);
    }

    /// The waker of a joiner is anybody's code, and runs on the worker.
    fn in_the_wakers_of_others(workers: usize) {
        struct Rude;
        impl std::task::Wake for Rude {
            fn wake(self: Arc<Self>) {
                panic!("expected: rude waker");
            }
        }
        let (runtime, started) = counting(workers);
        let gate = Arc::new(common::Gate::default());
        let passed = gate.clone();
        let mut task = runtime.spawn(async move { passed.pass() });
        let waker = std::task::Waker::from(Arc::new(Rude));
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(std::pin::Pin::new(&mut task).poll(&mut cx).is_pending());
        gate.open();
        while !task.is_finished() {
            std::thread::yield_now();
        }
        lives_on(&runtime, &started, workers);
        runtime.block_on(task).unwrap();
    }

    /// So does the drop of one that is exchanged for another, or has lost its joiner: whoever polls
    /// the handle gets the output, and whoever drops it goes on.
    fn in_the_drop_of_a_joiners_waker(workers: usize) {
        let (runtime, started) = counting(workers);
        for _ in 0..50 {
            let gate = Arc::new(common::Gate::default());
            let mut tasks = [1, 2].map(|number| {
                let passed = gate.clone();
                runtime.handle().spawn_blocking(move || {
                    passed.pass();
                    number
                })
            });
            for task in &mut tasks {
                assert!(Pin::new(task).poll(&mut Context::from_waker(&rude_waker())).is_pending());
            }
            let [awaited, dropped] = tasks;
            drop(dropped);
            // The root's waker takes the place of the other one, before the task ends.
            let mut awaited = awaited;
            let output = runtime.block_on(poll_fn(|cx| {
                let polled = Pin::new(&mut awaited).poll(cx);
                gate.open();
                polled
            }));
            assert_eq!(output.unwrap(), 1);
        }
        // As many as there were wakers, in each run.
        assert!(panics_of("expected: rude drop") >= 100);
        // Calls that block have threads of their own.
        drop((runtime, started));
    }

    fn of_a_detached_task_is_logged_with_its_name(workers: usize) {
        let (runtime, started) = counting(workers);
        let name = format!("nobody's-{workers}");
        let builder = task::Builder::new().name(name.as_str());
        let gate = Arc::new(common::Gate::default());
        let passed = gate.clone();
        drop(builder.spawn_on(async move {
            passed.pass();
            panic!("expected: detached")
        }, runtime.handle()));
        gate.open();
        while logged(&["ERROR", "nobody joins", &name]).is_empty() {
            std::thread::yield_now();
        }
        lives_on(&runtime, &started, workers);
    }

    /// A payload that goes to nobody, or comes second, is dropped. So is one whose drop panics:
    /// what is given up then is the payload of that.
    fn that_nobody_sees_is_freed(workers: usize) {
        struct Payload(Arc<AtomicUsize>, bool);
        impl Drop for Payload {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
                if self.1 {
                    // Without an allocation: what is given up is no leak.
                    panic_any(());
                }
            }
        }
        listen_to_panics();
        for rude in [false, true] {
            let (alive, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let boom = {
                let (alive, made) = (alive.clone(), made.clone());
                move || {
                    alive.fetch_add(1, SeqCst);
                    made.fetch_add(1, SeqCst);
                    panic_any(Payload(alive.clone(), rude))
                }
            };
            let runtime = Builder::new()
                .workers(workers)
                .on_thread_start(boom.clone())
                .on_thread_stop(boom.clone())
                .shutdown_grace(common::GRACE)
                .build()
                .unwrap();
            runtime.block_on(runtime.spawn(async {})).unwrap();
            let caught = runtime.block_on(async {
                catch_unwind(AssertUnwindSafe(|| {
                    ws_executor::scope(|scope| {
                        scope.spawn(|_| boom());
                        scope.spawn(|_| boom());
                        boom();
                    });
                }))
            });
            assert!(catch_unwind(AssertUnwindSafe(|| drop(caught.unwrap_err()))).is_err() == rude);
            drop(runtime);
            // The thread of a hook, and three in the scope.
            assert!(made.load(SeqCst) >= 4, "{made:?}");
            assert_eq!(alive.load(SeqCst), 0, "of {made:?}");
        }
    }

    /// What a root panics with comes out of `block_on` and `run`; its tasks are not lost by that.
    fn in_a_root(workers: usize) {
        let (runtime, started) = counting(workers);
        let ended = Arc::new(Count::new());
        let counted = ended.clone();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                ws_executor::spawn(async move {
                    task::yield_now().await;
                    counted.add();
                });
                task::yield_now().await;
                panic!("expected: root");
            });
        }));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"expected: root"));
        ended.wait_for(1);
        lives_on(&runtime, &started, workers);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(async { panic!("expected: root of run") })
        }));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"expected: root of run"));
    }

    /// `UnhandledPanic::ShutdownRuntime`: every other task is cancelled, also one that waits for
    /// ever, and nothing can be spawned any more.
    fn stops_the_runtime_if_asked_for(workers: usize) {
        listen_to_panics();
        for inside in [false, true] {
            let builder = Builder::new().workers(workers).unhandled_panic(UnhandledPanic::ShutdownRuntime);
            let runtime = builder.build().unwrap();
            let scenario = |spawned: &dyn Fn(bool) -> task::JoinHandle<()>| {
                let (waits, panics) = (spawned(false), spawned(true));
                async move {
                    assert!(panics.await.unwrap_err().is_panic());
                    assert!(waits.await.unwrap_err().is_cancelled());
                }
            };
            let program = |panics| async move {
                if panics { panic!("expected: stops the runtime") }
                pending::<()>().await
            };
            if inside {
                runtime.block_on(async {
                    scenario(&|panics| ws_executor::spawn(program(panics))).await
                });
            } else {
                runtime.block_on(scenario(&|panics| runtime.spawn(program(panics))));
            }
            let late = runtime.spawn(async {});
            assert!(runtime.block_on(late).unwrap_err().is_cancelled());
        }
    }

    /// The same under `run`, whose root is a task like any other.
    fn stops_run_if_asked_for(workers: usize) {
        listen_to_panics();
        let runtime = Builder::new().workers(workers).unhandled_panic(UnhandledPanic::ShutdownRuntime).build().unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(async {
                ws_executor::spawn(async { panic!("expected: stops run") });
                pending::<()>().await;
            });
        }));
        let payload = caught.unwrap_err();
        assert_stopped(&*payload);
    }

    /// The same under `run_local`, whose root is no task. It awaits its task or it does not, and
    /// the panic comes from another thread or from its own.
    fn stops_run_local_if_asked_for(workers: usize) {
        listen_to_panics();
        // Virtual time has one worker.
        let clocks: &[_] = if workers == 1 {
            &[Clock::System, Clock::Paused]
        } else {
            &[Clock::System]
        };
        let ways = clocks.iter().flat_map(|clock| [(false, *clock), (true, *clock)]);
        for (joins, clock) in ways {
            let builder = Builder::new().workers(workers).unhandled_panic(UnhandledPanic::ShutdownRuntime);
            let runtime = builder.clock(clock).build().unwrap();
            let caught = catch_unwind(AssertUnwindSafe(|| {
                runtime.run_local(async {
                    let task = ws_executor::spawn(async { panic!("expected: stops run_local") });
                    if joins {
                        let _ = task.await;
                    }
                    pending::<()>().await;
                });
            }));
            assert_stopped(&*caught.unwrap_err());
        }
        let runtime = Builder::new().workers(workers).unhandled_panic(UnhandledPanic::ShutdownRuntime).build().unwrap();
        assert_eq!(runtime.run_local(async { ws_executor::spawn(async { 3 }).await.unwrap() }), 3);
    }
}

fn assert_stopped(payload: &(dyn Any + Send)) {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| Some((*payload.downcast_ref::<&str>()?).to_owned()));
    let text = text.unwrap_or_default();
    assert!(text.contains("the root task was cancelled"), "{text}");
}
