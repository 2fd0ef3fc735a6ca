//! Futures that a thread of its own waits for: `block_on`, and the `main` of a program.
//!
//! Three cases, by what the thread is:
//!
//! | the thread | takes | runs |
//! | --- | --- | --- |
//! | calls `Runtime::run` (`#[ws::main]`) | a P, and a permit for good | anything: it is a worker |
//! | any other | a P, and a permit if one is free | its root, and what that made runnable |
//! | is inside a task already | nothing: it announces a block | its root alone |
//!
//! So what `main` spawns is a local push, and an answer to it is a switch and not a thread wake-up; a
//! short call from a foreign thread runs to its end on that thread; and no worker's loop is ever
//! nested in a task's poll.
//!
//! The root of the second case is polled without a permit if none is free: it is the thread's own
//! future, as it would be in any other executor. Tasks are not (S3).

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    task::{Context, Poll, Wake, Waker},
};

use ws_reactor::Netpoll;

use super::{
    Shared, Worker,
    park::Parker,
    processor::Peer,
    worker::{Awake, Scope, Step},
};
use crate::{
    blocking, budget, context,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire},
        },
    },
};

/// What wakes a thread that waits for its own future.
#[derive(Debug)]
pub(crate) struct Root {
    notified: AtomicBool,
    /// The P on whose parker the thread sleeps, if it is a worker; else it sleeps on `own`.
    peer: Option<Arc<Peer>>,
    own: Parker,
    netpoll: Arc<Netpoll>,
}

impl Root {
    fn new(shared: &Shared, peer: Option<Arc<Peer>>) -> Arc<Self> {
        Arc::new(Self {
            // The first poll is due.
            notified: AtomicBool::new(true),
            peer,
            own: Parker::new(),
            netpoll: shared.netpoll.clone(),
        })
    }

    pub(super) fn parker(&self) -> &Parker {
        self.peer.as_ref().map_or(&self.own, |peer| &peer.parker)
    }

    /// Ends the thread's sleep, for whatever reason.
    pub(crate) fn unpark(&self) {
        self.parker().unpark(|| self.netpoll.interrupt());
    }

    /// Whether the root is to be polled.
    pub(super) fn is_notified(&self) -> bool {
        // Ordering: Acquire pairs with the wake: its writes are seen by the poll.
        self.notified.load(Acquire)
    }

    /// Consumes the notification.
    pub(super) fn take(&self) -> bool {
        // Ordering: Acquire as above; a load first, since this is asked at every step.
        self.notified.load(Acquire) && self.notified.swap(false, AcqRel)
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release publishes what the waker wrote.
        if !self.notified.swap(true, AcqRel) {
            self.unpark();
        }
    }
}

/// Waits for `future` on this thread. See the module's head.
pub(crate) fn block_on<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    if context::with_worker(|worker| worker.is_some()) {
        let _entered = context::enter(shared.clone());
        return blocking::block_in_place(|| alone(shared, future));
    }
    let Some(processor) = shared.take_processor() else {
        let _entered = context::enter(shared.clone());
        return alone(shared, future);
    };
    let root = Root::new(shared, None);
    *processor.peer.root.lock() = Some(root.clone());
    let worker = Worker::new(shared.clone(), processor, Scope::Own, Some(root.clone()));
    worker.arrive();
    let result = drive(&worker, &root, future, |worker| worker.wait_for_root(&root));
    worker.leave();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Makes this thread a worker until `future` is done.
///
/// # Panics
///
/// If the thread is inside a task or a `block_on` already.
#[track_caller]
pub(crate) fn run<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !context::with_worker(|worker| worker.is_some()),
        "`Runtime::run` was called inside a task or a `block_on`: use `Handle::block_on` there"
    );
    let processor = shared.take_processor().expect("a new runtime has a P for its first thread");
    let root = Root::new(shared, Some(processor.peer.clone()));
    let worker = Worker::new(shared.clone(), processor, Scope::All, Some(root.clone()));
    worker.arrive();
    let result = drive(&worker, &root, future, |worker| {
        let awake = worker.park();
        debug_assert_eq!(awake, Awake::Go, "a thread with a root does not end for idleness");
    });
    worker.leave();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Polls `future` when it is notified, and otherwise does what the worker's steps say.
fn drive<F: Future>(
    worker: &Worker,
    root: &Arc<Root>,
    future: F,
    sleep: impl Fn(&Worker),
) -> std::thread::Result<F::Output> {
    context::with_worker_frame(worker, || {
        let waker = Waker::from(root.clone());
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut future = pin!(future);
            loop {
                match worker.step() {
                    Step::Run(task) => worker.poll(task),
                    Step::Root => {
                        worker.found_work();
                        let mut cx = Context::from_waker(&waker);
                        match budget::with_budget(|| future.as_mut().poll(&mut cx)) {
                            Poll::Ready(output) => return output,
                            Poll::Pending => {}
                        }
                    }
                    Step::Park => sleep(worker),
                    Step::Leave => unreachable!("a thread with a root leaves when that is done"),
                }
            }
        }));
        worker.clear_away();
        result
    })
}

/// Polls `future` on a thread that does nothing else meanwhile.
fn alone<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    let root = Root::new(shared, None);
    let waker = Waker::from(root.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if root.take()
            && let Poll::Ready(output) = budget::unbudgeted(|| future.as_mut().poll(&mut cx))
        {
            return output;
        }
        root.own.park();
    }
}
