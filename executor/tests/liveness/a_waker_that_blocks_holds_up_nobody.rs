//! S9, L2: a waker that is of no task, and blocks, holds up nobody: neither tasks and other such
//! wakers that become ready with it, nor the monitor, nor the end of the runtime. Here the wakers
//! wait for each other, or for a task.
//!
//! It fails, by a hang, when `Worker::wake_batch` wakes in the order in which it finds them; when
//! `one_at_a_time` in `sched/foreign_wakers.rs` keeps the rest of them in hand; when the monitor
//! wakes them itself; and when `Shared::wake_all` does in the end of a runtime.
//!
//! (The same with sockets: `tests/whole/a_waker_that_blocks_holds_up_no_socket.rs` of the root
//! package.)

use crate::common;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Barrier},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use common::{Gate, runtime};
use ws_executor::time::{self, Instant, Sleep};

const SOON: Duration = Duration::from_millis(1);
/// Time to arm all timers, on a busy machine too: those that are due when they are armed do not
/// come together. A machine that takes longer makes the test hang.
const ARMED_BY_THEN: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A waker that returns when all others have come to the same place.
struct Meets(Arc<Barrier>);

impl Wake for Meets {
    fn wake(self: Arc<Self>) {
        self.0.wait();
    }
}

/// A sleep that such a waker waits for.
fn meets(barrier: &Arc<Barrier>, at: Instant) -> Pin<Box<Sleep>> {
    let waker = Waker::from(Arc::new(Meets(barrier.clone())));
    let mut sleep = Box::pin(time::sleep_until(at));
    let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    sleep
}

/// A waker that returns when its gate opens.
struct Blocks {
    begins: Gate,
    ends: Gate,
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.begins.open();
        self.ends.pass();
    }
}

common::with_workers! {
    fn of_a_timer(workers: usize) {
        let runtime = runtime(workers);
        let barrier = Arc::new(Barrier::new(4));
        let at = Instant::now() + ARMED_BY_THEN;
        let place = barrier.clone();
        let (first, task) = runtime.block_on(runtime.spawn(async move {
            let first = meets(&place, at);
            let task = ws_executor::task::spawn(async move {
                time::sleep_until(at).await;
                ws_executor::block_in_place(|| place.wait());
            });
            (first, task)
        })).unwrap();
        let _runtime = runtime.enter();
        let others = [meets(&barrier, at), meets(&barrier, at)];
        common::block_on_elsewhere(task).unwrap();
        drop((first, others));
    }

    fn on_the_monitors_thread(workers: usize) {
        let runtime = runtime(workers);
        let waker = Arc::new(Blocks { begins: Gate::default(), ends: Gate::default() });
        let stuck: Vec<_> = (0..workers).map(|_| {
            let blocks = waker.clone();
            runtime.spawn(async move {
                let waker = Waker::from(blocks.clone());
                // On a busy machine it may be over before its first poll.
                let _sleep = loop {
                    let mut sleep = Box::pin(time::sleep(SOON));
                    if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                        break sleep;
                    }
                };
                blocks.ends.pass();
            })
        }).collect();
        waker.begins.pass();
        let opens = waker.clone();
        let task = runtime.spawn(async move { opens.ends.open() });
        common::block_on_elsewhere(task).unwrap();
        for task in stuck {
            common::block_on_elsewhere(task).unwrap();
        }
    }

    fn at_the_end(workers: usize) {
        let runtime = runtime(workers);
        let barrier = Arc::new(Barrier::new(3));
        let at = Instant::now() + HOUR;
        let foreign = {
            let _runtime = runtime.enter();
            [meets(&barrier, at), meets(&barrier, at)]
        };
        let ends = thread::spawn(move || drop(runtime));
        barrier.wait();
        ends.join().unwrap();
        drop(foreign);
    }
}
