//! Two LRQs that steal from each other.
#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use ws_fuzz::{kind, number, program};
use ws_queue::steps::local::{Step, run};

fuzz_target!(|bytes: &[u8]| {
    let steps = program(&mut Unstructured::new(bytes), |bytes| {
        // The lowest bit says which queue.
        let kind = kind(bytes, 12)?;
        let which = usize::from(kind % 2);
        Ok(match kind / 2 {
            0 => Step::Push(which),
            1 => Step::PushBatch(which, number(bytes, 300)?),
            2 => Step::Pop(which),
            3 => Step::Steal(which),
            4 => Step::Take(which, number(bytes, 255)?),
            _ => Step::Drain(which),
        })
    });
    run(&steps);
});
