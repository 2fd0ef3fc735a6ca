//! The waiters of a direction of a source: one caller of poll functions, and any number of futures.
//!
//! # Two kinds
//!
//! - **A caller of poll functions** comes by with a [`Context`](std::task::Context) and leaves
//!   nothing behind that would tell when it lost interest. One waker is kept, that of the last
//!   call, until the next edge takes it.
//! - **Futures** own their entry, replace it when they are polled with another waker, and remove it
//!   when they are dropped. There is an entry for each future that waits, and no other.
//!
//! They are kept apart, because a future that leaves must not take along the waker on which a poll
//! function of the same task relies.
//!
//! # Why one waker for all poll functions
//!
//! The set is bounded by what waits now. A set that keeps every waker of every poll grows by one
//! with each `block_on` and each child of a `FuturesUnordered` that gave up, until the next edge.
//! That may never come, and each poll searches the set. The price: two tasks that poll the same
//! direction by poll functions steal the wake-up from each other. The poll functions say so, and
//! their futures do not have this limit.
//!
//! An edge wakes all waiters: one of them gets the data, the others come back. That is right for a
//! few tasks. Of many tasks that share a listener, all but one wake for nothing; give each a
//! listener of its own.
//!
//! # Invariant: no waker is cloned, woken or dropped under the lock
//!
//! A set lives inside the lock of its source, and wakers are user code (S8). So each method takes
//! a waker that its caller cloned before, and hands back whatever falls out, to be woken or dropped
//! once the lock is free.
//!
//! # Keys
//!
//! An edge empties the set, so a future's key may outlive its entry, and the index may have been
//! given to another. The epoch tells: it grows with every edge that takes a future's entry, and a
//! key of an older epoch has nothing in the set.

use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

use slab::Slab;

/// The waiters of one direction. Lock required: that of the source.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    /// The last caller of a poll function.
    polled: Option<Waker>,
    /// The futures, from when there was one. Apart, so that all that most sources use of both
    /// directions is beside their readiness, in 80 bytes on a 64-bit machine. These are mostly in
    /// two cache lines: of a server's thousands they are seldom in a cache when an edge comes.
    futures: Option<Box<Futures>>,
}

#[derive(Debug, Default)]
struct Futures {
    /// By [`Key::index`].
    wakers: Slab<Waker>,
    /// How often the set was emptied of futures.
    epoch: u64,
}

/// A future's place in a [`WakerSet`].
#[derive(Debug)]
pub(crate) struct Key {
    epoch: u64,
    index: usize,
}

impl WakerSet {
    /// Keeps the waker of a poll function, in the place of the one before, which comes back.
    #[inline]
    #[must_use = "what comes back is dropped after the lock is released"]
    pub(crate) fn keep(&mut self, waker: Waker) -> Option<Waker> {
        self.polled.replace(waker)
    }

    /// Keeps the waker of a future at its key. Gives back the one that was there.
    #[must_use = "what comes back is dropped after the lock is released"]
    pub(crate) fn keep_at(&mut self, key: &mut Option<Key>, waker: Waker) -> Option<Waker> {
        self.futures.get_or_insert_default().keep_at(key, waker)
    }

    /// Removes the waker of a future that leaves, if it is still there.
    #[must_use = "what comes back is dropped after the lock is released"]
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Waker> {
        let futures = self.futures.as_mut()?;
        (key.epoch == futures.epoch).then(|| futures.wakers.remove(key.index))
    }

    /// Calls `f` with each of them.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(&Waker)) {
        let futures = self.futures.iter().flat_map(|futures| &futures.wakers);
        let futures = futures.map(|(_, waker)| waker);
        self.polled.iter().chain(futures).for_each(f);
    }

    /// Moves all of them out, for an edge.
    ///
    /// An edge comes for each request of a server, and mostly finds one caller of a poll function
    /// or none.
    #[inline]
    pub(crate) fn take_into(&mut self, ready: &mut Vec<Waker>) {
        if let Some(polled) = self.polled.take() {
            ready.push(polled);
        }
        if let Some(futures) = &mut self.futures {
            futures.take_into(ready);
        }
    }
}

