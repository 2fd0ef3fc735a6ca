//! The words of a task, from one to the next.

use super::*;

impl State {
    /// A task that runs, with more wakes than are counted.
    pub(crate) fn saturated() -> Self {
        Self(AtomicU64::new(
            JOIN | (2 * REF) | ((WAKES_MAX + 1) << WAKES_SHIFT),
        ))
    }
}

#[test]
fn the_first_wake_of_an_idle_task_queues_it_and_the_others_do_not() {
    let state = State::new();
    let seen = state.load();
    assert_eq!(state.settle(seen, |_| ()), Settle::Idle);
    assert_eq!(state.wake_by_ref(), Wake::Queue);
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    state.add_reference();
    assert_eq!(state.wake_by_value(), Wake::Nothing);
    let seen = state.load();
    assert_eq!(seen.wakes(), 3);
    assert_eq!(state.settle(seen, |_| ()), Settle::Idle);
}

#[test]
fn a_wake_during_the_poll_queues_once_more() {
    let state = State::new();
    let seen = state.load();
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    assert_eq!(state.settle(seen, |_| ()), Settle::Requeue);
    let seen = state.load();
    assert_eq!(state.settle(seen, |_| ()), Settle::Idle);
}

/// What a yield saves (*The wake count*): the task goes back to a queue with its count as it
/// is.
#[test]
fn a_task_that_yields_is_not_settled_each_time() {
    let state = State::new();
    let seen = state.load();
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    assert_eq!(state.settle(seen, |_| ()), Settle::Requeue);
    assert_eq!(state.load().wakes(), 2);
}

#[test]
fn a_poll_that_goes_on_by_itself_keeps_its_wakes_and_heeds_an_abort() {
    let state = State::new();
    let seen = state.load();
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    assert_eq!(state.settle_to_go_on(seen, |_| ()), Settle::Requeue);
    assert_eq!(state.load().wakes(), 2);
    assert_eq!(state.transition_to_cancelled(), Wake::Nothing);
    assert_eq!(state.settle_to_go_on(seen, |_| ()), Settle::Cancel);
}

#[test]
fn a_task_that_goes_on_for_ever_and_is_woken_does_not_wrap_its_count() {
    let state = State::new();
    for _ in 0..(3 * WAKES_HIGH) {
        let seen = state.load();
        assert_eq!(state.wake_by_ref(), Wake::Nothing);
        assert_eq!(state.settle_to_go_on(seen, |_| ()), Settle::Requeue);
        assert!((1..=WAKES_HIGH).contains(&state.load().wakes()));
    }
}

#[test]
fn a_task_that_yields_for_ever_does_not_wrap_its_count() {
    let state = State::new();
    for _ in 0..(3 * WAKES_HIGH) {
        let seen = state.load();
        assert_eq!(state.wake_by_ref(), Wake::Nothing);
        assert_eq!(state.settle(seen, |_| ()), Settle::Requeue);
        assert!(state.load().wakes() <= WAKES_HIGH);
    }
}

#[test]
fn a_million_references_are_told_from_all_else() {
    const MANY: u64 = 1 << 20;
    let state = State::new();
    (0..MANY).for_each(|_| state.add_reference());
    let seen = state.load();
    assert_eq!((seen.references(), seen.wakes()), (MANY + 2, 1));
    assert!(seen.has_handle() && !seen.has_waker());
    assert!(!seen.is_done() && !seen.is_cancelled());
    assert!((0..=MANY).all(|_| !state.drop_reference()));
    assert!(state.drop_reference(), "that was the last one");
}

#[test]
fn wakes_of_a_queued_task_stop_counting_at_the_limit() {
    let state = State::saturated();
    let high = state.load().wakes();
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    assert_eq!(state.load().wakes(), high);
    state.add_reference();
    assert_eq!(state.wake_by_value(), Wake::Nothing);
    assert_eq!(state.load().wakes(), high);
    assert_eq!(state.load().references(), 2);
}

#[test]
fn a_wake_that_does_not_count_is_not_lost() {
    let state = State::saturated();
    let seen = state.load();
    assert_eq!(state.wake_by_ref(), Wake::Nothing);
    assert_eq!(state.settle(seen, |_| ()), Settle::Requeue);
    let seen = state.load();
    assert_eq!(seen.wakes(), 1);
    assert_eq!(state.settle(seen, |_| ()), Settle::Idle);
    assert_eq!(state.wake_by_ref(), Wake::Queue);
}

#[test]
fn abort_queues_an_idle_task_and_only_marks_another() {
    let state = State::new();
    assert_eq!(state.transition_to_cancelled(), Wake::Nothing);
    assert_eq!(state.settle(state.load(), |_| ()), Settle::Cancel);

    let state = State::new();
    assert_eq!(state.settle(state.load(), |_| ()), Settle::Idle);
    assert_eq!(state.transition_to_cancelled(), Wake::Queue);
    assert_eq!(state.transition_to_cancelled(), Wake::Nothing);
}
