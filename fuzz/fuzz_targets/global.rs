//! The GRQ and its batches.
#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use ws_fuzz::{kind, number, program};
use ws_queue::steps::global::{Step, run};

fuzz_target!(|bytes: &[u8]| {
    let steps = program(&mut Unstructured::new(bytes), |bytes| {
        Ok(match kind(bytes, 7)? {
            0 => Step::Push,
            1 => Step::PushBatch(number(bytes, 31)?),
            2 => Step::Pop,
            3 => Step::PopBatch(number(bytes, 31)?),
            4 => Step::Take(number(bytes, 31)?),
            5 => Step::TakeUntil(number(bytes, 31)?),
            _ => Step::PopNear(number(bytes, 7)?),
        })
    });
    run(&steps);
});
