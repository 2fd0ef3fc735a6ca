//! A thread's side of its permit: how it gets one, gives it up, sleeps and wakes up.
//!
//! The protocols are *The spinning hand-over*, *Pinned work* and *Parking is a claim* in `idle.rs`.
//! Here are the steps of the thread that has the P, over its environment (`Env`). The runtime's
//! threads take them (`Worker`, in `sched/wait.rs`), and those of the models.
//!
//! # Parking
//!
//! 1. *Begin to park*: the worker state becomes `PARKED`, the bit is set, spinning and permit are
//!    given up in one step, and everything is looked at once more. If there is work: awake again,
//!    as a spinner. The threads that relied on it may have pushed more than it is going to take.
//! 2. *Check*, before every sleep: was a permit handed over? Is there work that only this thread
//!    may do? Is the runtime being shut down?
//! 3. Sleep: [`Sleeper::wait`], in the netpoll if no other thread is there.
//! 4. *After the sleep*: what the netpoll brought needs a permit to be run. A thread that slept in
//!    vain for long enough may end. Then again from 2, or from 1 if it was awake for that.
//!
//! Each of these is a function that does not block, and [`Sleeper::park`] is the loop around them.
//! So a driver that is not a thread takes the same steps one at a time.
//!
//! # Handed over, and taken away again
//!
//! A thread that finds its worker state `RUNNING` was handed a permit, and counts as a spinner.
//! `STUCK` means the same: the monitor took the permit away again before the thread looked, but the
//! spinning is still its own to give up. Other threads may change `RUNNING` to `STUCK`; only the
//! owner leaves both. So the answer stays true until it acts.
//!
//! # User code on a parked thread
//!
//! All threads that push rely on a spinner. A thread with a new permit counts as one. If it runs a
//! user's code before it looks, no thread searches meanwhile. So:
//!
//! - If the netpoll brought something, the thread leaves `PARKED` before it calls the wakers. It
//!   takes a permit if one is free. Otherwise it becomes `STUCK`, so that no thread hands it one.
//!   Then it parks again, with the last look that belongs to it.
//! - So does a thread before the hook for its sleep: it wakes up without a permit, runs the hook,
//!   and parks again.
//! - The hook for the end of a sleep, and a waker that is not a task's, count as a poll of a thread
//!   that does not spin (`Worker::enter_user_code`). If a parked thread was handed a permit, it
//!   takes note first ([`Sleeper::is_awake`]).
//! - Code that announces a block does the same, and gives up both the permit and the spinning.
//!
//! Checked by `models::idle` and `models::permit`, by `sched/tests/sleep.rs` and
//! `sched/wait/tests.rs`, and, with wakers that block, by the simulated programs.

use std::cell::Cell;

use super::{
    env::{Env, PeerEnv},
    idle::{Permit, Spinning, WorkerState},
};
use crate::park::Parker;
use crate::sync::atomic::{Ordering::SeqCst, fence};

/// What a thread does after it slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awake {
    /// Looks for work.
    Go,
    /// Ends: it slept in vain for long enough.
    Leave,
}

/// What a parked thread sees when it checks before a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It has to go on.
    Up,
    /// It is awake, and needs a permit for work that is its own.
    Wants,
    /// Nothing: it sleeps.
    Nothing,
}

/// What a sleep brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slept {
    /// It slept in vain for long enough that it may end.
    pub(crate) expired: bool,
    /// It brought tasks to be woken.
    pub(crate) ready: bool,
}

/// A thread with its P. The methods without a body are what it has to bring.
pub(crate) trait Sleeper {
    type Env: Env;

    fn env(&self) -> &Self::Env;
    /// Its own P.
    fn own_peer(&self) -> &<Self::Env as Env>::Peer;
    /// Whether it spins. If that is handed over with a permit, the next check takes note of it.
    fn spinning(&self) -> &Cell<Option<Spinning>>;
    /// Whether it has begun to park: it has not yet taken note of a permit that is handed over now,
    /// and of the spinning with it.
    fn parking(&self) -> &Cell<bool>;
    /// Moves its own queues to the global one: a *flush*.
    fn flush(&self);
    /// Whether there is work that only this thread may do.
    fn has_private(&self) -> bool;
    /// Whether some of that can be done without a permit, or there is no point in doing it any
    /// more.
    fn needs_no_permit(&self) -> bool;
    /// Whether it has to wake up because the runtime is shut down.
    fn is_called(&self) -> bool;
    /// Sleeps once.
    fn wait(&self) -> Slept;
    /// Whether it may end after it slept in vain for long.
    fn may_end(&self) -> bool;
    /// Wakes what its sleep brought, if anything. With a permit into its own queues.
    fn wake_what_came(&self);
    /// Whether there is a hook for a thread that goes to sleep, or wakes up after that.
    fn has_park_hooks(&self) -> bool {
        false
    }
    /// Runs the first of these, and the second.
    fn call_park_hook(&self) {}
    fn call_unpark_hook(&self) {}
    /// Before it sleeps for the first time since it parked.
    fn falls_asleep(&self);
    /// Before it goes on after that.
    fn wakes_up(&self);

    // --- awake ---

