//! How a thread of the runtime sleeps: in the netpoll if no other thread waits there, and on its
//! parker otherwise.
//!
//! Here is what a `Worker` brings to the steps of `permit/sleep.rs`. What the netpoll and the
//! timers brought needs a permit to be run: if none is free, all workers are busy, and it goes to
//! the global queue.
//!
//! # *The netpoll is left to those with a permit*
//!
//! A thread whose permit was taken from it is one too many: while the others run, it finds none. If
//! it waits in the netpoll, it is woken for each event before the busy ones come to look there, it
//! hands the task to the global queue, and it wakes the monitor for a permit. So it takes their
//! cores for nothing, until no event came for [`Builder::keep_alive`]. Measured with 32 WebSockets
//! and their clients on two cores: 80,000 context switches in 3 s where there are 7,000 without it,
//! and 0.84 of the messages.
//!
//! So it moves what it found to the global queue once, and tells the monitor. After that it sleeps
//! on its parker while every permit is taken. The threads that have them look at the netpoll (*What
//! is heard* in `permit/env.rs`), and if they are stuck, the monitor sees to it: soon if they
//! block, and within some 10 ms if they compute. It is called back by the next permit that is free.
//!
//! [`Builder::keep_alive`]: crate::runtime::Builder::keep_alive
//!
//! # *Timer slack*
//!
//! Where timers are due every few microseconds, the thread that waits for the next one pays a sleep
//! and a wake-up for a handful of them. With 200,000 sleeps that end within a second those were
//! half of the 5.1 us of CPU that each took. So if the waits in the netpoll have ended with 2
//! timers or more for a millisecond, no thread wakes up for what is armed already before 200 us are
//! over (`policy/slack.rs`). They fire together: each takes 2.2 us, and is late by 88 us in the
//! median where it was 36 (Intel Xeon, 2 cores). With 50,000 sleeps a second each takes 5.2 us in
//! place of 12.9 (`docs/decisions/2026-11-30-guessed-numbers.md`). Linux does so for each thread,
//! by 50 us (`PR_SET_TIMERSLACK` in prctl(2)).
//!
//! If a timer is armed meanwhile, it waits with them, unless it is the first of its P: then it sets
//! the alarm forward, and fires at its moment. A socket or a wake-up ends the wait as ever. A
//! thread that is awake fires what is due on its own P between its polls. One hold of the lock
//! fires 256 timers at most. If more were due, the rest fires without a wait. Where a hundred
//! timers are due at nearly the same time every few milliseconds, each such burst is over before
//! that.

use std::{cell::Cell, io, time::Duration};

use ws_reactor::Poller;

