//! `task::id`, `task::try_id` and `task::name`: the code of a task finds its own task, wherever it
//! runs: in a poll, in a destructor, above a `block_in_place`, in the closure of a
//! `spawn_blocking`. What is no task finds none.
//!
//! It fails when `running_task` in `sched/priority.rs` answers for a root, and when `Worker::poll`
//! forgets the task before its future is dropped. That of a `spawn_pinned` finds what its handle
//! says, unless `new_carried` leaves out what is its carrier's.

use crate::common;

use std::{
    future::pending,
    panic::catch_unwind,
    sync::{Arc, Mutex},
};

use common::{Count, OnDrop, listen_to_panics, runtime};
use ws_executor::{
    block_in_place,
    runtime::Handle,
    spawn_local,
    task::{self, Builder, Id, Priority, id, name, try_id, yield_now},
};

/// The id and the name of the task that asks.
fn who() -> (Option<Id>, Option<String>) {
    (try_id(), name())
}

common::with_workers! {
    fn in_its_polls(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            assert_eq!(who(), (None, None), "a root has none");
            let tasks: Vec<_> = (0..20).map(|n| {
                let builder = Builder::new().name(format!("number {n}"));
                builder.spawn(async move {
                    for _ in 0..10 {
                        assert_eq!(Some(id()), try_id());
                        assert_eq!(name(), Some(format!("number {n}")));
                        yield_now().await;
                    }
                    // A task of its own, and again this one.
                    let plain = ws_executor::spawn(async { who() });
                    let plain_id = plain.id();
                    assert_eq!(plain.await.unwrap(), (Some(plain_id), None));
                    id()
                })
            }).collect();
            for task in tasks {
                let id = task.id();
                assert_eq!(task.await.unwrap(), id);
            }
            let pinned = spawn_local(async { id() });
            let pinned_id = pinned.id();
            assert_eq!(pinned.await.unwrap(), pinned_id);
            assert_eq!(who(), (None, None));
        });
        assert_eq!(who(), (None, None));
    }

    /// Its handle is made before its thread is known.
    fn also_where_its_future_is_made(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            for _ in 0..20 {
                let task = Builder::new().name("pinned").priority(3).spawn_pinned(|| {
                    let made = who();
                    async move {
                        yield_now().await;
                        (made, who(), Priority::current())
                    }
                });
                let who = (Some(task.id()), Some("pinned".to_owned()));
                assert_eq!(task.priority(), Priority::new(3));
                assert_eq!(task.await.unwrap(), (who.clone(), who, Priority::new(3)));
            }
            // A panic has the same id.
            let task = ws_executor::spawn_pinned(|| async { panic!("{}", id()) });
            let its_id = task.id();
            let error = task.await.unwrap_err();
            assert_eq!(error.id(), its_id);
            assert!(error.to_string().contains(&its_id.to_string()), "{error}");
        });
    }

    /// A new priority is that of the task, also if it was given none before.
    fn a_pinned_task_has_the_priority_of_its_handle(workers: usize) {
        let runtime = runtime(workers);
        let (begun, changed) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let (begins, waits) = (begun.clone(), changed.clone());
        let _entered = runtime.enter();
        let task = ws_executor::spawn_pinned(move || async move {
            let before = Priority::current();
            begins.add();
            block_in_place(|| waits.wait_for(1));
            (before, Priority::current())
        });
        begun.wait_for(1);
        task.set_priority(Priority::LOWEST);
        assert_eq!(task.priority(), Priority::LOWEST);
        changed.add();
        let priorities = runtime.block_on(task).unwrap();
        assert_eq!(priorities, (Priority::DEFAULT, Priority::LOWEST));
    }

    fn where_it_blocks(workers: usize) {
        let runtime = runtime(workers);
        let task = Builder::new().name("blocks").spawn_on(async {
            let own = who();
            assert!(own.0.is_some());
            assert_eq!(block_in_place(who), own);
            // Pinned tasks are polled above it meanwhile.
            let pinned = spawn_local(async { yield_now().await; id() });
            let pinned_id = pinned.id();
            assert_eq!(Handle::current().block_on(pinned).unwrap(), pinned_id);
            assert_eq!(who(), own);
            own.0
        }, runtime.handle());
        let task_id = task.id();
        assert_eq!(runtime.block_on(task).unwrap(), Some(task_id));
        let call = runtime.spawn_blocking(id);
        let call_id = call.id();
        assert_eq!(runtime.block_on(call).unwrap(), call_id);
    }

    fn in_its_destructors(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        for way in ["ready", "panics", "aborted"] {
            let seen = Arc::new(Mutex::new(None));
            let parked = Arc::new(Count::new());
            let guard = {
                let seen = seen.clone();
                OnDrop(move || *seen.lock().unwrap() = Some(who()))
            };
            let begun = parked.clone();
            let task = Builder::new().name(way).spawn_on(async move {
                let _own = &guard;
                begun.add();
                match way {
                    "ready" => {}
                    "panics" => panic!("expected: {way}"),
                    _ => pending().await,
                }
            }, runtime.handle());
            parked.wait_for(1);
            let id = task.id();
            if way == "aborted" {
                task.abort();
            }
            assert_eq!(runtime.block_on(task).is_ok(), way == "ready");
            let seen = seen.lock().unwrap().take();
            assert_eq!(seen, Some((Some(id), Some(way.to_owned()))), "{way}");
        }
    }

    fn in_the_destructor_of_one_that_is_refused(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        drop(runtime);
        let seen = Arc::new(Mutex::new(None));
        let sees = seen.clone();
        let guard = OnDrop(move || *sees.lock().unwrap() = try_id());
        let task = handle.spawn(async move {
            let _own = guard;
            pending::<()>().await;
        });
        assert_eq!(*seen.lock().unwrap(), Some(task.id()));
    }

    fn outside_it_panics_at_the_caller(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        let asked = |ask: fn() -> Id| *catch_unwind(ask).unwrap_err().downcast::<&'static str>().unwrap();
        assert!(asked(task::id).contains("outside of a task"));
        runtime.block_on(async { assert!(asked(task::id).contains("outside of a task")) });
    }
}
