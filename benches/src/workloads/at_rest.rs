//! What does a runtime cost before it does anything: its start and its end, and the bytes of what
//! waits in it?
//!
//! Bytes are those asked of the allocator, and resident memory is beside them: stacks of threads
//! are in that alone.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures::AsyncReadExt;

use super::{Figure, Row};
use crate::BoxError;
use crate::alloc;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};
use crate::sys;

pub(super) fn rows<R: Rt>() -> [Row; 6] {
    [
        Row::new(
            "start_and_end",
            "a runtime that runs one task",
            Figure::Time,
            start_and_end::<R>,
        ),
        Row::new("runtime_1w", "a runtime at rest", Figure::Bytes, |params| {
            runtime::<R>(params.on(1))
        }),
        Row::new("runtime_2w", "a runtime at rest", Figure::Bytes, |params| {
            runtime::<R>(params.on(2))
        }),
        Row::new(
            "runtime_64w",
            "a runtime at rest",
            Figure::Bytes,
            |params| runtime::<R>(params.on(64)),
        ),
        Row::new(
            "sleeping_100k",
            "a task that sleeps",
            Figure::Bytes,
            sleeping::<R>,
        ),
        Row::new(
            "connections_1000",
            "a connection, and a task that waits for bytes",
            Figure::Bytes,
            connections::<R>,
        ),
    ]
    .map(Row::full_only)
}

/// A runtime whose first task has ended.
fn begun<R: Rt>(params: Params) -> R {
    let runtime = R::build_to_drop(params.workers);
    let handle = runtime.handle();
    handle.block_on(handle.spawn(async {}));
    runtime
}

fn start_and_end<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let times = params.size(500, 100);
    drop(begun::<R>(params));
    let meter = Meter::start();
    for _ in 0..times {
        drop(begun::<R>(params));
    }
    Ok(Outcome::Measured(meter.stop(times)))
}

/// The bytes of what `make` makes so many of, each.
fn weighed<T>(of: usize, make: impl FnOnce() -> T) -> Result<Outcome, BoxError> {
    let before = sys::rss_bytes()?;
    alloc::start();
    let meter = Meter::start();
    let made = make();
    let measure = meter.stop(of);
    let each = |bytes: f64| bytes / of as f64;
    let bytes = each(alloc::live() as f64);
    alloc::stop();
    let rss = each(sys::rss_bytes()?.saturating_sub(before) as f64);
    drop(made);
    Ok(Outcome::Measured(measure.by(bytes).with("rss_bytes", rss)))
}

fn runtime<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    weighed(1, || begun::<R>(params))
}

/// Waits until `counted` is `wanted`.
fn wait_for(counted: &AtomicUsize, wanted: usize) {
    while counted.load(Ordering::Relaxed) < wanted {
        thread::sleep(Duration::from_millis(1));
    }
}

fn sleeping<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let tasks = params.size(100_000, 20_000);
    let runtime = begun::<R>(params);
    let begun = Arc::new(AtomicUsize::new(0));
    weighed(tasks, || {
        let handle = runtime.handle();
        for _ in 0..tasks {
            let begun = begun.clone();
            handle.detach(async move {
                let sleep = R::sleep(Duration::from_secs(3600));
                begun.fetch_add(1, Ordering::Relaxed);
                sleep.await;
            });
        }
        wait_for(&begun, tasks);
        // The last ones are polled by now, or soon.
        handle.block_on(handle.spawn(R::yield_now()));
    })
}

fn connections<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let wanted = params.size(1_000, 200);
    let runtime = begun::<R>(params);
    let handle = runtime.handle();
    let listener = handle.block_on(handle.spawn(R::listen()))?;
    let address = R::address(&listener)?;
    let heard = Arc::new(AtomicUsize::new(0));
    // The first one brings what all share.
    let mut clients = Vec::with_capacity(wanted + 1);
    let (counts, spawns) = (heard.clone(), handle.clone());
    handle.detach(async move {
        while let Ok(mut stream) = R::accept(&listener).await {
            let heard = counts.clone();
            spawns.detach(async move {
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte).await {
                    heard.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let mut connect = |until: usize| -> Result<(), BoxError> {
        while clients.len() < until {
            let mut client = TcpStream::connect(address)?;
            client.write_all(b"!")?;
            clients.push(client);
            wait_for(&heard, clients.len());
        }
        Ok(())
    };
    connect(1)?;
    let mut result = Ok(());
    let outcome = weighed(wanted, || result = connect(wanted + 1))?;
    result?;
    Ok(outcome)
}
