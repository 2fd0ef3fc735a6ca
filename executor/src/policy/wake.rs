//! When a wake-up of a thread is worth its price, and when to give a core or a queue up instead.

use super::{
    Heuristic,
    constants::{CALL_MOVES_MAX, CALLS_MAX, WAKE_USEFUL_AFTER, YIELDS_TAKE},
    tick::has_passed,
};

/// Whether a thread woken for a lone `runnext` was of use, if the worker comes back to its queue
/// now.
#[inline]
pub(crate) fn wake_was_useful(woke_at: u64, now: u64) -> bool {
    has_passed(WAKE_USEFUL_AFTER, woke_at, now)
}

/// Whether a blocking call that is spawned beside `local` tasks runs here next, and these move.
#[inline]
pub(crate) fn call_runs_next(local: usize) -> bool {
    local <= CALL_MOVES_MAX
}

/// Whether a worker without a permit may give its core up for one, once it has `spawned` so many
/// tasks: a call does so for its first one; see `sched/contention.rs`.
#[inline]
pub(crate) fn may_yield(is_in_call: bool, spawned: u64) -> bool {
    Heuristic::ContendedCalls.is_on() && is_in_call && spawned == 1
}

/// The most calls that are not contended; see `sched/contention.rs`.
#[inline]
pub(crate) fn uncontended_calls(workers: usize) -> usize {
    CALLS_MAX * workers
}

/// Whether yields in vain that took so many nanoseconds say something of the next ones: short ones
/// cost little.
#[inline]
pub(crate) fn yields_tell(took: u64) -> bool {
    took > YIELDS_TAKE.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_of_use_if_the_worker_is_long_away() {
        for (us, useful) in [(0, false), (19, false), (20, true), (5000, true)] {
            assert_eq!(wake_was_useful(7, 7 + us * 1000), useful, "{us}");
        }
        assert!(!wake_was_useful(7, 7 + 19_999));
    }

    #[test]
    fn a_call_moves_few_tasks() {
        assert!([0, 1, 8].map(call_runs_next).iter().all(|&runs| runs));
        assert!(!call_runs_next(9));
    }

    #[test]
    fn a_call_gives_its_core_up_for_its_first_task() {
        for (is_in_call, spawned, may) in [
            (false, 1, false),
            (true, 0, false),
            (true, 1, true),
            (true, 2, false),
        ] {
            assert_eq!(
                may_yield(is_in_call, spawned),
                may,
                "{is_in_call} {spawned}"
            );
        }
    }

    #[test]
    fn two_calls_for_each_permit_do_not_contend() {
        assert_eq!([1, 2, 64].map(uncontended_calls), [2, 4, 128]);
    }

    #[test]
    fn yields_in_vain_tell_something_if_they_were_long() {
        assert!(![0, 20_000].map(yields_tell).contains(&true));
        assert!(yields_tell(20_001));
    }
}
