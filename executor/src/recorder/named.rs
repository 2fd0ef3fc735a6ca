//! Names of tasks in the recording, so that a task that has ended still has one.
//!
//! # How it works
//!
//! A recording looks up names in the table of live tasks. A task that has ended is not there. So at
//! level full, a worker that begins to poll a task with a name writes that name and the place of
//! the spawn into its ring. It does so before the record of the poll, in the form of a line of a
//! log (`log.rs`). It does so again when a quarter of the ring was written since. So a poll that is
//! in a ring has the name before it, in the same ring, unless it is one of the oldest quarter.
//!
//! # What it costs
//!
//! - A task without a name: the question whether it has one, at level full alone.
//! - A task with a name: some three records for each worker that polls it. Whether they are due is
//!   one look into a table of [`SLOTS`] tasks, which a P has from the first such poll on: 16 KiB.
//!   With more tasks than that, the name may be written for each poll.
//! - No memory of its own, for no task: the name lies in the ring, and goes with its polls.
//!
//! Rejected:
//!
//! - To write the name when the task has ended. A snapshot is written in one pass, and would hear
//!   of the name after the polls. And a task that is aborted ends on any thread.
//! - To write it at the spawn. A task may outlive that record.
//! - A table of the names of tasks that have ended. It needs a limit, and a lock for its readers.
//!   The ring has both.
//!
//! A blocking call with a name has no polls, so it has no name here once it has ended.

use std::cell::{Cell, OnceCell};

use super::Ring;

/// Tasks whose names a P knows to be in its ring. Guessed: more tasks with names than a worker has.
const SLOTS: usize = 1024;

/// Which names a P has written lately; see the module's head.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// The slot of a task follows from its number.
    slots: OnceCell<Box<[Slot]>>,
}

/// A task, and how many records there were when its name was written.
type Slot = Cell<(u64, u64)>;

impl Named {
    /// Whether the name of a task is to be written now. If so, it counts as written.
    pub(crate) fn is_due(&self, task: u64, ring: &Ring) -> bool {
        let slots = || (0..SLOTS).map(|_| Cell::new((0, 0))).collect();
        let slot = &self.slots.get_or_init(slots)[task as usize % SLOTS];
        let (written, (of, at)) = (ring.written(), slot.get());
        let is_due = of != task || written - at > ring.capacity() / 4;
        if is_due {
            slot.set((task, written));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails if a name is written for each poll, or if it leaves the ring before polls behind it.
    #[test]
    fn a_name_is_due_when_it_gets_old() {
        let (named, ring) = (Named::default(), Ring::new(64));
        let is_due = |task| named.is_due(task, &ring);
        assert!(is_due(7) && !is_due(7));
        assert!(is_due(8) && !is_due(8) && !is_due(7));
        (0..16).for_each(|n| ring.write([n, n]));
        assert!(!is_due(7));
        ring.write([0, 0]);
        assert!(is_due(7) && !is_due(7));
        // Two that have one place.
        let other = 7 + SLOTS as u64;
        assert!(is_due(other) && is_due(7));
    }
}
