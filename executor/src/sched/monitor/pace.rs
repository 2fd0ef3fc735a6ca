//! How long the monitor rests between two looks: a pure function of what it found.
//!
//! A look is cheap. Waking a thread for it is not: on a machine whose cores all compute, a look
//! every 20 us takes 12 % of their time, one every 100 us takes 7 %, and one every millisecond up
//! to 5 %. So the period is short only after a look that had to act, and for [`FAST_LOOKS`] quiet
//! looks after that. From then on it doubles, up to the first of these limits that applies:
//!
//! | limit | while |
//! | --- | --- |
//! | [`COMPUTE_ONLY`] | only computations that fork go on (`compute_only.rs`) |
//! | [`BUSY`] | something is under way that is not over with a look |
//! | [`SLOW`] | a permit is free |
//! | [`BUSY`] | no permit is free |
//!
//! A rest is shorter than the period in two cases:
//!
//! - the next look tells which thread is blocked: then it is [`FAST`];
//! - a thread is in a short wait (`short_wait.rs`): then the rest ends with that wait.
//!
//! After [`IDLE_LOOKS`] looks in a row that found a runtime where nothing runs, the monitor may
//! sleep until a thread takes a permit.
//!
//! What was measured: `docs/decisions/2026-11-24-monitor.md`.

use std::time::Duration;

/// Period after a look that had to act. As Go's shortest.
pub(super) const FAST: Duration = Duration::from_micros(20);
/// Looks in a row at that period. As in Go: 50, so one millisecond.
pub(super) const FAST_LOOKS: u32 = 50;
/// Longest period while no permit is free, or something is under way.
pub(super) const BUSY: Duration = Duration::from_millis(1);
/// Longest period while only computations that fork go on.
pub(super) const COMPUTE_ONLY: Duration = Duration::from_millis(4);
/// Longest period while a permit is free. As in Go.
pub(super) const SLOW: Duration = Duration::from_millis(10);
/// Looks in a row at an idle runtime before the monitor sleeps. Guessed: at this number, a program
/// that calls in now and then does not wake the monitor each time.
pub(super) const IDLE_LOOKS: u32 = 5;

/// What the pace depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// The last look had to act.
    pub(super) acted: bool,
    /// The next look tells which thread is blocked.
    pub(super) again: bool,
    /// Something is under way that is not over with the last look.
    pub(super) watchful: bool,
    pub(super) compute_only: bool,
    /// A permit is free.
    pub(super) spare: bool,
    /// No permit is taken, and nothing waits for a look.
    pub(super) idle: bool,
    /// Time left of the shortest short wait.
    pub(super) wait: Option<Duration>,
}

/// What follows from the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Time until the next look.
    pub(super) rest: Duration,
    /// The monitor may sleep instead until a thread takes a permit.
    pub(super) may_sleep: bool,
    /// A task that is pushed for all cannot wait for the end of the rest; see *A long rest* in
    /// `idle.rs`.
    pub(super) is_long: bool,
}

/// What the pace was so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    period: Duration,
    /// Looks since the last one that had to act.
    quiet_looks: u32,
    idle_looks: u32,
}

impl Pace {
    /// At the begin, and after a sleep: the first rest is [`BUSY`], which is twice this.
    pub(super) fn new() -> Self {
        Self {
            period: BUSY / 2,
            quiet_looks: 0,
            idle_looks: 0,
        }
    }

    /// After a look, or at the begin.
    pub(super) fn next(&mut self, facts: &Facts) -> Plan {
        self.idle_looks = if facts.idle { self.idle_looks + 1 } else { 0 };
        self.quiet_looks = if facts.acted { 0 } else { self.quiet_looks + 1 };
        if facts.acted {
            self.period = FAST;
        } else if self.period > FAST || self.quiet_looks >= FAST_LOOKS {
            self.period = (self.period * 2).min(longest(facts));
        }
        let rest = match facts.wait {
            _ if facts.again => FAST,
            Some(left) => self.period.min(left.max(FAST)),
            None => self.period,
        };
        Plan {
            rest,
            may_sleep: self.idle_looks >= IDLE_LOOKS,
            is_long: facts.compute_only && rest > BUSY,
        }
    }
}

