//! *Above a poll*: a `block_on` inside a task, or inside another `block_on`.
//!
//! The thread announces a block, so its permit and its queue go to others (`blocking.rs`), and it
//! polls its own future, which needs no permit. No other thread can run what is pinned to it. The
//! future may well wait for just that, through a handle or through a channel; the runtime cannot
//! tell. So while it waits, the thread runs its pinned tasks, one poll at a time. To them such a
//! `block_on` is what an `.await` is.
//!
//! 1. The future is due: it is polled.
//! 2. A pinned task is due: the block ends, and the thread gets a permit as for any pinned work
//!    (*Pinned work* in `permit/idle.rs`). It polls the task on top of the poll that called, and
//!    announces the block again. That hands on what the task has made runnable. If the future is
//!    due before there is a permit, it comes first.
//! 3. Neither: it sleeps where others look for its P's thread, for they wake that for pinned work.
//!
//! *Invariant*: below a pinned task that is polled here, there is the poll of another task of this
//! P or of its root. That one is in no queue, so none is polled twice (S1); it finds what the P
//! knows about the running poll as it left it. The task above sees no scope of a task-local that
//! the poll below is in (`task/local.rs`).
//!
//! Not run are pinned tasks
//!
//! - above a branch of a `join`, a `scope` or a `compute`: branches below would mix with those of
//!   the task, and other work would run above them (J2). They wait until the branch has ended.
//!   Exception: above the second branch of a join that is in no other, if the thread of that join
//!   runs it itself. That branch is a call like any other then, with no branch below it, and to
//!   take note of it would be a store in each join.
//! - above code that runs between two polls: hooks, wakers, destructors at the end of a `block_on`.
//!   The P is not at rest there. They wait until that code returns. So if that code has pinned a
//!   task itself, and would sleep, it panics: it may well wait for that task, which would be for
//!   ever.
//!
//! Polls nest, so a `block_on` below goes on only when those above it have returned, though its own
//! future may be ready long before.
//!
//! *Bound*: half of a thread's stack. If the calls on a thread take more than that, measured from
//! the first of them, the newest panics instead of polling one more task above itself. That panic
//! belongs to the task that called; the stack's end would be the end of the process. The other half
//! is for the code of the tasks. Where the system does not tell the size of a stack, each counts as
//! if it were one of the runtime's.
//!
//! Rejected: a panic, as tokio has it. If a task may be stolen, it depends on the thread that polls
//! it whether there are pinned tasks. So the panic would come now and then, or else there is no
//! `block_on` in tasks at all. And that is of use: in a callback of a library that knows no
//! futures.
//!
//! Checked by `tests/liveness/block_on_runs_pinned_tasks.rs`, and by `nested/tests.rs`, in steps.

use std::{
    cell::Cell,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use super::in_place::block_in_place;
use crate::{
    branch, budget,
    cell::ScopeBarrier,
    context,
    note::event,
    permit::{keeper::RETRY, sleep::Sleeper},
    sched::{
        Root, Shared, Worker,
        processor::{BRANCH, USER_CODE},
    },
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Waits for `future` on a thread that is in a task or a `block_on` already. See the module's head.
pub(super) fn block_on_above<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    // What it spawns may be pinned here, and the thread sleeps where that is looked for.
    context::ensure_worker();
    let _entered = context::enter(shared.clone());
    block_in_place(|| {
        let root = Root::new();
        let _enrolled = shared.enroll(&root);
        context::with_worker(|worker| match worker {
            Some(worker) => {
                worker.share_parker(&root);
                let waker = root.clone().waker();
                wait_above(shared, worker, &root, &waker, pin!(future))
            }
            None => {
                let waker = root.clone().waker();
                wait_alone(shared, &root, &waker, pin!(future))
            }
        })
    })
}

fn wait_above<F: Future>(
    shared: &Shared,
    worker: &Worker,
    root: &Arc<Root>,
    waker: &Waker,
    mut future: Pin<&mut F>,
) -> F::Output {
    let _first = First::enter();
    let barrier = ScopeBarrier::begin();
    loop {
        if root.take()
            && let Poll::Ready(output) = barrier.for_caller(|| poll_root(future.as_mut(), waker))
        {
            return output;
        }
        if worker.run_pinned_above(root) {
            continue;
        }
        // What woke it in its poll may have ended the sleep of a call above that: it is the same
        // place.
        if !root.is_notified() {
            // Another runtime's clock does not wait for this thread.
            let is_own = std::ptr::eq(Arc::as_ptr(worker.shared()), shared);
            shared.park_above(is_own, || worker.sleep_above(root));
        }
    }
}

/// The stack size of a thread if none was set, and the system does not tell. As in std.
const STACK: usize = 2 << 20;
/// Less than this is no reason to ask how large the stack is: half of the smallest that a thread of
/// the runtime may have (`Builder::stack_size`).
const LITTLE: usize = 32 << 10;

thread_local! {
    /// Where the stack was in the first of the calls that nest on this thread; 0 while there is
    /// none.
    static FIRST: Cell<usize> = const { Cell::new(0) };
}

/// Forgets the first call when it ends.
struct First {
    is_first: bool,
}

impl First {
    fn enter() -> Self {
        let is_first = FIRST.get() == 0;
        if is_first {
            FIRST.set(here());
        }
        Self { is_first }
    }

    /// How much stack was used since then.
    fn used() -> usize {
        match FIRST.get() {
            0 => 0,
            first => first.abs_diff(here()),
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if self.is_first {
            FIRST.set(0);
        }
    }
}

/// Where the stack is.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&mark)).addr()
}

/// Waits for a future that has a thread for itself.
pub(crate) fn wait_alone<F: Future>(
    shared: &Shared,
    root: &Root,
    waker: &Waker,
    mut future: Pin<&mut F>,
) -> F::Output {
    loop {
        if root.take()
            && let Poll::Ready(output) = poll_root(future.as_mut(), waker)
        {
            return output;
        }
        // No clock waits for this thread: it has no P.
        shared.park_above(false, || root.parker().park());
    }
}

/// With a budget of its own, whatever is left of the poll below: a timeout in it has its turn.
fn poll_root<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    budget::with_budget(|| future.poll(&mut Context::from_waker(waker)))
}

