//! H3: `abort` is safe at any moment of a task's life, its future is dropped on a worker and never
//! inside the call, and whoever joins the task learns that it was cancelled.
//!
//! It fails when `TaskRef::abort` drops the future itself instead of queueing the task, when the
//! runner does not look at the cancel mark after a poll (`Settle::Cancel` in `cell/state.rs`), and
//! when a handle takes that mark for the end. The two about pinned tasks fail when an abort marks a
//! carrier that has pinned its task.

use crate::common;

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use common::{Count, Gate, OnDrop, inside, is_inside, on_a_worker, runtime};
use ws_executor::{
    runtime::{Builder, Sysmon},
    task,
};

/// What happens to one future.
#[derive(Default)]
struct Life {
    polls: Count,
    dropped: Count,
    /// Drops inside a call of `abort`, or off the workers.
    wrong: AtomicUsize,
    waker: std::sync::Mutex<Option<Waker>>,
}

/// Pending for ever, and watched.
fn watched(life: &Arc<Life>) -> impl Future<Output = ()> + Send + use<> {
    let (life, end) = (life.clone(), life.clone());
    let end = OnDrop(move || {
        if is_inside() || !on_a_worker() {
            end.wrong.fetch_add(1, SeqCst);
        }
        end.dropped.add();
    });
    poll_fn(move |cx| {
        let _own = &end;
        *life.waker.lock().unwrap() = Some(cx.waker().clone());
        life.polls.add();
        Poll::Pending
    })
}

fn dropped_well(life: &Life) {
    life.dropped.wait_for(1);
    assert_eq!(life.dropped.get(), 1);
    assert_eq!(life.wrong.load(SeqCst), 0, "dropped in the caller of abort");
}

