//! Where a task was spawned, and what few tasks have beside that, in one word.
//!
//! ```text
//!  63                                                        2      1      0
//! +-----------------------------------------------------------+------+------+
//! | the address of a `Location`, or of a `Full` if FULL is set |PINNED| FULL |
//! +-----------------------------------------------------------+------+------+
//! ```
//!
//! A task that has nothing of its own is *plain*: both bits are clear. So a thread that queues a
//! task asks one word, in the line that it has in its cache anyway, whether the task may go the
//! usual way.
//!
//! A task is given a [`Full`] when it is made with a name or a priority, or when its priority is
//! changed for the first time. That is one compare-and-swap; only one of several wins. From then on
//! the word stays as it is until the task's memory goes, so that a reference into it is good as
//! long as one to the task. The two cells of a `spawn_pinned` share one (`pinned.rs`).
//!
//! *Invariant*: each question is answered from one reading of the word. The word changes its
//! meaning once, at any moment: code that looks at the tag in one reading and takes the address
//! from another one takes a `Full` for a `Location`.
//!
//! Checked by `models::task::a_place_is_read_beside_the_first_priority`, with the mutant
//! `task_meta_is_read_twice`, and by `tests/interface/dump_shows_what_is_alive.rs`.
#![expect(unsafe_code, reason = "a tagged pointer")]

use std::{marker::PhantomData, panic::Location, ptr::NonNull, sync::Arc};

use super::carried::Carried;
use crate::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// The priority of a task that was given none.
pub(crate) const DEFAULT_PRIORITY: i64 = 0;

/// What few tasks have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<Box<str>>,
    pub(crate) priority: i64,
    /// It carries another task to its thread; see `task/pinned.rs`.
    pub(crate) carried: Option<Arc<Carried>>,
}

#[derive(Debug)]
struct Full {
    name: Option<Box<str>>,
    location: &'static Location<'static>,
    /// By the standard library and not by `sync.rs`: a number that orders nothing, in no protocol.
    priority: std::sync::atomic::AtomicI64,
    /// Of the two tasks that share it, the one that is not pinned is a carrier.
    carried: Option<Arc<Carried>>,
}

/// The address is that of a [`Full`]; without it, that of a `Location`. Set at birth or once later.
const FULL: usize = 1;
/// The task stays on its thread (I7). Set at birth or never.
const PINNED: usize = 1 << 1;
/// Both addresses are those of something that has a pointer in it.
const TAGS: usize = FULL | PINNED;

/// See the module's head.
pub(super) struct Meta {
    word: AtomicPtr<()>,
    owns: PhantomData<Arc<Full>>,
}

// SAFETY: it is a `&'static Location` or an `Arc` of what others may share, for only an atomic
// number in it is ever changed.
unsafe impl Send for Meta {}
// SAFETY: as above.
unsafe impl Sync for Meta {}

/// The word of a new `Full`.
#[cold]
fn leak_extra(extra: Extra, location: &'static Location<'static>, pinned: usize) -> *mut () {
    let full = Full {
        name: extra.name,
        location,
        priority: extra.priority.into(),
        carried: extra.carried,
    };
    let full = Arc::into_raw(Arc::new(full)).cast_mut().cast::<()>();
    full.map_addr(|address| address | FULL | pinned)
}

/// What one reading of the word has found.
enum Seen<'a> {
    Plain(&'static Location<'static>),
    Full(&'a Full),
}

/// The `Full` of a word, if it has one.
fn full_of(word: *mut ()) -> Option<NonNull<Full>> {
    if word.addr() & FULL == 0 {
        return None;
    }
    NonNull::new(word.map_addr(|address| address & !TAGS).cast())
}

