//! Several runtimes in one process, a runtime in a `static`, and one used from another's tasks:
//! each task runs on the threads of its own runtime, and each `spawn` goes to the runtime that is
//! current.
//!
//! It fails when `with_worker_of` in `context.rs` takes the thread's worker whatever its runtime
//! is.

use crate::common;

use std::{
    sync::{Arc, LazyLock, OnceLock},
    thread,
};

use common::{Count, limited};
use ws_executor::{
    runtime::{Builder, Handle, Runtime},
    task,
};

fn named(name: &str, workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .thread_name(name)
        .build()
        .unwrap()
}

fn on(name: &str) -> bool {
    thread::current()
        .name()
        .is_some_and(|own| own.starts_with(name))
}

common::with_workers! {
    fn in_a_lazy_static(workers: usize) {
        static LAZY: LazyLock<Runtime> = LazyLock::new(|| named("lazy", 2));
        let tasks: Vec<_> = (0..10 * workers).map(|n| LAZY.spawn(async move {
            assert!(on("lazy"));
            task::yield_now().await;
            ws_executor::spawn(async move { n }).await.unwrap()
        })).collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(LAZY.block_on(task).unwrap(), n);
        }
    }

    /// Two statics, used by many threads at a time.
    fn in_statics_from_many_threads(workers: usize) {
        static A: OnceLock<Runtime> = OnceLock::new();
        static B: OnceLock<Runtime> = OnceLock::new();
        let a = A.get_or_init(|| named("static-a", 1));
        let b = B.get_or_init(|| named("static-b", 2));
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    for n in 0..50 {
                        let in_b = b.spawn(async move {
                            assert!(on("static-b"));
                            n
                        });
                        let in_a = a.spawn(async move {
                            assert!(on("static-a"));
                            in_b.await.unwrap()
                        });
                        assert_eq!(b.block_on(in_a).unwrap(), n);
                    }
                });
            }
        });
    }

    fn from_the_tasks_of_another(workers: usize) {
        let (ping, pong) = (named("ping", workers), named("pong", workers));
        let (to_pong, from_ping) = async_channel(0);
        let (to_ping, from_pong) = async_channel(0);
        let answers = pong.spawn(serve("pong", from_ping, to_ping));
        let asks = ping.spawn(async move {
            let (mut to_pong, mut from_pong) = (to_pong, from_pong);
            for n in 0..500 {
                use futures::{SinkExt, StreamExt};
                assert!(on("ping"));
                to_pong.send(n).await.unwrap();
                assert_eq!(from_pong.next().await, Some(n + 1));
            }
        });
        ping.block_on(asks).unwrap();
        pong.block_on(answers).unwrap();
    }

    fn spawning_from_one_on_the_other(workers: usize) {
        let (outer, inner) = (named("outer", workers), named("inner", workers));
        let handle = inner.handle().clone();
        let task = outer.spawn(async move {
            assert!(on("outer"));
            let mut sum = 0;
            for n in 0..100 {
                let there = handle.spawn(async move {
                    assert!(on("inner"));
                    // What is spawned there without a handle stays there.
                    ws_executor::spawn(async move {
                        assert!(on("inner"));
                        n
                    }).await.unwrap()
                });
                sum += there.await.unwrap();
                assert!(on("outer"));
                ws_executor::spawn(async { assert!(on("outer")) }).await.unwrap();
            }
            sum
        });
        assert_eq!(outer.block_on(task).unwrap(), 99 * 100 / 2);
    }

    /// `enter` on a worker of another runtime, and guards that are dropped in any order.
    fn entering_another(workers: usize) {
        let (outer, inner) = (named("outer", workers), named("inner", workers));
        let handle = inner.handle().clone();
        let task = outer.spawn(async move {
            let there = {
                let _guard = handle.enter();
                ws_executor::spawn(async { assert!(on("inner")) })
            };
            there.await.unwrap();
            let own = Handle::current();
            let (first, second) = (handle.enter(), own.enter());
            drop(first);
            let here = ws_executor::spawn(async { assert!(on("outer")) });
            drop(second);
            here.await.unwrap();
            ws_executor::spawn(async { assert!(on("outer")) }).await.unwrap();
        });
        // The guards are not held across an await, but the compiler cannot know: it is a local
        // future.
        outer.block_on(task).unwrap();
    }

    fn block_on_of_one_inside_the_other(workers: usize) {
        let (outer, inner) = (named("outer", workers), named("inner", workers));
        let handle = inner.handle().clone();
        let task = outer.spawn(async move {
            handle.block_on(async {
                ws_executor::spawn(async { assert!(on("inner")) }).await.unwrap();
                5
            })
        });
        assert_eq!(outer.block_on(task).unwrap(), 5);
        let handle = inner.handle().clone();
        outer.block_on(async move {
            handle.block_on(async { ws_executor::spawn(async {}).await.unwrap() });
            // Back in the outer one.
            ws_executor::spawn(async { assert!(!on("inner")) }).await.unwrap();
        });
    }

    fn timers_of_several(workers: usize) {
        let all: Vec<_> = (0..3).map(|n| named(&format!("timed-{n}"), workers)).collect();
        let fired = Arc::new(Count::new());
        for runtime in &all {
            for ms in 0..10 {
                let fired = fired.clone();
                drop(runtime.spawn(async move {
                    ws_executor::time::sleep(std::time::Duration::from_millis(ms)).await;
                    fired.add();
                }));
            }
        }
        fired.wait_for(30);
    }

    /// Built and dropped by the hundred: nothing is left over that could get in the way.
    fn come_and_go(workers: usize) {
        for n in 0..50 {
            let runtime = runtime_of(workers);
            assert_eq!(runtime.block_on(runtime.spawn(async move { n })).unwrap(), n);
        }
    }
}

fn runtime_of(workers: usize) -> Runtime {
    common::runtime(workers)
}

fn async_channel(
    room: usize,
) -> (
    futures::channel::mpsc::Sender<u32>,
    futures::channel::mpsc::Receiver<u32>,
) {
    futures::channel::mpsc::channel(room)
}

async fn serve(
    name: &'static str,
    mut questions: futures::channel::mpsc::Receiver<u32>,
    mut answers: futures::channel::mpsc::Sender<u32>,
) {
    use futures::{SinkExt, StreamExt};
    while let Some(n) = questions.next().await {
        assert!(on(name));
        answers.send(n + 1).await.unwrap();
    }
}

/// A program may end while a runtime in a static still has tasks: see that nothing waits for them.
#[test]
fn a_process_ends_with_a_busy_static() {
    const CHILD: &str = "WS_TEST_CHILD_OF_STATICS";
    static BUSY: LazyLock<Runtime> = LazyLock::new(|| named("busy", 2));
    if std::env::var_os(CHILD).is_some() {
        let begun = Arc::new(Count::new());
        for _ in 0..4 {
            let begun = begun.clone();
            drop(BUSY.spawn(async move {
                begun.add();
                loop {
                    task::yield_now().await;
                }
            }));
        }
        begun.wait_for(2);
        return;
    }
    limited(|| {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "runtimes_in_statics::a_process_ends_with_a_busy_static",
                "--exact",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains("1 passed"),
            "{said}"
        );
    });
}