impl Worker {
    /// A task was pinned to this thread.
    pub(crate) fn has_pinned_another(&self) {
        if self.peer().progress.running.load(Relaxed) == USER_CODE {
            self.nested.pinned.set(true);
        }
    }

    /// The thread will sleep where it always does, also for `root`.
    fn share_parker(&self, root: &Root) {
        self.settle_root();
        match &self.root {
            Some(below) => root.settle_above(below),
            None => root.settle(&self.shared().io.netpoll, Some(self.p.peer.clone())),
        }
    }

    /// Sleeps until the root goes on. If the system has refused a thread and there is no keeper to
    /// try again, this thread tries. It may be the only one, and its own future may wait for a task
    /// that waits for a thread.
    fn sleep_above(&self, root: &Root) {
        if self.shared().has_a_keeper() {
            return root.parker().park();
        }
        root.parker().park_timeout(RETRY);
        self.shared().ensure_keeper();
    }

    /// Polls the next pinned task. False if there is none, or it may not be polled here.
    fn run_pinned_above(&self, root: &Arc<Root>) -> bool {
        let (p, peer) = (&*self.p, self.peer());
        let running = peer.progress.running.load(Relaxed);
        if matches!(running, 0 | BRANCH | USER_CODE) || branch::is_inside() {
            // A clock that jumps waits for what is in the inbox, and this thread may wait for the
            // clock.
            p.take_in();
            assert!(
                running != USER_CODE || !self.nested.pinned.get() || root.is_notified(),
                "a `block_on` in a hook, a waker or the end of another `block_on` waits, and a task that was pinned to \
                 this thread there cannot run before that code returns: use `ws::spawn` or `ws::spawn_pinned`"
            );
            return false;
        }
        if self.is_shut_down() {
            self.cancel_reachable_pinned();
            return false;
        }
        if !p.has_pinned() {
            return false;
        }
        let used = First::used();
        let stack = || ws_reactor::stack_size().or(self.shared().config.stack_size);
        assert!(
            used <= LITTLE || used <= stack().unwrap_or(STACK) / 2,
            "calls of `block_on` in tasks that are pinned to this thread nest too deep: await there, or block in fewer \
             of them at a time"
        );
        peer.flags.announced.store(false, Relaxed);
        event!(self, Return, (), 0);
        if self.get_permit_above(root)
            && let Some(task) = p.pop_pinned()
        {
            let (may_fork, id) = (p.poll.may_fork.get(), p.poll.id.get());
            p.tick();
            let _entered = context::enter(self.shared().clone());
            self.poll(task);
            p.poll.may_fork.set(may_fork);
            p.poll.id.set(id);
            peer.progress.running.store(running, Relaxed);
        }
        self.announce_blocking();
        true
    }

    /// Gets a permit for pinned work, unless `root` is due first.
    fn get_permit_above(&self, root: &Arc<Root>) -> bool {
        self.nested.above.replace(Some(root.clone()));
        self.get_permit(root.parker());
        self.nested.above.replace(None);
        self.peer().state.has_permit()
    }
}

#[cfg(test)]
mod tests;
