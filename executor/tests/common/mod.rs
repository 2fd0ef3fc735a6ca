//! What the tests share: runs with 1, 2 and 8 workers under a time limit, gates and counts to wait
//! for events instead of sleeping, and ears for what is logged and which panics the hook saw.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test file uses a part of it"
)]

mod hook;
mod log;
mod random;
mod scale;
mod skip;
mod stack;

use std::{
    any::Any,
    cell::Cell,
    pin::pin,
    sync::{Arc, Condvar, Mutex, Once, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread, ThreadId},
    time::Duration,
};

pub(crate) use hook::Hook;
pub(crate) use log::{line, subscribe};
pub(crate) use random::Random;
pub(crate) use scale::scaled;
pub(crate) use skip::skipped;
pub(crate) use stack::{calls, here};
use ws_executor::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// A test that takes longer hangs. No test asserts anything about time. `WS_TEST_PATIENCE`
/// multiplies it, for checkers that slow everything down.
const LIMIT: Duration = Duration::from_secs(60);

fn limit() -> Duration {
    let times = std::env::var("WS_TEST_PATIENCE").map_or(1, |text| text.parse().unwrap());
    LIMIT * times
}

/// Makes a test of each function, for 1, 2 and 8 workers.
macro_rules! with_workers {
    ($($(#[$attribute:meta])* fn $name:ident($workers:ident: usize) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn scenario($workers: usize) $body

            #[test]
            fn with_1() { common::limited(|| scenario(1)) }
            #[test]
            fn with_2() { common::limited(|| scenario(2)) }
            #[test]
            fn with_8() { common::limited(|| scenario(8)) }
        }
    )*};
}

pub(crate) use with_workers;

/// Runs a test on a thread of its own, and fails if it hangs.
pub(crate) fn limited(test: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("test".to_owned())
        .spawn(move || {
            test();
            // The other end is gone only if the limit is over.
            let _ = send.send(());
        })
        .unwrap();
    match receive.recv_timeout(limit()) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(payload) = thread.join() {
                std::panic::resume_unwind(payload);
            }
        }
    }
}

/// For [`Builder::shutdown_grace`]: an end that is longer under way than a test may take hangs, as
/// any other test, and one that comes back has dropped everything.
pub(crate) const GRACE: Duration = Duration::from_secs(3600);

pub(crate) fn runtime(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).shutdown_grace(GRACE);
    builder.build().unwrap()
}

/// Waits until the monitor of a runtime has looked so often from now on: for what must not happen
/// meanwhile. It looks as long as something runs there, or waits for a thread.
pub(crate) fn pass_looks(runtime: &Runtime, count: u64) {
    let until = runtime.handle().metrics().monitor_looks + count;
    while runtime.handle().metrics().monitor_looks < until {
        thread::yield_now();
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What every other executor's `block_on` comes to.
pub(crate) fn block_on_elsewhere<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Whether this thread belongs to a runtime with the default thread name.
pub(crate) fn on_a_worker() -> bool {
    thread::current()
        .name()
        .is_some_and(|name| name.starts_with("ws-worker"))
}

/// A count that threads can wait for.
#[derive(Debug, Default)]
pub(crate) struct Count {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Count {
    pub(crate) const fn new() -> Self {
        Self {
            count: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn add(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn get(&self) -> usize {
        *self.count.lock().unwrap()
    }

    /// Blocks the thread until there are `at_least` so many.
    pub(crate) fn wait_for(&self, at_least: usize) {
        let mut count = self.count.lock().unwrap();
        while *count < at_least {
            count = self.changed.wait(count).unwrap();
        }
    }
}

/// Closed until it is opened, for good.
#[derive(Debug, Default)]
pub(crate) struct Gate(Count);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.add();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.get() > 0
    }

    /// Blocks the thread until it is open.
    pub(crate) fn pass(&self) {
        self.0.wait_for(1);
    }
}

/// Takes all permits of a runtime that is otherwise idle, by tasks that do not come back before the
/// gate is open.
pub(crate) fn take_all_permits(
    runtime: &Runtime,
    workers: usize,
) -> (Arc<Gate>, Vec<JoinHandle<()>>) {
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let takers = (0..workers).map(|_| {
        let (begun, gate) = (begun.clone(), gate.clone());
        runtime.spawn(async move {
            begun.add();
            gate.pass();
        })
    });
    let takers = takers.collect();
    begun.wait_for(workers);
    (gate, takers)
}

/// Keeps a value until the process ends, for tests whose closures are not to carry counts of
/// references. What was only leaked would be a finding of LeakSanitizer.
pub(crate) fn forever<T: Any + Send + Sync>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let value: &'static T = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(value);
    value
}

/// Calls a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Where something was dropped.
#[derive(Debug, Default)]
pub(crate) struct Place(Mutex<Vec<ThreadId>>);

impl Place {
    pub(crate) fn note(&self) {
        self.0.lock().unwrap().push(thread::current().id());
    }

    pub(crate) fn all(&self) -> Vec<ThreadId> {
        self.0.lock().unwrap().clone()
    }
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call` while [`is_inside`] says so on this thread.
pub(crate) fn inside<R>(call: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let _back = OnDrop(|| INSIDE.set(before));
    call()
}

pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens to the panic hook, which says nothing any more of panics whose message begins with
/// `expected`.
pub(crate) fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let message = match payload.downcast_ref::<&str>() {
                Some(text) => text,
                None => payload
                    .downcast_ref::<String>()
                    .map_or("expected: not text", |text| text),
            };
            if message.starts_with("expected") {
                PANICS.lock().unwrap().push(message.to_owned());
            } else {
                before(info);
            }
        }));
    });
}

/// How often the hook saw exactly this message.
pub(crate) fn panics_of(message: &str) -> usize {
    PANICS
        .lock()
        .unwrap()
        .iter()
        .filter(|seen| *seen == message)
        .count()
}

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects what is logged in this process.
pub(crate) fn listen_to_log() {
    subscribe(|event| LOG.lock().unwrap().push(log::line(event)));
}

/// The events that were logged with all these words in them.
pub(crate) fn logged(words: &[&str]) -> Vec<String> {
    let log = LOG.lock().unwrap();
    log.iter()
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .cloned()
        .collect()
}
