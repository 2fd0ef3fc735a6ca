//! Systems on which there are no stacks, and builds without them.

use std::time::Duration;

use crate::{Look, NoStack, Stack, no_stack::Why};

/// There is none.
#[derive(Debug)]
pub(crate) enum Raw {}

impl Raw {
    pub(crate) fn resolve(self) -> Stack {
        match self {}
    }
}

pub(crate) fn register_thread() -> u32 {
    0
}

/// Why there is none.
fn why() -> Why {
    if cfg!(feature = "unwind") {
        Why::Unsupported
    } else {
        Why::NotBuilt
    }
}

pub(crate) fn capture(_: u32, _: Duration) -> Look {
    Look {
        system_call: None,
        stack: Err(NoStack(why())),
    }
}

pub(crate) fn here(_: usize) -> Result<Raw, Why> {
    Err(why())
}

pub(crate) fn name_of_call(_: i64) -> Option<&'static str> {
    None
}
