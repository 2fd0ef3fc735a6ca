//! The keeper: a thread that a runtime has from its build to its end, so that a thread is left
//! where the system refuses one.
//!
//! The system may refuse a thread at any moment (`pids.max`, `RLIMIT_NPROC`, memory). A wake has no
//! way to report that, and a task that was spawned is accepted. So some thread has to try again,
//! and it has to exist before the refusal. `Builder::build` starts it, where a refusal is an error
//! that the caller sees.
//!
//! *Invariant* (L5): while work is queued, a permit is free and the system has refused a thread, a
//! thread of the runtime looks for work, or tries for a thread every 10 ms. *Known gap*: if the
//! runtime has one thread in all, and a task blocks that one, nothing is tried until the task comes
//! back.
//!
//! # The role
//!
//! One thread at a time has the role. What it does:
//!
//! | it | does | until |
//! | --- | --- | --- |
//! | *watches* | is the monitor (`monitor.rs`), which tries again at each look | it stands in |
//! | *is in reserve*, with `sysmon(false)` | sleeps until the system refuses a thread, then tries every 10 ms until no work waits | it stands in |
//! | *stands in* | is a worker like any other: it is counted, has a P, and runs the hooks; the role is free | it ends as a worker does |
//!
//! It stands in if work waits, a try for a thread has just been refused, and the runtime has no
//! thread. So the monitor never takes the only thread from the tasks. While the role is free, each
//! thread that begins tries to start another keeper, and so does each worker that goes to sleep,
//! every 10 ms at most. A thread that stood in takes the role again if it is still free when it has
//! ended as a worker; otherwise it ends.
//!
//! *Invariant*: one thread at most has the role, and while none has it, a thread that stood in is a
//! worker and will take it again. Another keeper may be starting just when that worker ends. The
//! system may then refuse the start. So the role changes under a lock, which a starter holds until
//! it has the system's answer.
//!
//! A keeper does not stand in while the runtime has a thread, even a stuck one: the keeper could
//! block as well. Then no thread would try any more.
//!
//! The gap is open because a try needs a thread that runs. If the thread that stood in blocks, the
//! runtime has no other one. A signal handler must not start a thread. A push from another thread
//! of the program could try, but no push need come. A keeper that never stands in would close the
//! gap, at the price that a runtime with one thread runs no task.
//!
//! # *No refusal is missed*
//!
//! - *The monitor* sleeps for good only while all permits are free, and the thread that takes one
//!   wakes it (*The monitor's sleep* in `idle.rs`). A thread that is refused has taken a permit.
//!   The monitor stays up while work waits.
//! - *The reserve* sleeps on the same parker. A thread that the system refuses unparks it, after
//!   its push and after the mark of the refusal; so does the end of the runtime. The reserve takes
//!   such a notification first and looks afterwards, at the queues and at the phase. So it sees
//!   what the notification is about, or the next sleep ends at once. Its look needs no fence: the
//!   unpark comes after the fence of the refused thread's release, so a task whose pusher relied on
//!   that thread is seen as well.
//! - *Whether the reserve tries again* is decided by the queues and the permits alone. A thread
//!   that was started earlier may clear the mark after the refusal, when its starter gets on.
//!
//! # Rejected
//!
//! - To start it by need. There is no moment later on at which a refusal could be told: `spawn`
//!   would have to fail, and a wake cannot.
//! - To start a worker instead of the monitor. A parked worker waits in the netpoll. A program that
//!   does all its work in `block_on` would then be woken by another thread for each of its sockets.
//! - No thread where `Builder::sysmon` asks for no monitor. The first task from outside could wait
//!   for ever there.
//!
//! What it costs at the build, and what the first task gains:
//! `docs/decisions/2026-11-24-read-from-outside.md`.
//!
//! # The environment
//!
//! The steps are written once, in [`KeeperEnv`]; the runtime and the models implement it. How a
//! keeper is started in a runtime is in `sched/keeper_life.rs`.
//!
//! Checked by `models::keeper`; `executor/tests/work_waits_when_there_is_no_thread.rs`.

use std::time::Duration;

use super::{
    idle::{Permit, Spinning},
    phase::ShutdownEnv,
};
use crate::{
    policy::constants::KEEPER_RETRY,
    sync::{
        MODELLED, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    throttle::{REPORT_EVERY, Throttle},
};

/// Time between two tries. A model has no clock: there the time is over at once.
pub(crate) const RETRY: Duration = if MODELLED {
    Duration::ZERO
} else {
    KEEPER_RETRY
};

/// Whether a thread has the role.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// A thread has it, or none is wanted. Changes under the lock.
    is_taken: AtomicBool,
    /// Held while a thread with the role is started: until it is known whether that has it.
    changes: Mutex<()>,
    tries: Throttle,
    reports: Throttle,
}

