//! The monitor does what a verdict says, and what other threads are late with.

use super::{
    Monitor,
    classify::{Act, Long, Notes, Verdict},
    observe::View,
};
use crate::{
    note::event,
    permit::env::{Env, PeerEnv},
    policy::constants::{PACE_SLOW, TIMER_GRACE_NS},
    queue::local_queue,
    sched::{Shared, processor::Peer, stall::StallPhase},
    sync::atomic::Ordering::Relaxed,
};

/// Tells the recorder of a poll that lasts for a millisecond or longer, or did, and the account of
/// its task.
#[cold]
pub(super) fn record(shared: &Shared, peer: &Peer, view: &View, long: Long) {
    // It is about this task only if it is still the same poll.
    let task = || {
        let task = shared.find_live(peer.progress.running.load(Relaxed))?;
        (peer.progress.ticks.load(Relaxed) == view.ticks).then_some(task)
    };
    match long {
        Long::Begins(lasted) => {
            let tenths = lasted / 100_000;
            let number = (peer.index as u64) << 32 | tenths.min(u64::from(u32::MAX));
            match task() {
                Some(task) => {
                    task.header().account().lasted(lasted);
                    event!(shared, LongPoll, task.header(), number);
                }
                None => event!(shared, LongPoll, (), number),
            }
        }
        Long::GoesOn(lasted) => {
            if let Some(task) = task() {
                task.header().account().lasted(lasted);
            }
        }
        Long::Ends => event!(shared, LongPollEnd, (), peer.index),
    }
}

impl Monitor {
    /// Does what a look at a worker came to. Whether that may change what others need.
    pub(super) fn act(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        view: &View,
        verdict: Verdict,
    ) -> bool {
        if verdict.attention != 0 {
            peer.attention.fetch_or(verdict.attention, Relaxed);
        }
        if let Some(stall) = verdict.ended {
            self.reports.ended(shared, peer.index, stall);
        }
        // After the look at the count of forks: a fork that answers from now on moves it.
        if verdict.asks_fork {
            peer.ask_at_next_fork();
        }
        if let Some(computes) = verdict.computes {
            shared.set_detached(peer, computes);
        }
        if let Some(long) = verdict.long {
            record(shared, peer, view, long);
        }
        if let Some((phase, stall)) = verdict.stall {
            if phase == StallPhase::Begun {
                let told = self
                    .reports
                    .begun(shared, peer, view.ticks, view.now, stall);
                self.memory.seen[peer.index].stall.told = told;
            } else {
                self.reports
                    .goes_on(shared, peer, view.ticks, view.now, stall);
            }
        }
        self.note(verdict.notes);
        let changes = verdict.computes.is_some() || !matches!(verdict.act, Act::Nothing);
        self.found.acted |= self.take(shared, peer, verdict.act);
        changes
    }

    fn note(&mut self, notes: Notes) {
        self.found.watchful |= notes.watchful;
        self.found.doubts |= notes.doubts;
        self.found.watches |= notes.watches;
    }

    /// Takes something from a worker. Whether that was to be done at once.
    fn take(&mut self, shared: &Shared, peer: &Peer, act: Act) -> bool {
        let task = match act {
            Act::Nothing => return false,
            Act::WakeForNext => {
                if shared.idle.could_wake() {
                    shared.wake_for(1);
                }
                return true;
            }
            Act::Revoke { forks } => {
                let scratch = self.scratch.get_or_insert_with(|| local_queue().0);
                let revoked = shared.revoke(peer, scratch);
                if revoked {
                    event!(shared, Revoke, (), peer.index);
                    self.found.took |= forks;
                }
                return revoked && !forks;
            }
            Act::GiveNext => peer.steal_next(),
            Act::GiveChild => peer.queues.steal_child(),
        };
        let Some(task) = task else {
            return false;
        };
        peer.was_taken_from();
        shared.push_foreign(task);
        true
    }

    /// Fires timers that are late: their worker is stuck, and no other thread came by.
    pub(super) fn fire_late_timers(&mut self, now: u64) -> bool {
        let late = self
            .shared
            .next_wake_up()
            .is_some_and(|next| next.saturating_add(TIMER_GRACE_NS) <= now);
        if late {
            self.shared.fire_due(now, &mut self.wakers);
        }
        self.wake_all()
    }

    /// Looks at the netpoll if no thread has for 10 ms.
    pub(super) fn look_at_netpoll(&mut self, now: u64) -> bool {
        let shared = &self.shared;
        if !shared.io.netpoll.has_sources()
            || now.abs_diff(shared.io.last_look.load(Relaxed)) < PACE_SLOW.as_nanos() as u64
        {
            return false;
        }
        let Some(mut poller) = shared.io.netpoll.try_poller() else {
            return false;
        };
        let looked = poller.look(&mut self.wakers);
        drop(poller);
        shared.report_netpoll(looked);
        shared.io.last_look.store(now, Relaxed);
        if !self.wakers.is_empty() {
            event!(shared, Netpoll, (), self.wakers.len());
        }
        self.wake_all()
    }

    /// Tasks on this thread, which has no P: they go to the global queue.
    fn wake_all(&mut self) -> bool {
        let some = !self.wakers.is_empty();
        self.shared.wake_from_monitor(self.wakers.drain(..));
        if some && self.shared.idle.free() == 0 {
            self.shared.ask_at_forks();
        }
        some
    }

    /// Wakes a thread if work waits, a permit is free, and no thread spins. A thread spins in
    /// almost every case; the fence in `submit` settles the others. If no thread can be had, it is
    /// tried again at the slow pace.
    pub(super) fn wake_for_work(&self, shared: &Shared) -> bool {
        let waits = shared.idle.could_wake() && shared.any_work() && shared.could_have_a_thread();
        if waits {
            shared.wake_for(1);
        }
        waits && !shared.threads.refused.load(Relaxed)
    }
}
