//! From the fuzzer's bytes to steps: a byte says which step comes next, those after it are its
//! numbers. Where the bytes end, the program ends. What a program does, and what it has to do, is
//! in `queue/src/steps.rs` and `executor/src/steps.rs`.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

/// Reads steps until the bytes end.
pub fn program<S>(
    bytes: &mut Unstructured<'_>,
    mut step: impl FnMut(&mut Unstructured<'_>) -> Result<S>,
) -> Vec<S> {
    let mut steps = Vec::new();
    while !bytes.is_empty() {
        // A number is read from whatever is left, so this fails only for what is not read here.
        let Ok(step) = step(bytes) else { break };
        steps.push(step);
    }
    steps
}

/// Which of so many kinds of step.
pub fn kind(bytes: &mut Unstructured<'_>, kinds: u8) -> Result<u8> {
    Ok(bytes.arbitrary::<u8>()? % kinds)
}

/// A number up to `max`.
pub fn number(bytes: &mut Unstructured<'_>, max: usize) -> Result<usize> {
    bytes.int_in_range(0..=max)
}

/// A level: mostly one of few, so that some are equal; now and then one of all.
pub fn level(bytes: &mut Unstructured<'_>) -> Result<i64> {
    match bytes.arbitrary::<u8>()? {
        255 => bytes.arbitrary(),
        254 => Ok(i64::MAX),
        253 => Ok(i64::MIN),
        few => Ok(i64::from(few % 32) - 16),
    }
}
