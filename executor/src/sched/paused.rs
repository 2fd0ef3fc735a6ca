//! Virtual time: a runtime whose clock stands still while anything can go on, and jumps to the next
//! timer when nothing can.
//!
//! It is for tests. A sleep of a thousand hours takes none, a timeout comes exactly when it is due,
//! and the order in which ready tasks run follows from a seed, so that a run can be repeated. Such
//! a runtime has one permit and no monitor, which would look at the real clock.
//!
//! # *The jump*
//!
//! *Invariant*: the clock moves only while nothing in the runtime can go on before it does.
//!
//! Every thread that has a P is counted as *awake* from its first step to its last, except while it
//! sleeps: a worker in [`Worker::wait_paused`](super::Worker::wait_paused), a nested `block_on` in
//! [`Shared::park_above`]. A thread in a blocking closure, in a waiting join or in the middle of a
//! poll sleeps nowhere here, so it is awake, and the clock waits for it. A thread that falls asleep
//! counts itself down, and if it was the last:
//!
//! 1. it is the one in the netpoll: it looks whether the next step is already some thread's
//!    (`all_wait`), and asks the netpoll without waiting. If nothing came of that, and no thread
//!    was awake meanwhile, it moves the clock to the next deadline and fires what is due;
//! 2. it is not: it interrupts the one that is. That one counts itself up, wakes, counts itself
//!    down, and is the last now. If no thread is there, it has one started for that.
//!
//! A thread that was woken and has not yet counted itself up is not overlooked: what it was woken
//! for can be seen. A permit was handed to it, so none is free; or its root is notified; or a task
//! lies in its inbox. Foreign threads are seen from the moment at which their task is in a queue. A
//! thread that sleeps in a nested `block_on` cannot poll the roots below that one before it is
//! done, so only the uppermost root of each thread counts. Where it may not poll its pinned tasks
//! either, it takes them out of the inbox before it sleeps.
//!
//! A thread that has no P of this runtime may poll a root of it, too: a task of another runtime
//! calls `block_on`. It is not counted. But while its root is notified, the clock must not move.
//! The thread in the netpoll may have seen that, and sleep again. So before such a thread sleeps,
//! and when its root has ended, it has that one look again if all others sleep.
//!
//! That is several words, and they are read one after the other. A thread that counts itself up in
//! the middle takes what it was woken for out of a word that is read later, and puts what it makes
//! ready into one that was read before. So the count of wake-ups is read before all of them, and
//! after. If it has changed, the clock stays. That thread is the last to sleep later on, and has
//! the one in the netpoll look again.
//!
//! | holds the clock | does not |
//! | --- | --- |
//! | a task that is ready, or polled | a task that waits for a timer, a channel, another task |
//! | a closure of `spawn_blocking` or `block_in_place` | a nested `block_on` that waits |
//! | a fork-join computation | a socket that waits: its peer may be on time or not |
//! | a [`Hold`](crate::time::Hold) | a thread that is none of ours; a plain thread that is about to wake a task |
//! | that no thread is in `run` or `block_on` | |
//!
//! # *An advance*
//!
//! `time::advance` waits for a moment and for quiet: it is ready when the clock is there and
//! everything that could go on at that moment has done so. It is no timer, since a timer's waker is
//! one of several that become ready together. It has a place in `State::advances` instead. When all
//! wait, the thread in the netpoll compares the next timer with the earliest advance. If the timer
//! is not later, it goes first. Otherwise the clock moves to the advance, which is woken alone.
//!
//! # Sockets
//!
//! The netpoll is asked before each jump, so what the kernel has ready by then comes before the
//! next timer. What is still on its way does not count, and with it the run depends on the world.
//!
//! # *The shuffle*
//!
//! At each step one of the tasks that are ready is drawn, each with the same chance, from every
//! queue and for every reason. So, apart from what happens within a poll, all orders are possible
//! that a program may meet under any number of workers, and a seed picks one. This gives up what
//! the queues promise otherwise: first in, first out (H1), `runnext` and the slice (F4). What is
//! left of fairness: of `n` ready tasks each is next with a chance of one in `n`, so none waits for
//! ever (but with probability nought). And a poll has its budget (F2). A forked child runs first,
//! as always (J4). Tasks with a priority come before all that have a lower one, in their order
//! (O1). The whole runtime draws from one generator, so that it does not matter which thread has
//! the permit.
//!
//! It costs normal runtimes nothing: a bit in the attention word, which each step reads anyway,
//! leads here.
//!
//! # *A clock that runs*
//!
//! A runtime that has no thread but that of its caller (`Builder::current_thread`) is built on
//! this, too: its tasks run in `block_on` alone, and its clock may be stopped and let go again.
//! While it runs it is the system's, nothing jumps, and the thread in the netpoll waits until the
//! next timer is due. Such a runtime does not shuffle.
//!
//! # *Nothing can wake*
//!
//! When all wait, no timer is armed and no socket is registered, then only a thread that is none of
//! ours could go on with it. One that blocks a pool of its own for a file is legitimate. So the
//! verdict is not given at once but after a real time,
//! [`Builder::deadlock_after`](crate::runtime::Builder::deadlock_after): then every root panics,
//! with a list of the tasks that wait.
//!
//! # Rejected
//!
//! - A jump by the thread that is last, wherever it sleeps: the one in the netpoll may have an
//!   event in hand.
//! - To run blocking closures in place, for a fixed order: a closure that waits for a task would
//!   wait for ever.
//! - To shuffle only what became ready together: the order of two wake-ups is what a test is mostly
//!   wrong about.
//!
//! Checked by `paused/tests.rs`, in steps, and by `tests/order/virtual_time.rs` and
//! `tests/order/a_seed_draws_the_order.rs`.

