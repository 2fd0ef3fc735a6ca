//! S7, L6: a thread of the runtime that waits for a socket when the runtime ends gets an answer
//! within the grace, wherever it waits: in a task, in `spawn_blocking` or in `block_in_place`, by a
//! `block_on` of the runtime or of another executor. So the end does not take all of its grace, and
//! leaves neither thread, future nor descriptor.
//!
//! It fails if `see_to_the_end` in `executor/src/sched/shutdown.rs` does not call
//! `shut_down_resources` before the grace is over.

#![cfg(target_os = "linux")]

mod net_support;

use std::{
    fs,
    future::Future,
    io::{self, Read},
    os::unix::net::UnixStream as Peer,
    pin::Pin,
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use futures::{AsyncReadExt, executor};
use net_support::{Limit, WORKERS, runtime};
use ws::{
    net::UnixStream,
    runtime::{Handle, Runtime},
    task::JoinHandle,
};

/// Where the threads wait.
const PLACES: usize = 3;
/// One for each of two executors.
const READS: usize = PLACES * 2;

/// The grace of the first end. No time is long enough for every machine, so an end that took all of
/// its grace is tried again with four times as much. Where nobody is answered, no grace is enough.
const GRACE: Duration = Duration::from_millis(400);
const TRIES: u32 = 4;

type Reading = Pin<Box<dyn Future<Output = io::Result<usize>> + Send>>;

/// Reads from a peer that never writes, and says when it waits.
fn read(mut stream: UnixStream, waits: Sender<()>) -> Reading {
    Box::pin(async move {
        let mut buffer = [0];
        let mut read = stream.read(&mut buffer);
        std::future::poll_fn(|cx| {
            let polled = Pin::new(&mut read).poll(cx);
            // It is heard once, and whoever heard it may be gone.
            let _ = waits.send(());
            polled
        })
        .await
    })
}

/// Begins all reads, and returns their tasks and the other ends.
fn begin(
    runtime: &Runtime,
    answers: &Sender<io::Result<usize>>,
) -> (Vec<JoinHandle<()>>, Vec<Peer>) {
    let (waits, waiting) = channel();
    let (mut tasks, mut peers) = (Vec::new(), Vec::new());
    for place in 0..PLACES {
        for is_ours in [true, false] {
            let (stream, peer) = Peer::pair().expect("there is room");
            let stream = {
                let _guard = runtime.enter();
                UnixStream::from_std(stream).expect("there is room")
            };
            peers.push(peer);
            let (handle, waits, answers) =
                (runtime.handle().clone(), waits.clone(), answers.clone());
            let waits_for_it = move || {
                let read = read(stream, waits);
                let answer = if is_ours {
                    handle.block_on(read)
                } else {
                    executor::block_on(read)
                };
                answers.send(answer).expect("somebody listens");
            };
            tasks.push(match place {
                0 => runtime.spawn(async { waits_for_it() }),
                1 => runtime.handle().spawn_blocking(waits_for_it),
                _ => runtime.spawn(async { ws::block_in_place(waits_for_it) }),
            });
            waiting.recv().expect("it waits");
        }
    }
    (tasks, peers)
}

fn count(folder: &str) -> usize {
    fs::read_dir(folder).expect("Linux has it").count()
}

/// Ends a runtime, and says whether its threads were out in time.
fn ends_within(workers: usize, grace: Duration) -> bool {
    let (threads, descriptors) = (count("/proc/self/task"), count("/proc/self/fd"));
    let runtime = runtime(workers);
    let (answers, answered) = channel();
    let (tasks, peers) = begin(&runtime, &answers);
    drop(answers);
    // One that waits in no thread is dropped at once.
    let (stream, mut peer) = Peer::pair().expect("there is room");
    let handle: Handle = runtime.handle().clone();
    let task = runtime.spawn(async move {
        let mut stream = UnixStream::from_std(stream).expect("there is room");
        stream.read(&mut [0]).await
    });
    runtime.shutdown_timeout(grace);
    let in_time = tasks.iter().all(JoinHandle::is_finished) && handle.metrics().threads == 0;

    let mut failed = 0;
    for answer in answered {
        answer.expect_err("the runtime is gone");
        failed += 1;
    }
    assert_eq!(failed, READS);
    // The streams are closed.
    for mut peer in peers {
        assert_eq!(peer.read(&mut [0]).expect("it ends"), 0);
    }
    assert_eq!(peer.read(&mut [0]).expect("it ends"), 0);
    drop((tasks, task, handle, peer));
    // A thread that has ended stays listed for a moment.
    while count("/proc/self/task") > threads || count("/proc/self/fd") > descriptors {
        thread::yield_now();
    }
    in_time
}

#[test]
fn a_thread_that_reads_is_out_before_the_grace_is_over() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let is_in_time = |tried: u32| ends_within(workers, GRACE * 4_u32.pow(tried));
        assert!((0..TRIES).any(is_in_time), "with {workers} workers");
    }
}
