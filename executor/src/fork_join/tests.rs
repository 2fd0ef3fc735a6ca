//! J5, S6: nothing unwinds past a branch that is out. A panic of the runtime's own code in the wait for it
//! ends the process; and what the program's `tracing` subscriber does there is its own matter: see
//! `tests/a_subscriber_that_panics_harms_nobody.rs`.

use std::{env, mem, panic::catch_unwind, process::Command};

use super::{Lane, join_on};
use crate::sync::Arc;

/// Set in the process that is to end.
const CHILD: &str = "WS_TEST_UNWINDS";

/// Steals the second branch, for good, and then lets the wait for it panic.
fn unwind_from_the_wait() {
    let lane = Arc::new(Lane::new());
    // SAFETY: no other thread has it, and it outlives the tail.
    let tail = unsafe { lane.attach() };
    assert!(tail.make_room());
    let steal = || {
        tail.promote(1, 0);
        mem::forget(Lane::claim(&lane, 0).unwrap());
    };
    // SAFETY: there is room.
    unsafe { join_on(tail, steal, || (), |_| (), |_, _| panic!("expected")) };
}

#[test]
fn a_panic_in_the_wait_for_a_branch_ends_the_process() {
    if env::var_os(CHILD).is_some() {
        // If it comes back, the frame was left while the branch was out.
        let _ = catch_unwind(unwind_from_the_wait);
        return;
    }
    let name = "fork_join::tests::a_panic_in_the_wait_for_a_branch_ends_the_process";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("running 1 test"), "it was not run: {said}");
    assert!(!child.status.success(), "the frame was left: {said}");
}