    /// Takes a permit, if one is free.
    fn try_run(&self) -> bool {
        match self.env().idle().acquire() {
            Some(permit) => {
                self.own_peer().state().run(permit);
                true
            }
            None => false,
        }
    }

    /// For a thread that has no permit: after a revocation, or in a `block_on` that found none. It
    /// tries for one. If there is none, its P's work goes to the others, and it tries once more.
    fn regain(&self) -> bool {
        if let Some(spinning) = self.spinning().take() {
            self.env().stop_spinning(spinning);
        }
        if self.try_run() {
            return true;
        }
        self.flush();
        // Ordering: SeqCst: between the flush and the last try; pairs with the fence of a release,
        // which looks at the global queue after it.
        fence(SeqCst);
        self.try_run()
    }

    /// Begins to search, if it does not yet. False if enough others do.
    fn begin_search(&self) -> bool {
        let spinning = match self.spinning().take() {
            Some(spinning) => Some(spinning),
            None => self.env().idle().start_spinning(),
        };
        let searches = spinning.is_some();
        self.spinning().set(spinning);
        searches
    }

    /// The search is over. If there is more, the last searcher sees to it that a thread goes on.
    fn found_work(&self) {
        if let Some(spinning) = self.spinning().take() {
            self.env().stop_spinning(spinning);
        }
    }

    /// Gives its permit to a thread that has pinned work and none. If it did, the step that follows
    /// has no permit, flushes what is here, and parks.
    fn lend_permit(&self) {
        let state = self.own_peer().state();
        if let Some(permit) = state.revoke()
            && let Err(permit) = self.env().hand_to_wanting(permit)
        {
            state.run(permit);
        }
    }

    /// Is about to block in the middle of a poll: gives permit and queue to others, if they were
    /// not taken from it before.
    fn begin_blocking(&self) {
        if let Some(permit) = self.own_peer().state().revoke() {
            self.flush();
            self.env().release(permit, None);
        }
    }

    // --- parking ---

    /// Gives the permit up and sleeps until there is something to do.
    fn park(&self) -> Awake {
        if self.begin_park() {
            return Awake::Go;
        }
        self.sleep()
    }

    /// Sleeps until there is something to do.
    fn sleep(&self) -> Awake {
        let hooked = self.has_park_hooks();
        if hooked {
            if !self.unpark_without_permit() {
                return Awake::Go;
            }
            // No thread hands a permit to one that runs a hook, and would not come to use it before
            // that is back.
            self.call_park_hook();
            // A hook that blocked may have come back with a permit.
            self.flush();
            if self.begin_park() {
                self.call_unpark_hook();
                return Awake::Go;
            }
        }
        self.falls_asleep();
        let awake = loop {
            match self.check_before_sleep() {
                Look::Up => break Awake::Go,
                Look::Wants => {
                    self.get_permit(self.own_peer().parker());
                    break Awake::Go;
                }
                Look::Nothing => {}
            }
            let slept = self.wait();
            if let Some(awake) = self.after_sleep(slept) {
                break awake;
            }
        };
        self.wakes_up();
        if hooked {
            self.call_unpark_hook();
        }
        awake
    }

    /// The first step of parking. True if there is work: it is awake again.
    fn begin_park(&self) -> bool {
        let env = self.env();
        let peer = self.own_peer();
        debug_assert!(
            !peer.has_queued() && !peer.has_parent(),
            "I5: no thief looks at a P that is parked"
        );
        self.parking().set(true);
        let permit = peer.state().park();
        env.idle().parked().insert(peer.index());
        match (permit, self.spinning().take()) {
            (Some(permit), spinning) => {
                env.idle().release(permit, spinning);
                env.after_release();
            }
            // It was revoked in the middle of the search.
            (None, Some(spinning)) => {
                env.idle().stop_spinning(spinning);
            }
            // Ordering: SeqCst: as in `Idle::release`.
            (None, None) => fence(SeqCst),
        }
        self.unparks_for_what_is_left()
    }

    /// The last look of a thread that parks. True if there is work: it is awake again.
    fn unparks_for_what_is_left(&self) -> bool {
        let env = self.env();
        if env.any_left()
            && let Some((permit, spinning)) = env.idle().submit(1)
        {
            self.unpark_self(permit, Some(spinning));
            return true;
        }
        false
    }

    /// The arrival, in a P that was vacant, of a thread that is not counted as one to come for
    /// work. It can be handed a permit before `can_be_woken` is called, and looks at the queues
    /// after that.
    fn arrive_parked(&self, can_be_woken: impl FnOnce()) -> Awake {
        let peer = self.own_peer();
        peer.state().arrive();
        self.parking().set(true);
        let permit = peer.state().park();
        debug_assert!(permit.is_none(), "it was vacant");
        self.env().idle().parked().insert(peer.index());
        can_be_woken();
        // Ordering: SeqCst: as in `Idle::release`.
        fence(SeqCst);
        if self.unparks_for_what_is_left() {
            return Awake::Go;
        }
        self.sleep()
    }

