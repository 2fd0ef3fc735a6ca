//! `task_local!`: a value is there while its future is polled or dropped, on whatever thread, and
//! nowhere else: not in other tasks, not after a panic, not outside. A `block_on` inside a scope
//! polls other tasks outside of it.
//!
//! It fails when the guard in `LocalKey::enter` does not put back, when the drop of a
//! `TaskLocalFuture` does not enter the scope, and without the `ScopeBarrier` of `drive`,
//! `wait_above` or `clear_away`.

use crate::common;

use std::{
    cell::RefCell,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use common::{Count, OnDrop, listen_to_panics, runtime};
use ws_executor::{runtime::Handle, task};

ws_executor::task_local! {
    static NUMBER: usize;
    /// One with more attributes.
    pub(crate) static NAME: String;
    static LOG: RefCell<Vec<&'static str>>
}

fn number() -> Option<usize> {
    NUMBER.try_with(|number| *number).ok()
}

struct LogsItsDrop(&'static str);

impl Drop for LogsItsDrop {
    fn drop(&mut self) {
        LOG.with(|log| log.borrow_mut().push(self.0));
    }
}

common::with_workers! {
    /// Across yields and steals, each task sees its own.
    fn each_task_has_its_own(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..200).map(|n| runtime.spawn(NUMBER.scope(n, async move {
            for _ in 0..20 {
                assert_eq!(NUMBER.get(), n);
                task::yield_now().await;
            }
            // A task that it spawns has none.
            assert!(ws_executor::spawn(async { NUMBER.try_with(|_| ()) }).await.unwrap().is_err());
            NUMBER.with(|n| *n)
        }))).collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap(), n);
        }
    }

    fn scopes_nest_across_awaits(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(NUMBER.scope(1, NAME.scope("a".to_owned(), async {
            let inner = NUMBER.scope(2, async {
                task::yield_now().await;
                assert_eq!((NUMBER.get(), NAME.get()), (2, "a".to_owned()));
                NUMBER.sync_scope(3, || assert_eq!(NUMBER.get(), 3));
                NUMBER.get()
            });
            assert_eq!(inner.await, 2);
            assert_eq!(NUMBER.get(), 1);
        })));
        assert!(NUMBER.try_with(|_| ()).is_err());
    }

    /// Two scopes that are polled in turns in one task.
    fn joined_scopes_do_not_mix(workers: usize) {
        let runtime = runtime(workers);
        let one = |n| NUMBER.scope(n, async move {
            for _ in 0..10 {
                task::yield_now().await;
                assert_eq!(NUMBER.get(), n);
            }
        });
        runtime.block_on(async { futures::join!(one(1), one(2), one(3)) });
    }

    /// On an abort, the future is dropped by a worker, inside the scope.
    fn an_aborted_future_is_dropped_inside(workers: usize) {
        let runtime = runtime(workers);
        let (seen, begun) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let (counted, began) = (seen.clone(), begun.clone());
        let task = runtime.spawn(NUMBER.scope(7, async move {
            let _last = OnDrop(move || (0..NUMBER.get()).for_each(|_| counted.add()));
            began.add();
            pending::<()>().await;
        }));
        begun.wait_for(1);
        task.abort();
        seen.wait_for(7);
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    }

    fn a_panic_leaves_nothing_behind(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        for _ in 0..20 {
            let task = runtime.spawn(NUMBER.scope(1, async { panic!("expected: in a scope") }));
            assert!(runtime.block_on(task).is_err());
            let task = runtime.spawn(async { NUMBER.try_with(|_| ()) });
            assert!(runtime.block_on(task).unwrap().is_err());
        }
    }

    /// Pinned tasks that a `block_on` inside a scope polls above itself.
    fn a_nested_block_on_keeps_its_scope_to_itself(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let neighbour = ws_executor::spawn_local(NAME.scope("own".to_owned(), async {
                for _ in 0..5 {
                    assert_eq!(number(), None);
                    let seen = NUMBER.sync_scope(1, || (number(), NAME.get()));
                    assert_eq!(seen, (Some(1), "own".to_owned()));
                    task::yield_now().await;
                }
            }));
            NUMBER.scope(7, async {
                let handle = Handle::current();
                let spawned = handle.block_on(async {
                    assert_eq!(number(), Some(7), "the root is a part of its caller");
                    let spawned = ws_executor::spawn_local(async { number() });
                    neighbour.await.unwrap();
                    assert_eq!(number(), Some(7));
                    spawned.await.unwrap()
                });
                assert_eq!((spawned, number()), (None, Some(7)));
            }).await;
        });
    }

    /// Whatever a thread polls for a `block_on` or a `run` that it calls in a scope.
    fn a_thread_that_waits_keeps_its_scope_to_itself(workers: usize) {
        NUMBER.sync_scope(7, || {
            let ended = runtime(workers);
            for _ in 0..20 {
                let (first, later) = ended.block_on(async {
                    let pinned = ws_executor::spawn_local(async { number() });
                    let spawned = ws_executor::spawn(async {
                        task::yield_now().await;
                        number()
                    });
                    let seen = (pinned.await.unwrap(), spawned.await.unwrap());
                    assert_eq!(number(), Some(7), "the root is a part of its caller");
                    seen
                });
                assert_eq!((first, later), (None, None));
            }
            let root = ended.run(async {
                let spawned = ws_executor::spawn(async { number() });
                (number(), spawned.await.unwrap())
            });
            assert_eq!(root, (None, None), "the root of `run` is a task");
            assert_eq!(number(), Some(7));
        });
    }

    /// What is pinned to the thread is dropped at the end of the `block_on`, and by no part of the
    /// caller.
    fn what_a_block_on_leaves_is_dropped_outside(workers: usize) {
        let runtime = runtime(workers);
        // In the first poll, and in a later one.
        for polls in [1, 2] {
            let (send, seen) = std::sync::mpsc::channel();
            NUMBER.sync_scope(7, || runtime.block_on(async {
                let last = OnDrop(move || send.send(number()).unwrap());
                drop(ws_executor::spawn_local(async move {
                    let _last = last;
                    pending::<()>().await;
                }));
                if polls == 2 {
                    task::yield_now().await;
                }
            }));
            assert_eq!(seen.recv().unwrap(), None);
        }
    }

    /// Tasks that are polled inside `with` of a key can enter scopes of that key.
    fn a_block_on_inside_with_harms_nobody(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let neighbour = ws_executor::spawn_local(async {
                let mut sum = 0;
                for n in 0..5 {
                    sum += NUMBER.scope(n, async {
                        task::yield_now().await;
                        NUMBER.get()
                    }).await;
                }
                sum
            });
            NUMBER.scope(7, async {
                let joined = NUMBER.with(|own| {
                    let joined = Handle::current().block_on(neighbour);
                    assert_eq!((*own, number()), (7, Some(7)));
                    joined
                });
                assert_eq!(joined.unwrap(), 10);
            }).await;
        });
    }
}

