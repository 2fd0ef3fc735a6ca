//! How a worker looks for others' work: what each round of a search takes, how long it spins before
//! it parks, and which P it rescues.

use super::{
    Heuristic,
    constants::{RESCUE_AFTER, SPIN_LOOKS},
    tick::has_passed,
};

/// What a round of a search takes of a victim, beside the tasks in its queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// A branch of a join, if there is a core for one more thread that computes. Tasks of any P
    /// come first: a branch is a long poll, and its owner comes back to it.
    pub(crate) branches: bool,
    pub(crate) runnext: RunNextIs,
}

impl Round {
    /// Whether a thief that may take branches asks a victim to promote some. The first round takes
    /// none. So it asks only a victim that has shared none: one is there for the next round then.
    #[inline]
    pub(crate) fn asks(self, has_shared: bool) -> bool {
        self.branches || !has_shared
    }
}

/// What a round does with a victim's `runnext`. A task there is about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunNextIs {
    /// Remembered for the last round.
    Noted,
    Left,
    /// Taken, if it is the one that was noted, and the victim has not moved.
    Taken,
}

/// The rounds of a search.
pub(crate) const ROUNDS: [Round; 4] = [
    Round {
        branches: false,
        runnext: RunNextIs::Noted,
    },
    Round {
        branches: true,
        runnext: RunNextIs::Left,
    },
    Round {
        branches: true,
        runnext: RunNextIs::Left,
    },
    Round {
        branches: true,
        runnext: RunNextIs::Taken,
    },
];

/// Whether a spinner that found nothing looks on before it parks, if `free` of all permits are
/// free: others that run may be about to push.
#[inline]
pub(crate) fn may_spin_before_park(free: usize, workers: usize) -> bool {
    Heuristic::SpinBeforePark.is_on() && free + 1 < workers
}

/// How often it looks at all `processors`.
#[inline]
pub(crate) fn looks_before_park(processors: usize) -> usize {
    SPIN_LOOKS / processors
}

/// The most tasks of *the rescue steal* by a worker for which the netpoll `brought` some. These
/// have to fit behind the tasks taken: what overflows is what is in front.
#[inline]
pub(crate) fn rescued_max(brought: usize, room: usize) -> usize {
    brought.min(room.saturating_sub(brought))
}

/// What a worker remembers of another P from when it last came by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The P's ticks at that time.
    ticks: u64,
    /// When it was first seen at these, in nanoseconds of the runtime's clock.
    since: u64,
}

impl Passed {
    /// It was not seen yet.
    pub(crate) const NEVER: Self = Self {
        ticks: u64::MAX,
        since: 0,
    };

    /// The worker comes by again. Whether the P has stood still for too long.
    #[inline]
    pub(crate) fn stands_still(&mut self, ticks: u64, now: u64) -> bool {
        if self.ticks != ticks {
            *self = Self { ticks, since: now };
            return false;
        }
        has_passed(RESCUE_AFTER, self.since, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_asks_a_victim_that_has_no_branch_for_others() {
        let asks = |has_shared| ROUNDS.map(|round| round.asks(has_shared));
        assert_eq!(asks(false), [true; 4]);
        assert_eq!(asks(true), [false, true, true, true]);
    }

    #[test]
    fn what_the_last_round_takes_was_noted_by_the_first() {
        let runnext = ROUNDS.map(|round| round.runnext);
        let [first, between @ .., last] = runnext;
        assert_eq!((first, last), (RunNextIs::Noted, RunNextIs::Taken));
        assert_eq!(between, [RunNextIs::Left; 2]);
        assert!(!ROUNDS[0].branches, "tasks of any P come first");
        assert!(ROUNDS[1..].iter().all(|round| round.branches));
    }

    #[test]
    fn only_a_worker_beside_others_that_run_spins_before_it_parks() {
        for (free, workers, may) in [
            (0, 1, false),
            (0, 2, true),
            (1, 2, false),
            (6, 8, true),
            (7, 8, false),
        ] {
            assert_eq!(may_spin_before_park(free, workers), may, "{free} {workers}");
        }
        for (processors, looks) in [(1, 256), (2, 128), (200, 1), (1000, 0)] {
            assert_eq!(looks_before_park(processors), looks);
        }
    }

    #[test]
    fn what_the_netpoll_brought_fits_behind_what_is_rescued() {
        for (brought, room, at_most) in [
            (0, 256, 0),
            (1, 256, 1),
            (128, 256, 128),
            (200, 256, 56),
            (1, 1, 0),
            (300, 256, 0),
        ] {
            assert_eq!(rescued_max(brought, room), at_most, "{brought} {room}");
        }
    }

    #[test]
    fn a_p_stands_still_from_when_it_was_first_seen_at_its_ticks() {
        let mut passed = Passed::NEVER;
        // The ticks, the time in microseconds.
        for (ticks, us, still) in [
            (5, 1000, false),
            (5, 1050, false),
            (5, 1099, false),
            (5, 1100, true),
            (5, 1150, true),
            (6, 1300, false),
            (6, 1399, false),
            (6, 1400, true),
        ] {
            assert_eq!(passed.stands_still(ticks, us * 1000), still, "{ticks} {us}");
        }
    }
}
