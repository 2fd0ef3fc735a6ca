//! What does a task weigh that waits for ever, and how soon is the runtime gone with a million?
//!
//! The future is of no size, so that what is counted is the runtime's own: bytes asked of the
//! allocator, and resident memory beside it. The shutdown is the drop of the runtime, tasks
//! included. Both are from a foreign thread, through a handle.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use super::{Figure, Row};
use crate::BoxError;
use crate::alloc;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};
use crate::sys;

/// Tasks that wait, and that wait no longer.
static PARKED: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    [
        Row::new("parked_1M", "a parked task", Figure::Bytes, weigh::<R>).heavy(),
        Row::new(
            "shutdown_1M",
            "a parked task dropped",
            Figure::Time,
            shut_down::<R>,
        )
        .heavy()
        .full_only(),
    ]
}

/// Waits for ever. It is polled once, and says so.
#[derive(Debug)]
struct Parked;

impl Future for Parked {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        PARKED.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn size(params: Params) -> usize {
    params.size(1_000_000, 200_000)
}

fn park<R: Rt>(runtime: &R, n: usize) {
    let handle = runtime.handle();
    for _ in 0..n {
        handle.detach(Parked);
    }
    while PARKED.load(Ordering::Relaxed) < n {
        thread::sleep(Duration::from_millis(1));
    }
}

fn weigh<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let n = size(params);
    let runtime = R::build_to_drop(params.workers);
    runtime.handle().block_on(runtime.handle().spawn(async {}));
    let rss_before = sys::rss_bytes()?;
    alloc::start();
    let meter = Meter::start();
    park(&runtime, n);
    let measure = meter.stop(n);
    let bytes = alloc::live() as f64 / n as f64;
    alloc::stop();
    let rss = sys::rss_bytes()?.saturating_sub(rss_before) as f64 / n as f64;
    Ok(Outcome::Measured(measure.by(bytes).with("rss_bytes", rss)))
}

fn shut_down<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let n = size(params);
    let runtime = R::build_to_drop(params.workers);
    park(&runtime, n);
    let meter = Meter::start();
    drop(runtime);
    let measure = meter.stop(n);
    let dropped = DROPPED.load(Ordering::Relaxed);
    if dropped != n {
        return Err(format!("{dropped} of {n} futures were dropped").into());
    }
    Ok(Outcome::Measured(measure))
}
