//! What `cargo xtask counts` counts instructions of: a hot path, so many times.
//!
//! `ws-count PATH TIMES on|off own|real`: the monitor, and the clock. The thread of `main` is the
//! only worker, but for `steal`, which needs a second. The counts of two runs, with different
//! `TIMES`, are subtracted: the start and the end of the program are not in them. How often tasks
//! were polled meanwhile is printed.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;

#[path = "../own_clock.rs"]
mod own_clock;

/// Children that the thief finds: it takes half of them, then half of the rest.
const CHILDREN: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, times, sysmon, clock] = &arguments[..] else {
        return Err("usage: ws-count PATH TIMES on|off own|real".into());
    };
    let times = times.parse()?;
    // A program of one thread has a cheaper allocator in glibc: with this one there are always two,
    // monitor or not.
    std::thread::spawn(|| {
        loop {
            std::thread::park();
        }
    });
    let workers = if path == "steal" { 2 } else { 1 };
    let runtime = ws::runtime::Builder::new()
        .workers(workers)
        .sysmon(if sysmon == "on" {
            ws::runtime::Sysmon::On
        } else {
            ws::runtime::Sysmon::Off
        })
        .seed(1)
        .build()?;
    let handle = runtime.handle().clone();
    let step = Duration::from_micros(if clock == "own" { 1 } else { 0 });
    own_clock::within(step, || {
        match path.as_str() {
            "spawn_join" => runtime.run(spawn_join(times)),
            "yield" => runtime.run(yields(times)),
            "wake" => runtime.run(wakes(times)),
            "ping_pong" => runtime.run(ping_pong(times)),
            "steal" => runtime.run(steals(times)),
            _ => return Err(format!("no path `{path}`")),
        }
        Ok(())
    })?;
    let processors = handle.metrics().processors;
    let polls: u64 = processors.iter().map(|processor| processor.polls).sum();
    println!("polls {polls}");
    Ok(())
}

/// As many as there are children in `steal`, so that the queue is neither empty nor full.
async fn spawn_join(times: usize) {
    for _ in 0..times / CHILDREN {
        let joins: Vec<_> = (0..CHILDREN)
            .map(|number| ws::spawn(async move { number }))
            .collect();
        for (number, join) in joins.into_iter().enumerate() {
            assert_eq!(join.await.expect("it does not panic"), number);
        }
    }
}

async fn yields(times: usize) {
    let joins: Vec<_> = (0..CHILDREN)
        .map(|_| {
            ws::spawn(async move {
                for _ in 0..times / CHILDREN {
                    ws::task::yield_now().await;
                }
            })
        })
        .collect();
    for join in joins {
        join.await.expect("it does not panic");
    }
}

/// One task wakes another, and yields so that it runs.
async fn wakes(times: usize) {
    #[derive(Default)]
    struct Bell {
        rung: AtomicBool,
        waker: AtomicWaker,
    }
    let bell = Arc::new(Bell::default());
    let ours = Arc::clone(&bell);
    let woken = ws::spawn(async move {
        for _ in 0..times {
            poll_fn(|cx| {
                ours.waker.register(cx.waker());
                match ours.rung.swap(false, Ordering::AcqRel) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        }
    });
    // It waits before the first wake.
    ws::task::yield_now().await;
    for _ in 0..times {
        bell.rung.store(true, Ordering::Release);
        bell.waker.wake();
        ws::task::yield_now().await;
    }
    woken.await.expect("it does not panic");
}

async fn ping_pong(times: usize) {
    let (ping, pinged) = async_channel::bounded(1);
    let (pong, ponged) = async_channel::bounded(1);
    let answers = ws::spawn(async move {
        while let Ok(trip) = pinged.recv().await {
            pong.send(trip).await.expect("who asks waits for it");
        }
    });
    for trip in 0..times {
        ping.send(trip).await.expect("who answers lives");
        assert_eq!(ponged.recv().await, Ok(trip));
    }
    ping.close();
    answers.await.expect("it does not panic");
}

/// A task spawns children and blocks its thread, unannounced, until the other one has run them all.
async fn steals(times: usize) {
    let left = Arc::new(AtomicUsize::new(0));
    for _ in 0..times / CHILDREN {
        let (done, all_done) = mpsc::sync_channel(1);
        left.store(CHILDREN, Ordering::Relaxed);
        for _ in 0..CHILDREN {
            let (left, done) = (Arc::clone(&left), done.clone());
            drop(ws::spawn(async move {
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    done.send(()).expect("the parent waits for it");
                }
            }));
        }
        all_done.recv().expect("the last child says so");
        // The other thread goes to sleep again, or not: a yield lets it.
        pin!(ws::task::yield_now()).await;
    }
}
