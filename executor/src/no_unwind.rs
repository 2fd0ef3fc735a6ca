//! Where a panic must not get out (S6): the loops of the runtime's own threads, and frames that
//! others use.
//!
//! User code is called so that its panics stay with it. One that gets here all the same is a defect
//! of the runtime, in the middle of a step: a permit may be lost, or a count, and others would wait
//! for it for ever. The panic hook has said by then what happened.

use std::{mem, process};

use crate::sync::MODELLED;

/// Ends the process if it is dropped, which only a panic does.
#[must_use]
pub(crate) struct NoUnwind;

impl NoUnwind {
    /// The end was reached.
    pub(crate) fn over(self) {
        mem::forget(self);
    }
}

impl Drop for NoUnwind {
    fn drop(&mut self) {
        // A model that fails unwinds, to say why.
        if !MODELLED {
            process::abort();
        }
    }
}
