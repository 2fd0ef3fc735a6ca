//! How long the monitor (`monitor.rs`) rests between two looks, by what it found.
//!
//! A look is cheap. Waking a thread for it is not: on a machine whose cores all compute, a look
//! every 20 us takes 12 % of their time, one every 100 us takes 7 %, and one every millisecond up
//! to 5 %. So the period is short only after a look that had to act, and for [`PACE_FAST_LOOKS`]
//! quiet looks after that. From then on it doubles, up to the first of these limits that applies:
//!
//! | limit | while |
//! | --- | --- |
//! | [`PACE_COMPUTE_ONLY`] | only computations that fork go on (`monitor/compute_only.rs`) |
//! | [`PACE_BUSY`] | something is under way that is not over with a look |
//! | [`PACE_SLOW`] | a permit is free |
//! | [`PACE_OFTEN_FREE`] | no permit is free now, but one was since the last look |
//! | [`PACE_BUSY`] | no permit is free |
//!
//! A rest is shorter than the period in three cases:
//!
//! - the next look tells which thread is blocked: then it is [`PACE_FAST`];
//! - a thread is in a short wait (`short_wait.rs`): then the rest ends with that wait;
//! - something was queued just when a long rest would have begun: then it is [`PACE_FAST`].
//!
//! After [`PACE_IDLE_LOOKS`] looks in a row that found a runtime where nothing runs, the monitor
//! may sleep until a thread takes a permit.
//!
//! What was measured: `docs/decisions/2026-11-24-monitor.md`.

use std::time::Duration;

use super::constants::{
    PACE_BUSY, PACE_COMPUTE_ONLY, PACE_FAST, PACE_FAST_LOOKS, PACE_IDLE_LOOKS, PACE_OFTEN_FREE,
    PACE_SLOW,
};

/// What the pace depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The last look had to act.
    pub(crate) acted: bool,
    /// The next look tells which thread is blocked.
    pub(crate) again: bool,
    /// Something is under way that is not over with the last look.
    pub(crate) watchful: bool,
    pub(crate) compute_only: bool,
    /// A permit is free.
    pub(crate) spare: bool,
    /// A thread has parked since the last look: a permit was free then.
    pub(crate) was_spare: bool,
    /// No permit is taken, and nothing waits for a look.
    pub(crate) idle: bool,
    /// Time left of the shortest short wait.
    pub(crate) wait: Option<Duration>,
}

/// What follows from the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Time until the next look.
    pub(crate) rest: Duration,
    /// The monitor may sleep instead until a thread takes a permit.
    pub(crate) may_sleep: bool,
    /// A task that is pushed for all cannot wait for the end of the rest; see *A long rest* in
    /// `permit/idle.rs`.
    pub(crate) is_long: bool,
}

/// What the pace was so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    period: Duration,
    /// Looks since the last one that had to act.
    quiet_looks: u32,
    idle_looks: u32,
}

impl Pace {
    /// At the begin, and after a sleep: the first rest is [`PACE_BUSY`], which is twice this.
    pub(crate) fn new() -> Self {
        Self {
            period: PACE_BUSY / 2,
            quiet_looks: 0,
            idle_looks: 0,
        }
    }

    /// After a look, or at the begin.
    pub(crate) fn next(&mut self, facts: &Facts) -> Plan {
        self.idle_looks = if facts.idle { self.idle_looks + 1 } else { 0 };
        self.quiet_looks = if facts.acted { 0 } else { self.quiet_looks + 1 };
        if facts.acted {
            self.period = PACE_FAST;
        } else if self.period > PACE_FAST || self.quiet_looks >= PACE_FAST_LOOKS {
            self.period = (self.period * 2).min(longest(facts));
        }
        let rest = match facts.wait {
            _ if facts.again => PACE_FAST,
            Some(left) => self.period.min(left.max(PACE_FAST)),
            None => self.period,
        };
        Plan {
            rest,
            may_sleep: self.idle_looks >= PACE_IDLE_LOOKS,
            is_long: facts.compute_only && rest > PACE_BUSY,
        }
    }
}

/// The limit of the period: the table in the module's head.
fn longest(facts: &Facts) -> Duration {
    match facts {
        Facts {
            compute_only: true, ..
        } => PACE_COMPUTE_ONLY,
        Facts { watchful: true, .. } => PACE_BUSY,
        Facts { spare: true, .. } => PACE_SLOW,
        Facts {
            was_spare: true, ..
        } => PACE_OFTEN_FREE,
        _ => PACE_BUSY,
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
        was_spare: false,
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
        assert_eq!(after(&mut pace, 1, &quiet), PACE_BUSY);
        for _ in 0..2 {
            assert_eq!(after(&mut pace, 1, &acted), PACE_FAST);
            assert_eq!(after(&mut pace, PACE_FAST_LOOKS - 1, &quiet), PACE_FAST);
            assert_eq!(after(&mut pace, 1, &quiet), 2 * PACE_FAST);
            assert_eq!(after(&mut pace, 1, &quiet), 4 * PACE_FAST);
        }
        assert_eq!(after(&mut pace, 20, &quiet), PACE_SLOW);
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
            (facts(false, false, false), PACE_BUSY),
            (facts(false, false, true), PACE_SLOW),
            (facts(false, true, false), PACE_BUSY),
            (facts(false, true, true), PACE_BUSY),
            (facts(true, false, false), PACE_COMPUTE_ONLY),
            (facts(true, true, false), PACE_COMPUTE_ONLY),
        ];
        // Whether one was free since the last look matters only where nothing else does.
        for (facts, longest) in table {
            let was_spare = Facts {
                was_spare: true,
                ..facts
            };
            let longest_then = match facts {
                Facts {
                    compute_only: false,
                    watchful: false,
                    spare: false,
                    ..
                } => PACE_OFTEN_FREE,
                _ => longest,
            };
            assert_eq!(after(&mut Pace::new(), 20, &facts), longest, "{facts:?}");
            assert_eq!(after(&mut Pace::new(), 20, &was_spare), longest_then);
        }
    }

    #[test]
    fn a_rest_is_shorter_where_a_look_is_due_before() {
        let soon = Duration::from_nanos(1);
        let table = [
            (None, false, PACE_BUSY),
            (None, true, PACE_FAST),
            (Some(soon), false, PACE_FAST),
            (Some(PACE_BUSY / 2), false, PACE_BUSY / 2),
            (Some(2 * PACE_BUSY), false, PACE_BUSY),
            (Some(PACE_BUSY / 2), true, PACE_FAST),
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
        assert_eq!(after(&mut pace, 1, &QUIET), PACE_BUSY);
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
            for _ in 1..PACE_IDLE_LOOKS {
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
