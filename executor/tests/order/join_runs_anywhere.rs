//! Where a `join` may be called: in tasks, pinned ones too, in every kind of `block_on`, in
//! branches, on a thread that has entered a runtime; and outside of all of them it says so, and
//! where it was called. So do `scope`, `fork` and `compute`.
//!
//! It fails when `prepare` in `fork_join/owner.rs` takes a thread that has no branch deque for one
//! that there is no P for; and for the last two, when `fork_at` or `spawn_for_all` in
//! `task/builder.rs` says nothing of the place.

use crate::common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Waker},
};

use common::{Count, Gate, runtime};
use ws_executor::{compute, fork, join, runtime::Builder, scope, spawn, spawn_local};

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

common::with_workers! {
    fn in_tasks_of_all_kinds(workers: usize) {
        let runtime = runtime(workers);
        assert_eq!(common::runtime(workers).run(async { fib(15) }), 610);
        assert_eq!(runtime.block_on(async { fib(15) }), 610);
        runtime.block_on(async {
            assert_eq!(spawn(async { fib(15) }).await.unwrap(), 610);
            assert_eq!(spawn_local(async { fib(15) }).await.unwrap(), 610);
            let blocking = ws_executor::spawn_blocking(|| fib(15));
            assert_eq!(blocking.await.unwrap(), 610);
            // A `block_on` in a task, and one in a branch.
            let handle = ws_executor::runtime::Handle::current();
            assert_eq!(handle.block_on(async { fib(15) }), 610);
            let inner = || handle.block_on(async { fib(15) });
            assert_eq!(join(inner, inner), (610, 610));
        });
    }

    fn on_a_thread_that_entered_a_runtime(workers: usize) {
        let runtime = runtime(workers);
        let entered = runtime.enter();
        for _ in 0..100 {
            assert_eq!(fib(10), 55);
        }
        drop(entered);
        // Once more, and a branch is taken by a worker of that runtime; at a later fork, if workers
        // were woken in vain before and none is called for this one.
        let _entered = runtime.enter();
        let taken = Gate::default();
        let ((), by) = join(
            || while workers > 1 && !taken.is_open() { join(|| (), || ()); },
            || {
                taken.open();
                common::on_a_worker()
            },
        );
        assert_eq!(by, workers > 1);
    }

    fn many_threads_at_once(workers: usize) {
        let runtime = runtime(workers);
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let _entered = runtime.enter();
                    assert_eq!(fib(16), 987);
                });
            }
        });
    }

    /// A left-leaning tree: each level waits for the whole rest in its first branch. More branches
    /// wait than a deque first has room for.
    fn a_tree_that_leans_to_one_side(workers: usize) {
        fn lean(depth: u64) -> u64 {
            if depth == 0 {
                return 0;
            }
            let (rest, one) = join(|| lean(depth - 1), || 1);
            rest + one
        }
        fn lean_right(depth: u64) -> u64 {
            if depth == 0 {
                return 0;
            }
            let (one, rest) = join(|| 1, || lean_right(depth - 1));
            rest + one
        }
        let runtime = Builder::new().workers(workers).stack_size(64 << 20).build().unwrap();
        runtime.block_on(runtime.spawn(async {
            assert_eq!(lean(20_000), 20_000);
            assert_eq!(lean_right(20_000), 20_000);
        })).unwrap();
    }
}

/// What a call that panics says.
fn complaint(call: impl FnOnce()) -> String {
    let error = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let text = error.downcast_ref::<String>();
    text.expect("it is made for this call").clone()
}

#[test]
fn outside_of_a_runtime_it_says_so() {
    common::limited(|| {
        common::listen_to_panics();
        let text = complaint(|| {
            join(|| (), || ());
        });
        assert!(text.contains("outside of a runtime"), "{text}");
        assert!(text.contains(file!()), "{text}");
    });
}

#[test]
fn outside_of_a_runtime_a_scope_says_so() {
    common::limited(|| {
        common::listen_to_panics();
        let mut line = 0;
        let text = complaint(|| {
            line = line!() + 1;
            scope(|_| unreachable!("it has no runtime"));
        });
        assert!(text.contains("outside of a runtime"), "{text}");
        assert!(text.contains(&format!("{}:{line}:", file!())), "{text}");
    });
}

/// They are futures, and the place is that of the call and not of the poll.
#[test]
fn outside_of_a_runtime_a_fork_and_a_computation_say_so() {
    fn poll(future: impl Future) {
        let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    }
    common::limited(|| {
        common::listen_to_panics();
        // The calls themselves do nothing yet.
        let (fork_line, fork) = (line!(), fork(async { unreachable!("it has no runtime") }));
        let (compute_line, compute) = (line!(), compute(|| unreachable!("it has no runtime")));
        let polled = [
            ("ws::fork", fork_line, complaint(|| poll(fork))),
            ("ws::compute", compute_line, complaint(|| poll(compute))),
        ];
        for (call, line, text) in polled {
            let place = format!("`{call}` at {}:{line}:", file!());
            assert!(text.starts_with(&place), "{text}");
            assert!(text.contains("outside of a ws runtime"), "{text}");
        }
    });
}

/// All threads that may be have their hands full: there is no P left, and a join is two calls.
#[test]
fn without_a_free_place_it_calls_both() {
    common::limited(|| {
        let runtime = Builder::new().workers(1).max_threads(2).build().unwrap();
        let (leave, inside) = (Gate::default(), Count::new());
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    let _entered = runtime.enter();
                    let ((), one) = join(
                        || {
                            inside.add();
                            leave.pass();
                        },
                        || 1,
                    );
                    assert_eq!(one, 1);
                });
            }
            inside.wait_for(40);
            leave.open();
        });
    });
}
