//! The cell of a task: its state word, its wakers, its handle.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use ws_executor::steps::task::{Act, Drops, End, Step, run};
use ws_fuzz::{kind, number, program};

fn act(bytes: &mut Unstructured<'_>, kind: u8) -> Result<Act> {
    Ok(match kind {
        0 => Act::Keep(number(bytes, 7)?),
        1 => Act::WakeByRef(number(bytes, 7)?),
        2 => Act::Wake(number(bytes, 7)?),
        3 => Act::DropWaker(number(bytes, 7)?),
        4 => Act::Refer,
        5 => Act::DropReference(number(bytes, 7)?),
        6 => Act::Abort(number(bytes, 7)?),
        7 => Act::AbortByHandle,
        8 => Act::Join(number(bytes, 2)?),
        9 => Act::Detach,
        _ => Act::Dump,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let drops = match bytes.arbitrary() {
        Ok(true) => Drops::Panicking,
        _ => Drops::Quietly,
    };
    let steps = program(&mut bytes, |bytes| {
        let kind = kind(bytes, 16)?;
        if kind <= 10 {
            return Ok(Step::Act(act(bytes, kind)?));
        }
        let end = match kind {
            11 => End::Ready,
            12 => End::Panic,
            13 => End::GoesOn,
            _ => End::Pending,
        };
        let count = number(bytes, 7)?;
        let acts: Result<_> = (0..count)
            .map(|_| {
                let kind = number(bytes, 10)?;
                act(bytes, kind as u8)
            })
            .collect();
        Ok(Step::Run(acts?, end))
    });
    run(drops, &steps);
});