mod draw;
mod state;

use std::{
    fmt::Write,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use ws_reactor::Poller;

pub(crate) use self::state::Paused;
use self::state::{Advance, SharedRoot};
use super::Shared;
use crate::{
    permit::env::Env,
    policy::constants::{FAILED_WAIT, NAMED_MAX},
};

/// A root for which time passes.
pub(crate) struct Enrolled<'a> {
    shared: &'a Shared,
    paused: &'a Paused,
    root: SharedRoot,
}

impl Drop for Enrolled<'_> {
    fn drop(&mut self) {
        let mut state = self.paused.state.lock();
        let at = state
            .roots
            .iter()
            .position(|(_, root)| std::sync::Arc::ptr_eq(root, &self.root));
        let root = at.map(|at| state.roots.remove(at));
        let all_sleep = state.awake == 0;
        drop(state);
        drop(root);
        // The thread is none of this runtime's. While the root was to be polled, nothing was quiet.
        if all_sleep {
            self.shared.have_a_look(self.paused);
        }
    }
}

impl Shared {
    /// If time is virtual, it passes for this root from now on.
    pub(crate) fn enroll(&self, root: &SharedRoot) -> Option<Enrolled<'_>> {
        let paused = self.time.paused.as_ref()?;
        let mut state = paused.state.lock();
        if state.roots.is_empty() {
            state.stuck = false;
        }
        state.roots.push((thread::current().id(), root.clone()));
        drop(state);
        Some(Enrolled {
            shared: self,
            paused,
            root: root.clone(),
        })
    }

    /// The caller has the clock stand still.
    pub(crate) fn hold_clock(&self) {
        if let Some(paused) = &self.time.paused {
            paused.state.lock().holds += 1;
        }
    }

    pub(crate) fn let_clock_go(&self) {
        if let Some(paused) = &self.time.paused {
            let mut state = paused.state.lock();
            state.holds -= 1;
            let all_sleep = state.awake == 0;
            drop(state);
            if all_sleep {
                self.have_a_look(paused);
            }
        }
    }

    /// Lets time pass up to a moment, whatever holds it. Ready when it is there, and all is quiet.
    ///
    /// The first poll gives `place` its value, for [`leave_advance`](Self::leave_advance).
    pub(crate) fn poll_advance(
        &self,
        place: &mut Option<usize>,
        until: u64,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let paused = self.time.paused.as_ref().expect("its time is virtual");
        let waker = cx.waker().clone();
        let mut state = paused.state.lock();
        let stale = match *place {
            None => {
                let waker = Some(waker);
                *place = Some(state.advances.insert(Advance { until, waker }));
                None
            }
            Some(at) => {
                let old = &mut state.advances[at].waker;
                if old.is_none() {
                    drop(state);
                    return Poll::Ready(());
                }
                old.replace(waker)
            }
        };
        let all_sleep = state.awake == 0;
        drop(state);
        drop(stale);
        if all_sleep {
            self.have_a_look(paused);
        }
        Poll::Pending
    }

    /// The advance is over, or is no longer waited for.
    pub(crate) fn leave_advance(&self, place: usize) {
        if let Some(paused) = &self.time.paused {
            let advance = paused.state.lock().advances.remove(place);
            drop(advance);
        }
    }

    /// All threads sleep: the one in the netpoll looks whether the clock may jump.
    fn have_a_look(&self, paused: &Paused) {
        if !self.nobody_polls() {
            self.io.netpoll.interrupt();
        } else if paused.has_roots() && self.idle.free() == self.idle.workers() {
            self.wake_for(1);
        }
    }

    /// A thread leaves its P.
    pub(super) fn left_for_good(&self) {
        if let Some(paused) = &self.time.paused
            && paused.fall_asleep()
        {
            self.have_a_look(paused);
        }
    }

    /// A thread in a nested `block_on` sleeps until that can go on. It is one of this runtime's if
    /// `is_own`.
    pub(crate) fn park_above(&self, is_own: bool, park: impl FnOnce()) {
        let Some(paused) = &self.time.paused else {
            return park();
        };
        if is_own {
            if paused.fall_asleep() {
                self.have_a_look(paused);
            }
            park();
            paused.wake_up();
        } else {
            if paused.state.lock().awake == 0 {
                self.have_a_look(paused);
            }
            park();
        }
        self.assert_not_stuck();
    }

    /// Whether nothing is queued, and no thread was woken for anything.
    fn all_wait(&self, paused: &Paused) -> bool {
        self.idle.free() == self.idle.workers()
            && self.idle.wanting().is_empty()
            && !self.any_work()
            && self
                .peers()
                .all(|peer| peer.queues.runnext.peek().is_none() && peer.queues.inbox.is_empty())
            && !paused.any_root_notified()
    }

    /// Whether nothing can go on before the clock moves: *The jump*.
    fn is_quiet(&self, paused: &Paused) -> bool {
        paused.holds_in_sleep(|| self.all_wait(paused))
    }

    /// For the thread in the netpoll, which was the last awake: *The jump*, or else a wait.
    fn pass_time(&self, paused: &Paused, poller: &mut Poller<'_>, ready: &mut Vec<Waker>) {
        if self.time.clock().is_frozen() && self.is_quiet(paused) {
            if self.io.netpoll.has_sources() {
                self.report_netpoll(poller.look(ready));
            }
            if !ready.is_empty() {
                return poller.cancel();
            }
            let next = self.next_deadline();
            let advance = paused.next_advance();
            if let Some(until) = advance.filter(|until| next.is_none_or(|next| *until < next)) {
                self.time.clock().jump_to(until);
                paused.end_advances(until, ready);
                return poller.cancel();
            }
            if let Some(next) = next.filter(|next| paused.may_pass(*next)) {
                self.time.clock().jump_to(next);
                return poller.cancel();
            }
            if next.is_none() && !self.io.netpoll.has_sources() && paused.may_judge() {
                return self.wait_for_the_verdict(paused, poller, ready);
            }
        }
        self.wait(poller, self.next_by_the_system(), ready);
    }

    /// *A clock that runs*: when the next timer is due, by the system's clock.
    fn next_by_the_system(&self) -> Option<Instant> {
        let clock = self.time.clock();
        if clock.is_frozen() {
            return None;
        }
        let left = self.next_wake_up()?.saturating_sub(clock.now_ns());
        Instant::now().checked_add(Duration::from_nanos(left))
    }

    fn wait(&self, poller: &mut Poller<'_>, until: Option<Instant>, ready: &mut Vec<Waker>) {
        let waited = poller.wait(until, ready);
        if waited.is_err() {
            // The next one would fail at once as well.
            thread::sleep(FAILED_WAIT);
        }
        self.report_netpoll(waited);
    }

    /// See *Nothing can wake*.
    fn wait_for_the_verdict(
        &self,
        paused: &Paused,
        poller: &mut Poller<'_>,
        ready: &mut Vec<Waker>,
    ) {
        if self.config.lost.fails_run {
            self.fail_lost_root(&self.lost_tasks());
            if self.any_task() {
                return;
            }
        }
        let until = Instant::now().checked_add(paused.deadlock_after);
        self.wait(poller, until, ready);
        let is_over = until.is_some_and(|until| until <= Instant::now());
        if !is_over || !self.is_quiet(paused) || !ready.is_empty() || self.awaits() {
            return;
        }
        let mut state = paused.state.lock();
        state.stuck = true;
        let roots = state.roots.clone();
        drop(state);
        for (_, root) in roots {
            root.wake_by_ref();
        }
    }

    /// Before a root is polled.
    ///
    /// # Panics
    ///
    /// If nothing can wake it.
    pub(crate) fn assert_not_stuck(&self) {
        if let Some(paused) = &self.time.paused
            && paused.state.lock().stuck
        {
            panic!("{}", self.verdict(paused));
        }
    }

    #[cold]
    fn verdict(&self, paused: &Paused) -> String {
        let mut text = format!(
            "deadlock: everything in this paused runtime waits, and for {:?} nothing came that could wake it. No timer \
             is armed, no socket is registered and no blocking call is under way. If a thread of another library's \
             takes longer, keep a `ws::time::hold` while it works",
            paused.deadlock_after
        );
        let (tasks, lost) = (self.dump(), self.lost_tasks());
        for task in tasks.iter().take(NAMED_MAX) {
            let name = task.name.as_deref().unwrap_or_default();
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n  task {} {name:?} waits, spawned at {}",
                task.id, task.location
            );
            if let Some(lost) = lost.iter().find(|lost| lost.task.id == task.id) {
                let _ = write!(text, ": {}", lost.why());
            }
        }
        if tasks.len() > NAMED_MAX {
            let _ = write!(text, "\n  and {} more", tasks.len() - NAMED_MAX);
        }
        text
    }
}

#[cfg(test)]
mod tests;
