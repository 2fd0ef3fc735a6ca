//! I1, I2, S1, S2, S6, H3: random programs of a task, shrunk when they fail.
//!
//! It fails when `settle` in `cell/state.rs` forgets a wake that came during the poll, when
//! `transition_to_cancelled` does not count as a wake, and when `detach` leaves the output or the
//! waker behind.

use proptest::prelude::*;

use super::task::{Act, Drops, End, Step, run};

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..8_usize).prop_map(Act::Keep),
        3 => (0..8_usize).prop_map(Act::WakeByRef),
        4 => (0..8_usize).prop_map(Act::Wake),
        2 => (0..8_usize).prop_map(Act::DropWaker),
        2 => Just(Act::Refer),
        1 => (0..8_usize).prop_map(Act::DropReference),
        1 => (0..8_usize).prop_map(Act::Abort),
        1 => Just(Act::AbortByHandle),
        4 => (0..3_usize).prop_map(Act::Join),
        1 => Just(Act::Detach),
        1 => Just(Act::Dump),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ends = prop_oneof![
        5 => Just(End::Pending),
        2 => Just(End::GoesOn),
        1 => Just(End::Ready),
        1 => Just(End::Panic),
    ];
    let step = prop_oneof![
        2 => acts().prop_map(Step::Act),
        1 => (prop::collection::vec(acts(), 0..5), ends).prop_map(|(acts, end)| Step::Run(acts, end)),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_task_is_a_few_flags(
        drops in prop_oneof![3 => Just(Drops::Quietly), 1 => Just(Drops::Panicking)],
        steps in steps(),
    ) {
        run(drops, &steps);
    }
}
