//! S6, S7: what panics for a reason that the caller can mend says so at the caller's line: a timer
//! whose runtime is gone, a thread too many in a runtime, and a root whose runtime another task's
//! panic has ended.
//!
//! Each fails if a `#[track_caller]` on its way is lost, or the cause in its message.

mod common;

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{Arc, Once},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use common::limited;
use futures::channel::oneshot;
use ws_executor::{
    runtime::{Builder, Clock, Runtime, UnhandledPanic},
    time,
};

const HOUR: Duration = Duration::from_secs(3600);

thread_local! {
    /// Where the next panic of this thread is expected.
    static EXPECTED: Cell<Option<u32>> = const { Cell::new(None) };
    /// Where it was, and what it said.
    static SEEN: Cell<Option<(String, u32, String)>> = const { Cell::new(None) };
}

/// Says that the line after this one panics.
fn below(line: u32) {
    EXPECTED.set(Some(line + 1));
}

/// Runs `code`, which has to say [`below`] and panic there, and returns the message.
fn panics(code: impl FnOnce()) -> String {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if EXPECTED.get().is_none() {
                return others(info);
            }
            let location = info.location().expect("it is known in every panic");
            let payload = info.payload();
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            let file = location.file().to_owned();
            SEEN.set(Some((file, location.line(), text.unwrap_or_default())));
        }));
    });
    let caught = panic::catch_unwind(AssertUnwindSafe(code));
    let expected = EXPECTED.take().expect("the code says where it panics");
    assert!(caught.is_err(), "no panic on line {expected}");
    let (file, line, message) = SEEN.take().expect("the hook was called");
    assert_eq!((file.as_str(), line), (file!(), expected), "{message}");
    message
}

/// Polls once, as a foreign executor would.
#[track_caller]
fn poll(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn a_timer_whose_runtime_is_gone() {
    limited(|| {
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let mut armed = time::sleep(HOUR);
        poll(&mut armed);
        let fresh = time::sleep(HOUR);
        let mut interval = time::interval_at(time::Instant::now() + HOUR, HOUR);
        let timeout = time::timeout(HOUR, std::future::pending::<()>());
        drop(entered);
        drop(runtime);
        let says = |message: String| assert!(message.contains("had shut down"), "{message}");
        says(panics(|| {
            poll(async {
                below(line!());
                armed.await;
            });
        }));
        says(panics(|| {
            poll(async {
                below(line!());
                fresh.await;
            });
        }));
        says(panics(|| {
            poll(async {
                below(line!());
                interval.tick().await;
            });
        }));
        says(panics(|| {
            poll(async {
                below(line!());
                let _ = timeout.await;
            });
        }));
    });
}

#[test]
fn a_root_that_another_tasks_panic_has_cancelled() {
    limited(|| {
        common::listen_to_panics();
        for local in [false, true] {
            let builder = Builder::new()
                .workers(1)
                .unhandled_panic(UnhandledPanic::ShutdownRuntime);
            let runtime = builder.build().unwrap();
            let message = panics(|| {
                let root = async {
                    drop(ws_executor::spawn(async { panic!("expected: a task's") }));
                    std::future::pending::<()>().await;
                };
                if local {
                    below(line!());
                    runtime.run_local(root);
                } else {
                    below(line!());
                    runtime.run(root);
                }
            });
            assert!(message.contains("ShutdownRuntime"), "{message}");
        }
    });
}

#[test]
fn a_thread_too_many_where_time_is_virtual() {
    limited(|| {
        let builder = Builder::new()
            .workers(1)
            .max_threads(2)
            .clock(Clock::Paused);
        let runtime = Arc::new(builder.build().unwrap());
        let entered = runtime.enter();
        // What they wait for is none of the runtime's.
        let hold = time::hold();
        drop(entered);
        let guests: Vec<_> = (0..4)
            .map(|_| {
                let (let_go, gone) = oneshot::channel::<()>();
                let runtime = runtime.clone();
                let guest = thread::spawn(move || runtime.block_on(gone).unwrap());
                (let_go, guest)
            })
            .collect();
        while runtime.handle().metrics().processors.len() < 4 {
            thread::yield_now();
        }
        let message = panics(|| {
            below(line!());
            runtime.block_on(async {});
        });
        assert!(message.contains("too many threads"), "{message}");
        for (let_go, guest) in guests {
            let_go.send(()).unwrap();
            guest.join().unwrap();
        }
        drop(hold);
        // There is room again.
        runtime.block_on(async {});
    });
}
