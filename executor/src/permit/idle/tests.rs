//! The words of `idle.rs` by themselves: what the counts say, and the set beside a simple one. The
//! protocols are in `models::idle` and `models::permit`.

use std::collections::BTreeSet;

use super::super::idle::*;

/// Whether the monitor was woken since it was asked last.
fn is_woken(idle: &Idle) -> bool {
    idle.monitor().wake_up()
}

#[test]
fn the_monitor_sleeps_while_all_permits_are_free() {
    let idle = Idle::new(2, 2);
    assert!(idle.monitor_may_sleep());
    assert_eq!(
        (idle.free(), idle.spinning()),
        (2, 0),
        "its bit is no spinner"
    );
    assert!(idle.could_wake(), "nor is it one for those who push");
    // Something else woke it: it asks once more.
    assert!(idle.monitor_may_sleep());
    let permit = idle.acquire().expect("two are free");
    assert!(is_woken(&idle), "a permit was taken while it slept");
    assert!(!idle.monitor_may_sleep());
    let other = idle.acquire().expect("one is free");
    idle.release(permit, None);
    idle.release(other, None);
    assert!(!is_woken(&idle), "it was awake");
    assert!(idle.monitor_may_sleep());
    let (permit, spinning) = idle.submit(1).expect("two are free");
    assert!(is_woken(&idle), "a permit was taken for who was woken");
    idle.release(permit, Some(spinning));
}

#[test]
fn a_wake_up_makes_sense_where_a_permit_is_free_and_nobody_spins() {
    let idle = Idle::new(2, 2);
    assert!(idle.could_wake());
    let (permit, spinning) = idle.submit(1).expect("two are free");
    assert_eq!((idle.free(), idle.spinning()), (1, 1));
    assert!(!idle.could_wake(), "somebody spins");
    assert!(idle.stop_spinning(spinning), "it was the last");
    assert_eq!((idle.free(), idle.spinning()), (1, 0));
    assert!(idle.could_wake());
    let other = idle.acquire().expect("one is free");
    assert!(!idle.could_wake(), "no permit is free");
    idle.release(permit, None);
    idle.release(other, None);
    assert!(idle.could_wake());
}

#[test]
fn a_batch_is_worth_half_the_machine() {
    let idle = Idle::new(5, 5);
    let taken: Vec<_> = std::iter::from_fn(|| idle.submit(100)).collect();
    assert_eq!((idle.spinning(), idle.free()), (3, 2));
    for (permit, spinning) in taken {
        idle.release(permit, Some(spinning));
    }
    let taken: Vec<_> = std::iter::from_fn(|| idle.submit(2)).collect();
    assert_eq!(taken.len(), 2, "no more than there are tasks");
    for (permit, spinning) in taken {
        idle.release(permit, Some(spinning));
    }
    let one = idle.submit(0).expect("always one");
    assert!(idle.submit(0).is_none());
    idle.release(one.0, Some(one.1));
}

#[test]
fn half_of_those_that_are_busy_spin() {
    let idle = Idle::new(8, 8);
    for busy in 0..=8 {
        let permits: Vec<_> = std::iter::from_fn(|| idle.acquire()).take(busy).collect();
        let mut spinners: Vec<_> = std::iter::from_fn(|| idle.start_spinning()).collect();
        assert_eq!(spinners.len(), busy.div_ceil(2), "{busy} are busy");
        spinners.push(idle.spin());
        assert_eq!(
            idle.spinning(),
            spinners.len(),
            "it was told to, and asks nobody"
        );
        while let Some(spinning) = spinners.pop() {
            assert_eq!(idle.stop_spinning(spinning), spinners.is_empty());
        }
        permits
            .into_iter()
            .for_each(|permit| idle.release(permit, None));
        assert_eq!((idle.free(), idle.spinning()), (8, 0));
    }
}