use super::{
    Root, Shared,
    processor::{Peer, ROOT, attention},
    worker::{Scope, Worker},
};
use crate::{
    note::event,
    park::Parker,
    permit::{
        env::Env,
        idle::Spinning,
        phase::ShutdownEnv,
        sleep::{Sleeper, Slept},
    },
    policy::constants::FAILED_WAIT,
    queue::Batch,
    sync::atomic::{
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};

impl Sleeper for Worker {
    type Env = Shared;

    fn env(&self) -> &Shared {
        &self.shared
    }

    fn own_peer(&self) -> &Peer {
        self.peer()
    }

    fn spinning(&self) -> &Cell<Option<Spinning>> {
        &self.spinning
    }

    fn parking(&self) -> &Cell<bool> {
        &self.parking
    }

    /// Ring, runnext and what was forked; and what is ordered to the shared ordered queue.
    fn flush(&self) {
        self.flush_ordered();
        let mut batch = Batch::new();
        batch.extend(self.p.runnext.take());
        batch.extend(std::iter::from_fn(|| self.p.forks.pop()));
        // It blocks before it came to that.
        batch.extend(self.peer().thread.handed.take());
        self.p.lrq.drain(|task| batch.push(task));
        if !batch.is_empty() {
            self.peer().flags.gave_away.store(true, Relaxed);
            self.shared.push_batch(batch);
        }
    }

    fn has_private(&self) -> bool {
        self.p.has_pinned() || self.root.as_ref().is_some_and(|root| root.is_notified())
    }

    /// A root may be polled by its own thread at any time; but not below another poll.
    fn needs_no_permit(&self) -> bool {
        if let Some(above) = &*self.nested.above.borrow() {
            return above.is_notified() || self.is_shut_down();
        }
        let in_task = !matches!(self.peer().progress.running.load(Relaxed), 0 | ROOT);
        let free_root = !in_task
            && self.scope == Scope::Own
            && self.root.as_ref().is_some_and(|root| root.is_notified());
        free_root || self.is_shut_down()
    }

    fn is_called(&self) -> bool {
        self.is_asked_to_drain()
            || (self.is_shut_down() && (self.root.is_none() || self.p.pinned.has_live()))
    }

    fn wait(&self) -> Slept {
        // No user code runs while it is parked.
        self.peer().thread.affinity.fall_asleep();
        let expired = self.wait_on(
            &self.peer().thread.parker,
            Some(self.shared.config.keep_alive),
        );
        self.peer().thread.affinity.wake_up();
        Slept {
            expired,
            ready: !self.brought.ready.borrow().is_empty(),
        }
    }

    fn may_end(&self) -> bool {
        !self.p.pinned.has_live() && self.root.is_none()
    }

    fn wake_what_came(&self) {
        // Without a permit they go to the global queue.
        let ready = self.brought.ready.take();
        if self.wake_batch(ready) > 0 && !self.peer().state.has_permit() {
            self.brought.passed_on.set(true);
            self.shared.need_permit();
        }
    }

    fn falls_asleep(&self) {
        self.shared.ensure_keeper();
        event!(self, Park, (), 0);
        self.forget_steal();
        self.peer().flags.bound.store(self.is_bound(), Relaxed);
        self.peer().counters.parks.add(1);
    }

    fn wakes_up(&self) {
        self.brought.passed_on.set(false);
        event!(self, Unpark, (), 0);
        self.shared.note_node(self.index());
        self.p.begins(self.now());
    }

    fn has_park_hooks(&self) -> bool {
        self.shared.config.hooks.has_park()
    }

    fn call_park_hook(&self) {
        self.enter_user_code(|| self.shared.config.hooks.call_park());
    }

    fn call_unpark_hook(&self) {
        self.enter_user_code(|| self.shared.config.hooks.call_unpark());
    }
}

impl Worker {
    pub(crate) fn is_shut_down(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::SHUTDOWN != 0
    }

    fn is_asked_to_drain(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::DRAIN != 0
    }

    /// Waits in the netpoll if no other thread does, else on `parker`; what became ready is in
    /// `ready` then. True if `keep_alive` went by, which does not count in the netpoll.
    fn wait_on(&self, parker: &Parker, keep_alive: Option<Duration>) -> bool {
        if let Some(paused) = &self.shared.time.paused {
            return self.wait_paused(paused, parker, keep_alive);
        }
        // See the module's head. A thread in `block_on` leaves it to the workers for good. While
        // nothing is awaited it stays on its own parker, which is woken more cheaply. Not where no
        // thread can be had: then there may be no worker to leave it to.
        let left_to_workers = self.brought.passed_on.get()
            && self.shared.has_threads()
            && !self.shared.threads.refused.load(Relaxed);
        let elsewhere = match self.scope {
            Scope::Own => left_to_workers || !self.shared.awaits(),
            Scope::All => left_to_workers && self.shared.idle.free() == 0,
        };
        let poller = if elsewhere {
            None
        } else {
            self.shared.io.netpoll.try_poller()
        };
        let Some(poller) = poller else {
            return self.sleep_on(parker, keep_alive);
        };
        let mut waited = Ok(());
        self.shared.poll_as(self.index(), poller, |poller| {
            waited = self.wait_in_netpoll(parker, poller);
        });
        self.shared.report_netpoll(waited);
        self.fire_due();
        false
    }

    /// The wait itself, until the next timer is due.
    fn wait_in_netpoll(&self, parker: &Parker, poller: &mut Poller<'_>) -> io::Result<()> {
        let mut waited = Ok(());
        let unparked = parker.park_polling(|| {
            poller.prepare();
            let clock = self.shared.time.clock();
            let next = self.shared.next_wake_up();
            if next.is_some_and(|next| next <= clock.now_ns()) {
                poller.cancel();
            } else {
                let until = next.map(|next| clock.from_ns(next));
                let result = poller.wait(until, &mut self.brought.ready.borrow_mut());
                waited = result.map(|_| ());
            }
        });
        if waited.is_err() {
            // The next wait would fail at once as well, and so would that of another thread, which
            // is not let in meanwhile.
            let pause = if unparked {
                Duration::ZERO
            } else {
                FAILED_WAIT
            };
            parker.park_timeout(pause);
        }
        waited
    }

    /// Sleeps on `parker`. True if `keep_alive` went by.
    pub(super) fn sleep_on(&self, parker: &Parker, keep_alive: Option<Duration>) -> bool {
        match keep_alive {
            Some(keep_alive) => parker.park_timeout(keep_alive),
            None => {
                parker.park();
                false
            }
        }
    }

    /// Takes what is due after a wait in the netpoll.
    pub(super) fn fire_due(&self) {
        let now = self.now();
        self.p.set_now(now);
        self.shared.io.last_look.store(now, Relaxed);
        self.peer().counters.netpolls.add(1);
        let brought = self.brought.ready.borrow().len();
        if brought > 0 {
            event!(self, Netpoll, (), brought);
        }
        let fired = self
            .shared
            .fire_due(now, &mut self.brought.ready.borrow_mut());
        self.peer().counters.timers.add(fired as u64);
        self.shared.io.timer_slack.came(fired, now);
    }

    /// Gives the permit up and sleeps until the root, or a pinned task, can go on. Returns with a
    /// permit if one is free.
    pub(crate) fn wait_for_root(&self, root: &Root) {
        self.settle_root();
        let peer = self.peer();
        // If it had none: what wakes it leaves a notification at the parker.
        if let Some(permit) = peer.state.wait() {
            self.shared.release(permit, None);
        }
        // Ordering: SeqCst: between the worker state and the look at whether a thread was refused;
        // pairs with the fence in `Env::refused`.
        fence(SeqCst);
        let goes_on = || self.has_private() || self.is_asked_to_drain();
        let mut stands_in = false;
        let hooked = self.has_park_hooks()
            && !self.shared.config.host.leaves_tasks()
            && !goes_on()
            && !self.must_stand_in();
        if hooked {
            self.call_park_hook();
        }
        while !goes_on() {
            stands_in = self.must_stand_in();
            if stands_in {
                break;
            }
            self.wait_on(root.parker(), None);
            let ready = self.brought.ready.take();
            let before = self.peer().counters.flushed.get();
            self.wake_batch(ready);
            if self.peer().counters.flushed.get() != before {
                self.brought.passed_on.set(true);
            }
        }
        if hooked {
            // It has no permit yet.
            self.call_unpark_hook();
        }
        self.next.stands_in.set(stands_in && !self.has_private());
        peer.state.awake();
        if self.p.has_pinned() {
            self.get_permit(root.parker());
        } else {
            self.try_run();
        }
    }

    /// See *Standing in*, in `block_on.rs`.
    fn must_stand_in(&self) -> bool {
        let shared = &self.shared;
        shared.threads.refused.load(Relaxed)
            && shared.idle.free() > 0
            && shared.has_queued()
            && (self.peer().flags.gave_away.load(Relaxed)
                || !shared.has_threads()
                || (self.has_live() && shared.idle.parked().is_empty()))
    }

    /// Whether this thread has spawned anything since it took its P, and something of that P is
    /// still alive.
    fn has_live(&self) -> bool {
        let peer = self.peer();
        peer.counters.spawned.get() != self.spawned_before && peer.scheduler.live().len() > 0
    }
}

impl Shared {
    /// One look, so that a sandbox that refuses it is an error of the build and not a socket that
    /// nobody hears of.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn try_netpoll(&self) -> io::Result<()> {
        // Nothing is registered yet, so nobody is to be woken.
        let poller = self.io.netpoll.try_poller();
        poller.map_or(Ok(()), |mut poller| poller.look(&mut Vec::new()))
    }

    /// Not while the netpoll is held, but in virtual time: a thread that listens may wait for a
    /// socket of this runtime.
    ///
    /// The system lets a look fail for no reason that passes, so this is limited.
    pub(crate) fn report_netpoll<T>(&self, result: io::Result<T>) {
        let Err(error) = result else {
            return;
        };
        if self.io.reports.passes() {
            self.telling.reports.tell_limited(
                || tracing::error!(%error, "the netpoll failed: no socket is heard of"),
                format_args!("the netpoll failed: no socket is heard of: {error}"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
