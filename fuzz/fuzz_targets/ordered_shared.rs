//! The ordered queue that all share.
#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use ws_fuzz::{kind, level, number, program};
use ws_queue::steps::ordered_shared::{Step, run};

fuzz_target!(|bytes: &[u8]| {
    let steps = program(&mut Unstructured::new(bytes), |bytes| {
        Ok(match kind(bytes, 6)? {
            0 => Step::Push(level(bytes)?),
            1 => {
                let count = number(bytes, 15)?;
                let levels: Result<_, _> = (0..count).map(|_| level(bytes)).collect();
                Step::PushBatch(levels?)
            }
            2 => Step::Pop,
            3 => Step::PopLowestBelow(None),
            4 => Step::PopLowestBelow(Some(level(bytes)?)),
            _ => Step::Take(level(bytes)?, number(bytes, 15)?, number(bytes, 3)?),
        })
    });
    run(&steps);
});
