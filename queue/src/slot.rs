//! One slot of a ring: a word that the owner writes and thieves read before they know that they
//! may.
//!
//! A slot is an atomic pointer that is read and written `Relaxed`. All order comes from the indices
//! around it (see *Why the slots may be relaxed* in `local.rs`). This has a consequence for the
//! models: if a slot is written again too early, a read returns a value from its future. Loom runs
//! the loads of a thread one after the other, and cannot show that.
//!
//! So under loom each slot keeps a [`Witness`]: the index behind the newest one that was read from
//! it. It is written `Relaxed` like the slot itself, so the owner is sure to see it exactly when
//! the reader's grab happens before the owner's write, and may miss it otherwise. [`Slot::write`]
//! asserts that it does (I3: no slot is written again while a thief may still read it).

use std::ptr::{self, NonNull};

use super::local::CAPACITY;
use crate::sync::Witness;
use crate::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A slot that holds the item of one index at a time.
#[derive(Debug)]
pub(super) struct Slot {
    item: AtomicPtr<()>,
    read_up_to: Witness,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            item: AtomicPtr::new(ptr::null_mut()),
            read_up_to: Witness::default(),
        }
    }

    /// Writes the item of `index`. Only the owner does, and only when no thread may still read the
    /// item that was there before.
    #[inline]
    pub(super) fn write(&self, index: u64, raw: NonNull<()>) {
        self.read_up_to
            .assert_at_least((index + 1).saturating_sub(CAPACITY));
        self.item.store(raw.as_ptr(), Relaxed);
    }

    /// Reads the item of `index`. The value is the reader's only if the reader's grab succeeds.
    ///
    /// # Panics
    ///
    /// Panics if nothing was ever written here: a reader only reads below a tail that it has seen.
    #[inline]
    pub(super) fn read(&self, index: u64) -> NonNull<()> {
        let raw = self.item.load(Relaxed);
        self.read_up_to.note(index + 1);
        NonNull::new(raw).expect("I10: an item below the tail is visible")
    }
}
