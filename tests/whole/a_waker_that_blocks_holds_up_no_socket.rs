//! S9: a waker that is of no task, and blocks, keeps nobody else from being woken: neither those
//! whose sockets become ready in the same look at the netpoll, nor those that wait for the same
//! source, nor those that are told of the end of the runtime. Here the wakers wait for each other,
//! and for a task.
//!
//! It fails, by a hang, when `Worker::wake_batch` wakes in the order in which it finds them; when
//! `one_at_a_time` in `sched/foreign_wakers.rs` keeps the rest of them in hand; and when
//! `Netpoll::wake_all` does not ask the scheduler.

use crate::net_support;

use std::{
    future::Future,
    io::Write,
    pin::Pin,
    sync::{Arc, Barrier},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use futures::executor::block_on;
use net_support::{Limit, WORKERS, runtime};
use ws::{
    io::{AsyncFd, AsyncRead, Direction},
    net::UnixStream,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A waker that returns when all others have come to the same place.
struct Meets(Arc<Barrier>);

impl Wake for Meets {
    fn wake(self: Arc<Self>) {
        self.0.wait();
    }
}

fn meets(barrier: &Arc<Barrier>) -> Waker {
    Waker::from(Arc::new(Meets(barrier.clone())))
}

/// Has `waker` wait for a socket, as a poll function does: it stays there.
fn wait(socket: &UnixStream, waker: &Waker) {
    let mut cx = Context::from_waker(waker);
    let polled = Pin::new(&mut &*socket).poll_read(&mut cx, &mut [0]);
    assert!(polled.is_pending());
}

#[test]
fn in_one_look() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let _runtime = runtime.enter();
        let barrier = Arc::new(Barrier::new(4));
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let (mut here, there): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let own = here.remove(2);
        for socket in &here {
            wait(socket, &meets(&barrier));
        }
        let place = barrier.clone();
        let task = runtime.spawn(async move {
            own.readable().await.unwrap();
            ws::block_in_place(|| place.wait());
        });
        runtime
            .block_on(runtime.spawn(async move {
                for socket in &there {
                    assert_eq!(socket.try_write(b"x").unwrap(), 1);
                }
                there
            }))
            .unwrap();
        block_on(task).unwrap();
    }
}

/// One of the wakers waits for a timer, whose turn comes behind the sockets.
#[test]
fn at_the_end() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let barrier = Arc::new(Barrier::new(3));
        let (pairs, _sleep) = {
            let _runtime = runtime.enter();
            let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
            let mut sleep = Box::pin(ws::time::sleep(HOUR));
            let waker = meets(&barrier);
            let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            (pairs, sleep)
        };
        wait(&pairs[0].0, &meets(&barrier));
        let place = barrier.clone();
        let waits = thread::spawn(move || {
            let answer = block_on(pairs[1].0.readable());
            place.wait();
            answer.map(drop)
        });
        drop(runtime);
        assert!(waits.join().unwrap().is_err());
    }
}

/// A source that is closed while one waker waits to read there, and another to write.
#[test]
fn at_one_source() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let _runtime = runtime.enter();
        let barrier = Arc::new(Barrier::new(2));
        let (mut here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        while here.write(&[0; 4096]).is_ok() {}
        let source = AsyncFd::new(here).unwrap();
        for direction in [Direction::Read, Direction::Write] {
            let waker = meets(&barrier);
            let polled = source.poll_ready(&mut Context::from_waker(&waker), direction);
            assert!(polled.is_pending());
        }
        drop(source);
    }
}