    /// What there is to see before a sleep.
    fn check_before_sleep(&self) -> Look {
        if self.is_awake() {
            return Look::Up;
        }
        if self.is_called() {
            self.unpark_without_permit();
            return Look::Up;
        }
        if self.has_private() {
            self.unpark_without_permit();
            return Look::Wants;
        }
        Look::Nothing
    }

    /// After a sleep. None if it sleeps on: also if a permit was handed over, for the next look
    /// takes note of it, and of the spinning that came with it.
    fn after_sleep(&self, slept: Slept) -> Option<Awake> {
        let state = self.own_peer().state();
        let mut unparked = false;
        if slept.ready
            && state.load() == WorkerState::Parked
            && let Some(permit) = self.env().idle().acquire()
        {
            self.unpark_self(permit, None);
            unparked = true;
        } else if slept.ready && self.unpark_without_permit() {
            // No thread hands a permit to one that runs wakers, and would not come to use it before
            // they are back.
            self.wake_what_came();
            // A waker that blocked may have come back with a permit, and what came after it is in
            // the own queues. If the permit is gone again, it must not be left there.
            let unparked = state.has_permit() || {
                self.flush();
                self.begin_park()
            };
            return unparked.then_some(Awake::Go);
        } else if slept.expired
            && self.may_end()
            && state.load() == WorkerState::Parked
            && self.unpark_without_permit()
        {
            return Some(Awake::Leave);
        }
        self.wake_what_came();
        unparked.then_some(Awake::Go)
    }

    /// Whether its thread is awake, so that its permit is its own affair. If it was handed a permit
    /// while it was parked, it takes note of that now.
    fn is_awake(&self) -> bool {
        let awake = matches!(
            self.own_peer().state().load(),
            WorkerState::Running | WorkerState::Stuck
        );
        if awake && self.parking().get() {
            self.was_handed_a_permit();
        }
        awake
    }

    /// A waker swapped the worker state: its permit is ours, and we are counted as spinning.
    fn was_handed_a_permit(&self) {
        self.parking().set(false);
        // A bit that is left behind would hide from thieves what this thread queues now.
        let (parked, index) = (self.env().idle().parked(), self.own_peer().index());
        if parked.contains(index) {
            parked.remove(index);
        }
        let spinning = self.spinning().take().unwrap_or_else(Spinning::take_over);
        self.spinning().set(Some(spinning));
    }

    /// Wakes itself up with `permit`, and as a spinner if it is one. If another permit was handed
    /// over meanwhile, these go back.
    fn unpark_self(&self, permit: Permit, spinning: Option<Spinning>) {
        let peer = self.own_peer();
        match peer.state().hand_to_parked(permit) {
            Ok(()) => {
                self.env().idle().parked().remove(peer.index());
                self.parking().set(false);
                self.spinning().set(spinning);
            }
            Err(permit) => {
                self.was_handed_a_permit();
                self.env().release(permit, spinning);
            }
        }
    }

    /// Is awake without a permit. False if one was handed over meanwhile.
    fn unpark_without_permit(&self) -> bool {
        if self.own_peer().state().unpark_without_permit() {
            self.env().idle().parked().remove(self.own_peer().index());
            self.parking().set(false);
            true
        } else {
            self.was_handed_a_permit();
            false
        }
    }

    // --- pinned work ---

    /// Gets a permit for work that this thread alone can do, and waits for one on `parker` if it
    /// must; see *Pinned work* in `idle.rs`. Returns without one when it is not needed any more.
    fn get_permit(&self, parker: &Parker) {
        while !self.ask_for_permit() {
            parker.park();
            if self.was_answered() {
                return;
            }
        }
    }

    /// Gives the permit to others in the middle of a poll, and waits on `parker` for the next one.
    /// It is `WANTING` before another thread can run: if that one then finds no more to do, it
    /// gives the permit back, and takes nothing of this thread's.
    fn give_way(&self, parker: &Parker) {
        let peer = self.own_peer();
        let Some(permit) = peer.state().revoke() else {
            return self.get_permit(parker);
        };
        self.flush();
        peer.state().want();
        self.env().idle().wanting().insert(peer.index());
        self.env().release_for_work(permit, 0);
        parker.park();
        if !self.was_answered() {
            self.get_permit(parker);
        }
    }

    /// True if it has a permit, or needs none. Else it is `WANTING`, and sleeps now.
    fn ask_for_permit(&self) -> bool {
        let env = self.env();
        let peer = self.own_peer();
        if peer.state().has_permit() || self.try_run() || self.needs_no_permit() {
            return true;
        }
        peer.state().want();
        env.idle().wanting().insert(peer.index());
        // Ordering: SeqCst: see *Pinned work*; pairs with the fence in `Idle::release`.
        fence(SeqCst);
        let Some(permit) = env.idle().acquire() else {
            return false;
        };
        if let Err(permit) = peer.state().hand_to_wanting(permit) {
            // Another was handed over meanwhile.
            env.release(permit, None);
        }
        env.idle().wanting().remove(peer.index());
        true
    }

    /// After that sleep: whether a permit was handed over.
    fn was_answered(&self) -> bool {
        self.env().idle().wanting().remove(self.own_peer().index());
        !self.own_peer().state().awake()
    }
}
