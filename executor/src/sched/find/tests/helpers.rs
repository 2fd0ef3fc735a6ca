//! J2: a waiting join that helps one which waits itself, and so on down a recursion. Each takes
//! what the other has just forked, so on each of the two stacks there is a waiting join for every
//! second level. It cannot be more, since what is run above one was forked in the branch that it
//! waits for; and each takes little stack.
//!
//! It fails when `help` in `fork_join/owner.rs` has a buffer of 8 KiB, or in release of one.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use super::*;
use crate::stack::{calls, here};

/// On both stacks together.
const LEVELS: usize = 200;
/// Bytes of stack of a waiting join that helps, with the two levels of joins between it and the
/// next one. In a debug build nothing is inlined.
const MOST: usize = if cfg!(debug_assertions) { 8192 } else { 1024 };

/// How far down the stack of each thread was.
struct Lowest([AtomicUsize; 2]);

/// Each level is run by the other thread.
#[inline(never)]
fn nested(levels: usize, lowest: &Lowest) {
    lowest.0[levels % 2].fetch_min(here(), SeqCst);
    if levels == 0 {
        return;
    }
    let taken = AtomicBool::new(false);
    let until_taken = || {
        while !taken.load(SeqCst) {
            // The oldest of all is promoted at one of these, for the thread that helps.
            join(|| (), || ());
        }
    };
    join(until_taken, || {
        taken.store(true, SeqCst);
        nested(levels - 1, lowest);
        black_box(());
    });
}

#[test]
fn a_helper_of_a_helper_needs_little_stack() {
    let (helped, plain) = limited(|send| {
        let runtime = runtime();
        let t1 = thread(&runtime);
        let is_up = AtomicBool::new(false);
        let lowest = Lowest([const { AtomicUsize::new(usize::MAX) }; 2]);
        let plain = {
            let top = here();
            (top - calls(LEVELS)) / LEVELS
        };
        let stacks = std::thread::scope(|threads| {
            let other = threads.spawn(|| {
                let t2 = thread(&runtime);
                is_up.store(true, SeqCst);
                let branch = loop {
                    match step(&t2) {
                        Step::Branch(branch) => break branch,
                        _ => std::thread::yield_now(),
                    }
                };
                let top = here();
                context::with_worker_frame(&t2, || t2.run_branch(branch));
                t2.leave();
                top
            });
            while !is_up.load(SeqCst) {
                std::thread::yield_now();
            }
            let top = here();
            context::with_worker_frame(&t1, || nested(LEVELS, &lowest));
            [top, other.join().expect("it has not panicked")]
        });
        end(runtime, [t1]);
        let each = |which: usize| (stacks[which] - lowest.0[which].load(SeqCst)) / (LEVELS / 2);
        send.send(([each(0), each(1)], plain)).expect("it waits");
    });
    for helped in helped {
        assert!(
            helped <= 2 * plain + MOST,
            "{helped} bytes for each that helps, {plain} a call"
        );
    }
}
