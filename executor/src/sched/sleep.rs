//! How a worker goes to sleep and gets up: parking, and the wait in the netpoll.
//!
//! The protocol is *The spinning hand-over* and *Parking is a claim* in `idle.rs`; this is the thread's
//! side of it. A thread that sleeps waits in the netpoll if nobody else does, and on its parker
//! otherwise. What the netpoll and the timers brought needs a permit to be run: if none is free, all
//! workers are busy, and it goes to the global queue.

use std::time::Duration;

use super::{
    Root,
    find::report_netpoll,
    idle::{Permit, Spinning, Stands},
    park::Parker,
    processor::attention,
    worker::{Scope, Worker},
};
use crate::sync::atomic::{
    Ordering::{Relaxed, Release, SeqCst},
    fence,
};

/// What a thread does after it slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awake {
    /// Looks for work.
    Go,
    /// Ends: there was nothing to do for so long.
    Leave,
}

impl Worker {
    /// Gives the permit up and sleeps until there is something to do.
    pub(super) fn park(&self) -> Awake {
        let peer = self.peer();
        let permit = peer.standing.park();
        self.shared.idle.parked().insert(peer.index);
        match (permit, self.spinning.take()) {
            (Some(permit), spinning) => {
                self.shared.idle.release(permit, spinning);
                self.shared.after_release();
            }
            // It was revoked in the middle of the search.
            (None, Some(spinning)) => {
                self.shared.idle.stop_spinning(spinning);
            }
            // Ordering: SeqCst: as in `Idle::release`.
            (None, None) => fence(SeqCst),
        }
        // As a spinner, so that it sees to the rest of the work when it has found some.
        if self.shared.any_work()
            && let Some((permit, spinning)) = self.shared.idle.submit(1)
        {
            self.stand_up(permit, Some(spinning));
            return Awake::Go;
        }
        peer.counters.parks.add(1);
        self.shared.config.hooks.call_park();
        let awake = loop {
            if let Some(awake) = self.sleep() {
                break awake;
            }
        };
        self.shared.config.hooks.call_unpark();
        awake
    }

    /// One sleep of a parked thread. None if it sleeps on.
    fn sleep(&self) -> Option<Awake> {
        let peer = self.peer();
        if matches!(peer.standing.load(), Stands::Running | Stands::Stuck) {
            // Stuck: the permit was revoked again before this thread came to its senses.
            self.was_handed_a_permit();
            return Some(Awake::Go);
        }
        if self.is_shut_down() && (self.root.is_none() || self.p.pinned_live.get() > 0) {
            self.rise();
            return Some(Awake::Go);
        }
        if self.has_private() {
            self.rise();
            self.get_permit(&peer.parker);
            return Some(Awake::Go);
        }
        let expired = self.wait(&peer.parker, Some(self.shared.config.keep_alive));
        let ready = self.ready.take();
        let mut stands = false;
        if !ready.is_empty()
            && peer.standing.load() == Stands::Parked
            && let Some(permit) = self.shared.idle.acquire()
        {
            self.stand_up(permit, None);
            stands = true;
        } else if expired
            && self.p.pinned_live.get() == 0
            && self.root.is_none()
            && peer.standing.load() == Stands::Parked
            && self.rise()
        {
            return Some(Awake::Leave);
        }
        // Without a permit they go to the global queue.
        if self.wake_batch(ready) > 0 && !peer.standing.has_permit() {
            self.shared.need_permit();
        }
        // If a permit was handed over meanwhile, the next look at the standing takes note of it, and of
        // the spinning that came with it.
        stands.then_some(Awake::Go)
    }

    /// A waker swapped the standing: its permit is ours, and we are counted as spinning.
    fn was_handed_a_permit(&self) {
        let spinning = self.spinning.take().unwrap_or_else(Spinning::take_over);
        self.spinning.set(Some(spinning));
    }

    /// Stands up with `permit`, and as a spinner if it is one. If another permit was handed over
    /// meanwhile, these go back.
    fn stand_up(&self, permit: Permit, spinning: Option<Spinning>) {
        let peer = self.peer();
        match peer.standing.hand_to_parked(permit) {
            Ok(()) => {
                self.shared.idle.parked().remove(peer.index);
                self.spinning.set(spinning);
            }
            Err(permit) => {
                self.was_handed_a_permit();
                self.shared.release(permit, spinning);
            }
        }
    }

    /// Is awake without a permit. False if one was handed over meanwhile.
    fn rise(&self) -> bool {
        let standing = &self.peer().standing;
        if standing.load() == Stands::Parked && standing.awake() {
            self.shared.idle.parked().remove(self.peer().index);
            true
        } else {
            self.was_handed_a_permit();
            false
        }
    }

