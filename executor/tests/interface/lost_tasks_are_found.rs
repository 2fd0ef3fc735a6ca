//! L2, in what users see of it: `Handle::lost_tasks` names the tasks that can never wake, and no
//! other.
//!
//! It fails when a task with an abort handle counts that as a waker, when `find` in `cell/lost.rs`
//! does not take the slots of lost tasks off, when it keeps a task whose joiner has left, when it
//! does not ask a second time, and when a task that has a waker outside is not taken away. Of the
//! hook, when a task is told twice, or one that was lost between two looks is not told, and when it
//! counts as no hook where it drops the runtime (`in_a_hook` in `monitor/lost.rs`); of a test's
//! root, when the monitor sleeps for good without a look, or looks no more after that.

use crate::common;

use std::{
    collections::HashSet,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate, OnDrop, Random, limited, runtime, scaled};
use futures::channel::{mpsc, oneshot};
use futures::stream::{FuturesUnordered, StreamExt};
use ws_executor::{
    runtime::{Builder, Clock, Handle, LostTask, Runtime},
    task::{self, Id, JoinHandle},
    time,
};

/// Once each of the tasks that are alive has been polled and is idle.
fn when_all_are_idle(handle: &Handle) {
    let is_idle = |task: ws_executor::runtime::TaskDump| task.account.idle_for.is_some();
    while !handle.dump().into_iter().all(is_idle) {
        thread::yield_now();
    }
}

fn lost(handle: &Handle) -> Vec<LostTask> {
    when_all_are_idle(handle);
    let mut lost = handle.lost_tasks();
    lost.sort_by_key(|lost| lost.task.id);
    lost
}

fn ids(lost: &[LostTask]) -> Vec<Id> {
    lost.iter().map(|lost| lost.task.id).collect()
}

/// A task that waits for whatever it is sent.
fn waits_for_a_handle(runtime: &Runtime) -> (JoinHandle<()>, oneshot::Sender<JoinHandle<()>>) {
    let (send, receive) = oneshot::channel::<JoinHandle<()>>();
    let task = runtime.spawn(async move { _ = receive.await.unwrap().await });
    (task, send)
}

