//! Futures that a thread of its own waits for: `block_on`, and the `main` of a program.
//!
//! Three cases, by what the thread is:
//!
//! | the thread | takes | runs |
//! | --- | --- | --- |
//! | calls `Runtime::run` (`#[ws::main]`) | a P, and a permit for good | anything: it is a worker |
//! | any other | by need a P, and a permit if one is free | its root, and what that made runnable, unless the root waits for a timer or a source |
//! | is inside a task or a `block_on` already | nothing: it announces a block | its root, and what is pinned to it |
//!
//! So what `main` spawns is a local push, and an answer to it is a switch and not a thread wake-up.
//! A short call from a foreign thread runs to its end on that thread. And no worker's loop is ever
//! nested in a task's poll: the third case is in `nested.rs`.
//!
//! *By need*: the root is first polled as any foreign future would be. When the root spawns, wakes
//! a task, arms a timer, or has to wait, the thread becomes a worker of the second kind. The root
//! may be polled without a permit at any time, for it is the thread's own; tasks may not (S3).
//!
//! # *Whose thread it is*
//!
//! A root need not be `Send`, so no other thread can poll it, and a task that blocks on its thread
//! blocks the root. So the thread polls tasks only while its root waits for nothing but them, by
//! what the runtime can tell. If a poll of the root left a timer or a source of the runtime
//! pending, the thread is the root's alone until the `block_on` ends: it polls the root and what is
//! pinned to the thread, and moves every other task to the global queue. So
//! `timeout(50 ms, spawn(..))` fires on time, whatever the task does. It costs what it costs with
//! other runtimes: a wake-up of a thread for an answer, instead of a switch.
//!
//! A root that waits for a lock or a channel alone may be held up: the runtime cannot tell whether
//! one of its own tasks or another party holds the other end, and the fast answer needs the first.
//! A root that is a task (`Runtime::run`) is held up by nothing, for any worker polls it; only the
//! return of `run` waits until its thread comes back.
//!
//! The mark is never taken back before the end of the `block_on`: a later poll of the root may poll
//! another branch alone, while the timer is still armed. At the cap *standing in* comes before it.
//!
//! # *Standing in*
//!
//! A runtime that cannot have a thread has only these threads left (L5). A thread that waits for
//! its root takes from the global queue, also tasks of others, if a thread was refused, a permit is
//! free and work is queued, and one of these holds:
//!
//! - The runtime has no thread at all.
//! - This thread's own work went to the others. Either it gave it away for want of a permit, or the
//!   monitor took it with the permit, in the middle of a poll of the root. (A thread that is
//!   refused holds a permit for a moment, so that no other can have it.)
//! - It has spawned something in this call, something of its P is alive, and no thread is parked
//!   that would come for what is queued. (What an earlier thread spawned on that P counts as alive,
//!   too: so it may take tasks of others for nothing.)
//!
//! What was left to them would be left for good. The third also covers what became runnable without
//! this thread. Its child was woken by a foreign thread, or by one that was stuck then and lost its
//! queue, or waits for a child of its own that is queued. The stuck threads may wait for just that.
//! At the cap, where threads exist and are stuck, others' work is not taken for any other reason:
//! it may well block, and this thread was promised its own root. A thread that spawned nothing
//! never does.
//!
//! The thread that is to stand in is awake in time. If a thread pushes with a permit free, or frees
//! one while work is queued, it tries for a thread. The refusal wakes all that wait for a root
//! (`Env::refused`). That goes without the monitor. It takes a free permit, though, and from a
//! thread that is stuck without a word only the monitor takes it.
//!
//! Rejected: to tell the P whose scheduler handle the task has, in the push to the global queue. It
//! would miss what a stuck thread had in its queue, and a child's child, or cost a look at each
//! task of every batch. Checked by `tests/work_waits_when_there_is_no_thread.rs`.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

pub(crate) mod in_place;
pub(crate) mod nested;

use self::nested::{block_on_above, wait_alone};
use crate::{
    budget,
    cell::ScopeBarrier,
    context,
    permit::sleep::{Awake, Sleeper},
    sched::{
        LazyWorker, Root, Shared, Worker,
        state::hooks::{in_a_hook, is_in_a_hook},
        worker::{Scope, Step},
    },
    sync::Arc,
};

/// The thread has run the hook for its start, and will run that for its end. The first comes before
/// it has a P, the second after that. A call in such a hook has no hooks of its own.
struct Attends<'a>(Option<&'a Shared>);

impl<'a> Attends<'a> {
    fn begin(shared: &'a Shared) -> Self {
        // The API above may have hooks for the runtime's own threads alone.
        if is_in_a_hook() || shared.config.host.leaves_tasks() {
            return Self(None);
        }
        in_a_hook(|| shared.config.hooks.call_start());
        Self(Some(shared))
    }
}

impl Drop for Attends<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            in_a_hook(|| shared.config.hooks.call_stop());
        }
    }
}

