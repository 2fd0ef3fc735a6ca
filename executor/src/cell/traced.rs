//! *Traced polls*: where a task is suspended.
//!
//! A future that is not ready has left a waker at each place where it waits, whatever library that
//! belongs to: a leaf keeps a clone of the waker that it was polled with. So one more poll with a
//! waker whose clone notes the stack shows all these places. A leaf that has a waker compares it
//! with the one that it is given and clones that if it is another one, and this one has a table of
//! functions of its own. What comes out of the clone is an ordinary waker of the task.
//!
//! The poll is an ordinary one in all other respects: a future may be polled at any time, and if it
//! can go on meanwhile, it does.
//!
//! What is not seen: a leaf that does not look at its waker in this poll. A `FuturesUnordered`, for
//! one, polls only those of its futures that were woken, and is the leaf itself.
//!
//! Rejected: to have each leaf of ours tell where it is, and to return from it without a
//! registration, as tokio does it. It says nothing of leaves of others.

use std::cell::RefCell;

use ws_stack::{Captured, NoStack};

use super::{
    raw::Task,
    reference::{TaskRef, schedule},
    state::Wake,
};

/// Places of one poll that are noted at most.
const PLACES_MAX: usize = 64;

/// A place where a task waits, or why it could not be had.
pub(crate) type Place = Result<Captured, NoStack>;

struct Poll {
    /// Where on the stack the poll has begun.
    base: usize,
    places: Vec<Place>,
}

thread_local! {
    /// The traced poll of this thread.
    static POLL: RefCell<Option<Poll>> = const { RefCell::new(None) };
}

/// Notes the places where wakers are cloned that [`TRACING_WAKER`](super::reference) is the table
/// of, while `poll` runs.
pub(crate) fn collect<R>(poll: impl FnOnce() -> R) -> (R, Vec<Place>) {
    let base = 0_u8;
    let fresh = Poll {
        base: std::ptr::from_ref(std::hint::black_box(&base)).addr(),
        places: Vec::new(),
    };
    // A poll inside of a poll, in a nested `block_on`, has its own.
    let above = POLL.replace(Some(fresh));
    let result = poll();
    let mine = POLL.replace(above);
    (result, mine.map_or_else(Vec::new, |poll| poll.places))
}

/// The waker of a traced poll is cloned here.
#[cold]
#[inline(never)]
pub(super) fn note_place() {
    let _ = POLL.try_with(|poll| {
        if let Ok(mut poll) = poll.try_borrow_mut()
            && let Some(poll) = &mut *poll
            && poll.places.len() < PLACES_MAX
        {
            poll.places.push(ws_stack::here(poll.base));
        }
    });
}

impl TaskRef {
    /// If the task is idle, has it polled once, and that poll traced. Whether it was idle.
    pub(crate) fn wake_traced(&self) -> bool {
        let is_idle = self.header().state.wake_by_ref() == Wake::Queue;
        if is_idle {
            self.header().account().trace();
            schedule(Task(self.0));
        }
        is_idle
    }
}
