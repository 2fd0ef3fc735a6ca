//! User code that runs while a thread parks or wakes up, in a hook or in a foreign waker, may call
//! what a poll may: `block_in_place`, `join`, `block_on`. The permits and the count of the spinning
//! stay what they are (S3, I1).
//!
//! It fails when `announce_blocking` or `come_to_a_fork` in `sched/worker.rs` do their part for a
//! thread that is parked: it takes a permit that nobody gives back.

use crate::common;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate, block_on_elsewhere};
use ws_executor::{
    runtime::{Builder, Handle, Runtime, Sysmon},
    time::Instant,
};

/// Comes back when nothing runs, nothing spins, and every permit is free; never, if one is lost.
fn wait_for_rest(runtime: &Runtime, workers: usize) {
    loop {
        let now = runtime.handle().metrics();
        assert!(
            now.free_permits <= workers,
            "{} of {workers}",
            now.free_permits
        );
        if now.free_permits == workers && now.spinning == 0 {
            return;
        }
        thread::yield_now();
    }
}

/// What a task may do.
#[derive(Clone, Copy, Debug)]
enum Call {
    Block,
    Join,
    BlockOn,
}

const CALLS: [Call; 3] = [Call::Block, Call::Join, Call::BlockOn];

impl Call {
    /// Does it, with `f` in the middle.
    fn make(self, f: impl FnOnce() + Send) {
        match self {
            Self::Block => ws_executor::block_in_place(f),
            Self::Join => {
                f();
                assert_eq!(ws_executor::join(|| 1, || 2), (1, 2));
            }
            Self::BlockOn => Handle::current().block_on(async { f() }),
        }
    }
}

fn in_a_hook(workers: usize, call: Call, at_park: bool) {
    let made = Arc::new(Count::new());
    let counts = made.clone();
    let hook = move || {
        call.make(|| ());
        counts.add();
    };
    let builder = Builder::new().workers(workers);
    let builder = if at_park {
        builder.on_thread_park(hook)
    } else {
        builder.on_thread_unpark(hook)
    };
    let runtime = builder.build().unwrap();
    while made.get() < 10 {
        block_on_elsewhere(runtime.spawn(async {})).unwrap();
    }
    wait_for_rest(&runtime, workers);
}

/// A waker of somebody else's executor.
struct Foreign {
    call: Call,
    runtime: Handle,
    /// Lets the task end that has the permit.
    gate: Arc<Gate>,
    done: Arc<Count>,
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.call.make(|| {
            self.gate.open();
            while self.runtime.metrics().free_permits == 0 {
                thread::yield_now();
            }
        });
        self.done.add();
    }
}

common::with_workers! {
    fn in_a_park_hook(workers: usize) {
        for call in CALLS {
            in_a_hook(workers, call, true);
        }
    }

    fn in_an_unpark_hook(workers: usize) {
        for call in CALLS {
            in_a_hook(workers, call, false);
        }
    }

    /// A thread waits in the netpoll and finds a timer due while another one has the permit; in the
    /// waker it finds that permit free again.
    fn in_a_foreign_waker(workers: usize) {
        for call in CALLS {
            let parked = Arc::new(Count::new());
            let hook = parked.clone();
            let runtime = Builder::new()
                .workers(workers)
                .sysmon(Sysmon::Off)
                .on_thread_park(move || hook.add())
                .build()
                .unwrap();
            let (gate, running) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
            let task = runtime.spawn({
                let (gate, running) = (gate.clone(), running.clone());
                async move {
                    // Another thread comes for the permit, and goes to wait for this timer.
                    let mut long = pin!(ws_executor::time::sleep(Duration::from_secs(3600)));
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(long.as_mut().poll(&mut cx).is_pending());
                    ws_executor::block_in_place(|| parked.wait_for(1));
                    running.open();
                    gate.pass();
                }
            });
            running.pass();
            let done = Arc::new(Count::new());
            let foreign = Foreign { call, runtime: runtime.handle().clone(), gate, done: done.clone() };
            let waker = Waker::from(Arc::new(foreign));
            let _entered = runtime.enter();
            let mut short = Box::pin(ws_executor::time::sleep(Duration::from_millis(1)));
            // Once more, if this thread lost its core for that time.
            while short.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                short.reset(Instant::now() + Duration::from_millis(1));
            }
            done.wait_for(1);
            block_on_elsewhere(task).unwrap();
            wait_for_rest(&runtime, workers);
        }
    }
}
