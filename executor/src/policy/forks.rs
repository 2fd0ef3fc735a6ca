//! Computations that fork: for how many threads they promote branches, and when they give way.

use super::{
    constants::{FAR_APART, FORK_SLICE},
    tick::has_passed,
};

/// How many branches to promote, if `shared` ones are promoted already, and `wanted` threads could
/// take one. Threads that are on their way find what is shared. If none is on its way, a thread
/// that comes later finds one.
#[inline]
pub(crate) fn promotes(wanted: usize, shared: usize) -> usize {
    match wanted {
        0 => usize::from(shared == 0),
        _ => wanted.saturating_sub(shared).max(1),
    }
}

/// Whether the forks are far apart of a thread that promoted a branch then, and takes it back now.
/// The two may be times of different clocks.
#[inline]
pub(crate) fn are_far_apart(promoted_at: u64, now: u64) -> bool {
    now.saturating_sub(promoted_at) >= FAR_APART.as_nanos() as u64
}

/// Whether a computation that got its permit then may give way again.
#[inline]
pub(crate) fn fork_slice_is_over(since: u64, now: u64) -> bool {
    has_passed(FORK_SLICE, since, now)
}

/// Whether a worker lends its permit at a look for all, if computations that have begun, or threads
/// with pinned work, are wanting one, and `free` permits have no holder. If one is free, no permit
/// has to be lent.
#[inline]
pub(crate) fn lends(is_wanting: bool, free: usize) -> bool {
    is_wanting && free == 0
}

/// How many threads may take a branch: those `idle` ones that have or can have a permit, minus one
/// for each `detached` computation, which has a core. See *Detached computations* in
/// `fork_join/owner.rs`.
#[inline]
pub(crate) fn takers(idle: usize, detached: usize) -> usize {
    idle.saturating_sub(detached)
}

/// Whether one more thread may compute without a permit before it has had a slice, beside those
/// that are `detached`, and those that have begun and are `wanting` a permit.
pub(crate) fn may_detach_one_more(detached: usize, wanting: usize, workers: usize) -> bool {
    detached < workers.div_ceil(2) && detached + wanting < workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_promoted_for_each_thread_that_finds_none() {
        for (wanted, shared, promoted) in [
            (0, 0, 1),
            (0, 1, 0),
            (0, 5, 0),
            (1, 0, 1),
            (3, 0, 3),
            (3, 2, 1),
            (3, 3, 1),
            (3, 9, 1),
        ] {
            assert_eq!(promotes(wanted, shared), promoted, "{wanted} {shared}");
        }
    }

    #[test]
    fn a_permit_is_lent_if_none_is_free() {
        for (is_wanting, free, lent) in [
            (false, 0, false),
            (false, 1, false),
            (true, 0, true),
            (true, 1, false),
        ] {
            assert_eq!(lends(is_wanting, free), lent, "{is_wanting} {free}");
        }
    }

    #[test]
    fn a_detached_computation_has_the_core_of_a_taker() {
        for (idle, detached, left) in [(0, 0, 0), (3, 0, 3), (3, 2, 1), (3, 3, 0), (1, 4, 0)] {
            assert_eq!(takers(idle, detached), left, "{idle} {detached}");
        }
    }

    #[test]
    fn forks_are_far_apart_from_100_us_on() {
        for (promoted_at, now, far) in [
            (1_000, 100_999, false),
            (1_000, 101_000, true),
            (1_000_000, 1, false),
        ] {
            assert_eq!(are_far_apart(promoted_at, now), far, "{promoted_at} {now}");
            let slice = now > promoted_at && fork_slice_is_over(promoted_at, now);
            assert_eq!(slice, far);
        }
    }

    #[test]
    fn at_most_half_of_the_workers_compute_without_a_permit() {
        for (detached, wanting, workers, may) in [
            (0, 0, 1, true),
            (1, 0, 1, false),
            (0, 1, 1, false),
            (0, 0, 2, true),
            (1, 0, 2, false),
            (0, 2, 2, false),
            (1, 0, 3, true),
            (3, 0, 8, true),
            (3, 4, 8, true),
            (3, 5, 8, false),
            (4, 0, 8, false),
        ] {
            let more = may_detach_one_more(detached, wanting, workers);
            assert_eq!(more, may, "{detached} {wanting} {workers}");
        }
    }
}
