//! Where a task comes from, and where it goes when it is woken.
//!
//! A scheduler handle has a live table, and three functions of the scheduler. One takes a task
//! which has just become queued, one takes it out of the table, and one reports that it has
//! panicked. So `cell/` knows nothing of queues and workers, and a model of the task can bring a
//! scheduler of its own.
//!
//! There is one scheduler handle for each P, and one for what foreign threads spawn.
#![expect(
    unsafe_code,
    reason = "a scheduler handle carries the address of its runtime; see `SchedulerHandle::runtime`"
)]

use std::fmt;

use super::{
    live::{LiveTable, Removed},
    raw::{Header, Task},
    reference::TaskRef,
};

/// Which scheduler handle of its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// That of the P with this index.
    Processor(u16),
    /// The one for foreign threads.
    Foreign,
}

impl Place {
    /// A number for this place; the other way is [`Place::from_number`].
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Processor(index) => u64::from(index),
            Self::Foreign => 1 << 16,
        }
    }

    pub(crate) fn from_number(number: u64) -> Self {
        u16::try_from(number).map_or(Self::Foreign, Self::Processor)
    }
}

/// What the scheduler does for its tasks.
pub(crate) struct Functions {
    /// Queues a task. Its state has just said so.
    pub(crate) schedule: fn(&SchedulerHandle, Task),
    /// Takes a task that has ended out of [`SchedulerHandle::live`], with the owner's help if it is
    /// at hand.
    pub(crate) remove: fn(&SchedulerHandle, u32) -> Removed<TaskRef>,
    /// Reports a live task that has panicked, and has no handle that could tell.
    pub(crate) report_panic: fn(&SchedulerHandle, &Header),
}

/// See the module's head.
pub(crate) struct SchedulerHandle {
    place: Place,
    /// The address of what is at index 0 of its live table: each poll asks for one.
    first_address: u64,
    /// The runtime, for the scheduler's functions alone.
    runtime: *const (),
    live: LiveTable<TaskRef>,
    functions: &'static Functions,
}

// SAFETY: the address of the runtime is only carried here. The scheduler's functions that turn it
// into a reference say why they may; everything else in a scheduler handle is `Send` and `Sync` by
// itself.
unsafe impl Send for SchedulerHandle {}
// SAFETY: as above.
unsafe impl Sync for SchedulerHandle {}

impl SchedulerHandle {
    pub(crate) fn new(
        place: Place,
        runtime: *const (),
        live: LiveTable<TaskRef>,
        functions: &'static Functions,
    ) -> Self {
        Self {
            place,
            first_address: (place.number() + 1) << 32,
            runtime,
            live,
            functions,
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The address of what is at this index of its live table. Never 0.
    pub(super) fn address(&self, index: u32) -> u64 {
        self.first_address | u64::from(index)
    }

    pub(crate) fn runtime(&self) -> *const () {
        self.runtime
    }

    pub(crate) fn live(&self) -> &LiveTable<TaskRef> {
        &self.live
    }

    pub(super) fn schedule(&self, task: Task) {
        (self.functions.schedule)(self, task);
    }

    pub(super) fn remove(&self, index: u32) -> Removed<TaskRef> {
        (self.functions.remove)(self, index)
    }

    pub(super) fn report_panic(&self, header: &Header) {
        (self.functions.report_panic)(self, header);
    }
}

impl fmt::Debug for SchedulerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerHandle")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_its_number() {
        for place in [0, 1, u16::MAX].map(Place::Processor) {
            assert_eq!(Place::from_number(place.number()), place);
        }
        assert_eq!(Place::from_number(Place::Foreign.number()), Place::Foreign);
    }
}
