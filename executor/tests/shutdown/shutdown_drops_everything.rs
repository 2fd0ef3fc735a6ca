//! S7, S8: the end of a runtime drops every future, wherever it waits, on a thread where that is
//! sound, and it ends: on a foreign thread, inside a task of the same runtime or of another, inside
//! `block_on`. What a stuck thread polls is dropped by that thread when it returns, and is
//! reported. What uses the runtime meanwhile and afterwards is in `shutdown_bears_what_goes_on.rs`.
//!
//! It fails when one of the three steps of *Clearing away* in `sched/shutdown.rs` is left out.

use crate::common;

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate, OnDrop, limited, listen_to_log, logged, on_a_worker, runtime};
use futures::channel::oneshot;
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    task::{self, JoinHandle},
};

/// Everything that can wait, in every way; each counts in `dropped` when its future goes.
struct Crowd {
    dropped: Arc<Count>,
    tasks: usize,
    handles: Vec<JoinHandle<()>>,
    wakers: Arc<Mutex<Vec<Waker>>>,
    /// Their other ends stay here, so that nobody is woken by a drop.
    _senders: Vec<oneshot::Sender<()>>,
}

/// `each` tasks of each kind, spawned from inside and from outside; those that can wait do.
fn crowd(runtime: &Runtime, each: usize) -> Crowd {
    let dropped = Arc::new(Count::new());
    let (waiting, wakers) = (Arc::new(Count::new()), Arc::default());
    let (mut handles, mut senders) = (Vec::new(), Vec::new());
    let mut spawned = 0;
    let mut last = || {
        spawned += 1;
        let dropped = dropped.clone();
        OnDrop(move || dropped.add())
    };
    for _ in 0..each {
        // In a channel.
        let (send, receive) = oneshot::channel::<()>();
        senders.push(send);
        let (own, begun) = (last(), waiting.clone());
        handles.push(runtime.spawn(async move {
            let _own = own;
            begun.add();
            let _ = receive.await;
        }));
        // In a timer.
        let (own, begun) = (last(), waiting.clone());
        handles.push(runtime.spawn(async move {
            let _own = own;
            begun.add();
            ws_executor::time::sleep(Duration::from_secs(86_400)).await;
        }));
        // For nothing, with a waker outside.
        let (own, begun, wakers) = (last(), waiting.clone(), Arc::clone(&wakers));
        handles.push(runtime.spawn(poll_fn(move |cx| {
            let _own = &own;
            let wakers: &Mutex<Vec<Waker>> = &wakers;
            wakers.lock().unwrap().push(cx.waker().clone());
            begun.add();
            Poll::Pending
        })));
        // Pinned, and joined by a plain one: two futures.
        let (own, inner, begun) = (last(), last(), waiting.clone());
        handles.push(runtime.spawn(async move {
            let _own = own;
            let pinned = ws_executor::spawn_local(async move {
                let _own = (inner, std::rc::Rc::new(()));
                begun.add();
                pending::<()>().await;
            });
            // It may go first. A task that is polled then, before its own turn comes, would end by
            // itself.
            let _ = pinned.await;
            pending::<()>().await;
        }));
        // Always ready: in a queue, or running.
        let (own, begun) = (last(), waiting.clone());
        handles.push(runtime.spawn(async move {
            let _own = own;
            begun.add();
            loop {
                task::yield_now().await;
            }
        }));
        // Spawned on a worker, by a task that ends.
        let (own, begun) = (last(), waiting.clone());
        drop(runtime.spawn(async move {
            drop(ws_executor::spawn(async move {
                let _own = own;
                begun.add();
                pending::<()>().await;
            }));
        }));
    }
    waiting.wait_for(6 * each);
    Crowd {
        dropped,
        tasks: spawned,
        handles,
        wakers,
        _senders: senders,
    }
}

impl Crowd {
    /// All of it is gone.
    fn assert_gone(self) {
        assert_eq!(self.dropped.get(), self.tasks);
        for handle in &self.handles {
            assert!(handle.is_finished());
        }
        // Wakers that are used now do nothing.
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        for waker in wakers {
            waker.wake_by_ref();
            let another = waker.clone();
            another.wake();
            waker.wake();
        }
        let other = runtime(1);
        for handle in self.handles {
            assert!(other.block_on(handle).unwrap_err().is_cancelled());
        }
        assert_eq!(self.dropped.get(), self.tasks);
    }

    /// All of it goes, by and by.
    fn goes(self) {
        self.dropped.wait_for(self.tasks);
        for handle in &self.handles {
            while !handle.is_finished() {
                thread::yield_now();
            }
        }
        self.assert_gone();
    }
}