/// Waits for `future` on this thread. See the module's head.
///
/// # Panics
///
/// If time is virtual and the runtime has no P left.
#[track_caller]
pub(crate) fn block_on<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    if context::is_busy() {
        return block_on_above(shared, future);
    }
    if shared.time.paused.is_some() {
        return work_until_done(shared, future);
    }
    let _attends = Attends::begin(shared);
    let root = Root::take_spare();
    let lazy = LazyWorker::new(shared, &root);
    let result = context::with_lazy_worker_frame(&lazy, || {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let waker = root.clone().waker();
            let mut future = pin!(future);
            let (polled, waits) = poll_root(future.as_mut(), &waker);
            lazy.first_poll_ends();
            if let Poll::Ready(output) = polled {
                // What is left of the future is dropped as a part of this poll.
                return output;
            }
            if let Some(worker) = lazy.worker() {
                worker.end_root();
            }
            context::ensure_worker();
            match lazy.become_worker() {
                Some(worker) => {
                    if waits {
                        worker.root_waits();
                    }
                    drive(worker, &waker, future, |worker| worker.wait_for_root(&root))
                }
                None => wait_alone(shared, &root, &waker, future),
            }
        }));
        if let Some(worker) = lazy.worker() {
            worker.end_root();
            worker.clear_away();
        }
        result
    });
    if let Some(worker) = lazy.into_worker() {
        worker.leave();
    }
    Root::spare(root);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Makes this thread a worker until `future` is done.
///
/// # Panics
///
/// If the thread is inside a task or a `block_on` already, and if the runtime has no P left.
#[track_caller]
pub(crate) fn run<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !context::is_busy(),
        "`Runtime::run` was called inside a task or a `block_on`: use `Handle::block_on` there"
    );
    work_until_done(shared, future)
}

/// The same with a root that stays on this thread, which is that root's. `None` if another task's
/// panic has stopped the runtime: the root is dropped then, as one of [`run`] is cancelled.
///
/// # Panics
///
/// As [`run`].
#[track_caller]
pub(crate) fn run_local<F: Future>(shared: &Arc<Shared>, future: F) -> Option<F::Output> {
    assert!(
        !context::is_busy(),
        "`Runtime::run_local` was called inside a task or a `block_on`: use `Handle::block_on` there"
    );
    block_on(shared, async {
        let mut future = pin!(future);
        let poll = |cx: &mut Context<'_>| {
            if shared.is_stopped_by_a_panic(cx.waker()) {
                return Poll::Ready(None);
            }
            future.as_mut().poll(cx).map(Some)
        };
        poll_fn(poll).await
    })
}

/// The same, for a thread that is known to be nothing yet.
///
/// # Panics
///
/// If the runtime has no P left.
#[track_caller]
fn work_until_done<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    let _attends = Attends::begin(shared);
    let Some(processor) = shared.take_processor() else {
        panic!(
            "too many threads are in this runtime: {} at most, twice `Builder::max_threads`, can poll its tasks at once",
            shared.config.processors_max()
        );
    };
    let root = Root::new();
    let enrolled = shared.enroll(&root);
    root.settle(&shared.io.netpoll, Some(processor.peer.clone()));
    let worker = Worker::new(shared.clone(), processor, Scope::All, Some(root.clone()));
    worker.arrive();
    let result = context::with_worker_frame(&worker, || {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let waker = root.waker();
            drive(&worker, &waker, pin!(future), |worker| {
                let awake = worker.park();
                debug_assert_eq!(
                    awake,
                    Awake::Go,
                    "a thread with a root does not end when idle"
                );
                worker.run_handed();
            })
        }));
        worker.end_root();
        worker.clear_away();
        result
    });
    // Before it leaves: a thread that finds everybody waiting for this root would move the clock
    // on.
    drop(enrolled);
    worker.leave();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Polls `future` when it is notified, and otherwise does what the worker's steps say. The scopes
/// of task-locals that the caller is in are those of `future`, and not of the tasks.
fn drive<F: Future>(
    worker: &Worker,
    waker: &Waker,
    mut future: Pin<&mut F>,
    sleep: impl Fn(&Worker),
) -> F::Output {
    let barrier = ScopeBarrier::begin();
    loop {
        match worker.step() {
            Step::Run(task) => worker.poll(task),
            Step::Branch(branch) => worker.run_branch(branch),
            Step::Root => {
                worker.shared().assert_not_stuck();
                worker.begin_root();
                let (polled, waits) = barrier.for_caller(|| poll_root(future.as_mut(), waker));
                if let Poll::Ready(output) = polled {
                    // What is left of the future is dropped as a part of this poll.
                    return output;
                }
                worker.end_root();
                if waits {
                    worker.root_waits();
                }
            }
            Step::Park => sleep(worker),
            Step::Leave => unreachable!("a thread with a root leaves when that is done"),
        }
    }
}

/// And whether it waits for a timer or a source.
fn poll_root<F: Future>(future: Pin<&mut F>, waker: &Waker) -> (Poll<F::Output>, bool) {
    budget::with_budget_of_root(|| future.poll(&mut Context::from_waker(waker)))
}
