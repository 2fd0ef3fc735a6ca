//! A look for lost tasks beside a task that can still be woken: `cell/lost.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_task_whose_last_waker_wakes_it_is_not_lost` | a wake takes the last waker and queues the task: at no moment in between does the word say that the task is lost | 3 | 0.1 | `lost_wake_in_two_steps` |
//! | `an_abort_handle_that_comes_and_goes_is_no_waker_less` | while abort handles are made and dropped, a task with a waker is not lost | 3 | 0.1 | `lost_abort_counts_first`, `lost_abort_ends_last` |

use super::{
    both_ways::explore,
    task::{World, assert_output, waiting},
};
use crate::cell::find_lost;

/// Looks once, and says whether the task is lost.
fn looks(world: &World) -> bool {
    let mut tasks = Vec::new();
    world.for_each_live(|task| tasks.push(task));
    !find_lost(&tasks).is_empty()
}

#[test]
fn a_task_whose_last_waker_wakes_it_is_not_lost() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let wakes = {
            let (world, outside) = (world.clone(), outside.clone());
            move || {
                outside.set(0);
                outside.last_waker().wake();
                world.run();
            }
        };
        let looking = {
            let world = world.clone();
            move || assert!(!looks(&world), "it will be woken, or was")
        };
        turn.race(wakes, [looking]);
        assert_output(&mut handle);
        drop((handle, outside));
        world.assert_empty();
    });
}

#[test]
fn an_abort_handle_that_comes_and_goes_is_no_waker_less() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let before = handle.abort_ref();
        let aborts = {
            let more = before.clone();
            move || drop((before, more.clone(), more))
        };
        let looking = {
            let world = world.clone();
            move || assert!(!looks(&world), "it has a waker outside")
        };
        turn.race(aborts, [looking]);
        outside.set(0);
        outside.last_waker().wake();
        world.run();
        assert_output(&mut handle);
        drop((handle, outside));
        world.assert_empty();
    });
}