common::with_workers! {
    fn a_task_without_a_waker_is_lost(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let task = runtime.spawn(pending::<()>());
        let id = task.id();
        let found = lost(handle);
        assert_eq!(ids(&found), [id]);
        assert!(found[0].waits_for.is_empty() && found[0].ring.is_empty());
        assert!(found[0].to_string().ends_with("it waits, and nothing has a waker of it"));
        // Neither handle can wake it.
        let aborts: Vec<_> = (0..14).map(|_| task.abort_handle()).collect();
        assert_eq!(ids(&lost(handle)), [id]);
        drop(task);
        assert_eq!(ids(&lost(handle)), [id]);
        // So many are not counted any more, also when they have gone.
        let more = aborts[0].clone();
        assert!(lost(handle).is_empty());
        drop((aborts, more));
        assert!(lost(handle).is_empty());
    }

    fn a_task_that_waits_for_something_is_not(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (sender, receiver) = oneshot::channel::<()>();
        let of_channel = runtime.spawn(receiver);
        runtime.spawn(async { time::sleep(Duration::from_secs(3600)).await });
        // Through a waker that is not its own.
        let (_sender, receiver) = oneshot::channel::<()>();
        let unordered: FuturesUnordered<_> = [receiver].into_iter().collect();
        runtime.spawn(unordered.collect::<Vec<_>>());
        // For a task that waits.
        let (task, send) = waits_for_a_handle(&runtime);
        let (last, keep) = waits_for_a_handle(&runtime);
        send.send(last).unwrap();
        when_all_are_idle(handle);
        assert!(lost(handle).is_empty());
        // A waker that something has kept is a waker.
        let kept = Arc::new(Mutex::new(None));
        let keeps = kept.clone();
        let keeper = runtime.spawn(poll_fn(move |cx| {
            *keeps.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(lost(handle).is_empty());
        kept.lock().unwrap().take();
        assert_eq!(ids(&lost(handle)), [keeper.id()]);
        drop((sender, of_channel, task, keep));
    }

    fn one_that_waits_for_a_lost_task_is_lost(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let end = runtime.spawn(pending::<()>());
        let end_id = end.id();
        let middle = runtime.spawn(async { _ = end.await });
        let middle_id = middle.id();
        let first = runtime.spawn(async { _ = middle.await });
        let found = lost(handle);
        assert_eq!(ids(&found), [end_id, middle_id, first.id()]);
        assert_eq!(found[2].waits_for, [middle_id]);
        assert!(found.iter().all(|lost| lost.ring.is_empty()));
        let text = format!("it waits for task {end_id}, which can never wake");
        assert!(found[1].to_string().ends_with(&text), "{}", found[1]);
    }

    fn a_ring_of_handles_is_named(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let rings: Vec<_> = (1..=4).map(|size| {
            let tasks: Vec<_> = (0..size).map(|_| waits_for_a_handle(&runtime)).collect();
            when_all_are_idle(handle);
            assert!(lost(handle).len() == size * (size - 1) / 2, "not yet");
            let (mut handles, sends): (Vec<_>, Vec<_>) = tasks.into_iter().unzip();
            let ids: Vec<_> = handles.iter().map(JoinHandle::id).collect();
            // Each waits for the next one.
            handles.rotate_left(1);
            for (send, handle) in sends.into_iter().zip(handles) {
                send.send(handle).unwrap();
            }
            lost(handle);
            ids
        }).collect();
        let found = lost(handle);
        let all: Vec<_> = rings.concat();
        assert_eq!(ids(&found), all);
        for ids in rings {
            for (at, id) in ids.iter().enumerate() {
                let lost = found.iter().find(|lost| lost.task.id == *id).unwrap();
                let mut ring = ids.clone();
                ring.rotate_left((at + 1) % ids.len());
                assert_eq!(lost.ring, ring);
                assert_eq!(lost.waits_for, ring[..1]);
                let words: Vec<_> = ring.iter().map(|id| format!("waits for task {id}")).collect();
                let text = format!(", can never wake: it {}", words.join(", which "));
                assert!(lost.to_string().ends_with(&text), "{lost}");
            }
        }
        // An abort of one ends the others.
        let first = found[0].task.id;
        assert!(found[0].to_string().ends_with(&format!("it waits for task {first}")));
    }

    // The abort would end it, and wake the other one.
    fn one_that_waits_for_a_task_that_may_be_aborted_is_not(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let inner = runtime.spawn(pending::<()>());
        let (inner_id, aborter) = (inner.id(), inner.abort_handle());
        let outer = runtime.spawn(async { inner.await.unwrap_err().is_cancelled() });
        assert_eq!(ids(&lost(handle)), [inner_id]);
        aborter.abort();
        assert!(runtime.block_on(outer).unwrap());
    }

    // Its two cells do not wait for each other.
    fn a_pinned_task_is_one_task(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (send, receive) = oneshot::channel::<JoinHandle<()>>();
        let pinned = {
            let _entered = handle.enter();
            task::spawn_pinned(move || async move { _ = receive.await.unwrap().await })
        };
        let pinned_id = pinned.id();
        let other = runtime.spawn(async { _ = pinned.await });
        let other_id = other.id();
        send.send(other).unwrap();
        while handle.lost_tasks().len() != 2 {
            thread::yield_now();
        }
        let found = lost(handle);
        assert_eq!(ids(&found), [pinned_id, other_id]);
        assert_eq!(found[0].ring, [other_id, pinned_id]);
        assert_eq!(found[1].ring, [pinned_id, other_id]);
    }

    // With something outside that can wake one of them.
    fn a_ring_with_a_waker_outside_is_not(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (first, send_first) = waits_for_a_handle(&runtime);
        let keeps = kept.clone();
        let mut first = Some(first);
        let second = runtime.spawn(poll_fn(move |cx| {
            *keeps.lock().unwrap() = Some(cx.waker().clone());
            Pin::new(first.as_mut().unwrap()).poll(cx).map(|_| ())
        }));
        send_first.send(second).unwrap();
        assert!(lost(handle).is_empty());
        kept.lock().unwrap().take();
        assert_eq!(lost(handle).len(), 2);
    }

    // Tasks are woken, moved, joined, dropped and aborted while another thread looks. What it names
    // must still be there at the end, and must not have been polled since.
    fn in_a_storm_no_task_is_named_that_goes_on(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let looks = Arc::new(Count::new());
        let looker = {
            let (handle, is_over, looks) = (handle.clone(), is_over.clone(), looks.clone());
            thread::spawn(move || {
                let mut named = Vec::new();
                while !is_over.load(SeqCst) {
                    named.extend(handle.lost_tasks());
                    looks.add();
                }
                named
            })
        };
        let on_purpose: HashSet<_> = (0..20).map(|_| runtime.spawn(pending::<()>()).id()).collect();
        runtime.block_on(async {
            let mut random = Random::new(7);
            let mut rounds = 0;
            while rounds < scaled(300) || looks.get() < scaled(100) {
                rounds += 1;
                let (send, mut receive) = mpsc::unbounded::<u32>();
                let chain = (0..random.below(5)).fold(
                    task::Builder::new().spawn(async move {
                        while receive.next().await.is_some() {}
                    }),
                    |last, _| ws_executor::spawn(async move { _ = last.await }),
                );
                let aborter = chain.abort_handle();
                for number in 0..random.below(20) as u32 {
                    send.unbounded_send(number).unwrap();
                    task::yield_now().await;
                }
                if random.below(4) == 0 {
                    aborter.abort();
                }
                drop(send);
                _ = chain.await;
            }
        });
        is_over.store(true, SeqCst);
        for lost in looker.join().unwrap() {
            assert!(on_purpose.contains(&lost.task.id), "{lost}");
        }
        let found = lost(&handle);
        assert_eq!(found.len(), on_purpose.len());
        assert!(found.iter().all(|lost| lost.task.account.polls == 1));
    }
}

/// A hook, and what it was told.
fn told() -> (Runtime, std::sync::mpsc::Receiver<Id>) {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    let hook = move |lost: &LostTask| _ = tell.lock().unwrap().send(lost.task.id);
    let runtime = Builder::new().workers(1).on_lost_task(hook);
    (runtime.build().unwrap(), told)
}

/// The end of a runtime waits for the monitor, which calls the hook, and for destructors.
#[test]
fn a_hook_that_drops_the_runtime_does_not_wait_for_its_end() {
    limited(|| {
        let runtime = Arc::new(Mutex::new(None::<Runtime>));
        let (of_hook, gate) = (runtime.clone(), Arc::new(Gate::default()));
        let opens = gate.clone();
        let builder = Builder::new().workers(1).shutdown_grace(Duration::MAX);
        let builder = builder.on_lost_task(move |_| {
            drop(of_hook.lock().unwrap().take());
            opens.open();
        });
        let built = builder.build().unwrap();
        let waits = OnDrop(move || gate.pass());
        // The hook waits until the runtime is there.
        let mut place = runtime.lock().unwrap();
        let task = built.spawn(async move {
            let _waits = waits;
            pending::<()>().await;
        });
        *place = Some(built);
        drop(place);
        // Its destructor goes on when the hook is through.
        let other = Builder::new().workers(1).build().unwrap();
        other.block_on(task).unwrap_err();
    });
}

#[test]
fn each_lost_task_is_told_once() {
    let (runtime, told) = told();
    let first = runtime.spawn(pending::<()>());
    assert_eq!(told.recv(), Ok(first.id()));
    // The runtime is idle from here to the next spawn.
    let second = runtime.spawn(pending::<()>());
    assert_eq!(told.recv(), Ok(second.id()));
    // While something runs.
    let is_over = Arc::new(AtomicBool::new(false));
    let runs = {
        let is_over = is_over.clone();
        runtime.spawn(async move {
            while !is_over.load(SeqCst) {
                task::yield_now().await;
            }
        })
    };
    let third = runtime.spawn(pending::<()>());
    assert_eq!(told.recv(), Ok(third.id()));
    is_over.store(true, SeqCst);
    runtime.block_on(runs).unwrap();
    drop(runtime);
    assert!(told.recv().is_err(), "told twice");
}

// Another thread's looks disturb those of the monitor, which miss tasks then.
#[test]
fn a_task_that_a_look_missed_is_not_told_again() {
    let (runtime, told) = told();
    let tasks: HashSet<_> = (0..50)
        .map(|_| runtime.spawn(pending::<()>()).id())
        .collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let looker = {
        let (handle, is_over) = (runtime.handle().clone(), is_over.clone());
        thread::spawn(move || {
            while !is_over.load(SeqCst) {
                handle.lost_tasks();
                (0..100).for_each(|_| thread::yield_now());
            }
        })
    };
    // Each one is told of by a look of its own.
    let mut ids = Vec::new();
    for _ in 0..3 {
        let newcomer = runtime.spawn(pending::<()>()).id();
        while !ids.contains(&newcomer) {
            ids.push(told.recv().unwrap());
        }
    }
    is_over.store(true, SeqCst);
    looker.join().unwrap();
    let distinct: HashSet<_> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "told twice");
    assert!(!distinct.is_disjoint(&tasks));
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    let hook = move |lost: &LostTask| {
        tell.lock().unwrap().send(lost.task.id).unwrap();
        std::panic::resume_unwind(Box::new("expected"))
    };
    let runtime = Builder::new()
        .workers(1)
        .on_lost_task(hook)
        .build()
        .unwrap();
    let tasks = [(); 2].map(|()| runtime.spawn(pending::<()>()).id());
    let ids: HashSet<_> = [told.recv().unwrap(), told.recv().unwrap()].into();
    assert_eq!(ids, tasks.into());
}

/// The panic of a `run` that fails if its root is lost.
fn fails(clock: Clock, root: impl Future<Output = ()> + Send + 'static) -> String {
    let builder = Builder::new().workers(1).clock(clock).fails_if_lost();
    let runtime = builder.build().unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| runtime.run(root))).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

// If they did not fail, they would hang.
#[test]
fn a_root_that_can_never_wake_fails_its_run() {
    for clock in [Clock::System, Clock::Paused] {
        let text = fails(clock, pending());
        let here = "nothing can wake this any more\n  task ";
        assert!(text.starts_with(here), "{text}");
        let why = "can never wake: it waits, and nothing has a waker of it";
        assert!(text.ends_with(why), "{text}");
        let text = fails(clock, async {
            time::sleep(Duration::from_millis(1)).await;
            let lost = task::Builder::new()
                .name("forgotten")
                .spawn(pending::<()>());
            let between = ws_executor::spawn(lost);
            between.await.unwrap().unwrap();
        });
        assert!(text.contains("\"forgotten\", spawned at "), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}

// 16 are named.
#[test]
fn the_verdict_says_how_many_more_there_are() {
    for (others, more) in [
        (15, None),
        (16, Some("\n  and 1 more")),
        (20, Some("\n  and 5 more")),
    ] {
        let text = fails(Clock::System, async move {
            let ran = Arc::new(Count::new());
            for _ in 0..others {
                let ran = ran.clone();
                ws_executor::spawn(async move {
                    ran.add();
                    pending::<()>().await
                });
            }
            while ran.get() < others {
                task::yield_now().await;
            }
            pending::<()>().await
        });
        assert_eq!(
            text.lines().count(),
            17 + usize::from(more.is_some()),
            "{text}"
        );
        match more {
            Some(more) => assert!(text.ends_with(more), "{text}"),
            None => assert!(!text.contains("\n  and "), "{text}"),
        }
    }
}

// The last waker goes without a wake, when all sleep already.
#[test]
fn a_root_that_is_lost_later_fails_its_run() {
    let (send, wakers) = std::sync::mpsc::channel::<Waker>();
    let dropper = thread::spawn(move || {
        let waker = wakers.recv().unwrap();
        // Until the runtime has nothing to do any more, and somewhat longer.
        for _ in 0..1000 {
            thread::yield_now();
        }
        drop(waker);
    });
    let mut send = Some(send);
    let text = fails(
        Clock::System,
        poll_fn(move |cx| {
            if let Some(send) = send.take() {
                send.send(cx.waker().clone()).unwrap();
            }
            Poll::Pending
        }),
    );
    assert!(text.starts_with("nothing can wake this any more"), "{text}");
    dropper.join().unwrap();
}

// Others go on for ever.
#[test]
fn a_lost_root_beside_a_busy_task_fails_its_run() {
    let text = fails(Clock::System, async {
        ws_executor::spawn(async {
            loop {
                task::yield_now().await;
            }
        });
        pending::<()>().await
    });
    assert!(
        text.contains("it waits, and nothing has a waker of it"),
        "{text}"
    );
}

#[test]
fn a_destructor_that_panics_does_not_hide_the_verdict() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the destructor");
        }
    }
    let text = fails(Clock::System, async {
        let _panics = Panics;
        pending::<()>().await
    });
    assert!(text.starts_with("nothing can wake this any more"), "{text}");
}

#[test]
fn the_verdict_on_a_deadlock_says_which_tasks_are_lost() {
    let builder = Builder::new().clock(Clock::Paused);
    let runtime = builder
        .deadlock_after(Duration::from_millis(1))
        .build()
        .unwrap();
    let root = async {
        let (send, receive) = oneshot::channel::<()>();
        let lost = ws_executor::spawn(pending::<()>());
        receive.await.unwrap();
        drop((send, lost));
    };
    let panic = catch_unwind(AssertUnwindSafe(|| runtime.run(root))).unwrap_err();
    let text = panic.downcast::<String>().unwrap();
    let lost: Vec<_> = text
        .lines()
        .filter(|line| line.contains("nothing has a waker"))
        .collect();
    assert_eq!((lost.len(), text.lines().count()), (1, 3), "{text}");
}