/// The limit of the period: the table in the module's head.
fn longest(facts: &Facts) -> Duration {
    match facts {
        Facts {
            compute_only: true, ..
        } => COMPUTE_ONLY,
        Facts { watchful: true, .. } => BUSY,
        Facts { spare: true, .. } => SLOW,
        _ => BUSY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Facts = Facts {
        acted: false,
        again: false,
        watchful: false,
        compute_only: false,
        spare: false,
        idle: false,
        wait: None,
    };

    /// The rest after `looks` looks that found the same.
    fn after(pace: &mut Pace, looks: u32, facts: &Facts) -> Duration {
        let rests = (0..looks).map(|_| pace.next(facts).rest);
        rests.last().expect("at least one look")
    }

    #[test]
    fn the_period_doubles_while_nothing_is_to_be_done() {
        let quiet = Facts {
            spare: true,
            ..QUIET
        };
        let acted = Facts {
            acted: true,
            ..quiet
        };
        let mut pace = Pace::new();
        assert_eq!(after(&mut pace, 1, &quiet), BUSY);
        for _ in 0..2 {
            assert_eq!(after(&mut pace, 1, &acted), FAST);
            assert_eq!(after(&mut pace, FAST_LOOKS - 1, &quiet), FAST);
            assert_eq!(after(&mut pace, 1, &quiet), 2 * FAST);
            assert_eq!(after(&mut pace, 1, &quiet), 4 * FAST);
        }
        assert_eq!(after(&mut pace, 20, &quiet), SLOW);
    }

    #[test]
    fn the_longest_period_is_as_long_as_others_can_wait() {
        // What is seen, and whether a permit is free.
        let facts = |compute_only, watchful, spare| Facts {
            compute_only,
            watchful,
            spare,
            ..QUIET
        };
        let table = [
            (facts(false, false, false), BUSY),
            (facts(false, false, true), SLOW),
            (facts(false, true, false), BUSY),
            (facts(false, true, true), BUSY),
            (facts(true, false, false), COMPUTE_ONLY),
            (facts(true, true, false), COMPUTE_ONLY),
        ];
        for (facts, longest) in table {
            assert_eq!(after(&mut Pace::new(), 20, &facts), longest, "{facts:?}");
        }
    }

    #[test]
    fn a_rest_is_shorter_where_a_look_is_due_before() {
        let soon = Duration::from_nanos(1);
        let table = [
            (None, false, BUSY),
            (None, true, FAST),
            (Some(soon), false, FAST),
            (Some(BUSY / 2), false, BUSY / 2),
            (Some(2 * BUSY), false, BUSY),
            (Some(BUSY / 2), true, FAST),
        ];
        for (wait, again, rest) in table {
            let facts = Facts {
                wait,
                again,
                ..QUIET
            };
            assert_eq!(after(&mut Pace::new(), 3, &facts), rest, "{facts:?}");
        }
        // The period goes on below that.
        let mut pace = Pace::new();
        let again = Facts {
            again: true,
            ..QUIET
        };
        after(&mut pace, 1, &again);
        assert_eq!(after(&mut pace, 1, &QUIET), BUSY);
    }

    #[test]
    fn the_monitor_sleeps_after_looks_at_an_idle_runtime() {
        let idle = Facts {
            idle: true,
            spare: true,
            ..QUIET
        };
        let mut pace = Pace::new();
        for _ in 0..2 {
            for _ in 1..IDLE_LOOKS {
                assert!(!pace.next(&idle).may_sleep);
            }
            assert!(pace.next(&idle).may_sleep);
            assert!(pace.next(&idle).may_sleep);
            assert!(!pace.next(&QUIET).may_sleep, "the count begins anew");
        }
    }

    #[test]
    fn only_a_rest_while_it_is_calm_is_long() {
        let facts = |compute_only, spare| Facts {
            compute_only,
            spare,
            ..QUIET
        };
        let is_long = |pace: &mut Pace, facts: Facts| pace.next(&facts).is_long;
        let mut pace = Pace::new();
        assert!(!is_long(&mut pace, facts(true, false)), "1 ms");
        assert!(is_long(&mut pace, facts(true, false)), "2 ms");
        assert!(!is_long(&mut pace, facts(false, true)));
        let again = Facts {
            again: true,
            ..facts(true, false)
        };
        assert!(!is_long(&mut pace, again));
    }
}