    pub(super) fn has_private(&self) -> bool {
        self.p.has_pinned() || self.root.as_ref().is_some_and(|root| root.is_notified())
    }

    /// Gets a permit for work that this thread alone can do, and waits for one if it must; see *Pinned
    /// work* in `idle.rs`. Returns without one when the runtime shuts down, or the root wants to be
    /// polled by a thread that does not need one.
    pub(super) fn get_permit(&self, parker: &Parker) {
        let peer = self.peer();
        loop {
            let free_root = self.scope == Scope::Own
                && self.root.as_ref().is_some_and(|root| root.is_notified());
            if peer.standing.has_permit() || self.try_run() || free_root || self.is_shut_down() {
                return;
            }
            peer.standing.want();
            self.shared.idle.wanting().insert(peer.index);
            // Ordering: SeqCst: see *Pinned work*; pairs with the fence in `Idle::release`.
            fence(SeqCst);
            if let Some(permit) = self.shared.idle.acquire() {
                if let Err(permit) = peer.standing.hand_to_wanting(permit) {
                    // Another was handed over meanwhile.
                    self.shared.release(permit, None);
                }
                self.shared.idle.wanting().remove(peer.index);
                return;
            }
            parker.park();
            self.shared.idle.wanting().remove(peer.index);
            if !peer.standing.awake() {
                return;
            }
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.peer().attention.load(Relaxed) & attention::SHUTDOWN != 0
    }

    /// Waits in the netpoll if nobody else does, else on `parker`; what became ready is in `ready`
    /// then. True if `keep_alive` went by, which does not count in the netpoll.
    pub(super) fn wait(&self, parker: &Parker, keep_alive: Option<Duration>) -> bool {
        // A thread in `block_on` leaves the netpoll to the workers once it had to pass on what it found
        // there, and stays on its own parker, which is woken more cheaply, while nothing is awaited.
        let elsewhere = self.scope == Scope::Own
            && ((self.passed_on.get() && self.shared.has_threads()) || !self.shared.awaits());
        let poller = if elsewhere {
            None
        } else {
            self.shared.netpoll.try_poller()
        };
        let Some(mut poller) = poller else {
            return match keep_alive {
                Some(keep_alive) => parker.park_timeout(keep_alive),
                None => {
                    parker.park();
                    false
                }
            };
        };
        let mut ready = self.ready.take();
        // Ordering: Release: who finds nobody there (Acquire, in `ensure_poller`) comes after.
        self.shared
            .netpoll_waiter
            .store(self.peer().index + 1, Release);
        parker.park_polling(|| {
            poller.prepare();
            let clock = self.shared.time.clock();
            let next = self.shared.next_deadline();
            if next.is_some_and(|next| next <= clock.now_ns()) {
                poller.cancel();
            } else if let Err(error) = poller.wait(next.map(|next| clock.from_ns(next)), &mut ready)
            {
                report_netpoll(&error);
            }
        });
        self.shared.netpoll_waiter.store(0, Release);
        drop(poller);
        let now = self.now();
        self.p.now_ms.set((now / 1_000_000) as u32);
        self.shared.last_netpoll.store(now, Relaxed);
        self.peer().counters.netpolls.add(1);
        let fired = self.shared.fire_due(now, &mut ready);
        self.peer().counters.timers.add(fired as u64);
        self.ready.replace(ready);
        false
    }

    /// Gives the permit up and sleeps until the root, or a pinned task, can go on. Returns with a
    /// permit if one is free.
    pub(super) fn wait_for_root(&self, root: &Root) {
        let peer = self.peer();
        // If it had none: what wakes it leaves a note at the parker.
        if let Some(permit) = peer.standing.wait() {
            self.shared.release(permit, None);
        }
        // Ordering: SeqCst: between the standing and the look at whether a thread was refused; pairs with
        // the fence in `thread_was_refused`.
        fence(SeqCst);
        while !self.has_private() && !self.must_stand_in() {
            self.wait(root.parker(), None);
            let ready = self.ready.take();
            let before = self.peer().counters.handed_in.get();
            self.wake_batch(ready);
            if self.peer().counters.handed_in.get() != before {
                self.passed_on.set(true);
            }
        }
        self.stands_in.set(!self.has_private());
        peer.standing.awake();
        if self.p.has_pinned() {
            self.get_permit(root.parker());
        } else {
            self.try_run();
        }
    }

    /// See *Standing in*, in `block_on.rs`.
    fn must_stand_in(&self) -> bool {
        let shared = &self.shared;
        shared.refused.load(Relaxed)
            && shared.idle.free() > 0
            && !shared.grq.is_empty()
            && (self.gave_away.get() || !shared.has_threads())
    }
}
