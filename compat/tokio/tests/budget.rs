//! What is always ready gives way: tokio's own `sync` and `io` on the tasks of `ws`.
//!
//! It fails (it hangs, and the test's limit of time ends it) if `context::fill` does nothing, and
//! if `context::inside` is not around the threads of the runtime.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::{Mutex, Semaphore, mpsc, oneshot},
    task::coop,
};

fn both() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let current = Builder::new_current_thread().enable_all().build();
    [multi.unwrap(), current.unwrap()]
}

/// Runs `greedy` as a task, for ever, and expects that another task has its turn beside it.
fn gives_way<F>(greedy: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for runtime in both() {
        let task = runtime.spawn(greedy());
        let other = runtime.spawn(async {});
        runtime.block_on(other).unwrap();
        task.abort();
        let error = runtime.block_on(task).unwrap_err();
        assert!(error.is_cancelled());
    }
}

#[test]
fn a_channel_that_is_never_empty() {
    gives_way(|| async {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        loop {
            sender.send(()).unwrap();
            receiver.recv().await.unwrap();
        }
    });
}

#[test]
fn a_mutex_that_is_free() {
    gives_way(|| async {
        let mutex = Mutex::new(());
        loop {
            drop(mutex.lock().await);
        }
    });
}

#[test]
fn a_semaphore_that_has_permits() {
    gives_way(|| async {
        let semaphore = Semaphore::new(1);
        loop {
            drop(semaphore.acquire().await.unwrap());
        }
    });
}

#[test]
fn a_pipe_that_has_room() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    gives_way(|| async {
        let (mut here, mut there) = tokio::io::duplex(16);
        loop {
            here.write_all(b"x").await.unwrap();
            there.read_u8().await.unwrap();
        }
    });
}

#[test]
fn the_root_gives_way_too() {
    for runtime in both() {
        let done = Arc::new(AtomicBool::new(false));
        let told = done.clone();
        runtime.spawn(async move { told.store(true, SeqCst) });
        runtime.block_on(async {
            let mutex = Mutex::new(());
            while !done.load(SeqCst) {
                drop(mutex.lock().await);
            }
        });
    }
}

/// How many units a poll has left.
fn units() -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    std::iter::from_fn(|| match coop::poll_proceed(&mut cx) {
        Poll::Ready(unit) => {
            unit.made_progress();
            Some(())
        }
        Poll::Pending => None,
    })
    .take(1000)
    .count()
}

#[test]
fn each_poll_has_all_units() {
    for runtime in both() {
        runtime.block_on(async {
            for _ in 0..3 {
                let task = tokio::spawn(async {
                    let first = units();
                    tokio::task::yield_now().await;
                    (first, units())
                });
                assert_eq!(task.await.unwrap(), (127, 127));
            }
        });
        assert_eq!(units(), 1000, "there is no limit outside of a runtime");
    }
}

#[test]
fn code_that_blocks_has_no_limit() {
    for runtime in both() {
        let blocking = runtime.spawn_blocking(units);
        assert_eq!(runtime.block_on(blocking).unwrap(), 1000);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let task = tokio::spawn(async {
            let before = units();
            let inside = tokio::task::block_in_place(units);
            (before, inside, units())
        });
        assert_eq!(task.await.unwrap(), (127, 1000, 127));
    });
}

/// A refusal is over with the next poll, also above another one.
#[test]
fn a_root_inside_code_that_blocks_goes_on() {
    let [runtime, _] = both();
    let task = runtime.spawn(async {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let mutex = Mutex::new(());
                for _ in 0..1000 {
                    drop(mutex.lock().await);
                }
            });
        });
    });
    runtime.block_on(task).unwrap();
}

#[test]
fn unconstrained_has_no_limit() {
    for runtime in both() {
        let task = runtime.spawn(tokio::task::unconstrained(async { units() }));
        assert_eq!(runtime.block_on(task).unwrap(), 1000);
    }
}

/// With tokio's words.
fn panics_with(words: &str, f: impl FnOnce() + std::panic::UnwindSafe) {
    let payload = std::panic::catch_unwind(f).unwrap_err();
    let said = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap();
    assert!(said.contains(words), "{said}");
}

#[test]
fn blocking_calls_inside_a_task_panic() {
    let words = "Cannot block the current thread from within a runtime";
    for runtime in both() {
        let task = runtime.spawn(async move {
            panics_with(words, || {
                let (_sender, receiver) = oneshot::channel::<()>();
                let _ = receiver.blocking_recv();
            });
        });
        runtime.block_on(task).unwrap();
        runtime.block_on(async {
            panics_with(words, || drop(Mutex::new(()).blocking_lock()));
        });
        let (sender, receiver) = oneshot::channel();
        let blocking = runtime.spawn_blocking(move || receiver.blocking_recv().unwrap());
        sender.send(7).unwrap();
        assert_eq!(runtime.block_on(blocking).unwrap(), 7);
    }
}

#[test]
fn a_runtime_inside_a_runtime_panics() {
    for runtime in both() {
        let task = runtime.spawn(async {
            let other = Builder::new_current_thread().build().unwrap();
            panics_with("Cannot start a runtime from within a runtime", || {
                other.block_on(async {});
            });
            other.shutdown_background();
        });
        runtime.block_on(task).unwrap();
    }
}
