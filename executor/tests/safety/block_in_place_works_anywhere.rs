//! L5, S3: `block_in_place` gives the permit away for as long as its closure runs, wherever it is
//! called: in a task, in a pinned one, in `block_on`, in `run`, inside itself, in a job of
//! `spawn_blocking`, without a free permit, outside of any runtime. It returns what the closure
//! returns, and passes its panic on.
//!
//! It fails, by a hang, when `begin_blocking` in `permit/sleep.rs` does not release the permit, or
//! keeps the queue (`flush`); when a thread in `block_on` is no worker before it blocks
//! (`ensure_worker` in `block_on/in_place.rs`); when a nested `block_on` sees to no poller
//! (`wait_above` in `block_on/nested.rs`); and when `Back` in `block_on/in_place.rs` is not dropped
//! on a panic.

use crate::common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    thread,
    time::Duration,
};

use common::{Count, Gate, limited, listen_to_panics};
use ws_executor::{
    block_in_place,
    runtime::{Builder, Handle, Runtime, Sysmon},
    spawn_pinned, task, time,
};

/// Without the monitor, which would take the permit by itself.
fn runtime(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap()
}

/// Blocks until tasks have run that are spawned here, and so are in this thread's queue: one, which
/// is in `runnext`, and some more.
fn blocks_for_its_own_queue() {
    for count in [1, 5] {
        let ran = Arc::new(Count::new());
        for _ in 0..count {
            let ran = ran.clone();
            drop(ws_executor::spawn(async move { ran.add() }));
        }
        block_in_place(|| ran.wait_for(count));
    }
}

common::with_workers! {
    fn in_tasks_on_every_worker(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            for _ in 0..10 {
                blocks_for_its_own_queue();
                task::yield_now().await;
            }
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    /// The closure may borrow, and what it returns comes back.
    fn borrows_and_returns(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let mut text = String::from("a");
            let len = block_in_place(|| {
                text.push('b');
                text.len()
            });
            task::yield_now().await;
            (text, len)
        });
        assert_eq!(runtime.block_on(task).unwrap(), ("ab".to_owned(), 2));
    }

    /// The thread keeps what is pinned to it, and goes on with it afterwards.
    fn in_a_pinned_task(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let here = thread::current().id();
            let other = ws_executor::spawn_local(async move {
                task::yield_now().await;
                thread::current().id()
            });
            let pinned = ws_executor::spawn_local(async move {
                let own = Rc::new(1);
                blocks_for_its_own_queue();
                assert_eq!(thread::current().id(), here);
                task::yield_now().await;
                blocks_for_its_own_queue();
                assert_eq!(thread::current().id(), here);
                *own
            });
            assert_eq!(other.await.unwrap(), here);
            assert_eq!(pinned.await.unwrap(), 1);
        });
        runtime.block_on(task).unwrap();
    }

    fn in_block_on(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            // At the first poll, when the thread is no worker yet, and later.
            block_in_place(|| {
                let ran = Arc::new(Count::new());
                drop(ws_executor::spawn({
                    let ran = ran.clone();
                    async move { ran.add() }
                }));
                ran.wait_for(1);
            });
            for _ in 0..10 {
                blocks_for_its_own_queue();
                task::yield_now().await;
            }
        });
    }

    fn in_run(workers: usize) {
        runtime(workers).run_local(async {
            let own = Rc::new(());
            for _ in 0..10 {
                blocks_for_its_own_queue();
                task::yield_now().await;
            }
            drop(own);
        });
        runtime(workers).run(async {
            blocks_for_its_own_queue();
            task::yield_now().await;
        });
    }

    /// The inner one has nothing to give away, and must not take back what the outer one gave.
    fn inside_itself(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..workers).map(|_| runtime.spawn(async {
            block_in_place(|| {
                block_in_place(blocks_for_its_own_queue);
                // The inner one has returned, and the outer one still blocks.
                blocks_for_its_own_queue();
            });
            blocks_for_its_own_queue();
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert!(runtime.handle().metrics().free_permits <= workers);
    }

    fn in_a_blocking_job(workers: usize) {
        let runtime = runtime(workers);
        let job = runtime.handle().spawn_blocking(|| {
            blocks_for_its_own_queue();
            5
        });
        assert_eq!(runtime.block_on(job).unwrap(), 5);
    }

    /// A `block_on` inside of it, and it inside of that.
    fn around_a_block_on(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let task = runtime.spawn(async move {
            block_in_place(|| handle.block_on(async {
                blocks_for_its_own_queue();
                ws_executor::spawn(async { 5 }).await.unwrap()
            }))
        });
        assert_eq!(runtime.block_on(task).unwrap(), 5);
    }

    /// The timer is armed after the permit was given away, when all others sleep already: somebody
    /// has to wait for it, and the thread that armed it does not.
    fn around_a_block_on_that_sleeps(workers: usize) {
        let sleeps = || async {
            let short = time::sleep(Duration::from_millis(1));
            Handle::current().block_on(short);
        };
        runtime(workers).run(sleeps());
        let runtime = runtime(workers);
        runtime.block_on(sleeps());
        runtime.block_on(runtime.spawn(sleeps())).unwrap();
    }

    /// All permits are taken when it comes back: it ends its poll without one.
    fn comes_back_to_no_permit(workers: usize) {
        let runtime = runtime(workers);
        let (inside, back, ended) = (Arc::new(Count::new()), Arc::new(Gate::default()), Arc::new(Count::new()));
        let first = {
            let (inside, back, ended) = (inside.clone(), back.clone(), ended.clone());
            runtime.spawn(async move {
                block_in_place(|| {
                    inside.add();
                    back.pass();
                });
                let child = ws_executor::spawn(async { 5 });
                ended.add();
                child.await.unwrap()
            })
        };
        inside.wait_for(1);
        let (gate, takers) = common::take_all_permits(&runtime, workers);
        assert_eq!(runtime.handle().metrics().free_permits, 0);
        back.open();
        ended.wait_for(1);
        assert_eq!(runtime.handle().metrics().free_permits, 0);
        gate.open();
        assert_eq!(runtime.block_on(first).unwrap(), 5);
        for task in takers {
            runtime.block_on(task).unwrap();
        }
    }

    fn a_panic_passes_through(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                block_in_place(|| panic!("expected: in the closure"));
            }));
            assert!(caught.is_err());
            // The block is over: the next one gives the permit away again.
            blocks_for_its_own_queue();
            block_in_place(|| panic!("expected: to the task"));
        })).collect();
        for task in tasks {
            let error = runtime.block_on(task).unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&"expected: to the task"));
        }
    }

    /// Of what is pinned, so that its next poll is on the thread on which the closure has panicked.
    fn a_panic_ends_the_block(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            let pinned = spawn_pinned(|| async {
                let caught = catch_unwind(|| block_in_place(|| panic!("expected: in the closure")));
                assert!(caught.is_err());
                task::yield_now().await;
                blocks_for_its_own_queue();
            });
            pinned.await.unwrap();
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

/// Also on a thread that has entered a handle, and so belongs to no runtime all the same.
#[test]
fn outside_of_any_runtime() {
    limited(|| {
        assert_eq!(block_in_place(|| 5), 5);
        assert_eq!(block_in_place(|| block_in_place(|| 6)), 6);
        let runtime = runtime(1);
        let _guard = runtime.enter();
        assert_eq!(block_in_place(|| 7), 7);
        blocks_for_its_own_queue();
    });
}
