//! Times and ticks that a worker notes: when it looked at what last, and when it looks next.
//! `looks.rs` says what for.

use std::cell::Cell;

use crate::policy::tick::{Tick, ticks_to_look, time_of_tick};

/// Times by the runtime's clock, and ticks.
#[derive(Default)]
pub(crate) struct Clocks {
    /// The last look at the clock, in milliseconds.
    pub(crate) now_ms: Cell<u32>,
    /// The tick at which *the exchange* had its turn last, and when, in milliseconds.
    pub(in crate::sched) exchanged: Cell<(u64, u32)>,
    /// The tick of the last look at the netpoll and others' timers beside local work. One for want
    /// of it does not count.
    pub(in crate::sched) looked_around: Cell<u64>,
    /// The tick of the last look for threads that want a permit, and when that was, in nanoseconds.
    pub(in crate::sched) looked_to_lend: Cell<(u64, u64)>,
    /// The tick of the next *look for all*; see the module's head.
    pub(in crate::sched) look: Cell<u64>,
    /// The tick of the last look or the end of the last sleep, and when that was, in nanoseconds.
    pub(in crate::sched) looked: Cell<(u64, u64)>,
    /// How long a tick takes, in nanoseconds, as far as the looks tell.
    pub(in crate::sched) time_of_tick: Cell<u64>,
    /// The tick at which the slice that is running began: the local queue had its turn, or a sleep
    /// ended. A slice is what a task and those that it wakes into `runnext` have together.
    pub(in crate::sched) slice_tick: Cell<u64>,
    /// When that was, in nanoseconds, as far as the last look tells.
    pub(in crate::sched) slice_began: Cell<u64>,
    /// The next step at which something is due; see `Tick::next_due`.
    pub(in crate::sched) due: Cell<u64>,
    /// When a computation on this thread last got a permit that it had waited for at a fork, in
    /// nanoseconds.
    pub(crate) forks_since: Cell<u64>,
}

impl Clocks {
    /// Takes note of a *look for all*, and of when the next one is due.
    pub(in crate::sched) fn looks(&self, tick: Tick, now: u64) {
        let (last, then) = self.looked.replace((tick.0, now));
        let (ticks, took) = (tick.0.saturating_sub(last), now.saturating_sub(then));
        self.time_of_tick
            .set(time_of_tick(self.time_of_tick.get(), ticks, took));
        self.look
            .set(tick.0 + ticks_to_look(self.time_of_tick.get()));
        let slice = self.slice_tick.get();
        if slice >= last {
            // The clock was not read then: as if all these ticks had taken as long. In the step of
            // the last look a slice begins after it.
            let part = took.saturating_mul(tick.0.saturating_sub(slice)) / ticks.max(1);
            self.slice_began.set(now - part.min(now));
        }
    }

    /// Takes note of a look at the clock, in nanoseconds.
    pub(in crate::sched) fn set_now(&self, now: u64) {
        self.now_ms.set((now / 1_000_000) as u32);
    }
}
