//! What is due at a tick of a worker, and what is due after some time.

use std::time::Duration;

use super::constants::{
    EXCHANGE_PERIOD_MS, EXCHANGE_TICK, EXCHANGE_TICK_SHORT, EXCHANGED_MAX, GLOBAL_TICK,
    LOOK_MEMORY, LOOK_PERIOD, NETPOLL_PERIOD, NETPOLL_PERIOD_SLOW, NEXT_SLICE, NEXT_TICKS, OWN_MAX,
    SAMPLE_TICKS, SLOW_TICK, STEALS_TO_A_TIMED_ONE, TIMER_TICK, TURN_TICKS,
};

/// The count of a worker's steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// Whether the timers of the own P come before local work, and the local queue before the fork
    /// deque.
    #[inline]
    pub(crate) fn is_for_timers(self) -> bool {
        self.0.is_multiple_of(TIMER_TICK)
    }

    /// The first tick after this one at which the timers are due, or the `look`, or the `sample`.
    pub(crate) fn next_due(self, look: u64, sample: u64) -> u64 {
        let timers = (self.0 / TIMER_TICK + 1) * TIMER_TICK;
        timers.min(look).min(sample)
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

    /// The most tasks to exchange, if the last exchange was at the tick `last`, and `since_ms` ago.
    /// If there is time for it, as many as have had their turn.
    ///
    /// With ticks alone, and 128 tasks, an exchange came in 10 ms with polls of 10 us. What came
    /// last to 10,000 tasks that always wanted to go on waited for four turns of all.
    #[inline]
    pub(crate) fn exchange(self, last: u64, since_ms: u32) -> Option<usize> {
        let ticks = self.0.saturating_sub(last);
        if ticks >= EXCHANGE_TICK && since_ms >= EXCHANGE_PERIOD_MS {
            Some(2 * EXCHANGED_MAX)
        } else if ticks >= EXCHANGE_TICK_SHORT {
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

/// Whether `time` has passed since a moment. Moments are in nanoseconds of one clock. If that went
/// back by as much, it has: else nothing would be due until the clock has caught up.
#[inline]
pub(super) fn has_passed(time: Duration, since: u64, now: u64) -> bool {
    now.abs_diff(since) >= time.as_nanos() as u64
}

/// How long a tick takes, in nanoseconds, if the last ones took `took`: as long as these did, or as
/// the ones `before`, if that is longer. In [`LOOK_MEMORY`] two thirds of that are forgotten: short
/// ticks take little time, so many of them say less of the next ones than a few long ones.
#[inline]
pub(crate) fn time_of_tick(before: u64, ticks: u64, took: u64) -> u64 {
    let memory = LOOK_MEMORY.as_nanos() as u64;
    let before = before * (memory - took.min(memory)) / memory;
    let longest = LOOK_PERIOD.as_nanos() as u64;
    before.max(took / ticks.max(1)).min(longest)
}

/// How many ticks of such a time a worker makes until its next look at what is for all (L4): as
/// many as fill [`LOOK_PERIOD`], between [`SLOW_TICK`] and [`GLOBAL_TICK`].
#[inline]
pub(crate) fn ticks_to_look(time_of_tick: u64) -> u64 {
    let fill = LOOK_PERIOD.as_nanos() as u64 / time_of_tick.max(1);
    fill.clamp(SLOW_TICK, GLOBAL_TICK)
}

/// Whether `runnext` has had its slice, if a local queue waits (F4). It began so many ticks ago.
#[inline]
pub(crate) fn next_slice_is_over(ticks: u64, began: u64, now: u64) -> bool {
    ticks >= NEXT_TICKS && has_passed(NEXT_SLICE, began, now)
}

/// Whether a worker with local work looks for threads that want its permit, if it last did at the
/// tick `last`, at the time `then`. A look after few short ticks does not: two threads would give
/// one permit to each other and do little in between.
#[inline]
pub(crate) fn lending_is_due(last: u64, then: u64, tick: Tick, now: u64) -> bool {
    tick.0.saturating_sub(last) >= GLOBAL_TICK || has_passed(LOOK_PERIOD, then, now)
}

/// Whether a worker with local work looks at the netpoll and at others' timers, if some worker
/// looked last then, and this one `ticks` ago.
#[inline]
pub(crate) fn netpoll_is_due(last_look: u64, now: u64, ticks: u64) -> bool {
    let period = if ticks >= GLOBAL_TICK {
        NETPOLL_PERIOD
    } else {
        NETPOLL_PERIOD_SLOW
    };
    has_passed(period, last_look, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_at_which_tick() {
        let due = (1..=64).filter(|&tick| Tick(tick).is_for_timers());
        assert!(due.eq([16, 32, 48, 64]));
    }

    #[test]
    fn no_tick_at_which_something_is_due_is_left_out() {
        assert_eq!(Tick(0).next_due(61, 70), 16);
        assert_eq!(Tick(16).next_due(61, 70), 32);
        assert_eq!(Tick(48).next_due(61, 70), 61);
        assert_eq!(Tick(61).next_due(122, 63), 63);
        assert_eq!(Tick(63).next_due(122, 90), 64);
        assert_eq!(Tick(64).next_due(68, 90), 68);
    }

    #[test]
    fn a_look_comes_after_a_tenth_of_a_millisecond_or_at_the_61st_tick() {
        let us = 1000;
        for (ticks, took, next) in [
            (61, 6 * us, 61),
            (61, 100 * us, 61),
            (61, 122 * us, 50),
            (50, 500 * us, 10),
            (10, 1000 * us, 5),
            (5, 100_000 * us, 5),
            (5, 50 * us, 10),
            (61, 0, 61),
        ] {
            let time = time_of_tick(0, ticks, took);
            assert_eq!(ticks_to_look(time), next, "{ticks} in {took} ns");
        }
    }

    #[test]
    fn a_permit_is_lent_after_many_ticks_or_some_time() {
        let us = 1000;
        for (ticks, passed, is_due) in [
            (60, 99 * us, false),
            (61, 0, true),
            (5, 100 * us, true),
            (0, 0, false),
        ] {
            let is = lending_is_due(7, 9, Tick(7 + ticks), 9 + passed);
            assert_eq!(is, is_due, "{ticks} ticks, {passed} ns");
        }
    }

    #[test]
    fn long_ticks_are_forgotten_by_time_and_not_by_ticks() {
        let us = 1000;
        for (before, ticks, took, time) in [
            (10 * us, 0, 0, 10 * us),
            (10 * us, 100, us, 9_980),
            (10 * us, 10, 250 * us, 25 * us),
            (10 * us, 100, 250 * us, 5 * us),
            (10 * us, 1000, 499 * us, 499),
            (10 * us, 1000, 500 * us, 500),
            (100 * us, 1, u64::MAX, 100 * us),
            (0, 0, 0, 0),
        ] {
            let is = time_of_tick(before, ticks, took);
            assert_eq!(is, time, "{ticks} in {took} ns after {before}");
        }
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
            (1097, 1, None),
            (1098, 1, half),
            (1098, 2, all),
        ];
        for (ticks, since_ms, exchange) in table {
            let tick = Tick(7 + ticks);
            assert_eq!(tick.exchange(7, since_ms), exchange, "{ticks} {since_ms}");
        }
    }

    #[test]
    fn time_has_passed_at_its_last_nanosecond() {
        let began = 7;
        for (is_over, ns) in [
            (
                (|then, now| next_slice_is_over(3, then, now)) as fn(u64, u64) -> bool,
                50_000,
            ),
            (|then, now| netpoll_is_due(then, now, 61), 50_000),
            (|then, now| netpoll_is_due(then, now, 60), 500_000),
        ] {
            assert!(!is_over(began, began + ns - 1));
            assert!(is_over(began, began + ns));
            // A clock that went back, by a little or by more.
            assert!(!is_over(began + ns - 1, began));
            assert!(is_over(began + ns, began));
        }
        assert!(!next_slice_is_over(2, began, began + 50_000));
    }
}
