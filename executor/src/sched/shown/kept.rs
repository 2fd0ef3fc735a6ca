//! What is kept for viewers.

use std::collections::VecDeque;

use crate::{sched::stall::StallReport, sync::Mutex};

/// What a viewer is told, and nothing else keeps.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(in crate::sched) stalls: Mutex<VecDeque<ShownStall>>,
}

/// The last report of a stall, and when the stall began, in nanoseconds of the runtime's clock.
#[derive(Clone, Debug)]
pub struct ShownStall {
    /// When the stall began.
    pub began_ns: u64,
    /// The last report of it.
    pub report: StallReport,
}