#[test]
fn a_panic_of_a_nested_root_leaves_the_scopes_as_they_were() {
    listen_to_panics();
    let runtime = runtime(1);
    NUMBER.sync_scope(7, || {
        for polls in [1, 2] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    if polls == 2 {
                        task::yield_now().await;
                    }
                    Handle::current().block_on(async { panic!("expected: in a nested root") });
                });
            }));
            assert!(panicked.is_err());
            assert_eq!(number(), Some(7));
        }
    });
    assert_eq!(number(), None);
}

#[test]
fn scopes_nest_inside_with() {
    NUMBER.sync_scope(1, || {
        NUMBER.with(|outer| {
            NUMBER.sync_scope(2, || assert_eq!((*outer, NUMBER.get()), (1, 2)));
            assert_eq!((*outer, NUMBER.get()), (1, 1));
        });
    });
    assert_eq!(number(), None);
}

#[test]
fn the_future_is_dropped_inside_and_the_value_after_it() {
    // Ready: dropped at once. Never polled, or given up: with the wrapper.
    for polls in [0, 1, 2] {
        let mut scoped = Box::pin(LOG.scope(RefCell::default(), async {
            let _first = LogsItsDrop("local");
            if futures::future::poll_immediate(task::yield_now())
                .await
                .is_none()
            {
                futures::pending!();
            }
        }));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for poll in 1..=polls {
            assert_eq!(scoped.as_mut().poll(&mut cx).is_ready(), poll == 2);
        }
        if polls == 2 {
            assert_eq!(
                scoped.as_mut().take_value().unwrap().into_inner(),
                ["local"]
            );
            assert!(scoped.as_mut().take_value().is_none());
        }
    }
    let log = RefCell::new(Vec::new());
    LOG.sync_scope(log, || {
        NUMBER.sync_scope(1, || {
            // The inner key's future is dropped in the scope of the outer.
            drop(NUMBER.scope(2, {
                let last = LogsItsDrop("captured");
                async move { drop(last) }
            }));
            assert_eq!(NUMBER.get(), 1);
        });
        LOG.with(|log| assert_eq!(*log.borrow(), ["captured"]));
    });
}

#[test]
fn misuse_panics_and_says_so() {
    listen_to_panics();
    let text = |result: std::thread::Result<()>| {
        let payload = result.unwrap_err();
        match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
        }
    };
    let outside = catch_unwind(|| {
        NUMBER.get();
    });
    assert!(text(outside).contains("outside of its scope"));
    let twice = catch_unwind(AssertUnwindSafe(|| {
        let mut scoped = Box::pin(NUMBER.scope(1, async {}));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(scoped.as_mut().poll(&mut cx).is_ready());
        let _ = scoped.as_mut().poll(&mut cx);
    }));
    assert!(text(twice).contains("after it had given its output"));
    let error = NUMBER.try_with(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a task-local has no value outside of its scope"
    );
}