impl Keeper {
    /// Not wanted where the clock is a driver's: there are no threads, or tasks run during
    /// `block_on` alone.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            is_taken: AtomicBool::new(!wanted),
            changes: Mutex::new(()),
            tries: Throttle::new(RETRY),
            reports: Throttle::new(REPORT_EVERY),
        }
    }

    /// Takes the role for the thread that `start` starts. Does nothing if it is taken.
    pub(crate) fn start<E>(&self, start: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let _alone = self.changes.lock();
        if self.is_taken.load(Relaxed) {
            return Ok(());
        }
        start()?;
        self.is_taken.store(true, Relaxed);
        Ok(())
    }

    /// For a thread that stood in. False if another thread has the role.
    fn take(&self) -> bool {
        let _alone = self.changes.lock();
        !self.is_taken.swap(true, Relaxed)
    }

    /// The thread that has the role stands in.
    fn give_up(&self) {
        let _alone = self.changes.lock();
        self.is_taken.store(false, Relaxed);
    }

    /// Whether a thread has the role, or none is wanted.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Relaxed)
    }

    /// Whether it is time for another try to start a thread.
    pub(crate) fn may_try(&self) -> bool {
        self.tries.passes()
    }

    /// Whether it is time for another report of a refused thread.
    pub(crate) fn may_report(&self) -> bool {
        self.reports.passes()
    }
}

/// What the keeper needs of the runtime beyond [`ShutdownEnv`]. The methods without a body are what
/// a runtime has to bring.
pub(crate) trait KeeperEnv: ShutdownEnv {
    /// What a thread has that begins as a worker: its P, and the permit of a spinner or what its
    /// hooks want.
    type OwnedP;

    fn keeper(&self) -> &Keeper;
    /// Whether the keeper is in reserve, and no monitor.
    fn has_reserve(&self) -> bool;
    /// Whether a thread could be woken or started, by what is seen now.
    fn could_have_a_thread(&self) -> bool;
    /// This thread takes the first steps of a worker. None: it may not, and permit and spinning are
    /// *refused*.
    fn become_worker(&self, permit: Permit, spinning: Spinning) -> Option<Self::OwnedP>;

    /// The life of a thread that has the role, as a keeper and as a worker by turns. True if it has
    /// ended as a worker, false if the runtime closes.
    fn live_as_keeper(
        &self,
        wait: impl Fn() -> Option<Self::OwnedP>,
        work: impl Fn(Self::OwnedP),
    ) -> bool {
        while let Some(p) = wait() {
            self.keeper().give_up();
            work(p);
            if !self.keeper().take() {
                return true;
            }
        }
        false
    }

    /// The system has given a thread.
    fn was_given_a_thread(&self) {
        if self.refusal().load(Relaxed) {
            self.refusal().store(false, Relaxed);
        }
    }

    /// The system has refused a thread, which is counted no more. What it was handed goes back,
    /// unless others have that.
    fn was_refused_by_the_system(&self, handed: Option<(Permit, Spinning)>) {
        if let Some((permit, spinning)) = handed {
            self.refused(permit, spinning);
        }
        if self.has_reserve() {
            self.idle().monitor().unpark(|| ());
        }
    }

    /// Sleeps until the keeper has to stand in. None: the runtime closes.
    fn wait_in_reserve(&self) -> Option<Self::OwnedP> {
        let parker = self.idle().monitor();
        let mut waits = false;
        loop {
            // After the notification was taken, which may be that of the closing.
            if self.phase().is_closing() {
                return None;
            }
            if waits {
                parker.park_timeout(RETRY);
            } else {
                parker.park();
            }
            if self.lacks_a_thread() && self.could_have_a_thread() {
                self.wake_for(1);
            }
            if let Some(p) = self.stand_in() {
                return Some(p);
            }
            // Its own try has left a notification as well, which must not end the next sleep. What
            // other notifications are about is looked at behind this.
            parker.wake_up();
            // Not the mark of the refusal: see *Whether the reserve tries again*.
            waits = self.lacks_a_thread();
        }
    }

    /// After a try for a thread: what this thread has to begin with if it has to be a worker.
    fn stand_in(&self) -> Option<Self::OwnedP> {
        if !self.refusal().load(Relaxed) || self.has_threads() || !self.lacks_a_thread() {
            return None;
        }
        let (permit, spinning) = self.idle().submit(1)?;
        self.become_worker(permit, spinning)
    }

    /// Whether work waits beside a free permit, and no thread looks for it.
    fn lacks_a_thread(&self) -> bool {
        self.idle().could_wake() && (self.any_work() || self.lacks_a_poller())
    }
}