/// What a word says.
///
/// # Safety
///
/// - The word is the result of an acquire load from a [`Meta`] that lives as long as `'a`.
unsafe fn seen<'a>(word: *mut ()) -> Seen<'a> {
    match full_of(word) {
        // SAFETY: a tagged word is the `Arc` that `leak_extra` made, and it stays until the drop of
        // its `Meta`.
        Some(full) => Seen::Full(unsafe { full.as_ref() }),
        None => {
            let location = word.map_addr(|address| address & !TAGS).cast_const();
            // SAFETY: a word without the tag is a `&'static Location`.
            Seen::Plain(unsafe { &*location.cast::<Location<'static>>() })
        }
    }
}

impl Meta {
    #[inline]
    pub(super) fn new(
        location: &'static Location<'static>,
        extra: Option<Box<Extra>>,
        pinned: bool,
    ) -> Self {
        let pinned = if pinned { PINNED } else { 0 };
        let word = match extra {
            None => NonNull::from(location)
                .cast::<()>()
                .as_ptr()
                .map_addr(|address| address | pinned),
            Some(extra) => leak_extra(*extra, location, pinned),
        };
        Self {
            word: AtomicPtr::new(word),
            owns: PhantomData,
        }
    }

    /// The name, the place and the priority of this task for a pinned one. A change of the priority
    /// of either changes that of both, if there is room for one already.
    pub(super) fn share_pinned(&self) -> Self {
        // Ordering: Acquire as in `read`.
        let word = self.word.load(Acquire);
        if let Some(full) = full_of(word) {
            // SAFETY: a tagged word is the `Arc` that `leak_extra` made, and `self` keeps one count
            // of it.
            unsafe { Arc::increment_strong_count(full.as_ptr()) };
        }
        Self {
            word: AtomicPtr::new(word.map_addr(|address| address | PINNED)),
            owns: PhantomData,
        }
    }

    /// Whether it carries another task to its thread.
    pub(super) fn is_carrier(&self) -> bool {
        self.carries().is_some()
    }

    /// What it carries to its thread.
    pub(super) fn carries(&self) -> Option<&Carried> {
        if self.is_pinned() {
            return None;
        }
        self.carried()
    }

    fn carried(&self) -> Option<&Carried> {
        match self.read() {
            Seen::Plain(_) => None,
            Seen::Full(full) => full.carried.as_deref(),
        }
    }

    /// Whether it is the task that a carrier has taken to its thread.
    pub(super) fn is_carried(&self) -> bool {
        self.is_pinned() && self.carried().is_some()
    }

    /// Whether it is not pinned and has nothing of its own.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        // Ordering: Relaxed: what is behind the address is not looked at.
        self.word.load(Relaxed).addr() & TAGS == 0
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.word.load(Relaxed).addr() & PINNED != 0
    }

    /// Reads the word, once. Two readings may find two meanings: see the module's head.
    fn read(&self) -> Seen<'_> {
        // Ordering: Acquire pairs with the Release in `set_priority`.
        let word = self.word.load(Acquire);
        // SAFETY: it was loaded right here, and what it leads to is borrowed from `self`.
        unsafe { seen(word) }
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self.read() {
            Seen::Plain(_) => None,
            Seen::Full(full) => full.name.as_deref(),
        }
    }

    pub(super) fn location(&self) -> &'static Location<'static> {
        match self.read() {
            Seen::Plain(location) => location,
            Seen::Full(full) => full.location,
        }
    }

    pub(super) fn priority(&self) -> i64 {
        match self.read() {
            Seen::Plain(_) => DEFAULT_PRIORITY,
            Seen::Full(full) => full.priority.load(Relaxed),
        }
    }

    pub(super) fn set_priority(&self, priority: i64) {
        let before = self.word.load(Acquire);
        // SAFETY: it was loaded right here, and what it leads to is not used after this call.
        let location = match unsafe { seen(before) } {
            Seen::Full(full) => return full.priority.store(priority, Relaxed),
            Seen::Plain(_) if priority == DEFAULT_PRIORITY => return,
            Seen::Plain(location) => location,
        };
        let extra = Extra {
            priority,
            ..Extra::default()
        };
        let new = leak_extra(extra, location, before.addr() & PINNED);
        // Ordering: Release: a thread that finds the address finds what is there. Acquire: the box
        // of a faster thread is used here.
        let Err(now) = self.word.compare_exchange(before, new, Release, Acquire) else {
            return;
        };
        if let Some(new) = full_of(new) {
            // SAFETY: the `Arc` that `leak_extra` made, and no other thread has seen it.
            drop(unsafe { Arc::from_raw(new.as_ptr()) });
        }
        // SAFETY: it was loaded right here, and what it leads to is not used after this call.
        if let Seen::Full(full) = unsafe { seen(now) } {
            full.priority.store(priority, Relaxed);
        }
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        if let Some(full) = full_of(self.word.load(Acquire)) {
            // SAFETY: it is the `Arc` that `leak_extra` made, and this count of it is the word's.
            drop(unsafe { Arc::from_raw(full.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_task_has_its_place_and_no_name() {
        let here = Location::caller();
        let meta = Meta::new(here, None, false);
        assert_eq!((meta.name(), meta.location()), (None, here));
        assert!(meta.is_plain() && !meta.is_pinned());
        assert_eq!(meta.priority(), DEFAULT_PRIORITY);
    }

    #[test]
    fn a_named_task_has_both() {
        let here = Location::caller();
        let extra = Extra {
            name: Some("batch".into()),
            priority: -3,
            carried: None,
        };
        let meta = Meta::new(here, Some(Box::new(extra)), true);
        assert_eq!((meta.name(), meta.location()), (Some("batch"), here));
        assert!(!meta.is_plain() && meta.is_pinned());
        assert_eq!(meta.priority(), -3);
    }

    #[test]
    fn two_share_what_a_carrier_has() {
        let here = Location::caller();
        let extra = Extra {
            name: Some("batch".into()),
            priority: 3,
            carried: Some(Arc::default()),
        };
        let carrier = Meta::new(here, Some(Box::new(extra)), false);
        let pinned = carrier.share_pinned();
        assert!(carrier.is_carrier() && !carrier.is_pinned());
        assert!(!pinned.is_carrier() && pinned.is_pinned());
        assert!(pinned.is_carried() && !carrier.is_carried());
        carrier.set_priority(4);
        assert_eq!(pinned.priority(), 4);
        drop(carrier);
        assert_eq!((pinned.name(), pinned.location()), (Some("batch"), here));
        let plain = Meta::new(here, None, false).share_pinned();
        assert!(plain.is_pinned() && !plain.is_carrier() && !plain.is_carried());
        assert_eq!((plain.name(), plain.location()), (None, here));
    }

    #[test]
    fn a_priority_can_come_later() {
        let here = Location::caller();
        for pinned in [false, true] {
            let meta = Meta::new(here, None, pinned);
            meta.set_priority(DEFAULT_PRIORITY);
            assert_eq!(meta.is_plain(), !pinned, "the default needs no room");
            meta.set_priority(i64::MAX);
            meta.set_priority(i64::MIN);
            assert_eq!((meta.location(), meta.priority()), (here, i64::MIN));
            assert!(!meta.is_plain() && meta.is_pinned() == pinned);
            meta.set_priority(DEFAULT_PRIORITY);
            assert_eq!(meta.priority(), DEFAULT_PRIORITY);
        }
    }

    #[test]
    fn of_several_who_set_it_first_one_makes_room() {
        let here = Location::caller();
        for _ in 0..200 {
            let meta = Meta::new(here, None, false);
            std::thread::scope(|scope| {
                for priority in 1..=3 {
                    let meta = &meta;
                    scope.spawn(move || {
                        meta.set_priority(priority);
                        assert!((1..=3).contains(&meta.priority()));
                        assert_eq!(meta.location(), here);
                    });
                }
            });
            assert!((1..=3).contains(&meta.priority()));
        }
    }
}
