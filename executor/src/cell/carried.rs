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
//!
//! Checked by the tests below, and by `tests/safety/abort_drops_on_a_worker.rs`.

use std::{fmt, mem, sync::Arc};

use super::state::Wake;
use crate::sync::Mutex;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Carried(Mutex<State>);

/// Aborts the pinned task; has a reference to it.
type Abort = dyn Fn() + Send + Sync;

#[derive(Default)]
enum State {
    #[default]
    Before,
    Pins {
        aborted: bool,
    },
    Pinned(Arc<Abort>),
    Over,
}

impl Carried {
    /// The carrier is about to pin. False: it was aborted, and pins nothing.
    pub(crate) fn begins(&self, is_aborted: impl FnOnce() -> bool) -> bool {
        let mut state = self.0.lock();
        if is_aborted() {
            return false;
        }
        *state = State::Pins { aborted: false };
        true
    }

    /// It has pinned the task that this aborts, which may be over by now.
    pub(crate) fn pinned(&self, abort: Arc<Abort>) {
        let mut state = self.0.lock();
        if let State::Pins { aborted } = *state {
            *state = State::Pinned(abort.clone());
            drop(state);
            if aborted {
                abort();
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
            State::Pinned(abort) => {
                let abort = abort.clone();
                drop(state);
                abort();
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// How often the pinned task was aborted, and what does so.
    fn pinned() -> (Arc<AtomicUsize>, Arc<Abort>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counts = count.clone();
        let abort = Arc::new(move || _ = counts.fetch_add(1, SeqCst));
        (count, abort)
    }

    /// Whether an abort marks the carrier.
    fn marks(carried: &Carried) -> bool {
        carried.abort(|| Wake::Queue) == Wake::Queue
    }

    #[test]
    fn before_it_pins_an_abort_is_the_carriers() {
        let carried = Carried::default();
        assert!(marks(&carried));
        assert!(!carried.begins(|| true));
        assert!(marks(&carried));
    }

    #[test]
    fn while_it_pins_an_abort_is_noted() {
        let (count, abort) = pinned();
        let carried = Carried::default();
        assert!(carried.begins(|| false));
        assert!(!marks(&carried));
        carried.pinned(abort);
        assert_eq!(count.load(SeqCst), 1);
    }

    #[test]
    fn afterwards_it_is_passed_on_until_that_is_over() {
        let (count, abort) = pinned();
        let carried = Carried::default();
        assert!(carried.begins(|| false));
        carried.pinned(abort.clone());
        assert!(!marks(&carried));
        assert_eq!(count.load(SeqCst), 1);
        carried.is_over();
        assert!(!marks(&carried));
        assert_eq!((count.load(SeqCst), Arc::strong_count(&abort)), (1, 1));
    }

    #[test]
    fn one_that_is_over_at_once_is_not_kept() {
        let (count, abort) = pinned();
        let carried = Carried::default();
        assert!(carried.begins(|| false));
        carried.is_over();
        carried.pinned(abort.clone());
        assert!(!marks(&carried));
        assert_eq!((count.load(SeqCst), Arc::strong_count(&abort)), (0, 1));
    }
}