common::with_workers! {
    fn on_a_foreign_thread(workers: usize) {
        let runtime = runtime(workers);
        let crowd = crowd(&runtime, 50);
        drop(runtime);
        crowd.assert_gone();
    }

    fn with_a_timeout(workers: usize) {
        let runtime = runtime(workers);
        let crowd = crowd(&runtime, 5);
        runtime.shutdown_timeout(Duration::from_secs(3600));
        crowd.assert_gone();
    }

    fn in_the_background(workers: usize) {
        let runtime = runtime(workers);
        let crowd = crowd(&runtime, 5);
        runtime.shutdown_background();
        crowd.goes();
    }

    /// No thread was ever started: what a foreign thread has spawned in `block_on` is left behind.
    fn without_any_thread(workers: usize) {
        for background in [false, true] {
            let runtime = runtime(workers);
            let dropped = Arc::new(Count::new());
            runtime.block_on(async {
                for _ in 0..10 {
                    let dropped = dropped.clone();
                    let last = OnDrop(move || dropped.add());
                    drop(ws_executor::spawn(async move {
                        let _last = last;
                        pending::<()>().await;
                    }));
                }
                for _ in 0..10 { task::yield_now().await; }
            });
            if background {
                runtime.shutdown_background();
                dropped.wait_for(10);
            } else {
                drop(runtime);
                assert_eq!(dropped.get(), 10);
            }
        }
    }

    /// Dropped by one of its own tasks, which then ends as it likes.
    fn inside_a_task_of_the_same_runtime(workers: usize) {
        for how in 0..3 {
            let runtime = runtime(workers);
            let crowd = crowd(&runtime, 3);
            let (send, receive) = oneshot::channel::<Runtime>();
            let after = Arc::new(Count::new());
            let counted = after.clone();
            let own = OnDrop(move || counted.add());
            let dropper = runtime.spawn(async move {
                let _own = own;
                let runtime = receive.await.unwrap();
                match how {
                    0 => drop(runtime),
                    1 => runtime.shutdown_background(),
                    _ => runtime.shutdown_timeout(Duration::from_secs(3600)),
                }
                assert!(ws_executor::spawn(async {}).is_finished(), "spawned after the end");
                if how == 0 { pending::<()>().await }
            });
            send.send(runtime).unwrap();
            after.wait_for(1);
            crowd.goes();
            while !dropper.is_finished() { thread::yield_now(); }
        }
    }

    fn inside_a_task_of_another_runtime(workers: usize) {
        let (runtime, other) = (runtime(workers), common::runtime(1));
        let crowd = crowd(&runtime, 5);
        let task = other.spawn(async move { drop(runtime) });
        other.block_on(task).unwrap();
        crowd.goes();
    }

    fn inside_block_on_of_another(workers: usize) {
        let (runtime, other) = (runtime(workers), common::runtime(1));
        let crowd = crowd(&runtime, 5);
        other.block_on(async move {
            ws_executor::spawn(async {}).await.unwrap();
            drop(runtime);
            // That one goes on as before.
            assert_eq!(ws_executor::spawn(async { 5 }).await.unwrap(), 5);
        });
        crowd.goes();
    }

    /// It waits there, too, and what is announced is a block: a task of the other runtime goes on,
    /// and lets the end come. Both before the thread of a `block_on` has a permit and after that.
    fn a_drop_inside_another_runtime_waits_and_holds_up_nobody(workers: usize) {
        for how in 0..5 {
            let runtime = runtime(workers);
            let other = Builder::new().workers(1).sysmon(Sysmon::Off).build().unwrap();
            let (gate, ended) = (Arc::new(Gate::default()), Arc::new(Count::new()));
            let (opened, counted) = (gate.clone(), ended.clone());
            drop(runtime.spawn_blocking(move || {
                opened.pass();
                counted.add();
            }));
            let lets_go = async move {
                task::yield_now().await;
                gate.open();
            };
            let drops = async move {
                drop(runtime);
                assert_eq!(ended.get(), 1, "the drop waits for its calls");
            };
            match how {
                0 => {
                    drop(other.spawn(lets_go));
                    other.block_on(drops);
                }
                1 => other.block_on(async {
                    drop(ws_executor::spawn(lets_go));
                    drops.await;
                }),
                2 => other.run_local(async {
                    drop(ws_executor::spawn(lets_go));
                    drops.await;
                }),
                3 => other.run(async {
                    drop(ws_executor::spawn(lets_go));
                    drops.await;
                }),
                _ => other.block_on(async {
                    let drops = ws_executor::spawn(drops);
                    drop(ws_executor::spawn(lets_go));
                    drops.await.unwrap();
                }),
            }
        }
    }

    /// The thread is that runtime's own, though it has polled nothing yet: it does not wait for
    /// itself.
    fn at_once_inside_its_own_block_on(workers: usize) {
        let runtime = runtime(workers);
        let gate = Arc::new(Gate::default());
        let opened = gate.clone();
        let call = runtime.spawn_blocking(move || opened.pass());
        runtime.handle().clone().block_on(async {
            drop(runtime);
            gate.open();
        });
        while !call.is_finished() { thread::yield_now(); }
    }

    /// Inside its own `block_on`, which goes on to its end; what is spawned there then is refused.
    fn inside_its_own_block_on(workers: usize) {
        let runtime = runtime(workers);
        let crowd = crowd(&runtime, 5);
        let handle = runtime.handle().clone();
        let dropped = Arc::new(Count::new());
        handle.block_on(async {
            let counted = dropped.clone();
            let last = OnDrop(move || counted.add());
            let local = ws_executor::spawn_local(async move {
                let _last = last;
                pending::<()>().await;
            });
            let own = ws_executor::spawn(pending::<()>());
            task::yield_now().await;
            drop(runtime);
            assert!(local.await.unwrap_err().is_cancelled());
            assert!(own.await.unwrap_err().is_cancelled());
            assert!(ws_executor::spawn(async {}).await.unwrap_err().is_cancelled());
        });
        assert_eq!(dropped.get(), 1);
        crowd.goes();
    }

    /// While another thread is in `block_on` of it.
    fn beside_a_block_on(workers: usize) {
        let runtime = runtime(workers);
        let (handle, waits) = (runtime.handle().clone(), Arc::new(Count::new()));
        let counted = waits.clone();
        let (send, receive) = oneshot::channel::<()>();
        let other = thread::spawn(move || handle.block_on(async move {
            let local = ws_executor::spawn_local(pending::<()>());
            let own = ws_executor::spawn(pending::<()>());
            task::yield_now().await;
            counted.add();
            receive.await.unwrap();
            assert!(local.await.unwrap_err().is_cancelled());
            assert!(own.await.unwrap_err().is_cancelled());
            5
        }));
        waits.wait_for(1);
        runtime.shutdown_background();
        send.send(()).unwrap();
        assert_eq!(other.join().unwrap(), 5);
    }

    /// A thread that is stuck in a poll is reported with its task's name, and drops it when it
    /// returns.
    fn a_stuck_task_is_reported_and_dropped_later(workers: usize) {
        listen_to_log();
        let runtime = runtime(workers);
        let crowd = crowd(&runtime, 3);
        let (begun, gate, dropped) = (Arc::new(Count::new()), Arc::new(Gate::default()), Arc::new(Count::new()));
        let name = format!("stuck-with-{workers}");
        let wrong = Arc::new(AtomicUsize::new(0));
        let stuck = {
            let (begun, gate, dropped) = (begun.clone(), gate.clone(), dropped.clone());
            let wrong = wrong.clone();
            let last = OnDrop(move || {
                wrong.fetch_add(usize::from(!on_a_worker()), SeqCst);
                dropped.add();
            });
            let builder = task::Builder::new().name(name.as_str());
            builder.spawn_on(async move {
                let _last = last;
                begun.add();
                gate.pass();
                pending::<()>().await;
            }, runtime.handle())
        };
        begun.wait_for(1);
        runtime.shutdown_timeout(Duration::from_millis(20));
        assert_eq!(dropped.get(), 0);
        assert!(!stuck.is_finished());
        let report = logged(&["WARN", "was shut down", &name]);
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(report[0].contains("shutdown_drops_everything.rs"), "{report:?}");
        gate.open();
        dropped.wait_for(1);
        assert_eq!(wrong.load(SeqCst), 0, "dropped by another thread");
        while !stuck.is_finished() { thread::yield_now(); }
        crowd.goes();
    }

    /// Jobs of `spawn_blocking`, running and waiting for room.
    fn blocking_jobs(workers: usize) {
        let builder = Builder::new().workers(workers).max_threads(2 * workers + 1);
        let runtime = builder.shutdown_grace(Duration::from_millis(20)).build().unwrap();
        let (begun, gate, ended) = (Arc::new(Count::new()), Arc::new(Gate::default()), Arc::new(Count::new()));
        let running = {
            let (begun, gate, ended) = (begun.clone(), gate.clone(), ended.clone());
            runtime.handle().spawn_blocking(move || {
                begun.add();
                gate.pass();
                ended.add();
                5
            })
        };
        begun.wait_for(1);
        let waiting: Vec<_> = (0..10).map(|_| runtime.handle().spawn_blocking(|| ())).collect();
        drop(runtime);
        let other = common::runtime(1);
        for job in waiting {
            assert!(other.block_on(job).unwrap_err().is_cancelled());
        }
        gate.open();
        ended.wait_for(1);
        assert_eq!(other.block_on(running).unwrap(), 5, "a job that ran to its end has an output");
    }
}

/// A runtime that was never used, and one that is dropped while a panic unwinds.
#[test]
fn dropping_never_panics() {
    common::listen_to_panics();
    limited(|| {
        drop(runtime(2));
        runtime(2).shutdown_background();
        let crowd = Arc::new(Mutex::new(None));
        let made = crowd.clone();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let runtime = runtime(2);
            *made.lock().unwrap() = Some(crowd_of(&runtime));
            panic!("expected: unwinds over a runtime");
        }));
        assert!(caught.is_err());
        let crowd = crowd.lock().unwrap().take().unwrap();
        crowd.assert_gone();
    });
}

fn crowd_of(runtime: &Runtime) -> Crowd {
    crowd(runtime, 2)
}