#[test]
fn a_standing_goes_through_the_table() {
    let idle = Idle::new(1, 1);
    let mut permit = idle.acquire().expect("one is free");
    let state = WorkerStateCell::new();
    let stands = |expected| {
        assert_eq!(state.load(), expected);
        assert_eq!(state.has_permit(), expected == WorkerState::Running);
    };
    stands(WorkerState::Vacant);
    state.arrive();
    stands(WorkerState::Stuck);
    state.run(permit);
    stands(WorkerState::Running);
    assert!(!state.unpark_without_permit(), "it does not sleep");

    permit = state.park().expect("it ran");
    stands(WorkerState::Parked);
    permit = state.hand_to_wanting(permit).expect_err("it wants none");
    assert!(state.revoke().is_none(), "it has none");
    state.hand_to_parked(permit).expect("it is parked");
    stands(WorkerState::Running);
    assert!(!state.unpark_without_permit(), "it was handed one");

    permit = state.revoke().expect("it ran");
    stands(WorkerState::Stuck);
    permit = state.hand_to_parked(permit).expect_err("it is awake");
    assert!(state.park().is_none(), "it was revoked");
    stands(WorkerState::Parked);
    assert!(state.unpark_without_permit(), "nobody handed it one");
    stands(WorkerState::Stuck);

    state.want();
    stands(WorkerState::Wanting);
    permit = state.hand_to_parked(permit).expect_err("it is not parked");
    assert!(state.awake(), "nobody handed it one");
    stands(WorkerState::Stuck);
    state.want();
    state.hand_to_wanting(permit).expect("it wants one");
    assert!(!state.awake(), "it was handed one");
    stands(WorkerState::Running);

    permit = state.wait().expect("it ran");
    stands(WorkerState::Waiting);
    permit = state
        .hand_to_parked(permit)
        .expect_err("it waits for its root");
    assert!(state.awake());
    state.run(permit);
    permit = state.vacate().expect("it ran");
    stands(WorkerState::Vacant);
    idle.release(permit, None);
}

/// Every P once, in three words of bits.
const BITS: usize = 150;

#[test]
fn the_bits_are_a_set() {
    let bits = BitSet::new(BITS);
    for index in 0..BITS {
        assert!(bits.is_empty());
        bits.insert(index);
        // One that is there already, and one that is not.
        bits.insert(index);
        bits.remove((index + 1) % BITS);
        bits.remove((index + 64) % BITS);
        assert!(!bits.is_empty(), "{index}");
        bits.remove(index);
    }
    assert!(bits.is_empty());
}

#[test]
fn each_bit_is_claimed_once_and_the_last_one_last() {
    for step in [1, 3, 7, 64, 100] {
        for last in (0..BITS).step_by(7).map(Some).chain([None]) {
            let bits = BitSet::new(BITS);
            let mut left: BTreeSet<usize> = (0..BITS).step_by(step).collect();
            left.iter().for_each(|&index| bits.insert(index));
            while !left.is_empty() {
                let claimed = bits.claim(last, Some);
                let first = left.iter().copied().find(|&it| Some(it) != last);
                let expected = first.or(last);
                assert_eq!(claimed, expected, "of {left:?}, {last:?} last");
                left.remove(&expected.expect("something is left"));
            }
            assert!(bits.is_empty());
            assert_eq!(bits.claim(last, Some), None);
        }
    }
}

#[test]
fn a_claim_that_fails_goes_on_to_the_next() {
    let bits = BitSet::new(BITS);
    let set = [5, 70, 71, 140];
    set.iter().for_each(|&index| bits.insert(index));
    let mut asked = Vec::new();
    let claimed = bits.claim(Some(70), |index| {
        asked.push(index);
        (index == 140).then_some("it")
    });
    assert_eq!((claimed, asked), (Some("it"), vec![5, 71, 140]));
    // What was refused is gone: it was no more than a hint.
    let mut asked = Vec::new();
    let claimed = bits.claim(Some(70), |index| {
        asked.push(index);
        None::<()>
    });
    assert_eq!((claimed, asked), (None, vec![70]));
    assert!(bits.is_empty());
}

#[test]
fn a_bit_that_another_has_cleared_is_not_claimed_twice() {
    let bits = BitSet::new(BITS);
    [3, 4, 80].iter().for_each(|&index| bits.insert(index));
    let mut asked = Vec::new();
    // Another takes the next one meanwhile.
    let claimed = bits.claim(Some(80), |index| {
        asked.push(index);
        bits.remove(4);
        None::<()>
    });
    assert_eq!((claimed, asked), (None, vec![3, 80]));
}
