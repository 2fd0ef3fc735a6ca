//! What a carrier and the task that it pins share (`task/pinned.rs`): where an abort goes.
//!
//! To users the two are one task, and its handle is the carrier's. So an abort by that handle is
//! one of the pinned task: the carrier waits for that as ever, and ends as it did. If the abort
//! ended the carrier, its handle would say "cancelled" while the other future still runs.
//!
//! | state | the carrier | an abort |
//! | --- | --- | --- |
//! | `Before` | was not polled | ends the carrier |
//! | `Pins` | makes the pinned task | is noted, and passed on when that is made |
//! | `Pinned` | waits for it | is passed on |
//! | `Over` | is about to end as the pinned task did | nothing |
//!
//! *Invariant*: if an abort finds `Before`, the carrier sees its mark before it pins, since both
//! hold the lock.
//!
//! *Memory*: both tasks lead here, and from here a reference leads to the pinned one. `Over`, which
//! comes when the future of that is dropped, takes the reference away.

use std::{fmt, mem};

use super::{
    reference::{AbortRef, TaskRef},
    state::Wake,
};
use crate::sync::Mutex;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Carried(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Before,
    Pins {
        aborted: bool,
    },
    Pinned(AbortRef),
    Over,
}

impl Carried {
    /// The carrier is about to pin. False: it was aborted, and pins nothing.
    pub(crate) fn begins(&self, carrier: &TaskRef) -> bool {
        let mut state = self.0.lock();
        if carrier.header().snapshot().is_cancelled() {
            return false;
        }
        *state = State::Pins { aborted: false };
        true
    }

    /// It has pinned this task, which may be over by now.
    pub(crate) fn pinned(&self, task: AbortRef) {
        let mut state = self.0.lock();
        if let State::Pins { aborted } = *state {
            *state = State::Pinned(task.clone());
            drop(state);
            if aborted {
                task.abort();
            }
        }
    }

    /// The pinned task's future is gone.
    pub(crate) fn is_over(&self) {
        let before = mem::replace(&mut *self.0.lock(), State::Over);
        drop(before);
    }

    /// An abort of the carrier. `mark` marks the carrier itself.
    pub(super) fn abort(&self, mark: impl FnOnce() -> Wake) -> Wake {
        let mut state = self.0.lock();
        match &mut *state {
            State::Before => return mark(),
            State::Pins { aborted } => *aborted = true,
            State::Pinned(task) => {
                let task = task.clone();
                drop(state);
                task.abort();
            }
            State::Over => {}
        }
        Wake::Nothing
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carried").finish_non_exhaustive()
    }
}
