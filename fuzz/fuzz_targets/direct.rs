//! Runnext and the fork deque.
#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use ws_fuzz::{kind, number, program};
use ws_queue::steps::direct::{Step, run};

fuzz_target!(|bytes: &[u8]| {
    let steps = program(&mut Unstructured::new(bytes), |bytes| {
        Ok(match kind(bytes, 8)? {
            0 => Step::Put,
            1 => Step::TakeNext,
            2 => Step::Peek,
            3 => Step::StealNext,
            4 => Step::Fork(1),
            5 => Step::Fork(number(bytes, 600)?),
            6 => Step::PopFork,
            _ => Step::StealFork,
        })
    });
    run(&steps);
});
