//! The clock of a runtime, and the timers on it: what all shards have in common.
//!
//! Each P has a shard of its own, and foreign threads have one together (`timer/shard.rs`). A P's
//! thread fires its own shard. A thread that waits in the netpoll, a search and the monitor fire
//! all of them. Which thread waits for the earliest deadline is decided in `permit/env.rs` (*What
//! is heard*).

use std::task::Waker;

use super::{Shared, recording};
use crate::{
    note::event,
    sync::{
        Arc,
        atomic::{
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
    timer::{NEVER, TimerShard},
};

impl Shared {
    pub(crate) fn now_ms(&self) -> u32 {
        (self.time.clock().now_ns() / 1_000_000) as u32
    }

    /// The earliest deadline of all timers, in nanoseconds of the runtime's clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let mut next = self.time.foreign.earlier_of(NEVER);
        for index in self.time.listed.iter(self.peer_count()) {
            let timers = &self.visit(index).timers;
            if timers.next_deadline().is_some() {
                next = timers.earlier_of(next);
            } else if !self.processors.allp.is_occupied(index) {
                timers.unlist_if_empty();
            }
        }
        Some(next).filter(|&next| next != NEVER)
    }

    /// When a thread that sleeps has to wake up for a timer, in nanoseconds of the runtime's clock.
    pub(crate) fn next_wake_up(&self) -> Option<u64> {
        let next = self.next_deadline()?;
        Some(self.io.timer_slack.wakes_at(next))
    }

    /// Takes the wakers of all timers that are due, on any P. Returns how many.
    pub(crate) fn fire_due(&self, now: u64, wakers: &mut Vec<Waker>) -> usize {
        let before = wakers.len();
        let mut first = now;
        for index in self.time.listed.iter(self.peer_count()) {
            let timers = &self.visit(index).timers;
            if timers.has_due(now) {
                first = first.min(timers.next_deadline().unwrap_or(first));
                timers.fire_due(now, wakers);
            }
        }
        if self.time.foreign.has_due(now) {
            first = first.min(self.time.foreign.next_deadline().unwrap_or(first));
            self.time.foreign.fire_due(now, wakers);
        }
        let count = wakers.len() - before;
        if count > 0 {
            event!(self, Timers, (), recording::fired(count, first, now));
        }
        count
    }

    /// All shards.
    pub(super) fn timer_shards(&self) -> impl Iterator<Item = &TimerShard> {
        let of_processors = self.all_peers().map(|peer| &*peer.timers);
        of_processors.chain([&*self.time.foreign])
    }

    pub(crate) fn foreign_timers(&self) -> &Arc<TimerShard> {
        &self.time.foreign
    }

    /// Takes all timers, so that a task that polls one from now on learns of the end. Also on a P
    /// without a thread and without a timer: a sleep that was made there may yet be armed.
    pub(super) fn shut_down_timers(&self) {
        let mut wakers = Vec::new();
        self.time.over.store(true, Relaxed);
        // Ordering: SeqCst: between the flag and the look at the Ps; pairs with the fence in
        // `notify_new_p`.
        fence(SeqCst);
        for peer in self.all_peers() {
            peer.timers.shut_down(&mut wakers);
        }
        self.time.foreign.shut_down(&mut wakers);
        self.wake_all(wakers);
    }
}
