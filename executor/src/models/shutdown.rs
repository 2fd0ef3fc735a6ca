//! The phases of a shutdown: `permit/phase.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `one_that_pushes_after_the_last_thread_drops_the_task` | a waker that has only its task meets the whole shutdown: the task is dropped once, and the runtime stands until the waker is out | 3 | 0.3 | `shutdown_pusher_does_not_look`, `shutdown_keeps_nothing`, `shutdown_lets_go_of_a_live_task` |
//! | `one_that_queued_before_the_sweep_and_pushes_after_the_end_drops_the_task` | the same for a task that nobody finds idle | 3 | 0.3 | `shutdown_push_no_fence`, `shutdown_close_no_fence`, `shutdown_closed_does_not_drain` |
//! | `the_last_task_and_the_end_see_each_other` | a task that ends on a foreign thread meets the end, and the thread that waits for it | 3 | 3.4 | `shutdown_foreign_does_not_look`, `shutdown_foreign_no_fence`, `shutdown_last_task_*` |
//! | `two_that_end_the_last_tasks_of_two_tables_see_each_other` | two tasks that are pushed after the end, and whose tables their threads find empty | 3 | 3.4 | `shutdown_two_tables_no_fence` |
//! | `a_task_that_enters_at_the_end_has_a_runtime` | a task that a foreign thread enters when the end may be over: the runtime stands until its waker is out | 3 | 5.8 | `shutdown_foreign_keeps_nothing`, `shutdown_counts_without_the_lock` |
//! | `a_task_that_enters_when_it_drains_is_cancelled` | a task that a foreign thread enters when the draining may have begun is cancelled by one or the other | 3 | 0.5 | `shutdown_drain_no_fence`, `shutdown_foreign_does_not_abort` |
//! | `the_last_task_and_the_draining_see_each_other` | a task that ends on a P's thread when the draining begins: the shutdown thread is told | 3 | 0.5 | `shutdown_drain_asks_nobody`, `shutdown_drain_does_not_look`, `shutdown_called_no_fence` |
//! | `a_new_p_is_told_of_the_closing` | a P that is made meanwhile is told, by one or the other | 3 | 0.3 | `shutdown_begin_no_fence`, `shutdown_new_p_no_fence`, `shutdown_tells_and_wakes_nobody` |
//! | `a_p_that_is_taken_again_is_told_of_the_closing` | the same for a P whose last thread has gone | 3 | 0.3 | `allp_taken_again_is_not_listed` |
//! | `a_thread_that_ends_by_itself_leaves_nothing_behind` | the last thread sweeps if nobody has | 3 | 0.7 | `shutdown_last_thread_does_not_sweep` |
//!
//! The environment is a `MockRuntime` with threads that have no work of their own, so no permit
//! moves; its tasks, their live table and the global queue are the shipped ones. Every reference to
//! the runtime is counted, and a thread that comes in touches a cell that the last reference
//! touches when it goes: a runtime that goes too early is a race that loom reports, and one that
//! never goes is seen at the end.
#![expect(
    unsafe_code,
    reason = "a scheduler handle finds its runtime by the address that it carries, as in `given.rs`"
)]

mod mock;

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize as Counter, Ordering::SeqCst as Observer},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use self::mock::{MockRuntime, Outside, Strong, Waits, schedule};
use super::both_ways::explore;
use crate::{
    cell::{
        Birth, Functions, Id, Lane, Outcome, Parts, Place, SchedulerHandle, Task, TaskRef,
        live::{LiveOwner, Removed, live_table},
    },
    park::Parker,
    permit::{
        allp::{AllPs, ListedP},
        env::{Env, PeerEnv},
        idle::{Idle, Permit, Spinning, WorkerStateCell},
        phase::{Phase, ShutdownEnv, Threads},
    },
    queue::{GlobalRunQueue, OrderedShared, Stealer, local_queue},
    sync::{
        Condvar, Mutex, UnsafeCell,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

#[test]
fn one_that_pushes_after_the_last_thread_drops_the_task() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let waker = runtime.waiting();
        // It has only the waker: the runtime is there because the task is alive.
        let wakes = move || waker.wake();
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [wakes]);
        runtime.assert_gone();
    });
}

#[test]
fn one_that_queued_before_the_sweep_and_pushes_after_the_end_drops_the_task() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        // It is queued, and its waker has not come to the push.
        let task = runtime.spawn(None);
        let address = runtime.clone();
        let pushes = move || schedule(&address.schedulers[0].0, task);
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [pushes]);
        runtime.assert_gone();
    });
}

#[test]
fn the_last_task_and_the_end_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let task = runtime.spawn(None);
        // A thread that is not one of the runtime's, as in `block_on`, runs it.
        let own = strong.0.strong();
        let runs = move || {
            let _ = task.run_apart();
            own.0.left(None, None);
            own.0.foreign_thread_left();
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
            let forever = || Some(Duration::MAX);
            assert!(strong.0.wait_for_the_end(forever));
        };
        turn.race(ends, [runs]);
        runtime.assert_gone();
    });
}

