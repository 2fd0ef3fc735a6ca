//! The one buffer that asker and signal handler share.
//!
//! # *The request*
//!
//! | phase | which side may touch the value | what comes next |
//! | --- | --- | --- |
//! | `FREE` | the asker | the asker asks: `ASKED` |
//! | `ASKED` | nobody | the handler begins: `WRITING`; or the asker gives up: `FREE` |
//! | `WRITING` | the handler | the handler is through: `DONE` |
//! | `DONE` | the asker | the asker takes it, or asks again: `FREE`, `ASKED` |
//!
//! The word has the phase in its lower two bits, and above them the number of the request. There is
//! one asker at a time, under a lock. There may be several handlers: of the thread that is asked,
//! and of threads that were asked before and come late.
//!
//! *One side touches the value.* The steps out of `ASKED` are exchanges of the whole word, so one
//! of the two sides makes the step. The number in the word keeps a handler from beginning with a
//! request that is not the one whose thread it has compared: a later request has another number.
//!
//! *The asker never waits for a handler.* If it gives up in the phase `WRITING`, it leaves the slot
//! as it is. The slot is busy until the handler is through, and a request before that is refused.
//! It costs no buffer per thread that way, and nothing is freed under a handler's hands.
//!
//! A handler that finds no request for its own thread does nothing: a signal may be late, or come
//! from elsewhere.
//!
//! Checked by `models/slot.rs`, with the mutants in `mutants/`.
#![expect(unsafe_code, reason = "a value that the protocol keeps apart")]

use crate::sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    UnsafeCell, const_fn,
};

const PHASE: u32 = 0b11;
const FREE: u32 = 0;
const ASKED: u32 = 1;
const WRITING: u32 = 2;
const DONE: u32 = 3;
/// One request more.
const ONE: u32 = PHASE + 1;

pub(crate) struct Slot<T> {
    word: AtomicU32,
    /// The thread that is asked. Written by the asker in `FREE` and `DONE`, read by handlers.
    thread: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: *One side touches the value*, in the module's head.
unsafe impl<T: Send> Sync for Slot<T> {}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The handler has not begun; the word to wait on.
    None(u32),
    /// The handler is at it; the word to wait on.
    Begun(u32),
    Done,
}

impl<T> Slot<T> {
    const_fn! {
        pub(crate) fn new(value: T) -> Self {
            Self {
                word: AtomicU32::new(FREE),
                thread: AtomicU32::new(0),
                value: UnsafeCell::new(value),
            }
        }
    }

    /// Asks that thread. False: a handler is still busy with an earlier request.
    ///
    /// # Safety
    ///
    /// - The caller is the only asker until it has given up or has taken the answer.
    pub(crate) unsafe fn ask(&self, thread: u32, prepare: impl FnOnce(&mut T)) -> bool {
        // Ordering: Acquire pairs with the Release of a handler that was given up and is through.
        let word = self.word.load(Acquire);
        if word & PHASE == WRITING {
            return false;
        }
        // SAFETY: the phase is `FREE` or `DONE`, or the asker of `ASKED` is gone (`fork`): the
        // value is the asker's, and the asker is the caller.
        self.value.with_mut(|value| prepare(unsafe { &mut *value }));
        self.thread.store(thread, Relaxed);
        let next = (word & !PHASE).wrapping_add(ONE) | ASKED;
        // Ordering: Release publishes value and thread to the handler's Acquire.
        self.word.store(next, Release);
        true
    }

    /// What became of it.
    pub(crate) fn answer(&self) -> Answer {
        // Ordering: Acquire pairs with the Release of `DONE`.
        let word = self.word.load(Acquire);
        match word & PHASE {
            ASKED => Answer::None(word),
            WRITING => Answer::Begun(word),
            _ => Answer::Done,
        }
    }

    /// The asker waits no longer. False: the handler has begun, or is through.
    pub(crate) fn give_up(&self, word: u32) -> bool {
        // Relaxed: nothing was written.
        let free = word & !PHASE;
        self.word
            .compare_exchange(word, free, Relaxed, Relaxed)
            .is_ok()
    }

    /// The value, after `Answer::Done`.
    ///
    /// # Safety
    ///
    /// - The caller is the asker, and has seen `Answer::Done`.
    pub(crate) unsafe fn take<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the phase is `DONE`, so the value is the asker's.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// On the thread that was asked, in the handler. Whether there was a request.
    pub(crate) fn serve(&self, thread: u32, write: impl FnOnce(&mut T)) -> bool {
        // Ordering: Acquire, so that the thread is that of this request or of a later one.
        let word = self.word.load(Acquire);
        if word & PHASE != ASKED || self.thread.load(Relaxed) != thread {
            return false;
        }
        let writing = word & !PHASE | WRITING;
        // Ordering: Acquire pairs with the Release of `ask`.
        let begun = self.word.compare_exchange(word, writing, Acquire, Relaxed);
        if begun.is_err() {
            return false;
        }
        // SAFETY: this exchange has made the phase `WRITING`: the value is this handler's.
        self.value.with_mut(|value| write(unsafe { &mut *value }));
        // Ordering: Release publishes the value to the asker.
        self.word.store(word & !PHASE | DONE, Release);
        true
    }

    /// The word that changes when the answer is there.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
