//! What must balance: futures, permits, threads, descriptors.

use std::{
    collections::BTreeMap,
    fmt, fs,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    thread,
};

use ws::runtime::Runtime;

/// The books of one epoch. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Books(Arc<Inner>);

struct Inner {
    random: AtomicU64,
    made: AtomicU64,
    dropped: AtomicU64,
    done: Mutex<BTreeMap<&'static str, u64>>,
}

impl Books {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Inner {
            random: AtomicU64::new(seed),
            made: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            done: Mutex::default(),
        }))
    }

    /// A random number below `bound` (splitmix64, one state for all threads).
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let mut z = self.0.random.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// Enters a future: it has to be dropped, once, before the epoch is over.
    pub(crate) fn enter<F: Future>(&self, future: F) -> Entered<F> {
        self.0.made.fetch_add(1, Relaxed);
        Entered {
            future: Box::pin(future),
            books: self.clone(),
        }
    }

    /// Notes that a load has done so many operations.
    pub(crate) fn done(&self, load: &'static str, operations: u64) {
        *self
            .0
            .done
            .lock()
            .expect("no panic under it")
            .entry(load)
            .or_default() += operations;
    }

    /// Waits until nothing is alive: then every permit is there.
    pub(crate) fn at_rest(&self, runtime: &Runtime, workers: usize, what: &str) {
        loop {
            let metrics = runtime.handle().metrics();
            assert!(metrics.free_permits <= workers, "a permit too many: {what}");
            if metrics.live_tasks == 0 && metrics.free_permits == workers {
                break;
            }
            thread::yield_now();
        }
        self.balance(what);
    }

    /// Waits until what was made is dropped; the watchdog ends it if it never is.
    pub(crate) fn balance(&self, what: &str) {
        let made = self.0.made.load(Relaxed);
        loop {
            let dropped = self.0.dropped.load(Relaxed);
            assert!(dropped <= made, "dropped twice: {what}");
            if dropped == made {
                return;
            }
            thread::yield_now();
        }
    }
}

/// A future that is in the books.
pub(crate) struct Entered<F> {
    future: Pin<Box<F>>,
    books: Books,
}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl<F> Drop for Entered<F> {
    fn drop(&mut self) {
        self.books.0.dropped.fetch_add(1, Relaxed);
    }
}

/// The sums of all epochs.
#[derive(Default)]
pub(crate) struct Tally {
    futures: u64,
    done: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, books: &Books) {
        self.futures += books.0.made.load(Relaxed);
        for (load, operations) in &*books.0.done.lock().expect("no panic under it") {
            *self.done.entry(load).or_default() += operations;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}  futures, each dropped once", self.futures)?;
        for (load, operations) in &self.done {
            write!(f, "\n{operations:>12}  {load}")?;
        }
        Ok(())
    }
}

/// What the process holds, as far as the system tells.
#[derive(Clone, Copy)]
pub(crate) struct Resources {
    threads: usize,
    pub(crate) files: usize,
    resident_kib: u64,
}

impl Resources {
    pub(crate) fn now() -> Self {
        let count = |folder| fs::read_dir(folder).map_or(0, Iterator::count);
        let pages = fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| {
                text.split(' ')
                    .nth(1)
                    .and_then(|pages| pages.parse::<u64>().ok())
            });
        Self {
            threads: count("/proc/self/task"),
            files: count("/proc/self/fd"),
            resident_kib: pages.unwrap_or(0) * 4,
        }
    }

    /// Waits until the threads of the last runtime are gone: those that only this program has stay.
    pub(crate) fn wait_for_threads() {
        let of_a_runtime = || {
            let tasks = fs::read_dir("/proc/self/task")
                .into_iter()
                .flatten()
                .flatten();
            tasks
                .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
                .filter(|name| name.starts_with("ws-worker"))
                .count()
        };
        while of_a_runtime() > 0 {
            thread::yield_now();
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            threads,
            files,
            resident_kib,
        } = self;
        write!(
            f,
            "{threads} threads, {files} descriptors, {} MiB resident",
            resident_kib / 1024
        )
    }
}