#[test]
fn two_that_end_the_last_tasks_of_two_tables_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::with_tables(2, 1);
        let runtime = strong.0.clone();
        // They are queued, and their wakers have not come to the push.
        let [first, second] = [0, 1].map(|table| runtime.spawn_in(table, None));
        strong.0.begin_shutdown();
        strong.0.live_in(0);
        drop(strong);
        let [one, other] = [runtime.clone(), runtime.clone()];
        let pushes = move || schedule(&one.schedulers[0].0, first);
        let pushes_too = move || schedule(&other.schedulers[1].0, second);
        turn.race(pushes, [pushes_too]);
        runtime.assert_gone();
    });
}

#[test]
fn a_task_that_enters_when_it_drains_is_cancelled() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        // A thread that is not one of the runtime's: it saw the runtime open.
        let own = strong.0.strong();
        let enters = move || {
            let task = own.0.spawn(Some(Outside::default()));
            own.0.push(task);
            own.0.left(None, None);
            own.0.foreign_thread_left();
        };
        let ends = move || {
            strong.0.begin_draining();
            // The thread that ends it stays until the task is gone.
            strong
        };
        let kept = Arc::new(std::sync::Mutex::new(None));
        let keeps = kept.clone();
        turn.race(move || *keeps.lock().unwrap() = Some(ends()), [enters]);
        // A worker comes by.
        while let Some(task) = runtime.pop_queued() {
            assert!(matches!(task.run_apart(), Outcome::Done(_)), "it waits");
        }
        assert_eq!(runtime.live_tasks(), 0, "it waits");
        let strong = kept.lock().unwrap().take().expect("it was put there");
        strong.0.begin_shutdown();
        strong.0.live_in(0);
        drop(strong);
        runtime.assert_gone();
    });
}

#[test]
fn the_last_task_and_the_draining_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let task = runtime.spawn(None);
        let own = strong.0.strong();
        let runs = move || {
            let _ = task.run_apart();
            let peer = own.0.peer(0);
            while !peer.asked.load(Relaxed) {
                peer.parker.park();
            }
            own.0.was_called();
            own.0.drain_own(|| ());
            own.0.live_in(0);
        };
        let ends = move || {
            strong.0.begin_draining();
            assert!(strong.0.wait_for_the_last_task(|| Some(Duration::MAX)));
            strong.0.begin_shutdown();
            assert!(strong.0.wait_for_the_end(|| Some(Duration::MAX)));
        };
        turn.race(ends, [runs]);
        runtime.assert_gone();
    });
}

#[test]
fn a_new_p_is_told_of_the_closing() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        strong.0.threads.lock().count += 1;
        let new = strong.0.strong();
        let arrives = move || {
            // As in `Shared::take_processor`.
            let index = new.0.take().index();
            new.0.notify_new_p(new.0.peer(index));
            new.0.live_in(1);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [arrives]);
        runtime.assert_gone();
    });
}

#[test]
fn a_p_that_is_taken_again_is_told_of_the_closing() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        strong.0.threads.lock().count += 1;
        // Its last thread has gone.
        runtime.allp.give_back(runtime.take());
        let new = strong.0.strong();
        let arrives = move || {
            // As in `Shared::take_processor`.
            let index = new.0.take().index();
            new.0.notify_new_p(new.0.peer(index));
            new.0.live_in(1);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [arrives]);
        runtime.assert_gone();
    });
}

#[test]
fn a_thread_that_ends_by_itself_leaves_nothing_behind() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let waker = runtime.waiting();
        let idler = strong.0.strong();
        let goes = move || {
            // It was idle for long, and has looked at its P for the last time.
            if idler.0.peer(0).told.load(Relaxed) {
                idler.0.clear_away();
            }
            idler.0.thread_ended();
        };
        let ends = move || {
            if strong.0.begin_shutdown() && strong.0.threads.lock().count == 0 {
                strong.0.help_to_clear();
            }
        };
        turn.race(ends, [goes]);
        drop(waker);
        runtime.assert_gone();
    });
}

#[test]
fn a_task_that_enters_at_the_end_has_a_runtime() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let address = runtime.clone();
        // A thread that is not one of the runtime's, as in `block_on`: it saw the runtime open.
        let own = strong.0.strong();
        let enters = move || {
            let task = own.0.spawn(None);
            own.0.left(None, None);
            own.0.foreign_thread_left();
            drop(own);
            // A waker has it by now, on its way to the push: the runtime is there because the task
            // is alive.
            schedule(&address.schedulers[0].0, task);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [enters]);
        runtime.assert_gone();
    });
}

/// Too large for loom: see `large.rs`.
#[cfg(ws_shuttle)]
#[test]
fn everybody_at_the_end() {
    explore(4, |turn| {
        let strong = MockRuntime::new(2);
        let runtime = strong.0.clone();
        let wakers = [runtime.waiting(), runtime.waiting()];
        let task = runtime.spawn(None);
        let foreign = strong.0.strong();
        let second = strong.0.strong();
        let [one, other] = wakers;
        let parties: [Box<dyn FnOnce()>; 4] = [
            Box::new(move || one.wake()),
            Box::new(move || {
                other.wake_by_ref();
                other.wake();
            }),
            Box::new(move || {
                let _ = task.run_apart();
                foreign.0.left(None, None);
                foreign.0.foreign_thread_left();
            }),
            Box::new(move || second.0.live_in(1)),
        ];
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
            assert!(strong.0.wait_for_the_end(|| Some(Duration::MAX)));
        };
        turn.race(ends, parties);
        runtime.assert_gone();
    });
}
