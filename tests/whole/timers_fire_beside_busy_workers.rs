//! F5, F6, L6: without a monitor, a timer fires and a socket is looked at though every worker has
//! a task that is always ready, whosever they are: a thread's that is no worker, or one's in
//! `block_on`, with a permit or without.
//!
//! It fails, by a hang, when a worker that has local work looks at its own timers alone.

use crate::net_support;

use std::{
    io::Write,
    os::unix::net::UnixStream,
    pin::pin,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use futures::executor::block_on;
use net_support::{Limit, WORKERS};
use ws::{
    io::AsyncReadExt,
    net::UnixStream as Stream,
    runtime::{Builder, Runtime, Sysmon},
    task::{JoinSet, yield_now},
    time::{sleep, timeout},
};

/// As long as it takes to be in the wait. Nothing is measured by it.
const SOON: Duration = Duration::from_millis(5);

async fn always_ready() {
    loop {
        yield_now().await;
    }
}

/// A runtime without a monitor whose workers have all begun something that never ends.
fn busy(workers: usize) -> (Runtime, JoinSet<()>) {
    let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
    let runtime = builder.build().unwrap();
    let (begun, tell) = mpsc::channel();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let begun = begun.clone();
        tasks.spawn_on(
            async move {
                begun.send(()).unwrap();
                always_ready().await;
            },
            runtime.handle(),
        );
    }
    for _ in 0..workers {
        tell.recv().unwrap();
    }
    (runtime, tasks)
}

/// A byte that a thread without a runtime sends, soon.
async fn a_byte() {
    let (here, mut there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let mut here = Stream::from_std(here).unwrap();
    let mut byte = [0];
    let mut read = pin!(here.read(&mut byte));
    {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(read.as_mut().poll(&mut cx).is_pending());
    }
    let writer = thread::spawn(move || there.write_all(b"x").map(|()| there));
    assert_eq!(read.await.unwrap(), 1);
    writer.join().unwrap().unwrap();
}

#[test]
fn of_a_thread_that_is_no_worker() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let (runtime, _tasks) = busy(workers);
        let _entered = runtime.enter();
        block_on(sleep(SOON));
        block_on(a_byte());
    }
}

#[test]
fn of_a_thread_that_waits_in_block_on() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let (runtime, _tasks) = busy(workers);
        runtime.block_on(async { sleep(SOON).await });
        runtime.block_on(a_byte());
    }
}

#[test]
fn of_a_thread_whose_root_is_always_ready() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let (runtime, _tasks) = busy(workers);
        let late = async { timeout(SOON, always_ready()).await };
        runtime.block_on(late).unwrap_err();
    }
}

#[test]
fn of_a_thread_whose_root_forks_for_ever() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
        let runtime = builder.build().unwrap();
        let forks = async {
            loop {
                drop(ws::fork(async {}).await);
            }
        };
        let late = async { timeout(SOON, forks).await };
        runtime.block_on(late).unwrap_err();
    }
}

fn beside_a_root_that_has_the_only_permit(of_a_task: bool) {
    let _limit = Limit::new(1);
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let runtime = builder.build().unwrap();
    let (begun, tell) = mpsc::channel();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            runtime.block_on(async {
                // It makes the thread a worker.
                ws::spawn(async {}).await.unwrap();
                begun.send(()).unwrap();
                while !done.load(Relaxed) {
                    yield_now().await;
                }
            });
        });
        tell.recv().unwrap();
        let _entered = runtime.enter();
        if of_a_task {
            let others = runtime.spawn(async {
                sleep(SOON).await;
                a_byte().await;
            });
            block_on(others).unwrap();
        }
        block_on(sleep(SOON));
        block_on(a_byte());
        done.store(true, Relaxed);
    });
}

#[test]
fn of_a_task_while_a_root_has_the_only_permit_and_is_always_ready() {
    beside_a_root_that_has_the_only_permit(true);
}

#[test]
fn of_a_thread_while_a_root_has_the_only_permit_and_is_always_ready() {
    beside_a_root_that_has_the_only_permit(false);
}
