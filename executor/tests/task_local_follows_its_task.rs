//! `task_local!`: a value is there while its future is polled or dropped, on whatever thread, and nowhere
//! else: not in other tasks, not after a panic, not outside.
//!
//! It fails when the guard in `LocalKey::enter` does not swap back, and when the drop of a
//! `TaskLocalFuture` does not enter the scope.

mod common;

use std::{
    cell::RefCell,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use common::{Count, OnDrop, listen_to_panics, runtime};
use ws_executor::task;

ws_executor::task_local! {
    static NUMBER: usize;
    /// One with more attributes.
    pub(crate) static NAME: String;
    static LOG: RefCell<Vec<&'static str>>
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
    let within = catch_unwind(|| {
        NUMBER.sync_scope(1, || NUMBER.with(|_| NUMBER.sync_scope(2, || ())));
    });
    assert!(text(within).contains("inside `with`"));
    assert!(
        NUMBER.try_with(|_| ()).is_err(),
        "the slot was not put back"
    );
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