common::with_workers! {
    fn parked(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let task = runtime.spawn(watched(&life));
        life.polls.wait_for(1);
        inside(|| task.abort());
        dropped_well(&life);
        inside(|| task.abort());
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        assert_eq!(life.polls.get(), 1, "it was polled after the abort");
    }

    /// One task spawns another, and aborts it at once: with one worker it cannot have begun.
    fn before_the_first_poll(workers: usize) {
        // Nor can it if the one worker loses its core, since nobody takes its permit then.
        let builder = Builder::new().workers(workers).sysmon(if workers > 1 { Sysmon::On } else { Sysmon::Off });
        let runtime = builder.build().unwrap();
        let life = Arc::new(Life::default());
        let watched = watched(&life);
        let spawner = runtime.spawn(async move {
            let task = ws_executor::spawn(watched);
            inside(|| task.abort());
            task.await
        });
        assert!(runtime.block_on(spawner).unwrap().unwrap_err().is_cancelled());
        dropped_well(&life);
        if workers == 1 {
            assert_eq!(life.polls.get(), 0, "an aborted task was polled");
        }
    }

    /// Aborted in the middle of a poll that ends with pending: dropped after that poll.
    fn while_it_runs_and_then_waits(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let mut future = Box::pin(watched(&life));
        let task = runtime.spawn({
            let (gate, begun) = (gate.clone(), begun.clone());
            poll_fn(move |cx| {
                begun.open();
                gate.pass();
                future.as_mut().poll(cx)
            })
        });
        begun.pass();
        inside(|| task.abort());
        assert_eq!(life.dropped.get(), 0, "dropped while it ran");
        // The mark alone is no end, for either handle.
        let finished = (task.is_finished(), task.abort_handle().is_finished());
        gate.open();
        assert_eq!(finished, (false, false));
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        dropped_well(&life);
        assert_eq!(life.polls.get(), 1);
    }

    /// Aborted in the middle of a poll that ends with ready: that output counts.
    fn while_it_runs_and_then_is_ready(workers: usize) {
        let runtime = runtime(workers);
        let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let task = runtime.spawn({
            let (gate, begun) = (gate.clone(), begun.clone());
            async move {
                begun.open();
                gate.pass();
                5
            }
        });
        begun.pass();
        task.abort();
        gate.open();
        assert_eq!(runtime.block_on(task).unwrap(), 5);
    }

    fn when_it_is_done(workers: usize) {
        let runtime = runtime(workers);
        let mut task = runtime.spawn(async { 5 });
        let abort = task.abort_handle();
        while !abort.is_finished() {
            std::thread::yield_now();
        }
        task.abort();
        abort.abort();
        assert_eq!(runtime.block_on(&mut task).unwrap(), 5);
        task.abort();
        drop(task);
        abort.abort();
        assert!(abort.is_finished());
    }

    fn by_itself(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let (send, receive) = futures::channel::oneshot::channel::<task::AbortHandle>();
        let watched = watched(&life);
        let task = runtime.spawn(async move {
            let own = receive.await.unwrap();
            inside(|| own.abort());
            watched.await
        });
        send.send(task.abort_handle()).unwrap();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        dropped_well(&life);
        assert!(life.polls.get() <= 1);
    }

    fn by_a_handle_whose_join_handle_is_gone(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let abort = runtime.spawn(watched(&life)).abort_handle();
        life.polls.wait_for(1);
        inside(|| abort.abort());
        dropped_well(&life);
    }

    fn by_the_drop_of_abort_on_drop(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let task = runtime.spawn(watched(&life)).abort_on_drop();
        life.polls.wait_for(1);
        inside(|| drop(task));
        dropped_well(&life);
        // One that is awaited to its end is not hurt by that.
        let task = runtime.spawn(async { 5 }).abort_on_drop();
        assert_eq!(runtime.block_on(task).unwrap(), 5);
    }

    fn from_a_task_of_another_runtime(workers: usize) {
        let (runtime, other) = (runtime(workers), runtime(workers));
        let life = Arc::new(Life::default());
        let task = runtime.spawn(watched(&life));
        life.polls.wait_for(1);
        let abort = task.abort_handle();
        let caller = other.spawn(async move { inside(|| abort.abort()) });
        other.block_on(caller).unwrap();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        dropped_well(&life);
    }

    /// A pinned task is dropped on its own thread, whoever aborts it (I7).
    fn a_pinned_task_from_elsewhere(workers: usize) {
        let runtime = runtime(workers);
        let life = Arc::new(Life::default());
        let home = Arc::new(common::Place::default());
        let (make, noted) = (watched(&life), home.clone());
        let (send, receive) = std::sync::mpsc::channel();
        drop(runtime.spawn(async move {
            noted.note();
            let pinned = ws_executor::spawn_local(async move {
                let _last = OnDrop(move || noted.note());
                let _not_send = std::rc::Rc::new(());
                make.await;
            });
            send.send(pinned.abort_handle()).unwrap();
        }));
        let abort = receive.recv().unwrap();
        life.polls.wait_for(1);
        inside(|| abort.abort());
        dropped_well(&life);
        let waits = runtime.spawn(async move {
            while !abort.is_finished() { task::yield_now().await; }
        });
        runtime.block_on(waits).unwrap();
        let places = home.all();
        assert_eq!(places.len(), 2);
        assert_eq!(places[0], places[1], "dropped off its thread");
    }

    /// Aborts from many threads while others wake the task and join it.
    fn in_a_storm_of_wakes(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..200 {
            let life = Arc::new(Life::default());
            let mut task = runtime.spawn(watched(&life));
            let abort = task.abort_handle();
            let mut cx = Context::from_waker(Waker::noop());
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !abort.is_finished() {
                            let waker = life.waker.lock().unwrap().clone();
                            if let Some(waker) = waker {
                                waker.wake();
                            }
                        }
                    });
                    scope.spawn(|| inside(|| abort.abort()));
                }
                while Pin::new(&mut task).poll(&mut cx).is_pending() {
                    std::thread::yield_now();
                }
            });
            dropped_well(&life);
        }
    }

    fn a_thousand_at_once(workers: usize) {
        let runtime = runtime(workers);
        let lives: Vec<_> = (0..1000).map(|_| Arc::new(Life::default())).collect();
        let tasks: Vec<_> = lives.iter().map(|life| runtime.spawn(watched(life))).collect();
        inside(|| tasks.iter().for_each(|task| task.abort()));
        for task in tasks {
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        }
        for life in lives {
            dropped_well(&life);
        }
    }

    /// Its handle says how its own future ended, and not before that.
    fn a_pinned_one_that_ends_first_gives_its_output(workers: usize) {
        let runtime = runtime(workers);
        let (begun, gate) = (Arc::new(Count::default()), Arc::new(Gate::default()));
        let (begins, passes) = (begun.clone(), gate.clone());
        let _entered = runtime.enter();
        let task = task::spawn_pinned(move || async move {
            begins.add();
            ws_executor::block_in_place(|| passes.pass());
            7
        });
        begun.wait_for(1);
        task.abort();
        assert!(!task.is_finished(), "its future still runs");
        gate.open();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    }

    fn a_pinned_one_is_gone_when_its_handle_says_so(workers: usize) {
        let runtime = runtime(workers);
        for waits in [true, false] {
            let (begun, gone) = (Arc::new(Count::default()), Arc::new(Count::default()));
            let (begins, goes) = (begun.clone(), gone.clone());
            let guard = OnDrop(move || {
                std::thread::yield_now();
                goes.add();
            });
            let _entered = runtime.enter();
            let task = task::spawn_pinned(move || async move {
                let _own = guard;
                begins.add();
                pending::<()>().await;
            });
            if waits {
                begun.wait_for(1);
            }
            task.abort();
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
            assert_eq!(gone.get(), 1);
        }
    }

    /// What waits in a channel is dropped with its task: the other end learns of it.
    fn the_other_end_of_a_channel_learns_of_it(workers: usize) {
        let runtime = runtime(workers);
        let (send, receive) = futures::channel::oneshot::channel::<()>();
        let task = runtime.spawn(async move {
            let _send = send;
            pending::<()>().await;
        });
        task.abort();
        assert!(runtime.block_on(receive).is_err());
    }
}
