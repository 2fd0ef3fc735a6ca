//! What is due at a tick of a worker, and what is due after some time.

use std::time::Duration;

use super::constants::{
    EXCHANGE_PERIOD_MS, EXCHANGE_TICK, EXCHANGE_TICK_SHORT, EXCHANGED_MAX, GLOBAL_TICK,
    NETPOLL_PERIOD, OWN_MAX, SAMPLE_TICKS, SLICE, SLOW_TICK, STEALS_TO_A_TIMED_ONE, TIMER_TICK,
    TURN_TICKS,
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

    /// The first tick after this one at which something of the above is due, or the `sample`.
    pub(crate) fn next_due(self, sample: u64) -> u64 {
        let next = |every: u64| (self.0 / every + 1) * every;
        next(GLOBAL_TICK).min(next(TIMER_TICK)).min(sample)
    }

    /// At which tick the next poll to measure is chosen, if one is chosen now: after 65 to 192
    /// ticks.
    pub(crate) fn next_sample(self) -> u64 {
        // The multiplicative hash by Knuth: neighbours go far apart.
        let more = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57;
        self.0 + 1 + SAMPLE_TICKS + more
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

/// Whether a thread times its latest steal, of so many.
pub(crate) fn steal_is_timed(steals: u64) -> bool {
    steals % STEALS_TO_A_TIMED_ONE == 1
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
    fn no_tick_at_which_something_is_due_is_left_out() {
        let is_due =
            |tick: u64| tick == 70 || Tick(tick).is_for_all() || Tick(tick).is_for_timers();
        let mut due = vec![Tick(0).next_due(70)];
        while let Some(&last) = due.last().filter(|&&last| last < 300) {
            let sample = if last < 70 { 70 } else { u64::MAX };
            due.push(Tick(last).next_due(sample));
        }
        assert!(
            (1..=300)
                .filter(|&tick| is_due(tick))
                .eq(due[..due.len() - 1].to_vec())
        );
    }

    #[test]
    fn about_one_tick_in_128_chooses_a_poll() {
        let sample = std::iter::successors(Some(0), |&tick| Some(Tick(tick).next_sample()));
        let sample: Vec<_> = sample.take_while(|&tick| tick < 128_000).collect();
        assert!((900..1100).contains(&sample.len()), "{}", sample.len());
        let mut gaps = sample.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.all(|gap| (65..=192).contains(&gap)));
        // Two tasks that take turns both have their part.
        let odd = sample.iter().filter(|&tick| tick % 2 == 1).count();
        assert!((300..700).contains(&odd), "{odd}");
    }

    #[test]
    fn the_first_steal_is_timed_and_then_every_eighth() {
        assert!(
            (1..=20)
                .filter(|&steals| steal_is_timed(steals))
                .eq([1, 9, 17])
        );
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
