//! F5, F6, J6: the network is served whatever the workers do. While all of them are stuck in polls
//! that block or compute, a socket that becomes ready wakes its task, and that runs; while all have
//! tasks that are always ready, the netpoll is looked at all the same; and a timer that a socket's
//! task waits for as well fires.
//!
//! It fails, by a hang, when the monitor (`monitor.rs`) neither looks there itself nor takes
//! a permit from a stuck worker for a thread that does: each of the two is enough. Beside workers
//! that fork it hangs when the monitor takes no permit from those.

use crate::net_support;

use std::{
    hint, io,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use net_support::{Limit, WORKERS, runtime};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    runtime::Runtime,
    task,
};

/// How deep the computation is that forks.
const FORKS_DEPTH: usize = 8;

/// Closed until it is opened, and waited for in three ways.
#[derive(Default)]
struct Door {
    open: AtomicBool,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    fn open(&self) {
        self.open.store(true, SeqCst);
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn block(&self) {
        let mut open = self.gate.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    fn compute(&self) {
        while !self.is_open() {
            hint::spin_loop();
        }
    }

    /// A computation that forks, and always has more to do.
    fn fork(&self, depth: usize) {
        while !self.is_open() && depth > 0 {
            ws::join(|| self.fork(depth - 1), || self.fork(depth - 1));
            if depth < FORKS_DEPTH {
                return;
            }
        }
    }

    fn is_open(&self) -> bool {
        self.open.load(SeqCst)
    }
}

/// A task that answers each byte, and a client without a runtime that tells it to.
fn echo(
    runtime: &Runtime,
) -> (
    std::os::unix::net::UnixStream,
    task::JoinHandle<io::Result<()>>,
) {
    let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    let task = runtime.spawn(async move {
        let mut server = UnixStream::from_std(server)?;
        let mut byte = [0];
        while server.read(&mut byte).await? == 1 {
            // A timer on the way: F6.
            ws::time::sleep(Duration::from_micros(100)).await;
            server.write_all(&byte).await?;
        }
        Ok(())
    });
    (client, task)
}

fn asks(client: &mut std::os::unix::net::UnixStream, times: u8) {
    use std::io::{Read, Write};
    for n in 0..times {
        client.write_all(&[n]).unwrap();
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [n]);
    }
}

fn beside_stuck_workers(stuck: fn(&Door)) {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let (mut client, echo) = echo(&runtime);
        // It waits in the netpoll.
        asks(&mut client, 1);
        let (door, begun) = (Arc::new(Door::default()), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..workers)
            .map(|_| {
                let (door, begun) = (door.clone(), begun.clone());
                runtime.spawn(async move {
                    begun.fetch_add(1, SeqCst);
                    stuck(&door);
                })
            })
            .collect();
        while begun.load(SeqCst) < workers {
            std::thread::yield_now();
        }
        asks(&mut client, 20);
        assert!(tasks.iter().all(|task| !task.is_finished()));
        door.open();
        drop(client);
        runtime.block_on(echo).unwrap().unwrap();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn beside_workers_that_block() {
    beside_stuck_workers(Door::block);
}

#[test]
fn beside_workers_that_compute() {
    beside_stuck_workers(Door::compute);
}

#[test]
fn beside_workers_that_fork() {
    beside_stuck_workers(|door| door.fork(FORKS_DEPTH));
}

#[test]
fn beside_tasks_that_are_always_ready() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let (mut client, echo) = echo(&runtime);
        let stop = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..10 * workers)
            .map(|_| {
                let stop = stop.clone();
                runtime.spawn(async move {
                    while !stop.load(SeqCst) {
                        task::yield_now().await;
                    }
                })
            })
            .collect();
        asks(&mut client, 100);
        stop.store(true, SeqCst);
        drop(client);
        runtime.block_on(echo).unwrap().unwrap();
        for task in busy {
            runtime.block_on(task).unwrap();
        }
    }
}
