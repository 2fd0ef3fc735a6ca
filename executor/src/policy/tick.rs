//! What is due at a tick of a worker, and what is due after some time.

use std::time::Duration;

use super::constants::{
    EXCHANGE_PERIOD_MS, EXCHANGE_TICK, EXCHANGE_TICK_SHORT, EXCHANGED_MAX, GLOBAL_TICK,
    NETPOLL_PERIOD, OWN_MAX, SLICE, SLOW_TICK, TIMER_TICK, TURN_TICKS,
};

/// The count of a worker's steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// Whether what is for all workers comes before local work (L4).
    #[inline]
    pub(crate) fn is_for_all(self) -> bool {
        self.0.is_multiple_of(GLOBAL_TICK)
    }

    /// The same for the global queue alone, while polls are slow.
    #[inline]
    pub(crate) fn is_for_all_if_slow(self) -> bool {
        self.0.is_multiple_of(SLOW_TICK)
    }

    /// Whether the timers of the own P come before local work, and the local queue before the fork
    /// deque.
    #[inline]
    pub(crate) fn is_for_timers(self) -> bool {
        self.0.is_multiple_of(TIMER_TICK)
    }

    /// Whether tasks of a low priority have a turn that is due at the tick `next`, and when their
    /// next one is. 0: none of them waits.
    pub(crate) fn turn(self, next: u64, waits: bool) -> (bool, u64) {
        let due = waits && next != 0 && self.0 >= next;
        let next = match waits {
            false => 0,
            true if due || next == 0 => self.0 + TURN_TICKS,
            true => next,
        };
        (due, next)
    }

    /// When a worker looks at what all others publish, if it does so now.
    pub(crate) fn next_look(self) -> u64 {
        self.0 + TURN_TICKS
    }

    /// The most tasks to exchange, if the last exchange was `since_ms` ago. If there is time for
    /// it, as many as have had their turn.
    ///
    /// With ticks alone, and 128 tasks, an exchange came in 10 ms with polls of 10 us. What came
    /// last to 10,000 tasks that always wanted to go on waited for four turns of all.
    #[inline]
    pub(crate) fn exchange(self, since_ms: u32) -> Option<usize> {
        if !self.0.is_multiple_of(EXCHANGE_TICK) {
            None
        } else if since_ms >= EXCHANGE_PERIOD_MS {
            Some(2 * EXCHANGED_MAX)
        } else if self.0.is_multiple_of(EXCHANGE_TICK_SHORT) {
            Some(EXCHANGED_MAX)
        } else {
            None
        }
    }
}

/// Whether the shared ordered queue has its turn, after so many tasks of the own one (O4).
pub(crate) fn shared_is_due(taken: u32) -> bool {
    taken >= OWN_MAX
}

/// Whether `time` has passed since a moment. Moments are in nanoseconds of one clock.
#[inline]
pub(super) fn has_passed(time: Duration, since: u64, now: u64) -> bool {
    since + time.as_nanos() as u64 <= now
}

/// Whether the slice that began then is over (F4).
#[inline]
pub(crate) fn slice_is_over(began: u64, now: u64) -> bool {
    has_passed(SLICE, began, now)
}

/// Whether a worker with local work looks at the netpoll and at others' timers, if some worker
/// looked last then.
#[inline]
pub(crate) fn netpoll_is_due(last_look: u64, now: u64) -> bool {
    has_passed(NETPOLL_PERIOD, last_look, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_which_tick() {
        let due = |is_due: fn(Tick) -> bool| (1..=64).filter(move |&tick| is_due(Tick(tick)));
        assert!(due(Tick::is_for_all).eq([61]));
        assert!(due(Tick::is_for_all_if_slow).eq((1..=16).map(|turn| 4 * turn)));
        assert!(due(Tick::is_for_timers).eq([16, 32, 48, 64]));
    }

    #[test]
    fn a_turn_is_due_59_ticks_after_one_began_to_wait() {
        for (tick, next, waits, turn) in [
            (100, 0, false, (false, 0)),
            (100, 0, true, (false, 159)),
            (158, 159, true, (false, 159)),
            (159, 159, true, (true, 218)),
            (161, 159, true, (true, 220)),
            (161, 159, false, (false, 0)),
        ] {
            assert_eq!(Tick(tick).turn(next, waits), turn, "{tick} {next} {waits}");
        }
    }

    #[test]
    fn an_exchange_is_due_by_time_or_by_many_ticks() {
        let (all, half) = (Some(256), Some(128));
        // In whole milliseconds, one may be none.
        let table = [
            (365, 1000, None),
            (366, 0, None),
            (366, 1, None),
            (366, 2, all),
            (366, u32::MAX, all),
            (732, 1, None),
            (1098, 1, half),
            (1098, 2, all),
        ];
        for (tick, since_ms, exchange) in table {
            assert_eq!(Tick(tick).exchange(since_ms), exchange, "{tick} {since_ms}");
        }
    }

    #[test]
    fn time_has_passed_at_its_last_nanosecond() {
        let began = 7;
        for (is_over, ns) in [
            (slice_is_over as fn(u64, u64) -> bool, 10_000_000),
            (netpoll_is_due, 50_000),
        ] {
            assert!(!is_over(began, began + ns - 1));
            assert!(is_over(began, began + ns));
        }
    }
}
