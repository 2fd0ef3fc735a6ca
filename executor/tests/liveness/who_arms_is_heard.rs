//! L6: a timer fires on whatever thread it was armed or brought forward, and in whatever state that
//! thread was: in an announced block, in a nested `block_on`, in a `block_on` without a permit that
//! is gone by then, on a foreign thread, and where another thread resets the `Sleep`.
//!
//! There is no monitor here, which would hide it: nobody else looks at the timers. Each scenario
//! hangs when `Env::heard` wakes nobody; that of the other thread's `reset`, and those of blocked
//! sections, also when only threads that are no worker ask for it.

use crate::common;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::Poll,
    thread,
    time::Duration,
};

use common::{Gate, block_on_elsewhere, limited};
use ws_executor::{
    block_in_place,
    runtime::{Builder, Clock, Runtime, Sysmon},
    time::{self, Instant, Sleep},
};

const SHORT: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3600);

/// Without a monitor.
fn runtime(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
    builder.shutdown_grace(common::GRACE).build().unwrap()
}

/// Polls a sleep once; it is armed by that.
async fn arm(sleep: &mut Sleep) {
    poll_fn(|cx| {
        assert!(Pin::new(&mut *sleep).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// What a blocking section may wait for with an executor of its own.
fn wait_elsewhere() {
    block_on_elsewhere(time::sleep(SHORT));
    let late = block_on_elsewhere(time::timeout(SHORT, std::future::pending::<()>()));
    assert!(late.is_err());
    let mut interval = time::interval(SHORT);
    for _ in 0..3 {
        block_on_elsewhere(interval.tick());
    }
    let mut sleep = time::sleep(Duration::MAX);
    block_on_elsewhere(arm(&mut sleep));
    sleep.reset(Instant::now() + SHORT);
    block_on_elsewhere(&mut sleep);
}

/// A sleep on which one thread waits, by whatever executor, and that another one resets.
#[derive(Clone)]
struct Shared {
    sleep: Arc<Mutex<Sleep>>,
    armed: Arc<Gate>,
}

impl Shared {
    fn new(sleep: Sleep) -> Self {
        Self {
            sleep: Arc::new(Mutex::new(sleep)),
            armed: Arc::new(Gate::default()),
        }
    }

    async fn wait(self) {
        poll_fn(|cx| {
            let polled = Pin::new(&mut *self.sleep.lock().unwrap()).poll(cx);
            self.armed.open();
            polled
        })
        .await;
    }

    fn bring_forward(&self) {
        self.armed.pass();
        let soon = Instant::now() + SHORT;
        self.sleep.lock().unwrap().reset(soon);
    }
}

common::with_workers! {
    fn in_a_blocking_call(workers: usize) {
        let runtime = runtime(workers);
        let call = runtime.handle().spawn_blocking(wait_elsewhere);
        block_on_elsewhere(call).unwrap();
    }

    fn in_a_task_that_blocks(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async { block_in_place(wait_elsewhere) });
        block_on_elsewhere(task).unwrap();
    }

    fn in_a_root_that_blocks(workers: usize) {
        runtime(workers).block_on(async { block_in_place(wait_elsewhere) });
        runtime(workers).run(async { block_in_place(wait_elsewhere) });
    }

    fn in_a_block_on_below_another_executor(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let call = move || {
            let inner = async { time::sleep(SHORT).await };
            block_on_elsewhere(async { handle.block_on(inner) });
            block_on_elsewhere(async { handle.block_on(async { wait_elsewhere() }) });
        };
        block_on_elsewhere(runtime.handle().spawn_blocking(call)).unwrap();
    }

    /// The child of a blocking call: on the P of its thread, which is in the block.
    fn in_a_task_that_a_blocking_call_waits_for(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let call = move || block_on_elsewhere(handle.spawn(time::sleep(SHORT))).unwrap();
        block_on_elsewhere(runtime.handle().spawn_blocking(call)).unwrap();
    }

    fn where_another_thread_resets_it(workers: usize) {
        for first in [Duration::MAX, HOUR] {
            let runtime = runtime(workers);
            let _entered = runtime.enter();
            let shared = Shared::new(time::sleep(first));
            let other = shared.clone();
            let resets = thread::spawn(move || other.bring_forward());
            block_on_elsewhere(shared.wait());
            resets.join().unwrap();
        }
    }

    fn where_another_thread_resets_that_of_a_blocking_call(workers: usize) {
        for first in [Duration::MAX, HOUR] {
            let runtime = runtime(workers);
            let (send, receive) = mpsc::channel();
            let call = runtime.handle().spawn_blocking(move || {
                let shared = Shared::new(time::sleep(first));
                send.send(shared.clone()).unwrap();
                block_on_elsewhere(shared.wait());
            });
            receive.recv().unwrap().bring_forward();
            block_on_elsewhere(call).unwrap();
        }
    }

    /// Its task is stopped: nobody of the runtime is awake when it is reset.
    fn where_a_foreign_thread_resets_that_of_a_task(workers: usize) {
        for first in [Duration::MAX, HOUR] {
            let runtime = runtime(workers);
            let _entered = runtime.enter();
            let shared = Shared::new(time::sleep(first));
            let task = runtime.spawn(shared.clone().wait());
            shared.bring_forward();
            block_on_elsewhere(task).unwrap();
        }
    }

    /// It is armed by a thread that is a worker, but has no permit and goes away.
    fn in_a_block_on_without_a_permit_that_gives_it_away(workers: usize) {
        let runtime = runtime(workers);
        let (let_go, done) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        // All permits are taken, and given back by blocks: so nobody goes to wait in the netpoll.
        let begun = Arc::new(common::Count::new());
        let takers: Vec<_> = (0..workers)
            .map(|_| {
                let (begun, let_go, done) = (begun.clone(), let_go.clone(), done.clone());
                runtime.spawn(async move {
                    begun.add();
                    let_go.pass();
                    block_in_place(|| done.pass());
                })
            })
            .collect();
        begun.wait_for(workers);
        let sleep = runtime.block_on(async {
            // A P is taken for that, and no permit is free.
            arm(&mut time::sleep(Duration::MAX)).await;
            let_go.open();
            while runtime.handle().metrics().free_permits < workers {
                thread::yield_now();
            }
            let mut sleep = time::sleep(SHORT);
            arm(&mut sleep).await;
            Some(sleep)
        });
        block_on_elsewhere(sleep.expect("it is armed"));
        done.open();
        for taker in takers {
            block_on_elsewhere(taker).unwrap();
        }
    }
}

#[test]
fn what_is_reset_to_the_past_is_ready_at_the_next_poll() {
    limited(|| {
        // Time stands still for a task that does not wait.
        let runtime = Builder::new().clock(Clock::Paused).build().unwrap();
        runtime.block_on(async {
            let mut sleep = time::sleep(HOUR);
            arm(&mut sleep).await;
            for deadline in [Instant::now() - SHORT, Instant::now()] {
                sleep.reset(Instant::now() + HOUR);
                assert!(!sleep.is_elapsed());
                sleep.reset(deadline);
                assert!(sleep.is_elapsed());
                let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready()));
                assert!(ready.await, "it is late already");
                sleep.reset(Instant::now() + HOUR);
                arm(&mut sleep).await;
            }
            // Forth and back: it is armed for the last one.
            sleep.reset(Instant::now());
            sleep.reset(Instant::now() + SHORT);
            arm(&mut sleep).await;
            let before = Instant::now();
            sleep.await;
            assert_eq!(before.elapsed(), SHORT);
            let mut interval = time::interval_at(Instant::now() + HOUR, HOUR);
            let first = poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_ready()));
            assert!(!first.await, "an hour from now");
            interval.reset_immediately();
            let next = poll_fn(|cx| Poll::Ready(interval.poll_tick(cx).is_ready()));
            assert!(next.await, "it is due");
        });
    });
}