impl Futures {
    fn keep_at(&mut self, key: &mut Option<Key>, waker: Waker) -> Option<Waker> {
        if let Some(Key { epoch, index }) = *key
            && epoch == self.epoch
        {
            let kept = self.wakers.get_mut(index);
            let kept = kept.expect("an entry of this epoch stays until its future removes it");
            return Some(std::mem::replace(kept, waker));
        }
        *key = Some(Key {
            epoch: self.epoch,
            index: self.wakers.insert(waker),
        });
        None
    }

    fn take_into(&mut self, ready: &mut Vec<Waker>) {
        if !self.wakers.is_empty() {
            self.epoch += 1;
            ready.extend(self.wakers.drain());
        }
    }
}

/// Wakes all of them, also if one panics.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        quietly(|| waker.wake());
    }
}

/// Runs code of the user's. A panic of that is told by the panic hook, and goes no further. The
/// caller may be a drop while a thread unwinds, where a second panic ends the process. So may be
/// the drop of the panic's payload.
pub(crate) fn quietly(f: impl FnOnce()) {
    let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) else {
        return;
    };
    if let Err(another) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(another);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counter() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    fn edge(set: &mut WakerSet) -> usize {
        let mut ready = Vec::new();
        set.take_into(&mut ready);
        let taken = ready.len();
        wake_all(ready);
        taken
    }

    // Fails if each waker is kept: if its edge never comes, a source would collect them without
    // bound.
    #[test]
    fn the_last_caller_of_a_poll_function_is_kept() {
        let mut set = WakerSet::default();
        let (a, wake_a) = counter();
        let (b, wake_b) = counter();
        for _ in 0..3 {
            drop(set.keep(wake_a.clone()));
            drop(set.keep(wake_b.clone()));
        }
        assert_eq!(edge(&mut set), 1);
        assert_eq!(a.0.load(Ordering::Relaxed), 0);
        assert_eq!(b.0.load(Ordering::Relaxed), 1);
        assert_eq!(edge(&mut set), 0);
    }

    // Fails if futures and callers share their entries.
    #[test]
    fn a_future_that_leaves_takes_only_its_own_waker() {
        let mut set = WakerSet::default();
        let (count, wake) = counter();
        let mut key = None;
        assert!(set.keep_at(&mut key, wake.clone()).is_none());
        assert!(set.keep(wake.clone()).is_none());
        assert!(set.remove(&key.unwrap()).is_some());
        assert_eq!(edge(&mut set), 1);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    // Fails without the comparison of epochs.
    #[test]
    fn a_key_from_before_an_edge_is_nobodys() {
        let mut set = WakerSet::default();
        let (_, wake_old) = counter();
        let (new, wake_new) = counter();
        let (mut old_key, mut new_key) = (None, None);
        assert!(set.keep_at(&mut old_key, wake_old).is_none());
        assert_eq!(edge(&mut set), 1);
        assert!(set.keep_at(&mut new_key, wake_new).is_none());
        assert!(set.remove(&old_key.unwrap()).is_none());
        assert_eq!(edge(&mut set), 1);
        assert_eq!(new.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_future_with_a_new_waker_replaces_its_old_one() {
        let mut set = WakerSet::default();
        let (old, wake_old) = counter();
        let (new, wake_new) = counter();
        let mut key = None;
        assert!(set.keep_at(&mut key, wake_old).is_none());
        assert!(set.keep_at(&mut key, wake_new).is_some());
        assert_eq!(edge(&mut set), 1);
        assert_eq!(old.0.load(Ordering::Relaxed), 0);
        assert_eq!(new.0.load(Ordering::Relaxed), 1);
    }

    // Fails if `wake_all` is a plain loop, and if a payload is dropped outside of a catch.
    #[test]
    fn a_waker_that_panics_keeps_nobody_from_being_woken() {
        struct Payload;
        impl Drop for Payload {
            fn drop(&mut self) {
                panic::resume_unwind(Box::new("boom"));
            }
        }
        struct Bomb;
        impl Wake for Bomb {
            fn wake(self: Arc<Self>) {
                panic::resume_unwind(Box::new(Payload));
            }
        }
        let (count, wake) = counter();
        let bombs = [(); 2].map(|()| Waker::from(Arc::new(Bomb)));
        let mut wakers = Vec::from(bombs);
        wakers.push(wake);
        wake_all(wakers);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
