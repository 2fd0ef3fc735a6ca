//! The ordered queue of a P.
#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use ws_fuzz::{kind, level, number, program};
use ws_queue::steps::ordered_local::{Step, run};

fuzz_target!(|bytes: &[u8]| {
    let steps = program(&mut Unstructured::new(bytes), |bytes| {
        Ok(match kind(bytes, 8)? {
            0 => Step::Push(level(bytes)?),
            1 => Step::PushMany(level(bytes)?, number(bytes, 255)?),
            2 => Step::Pop,
            3 => Step::PopAtLeast(level(bytes)?),
            4 => Step::PopLowest,
            5 => Step::Steal,
            6 => Step::TakeAll,
            _ => Step::Drain,
        })
    });
    run(&steps);
});
