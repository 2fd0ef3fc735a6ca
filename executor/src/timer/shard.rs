//! The timers of one P behind a lock, and the deadline that any thread may read without it.
//!
//! A task arms its sleeps in the shard of the P that polls it. That P's thread fires what is due,
//! mostly without contention. But any thread may, so that the timers of a stuck P fire on time
//! (F6). Any thread may cancel, too: a task that moved takes its sleeps along and leaves their
//! entries where they are.
//!
//! # What each call does
//!
//! | | under the lock | outside |
//! | --- | --- | --- |
//! | arm, reset | insert; publish the next deadline if it changed | if it became earlier: tell the netpoll, whichever thread it is |
//! | poll | look whether it fired, compare or swap the waker | clone the new waker before, drop the old one after |
//! | drop | cancel; publish | drop the waker |
//! | fire | move due wakers to the caller's batch; publish | wake them (the caller) |
//! | shut down | take all wakers, note that it is over | wake them (the caller) |
//!
//! No user code runs under the lock (S8): wakers are cloned, woken and dropped outside of it.
//!
//! # A deadline is not overslept
//!
//! A thread that is about to wait in the netpoll must not miss a timer that is being armed on
//! another thread, and arming must cost no system call while no thread waits:
//!
//! ```text
//! the waiter                              the armer
//! 1. announce: "about to wait"            1. publish the next deadline
//! 2. SeqCst fence                         2. SeqCst fence
//! 3. read the deadlines of all shards     3. does anybody wait later than that? then tell it
//! 4. wait until the earliest of them
//! ```
//!
//! Each side writes, fences, and reads what the other wrote. The fences have an order: either the
//! waiter's is second and sees the deadline in step 3, or the armer's is and sees the announcement.
//! Without both fences, each could read the old value. The waiter's steps 1 and 2 are
//! `Poller::prepare`, the armer's 2 and 3 are `Netpoll::arm`, both in `ws_reactor`.
//!
//! (With *timer slack*, in `sched/wait.rs`, it waits up to 200 us longer than that.)
//!
//! If no thread waits in step 3, the armer sees to it that one will: *What is heard* in
//! `permit/env.rs`.
//!
//! Only a deadline that becomes *earlier* is told. One that becomes later (fired, cancelled) is
//! published, and a thread that already waits for the old one looks once for nothing.
//!
//! # Gone timers
//!
//! A timer that is cancelled or put off may leave its deadline at the top of the heap, and it stays
//! published: a busy thread does not pay for what nobody waits for. A flag says that there was such
//! a timer. The waiter looks at it in step 3, if this deadline is the earliest that it has seen,
//! and settles the heap under the lock. If another thread has the lock, the waiter takes what is
//! published. That is no later than any timer: the wait may only be too short.
//!
//! # Listed shards
//!
//! A runtime has a shard for each P that it ever had, and few of them have timers. So those that
//! may have some are *listed*: a bit each, in a set that a thread walks when it looks for
//! deadlines. The bit changes under the shard's lock alone:
//!
//! - A thread that arms a timer where there was none sets the bit, before the deadline is
//!   published. It stays while a thread has the P, so that one timer after the other costs one look
//!   at it.
//! - A thread walks the set. If it finds a listed shard without a deadline, and no thread has the
//!   shard's P, it takes the lock and clears the bit, if there is still none. (Any thread may arm a
//!   timer there: a sleep that was made on that P and is polled outside of the runtime.)
//!
//! Step 1 of the armer is then "set the bit, publish the deadline". An arm that finds the bit set
//! has the write of that bit before its own fence, by the lock. So if the waiter's fence comes
//! second, it sees the bit in step 3 and then the deadline. If it sees the bit cleared, the shard
//! was empty after this timer was armed: it has fired, or was cancelled.
//!
//! # After shutdown
//!
//! The heap is emptied once, and a flag under the same lock says so. Later polls see the flag and
//! panic in `Sleep`: to answer `Pending` would be to hang for ever. Later drops see it too and do
//! nothing: the keys that are still out name entries of a heap that is gone.

use std::fmt;
use std::ops::Deref;
use std::task::Waker;

use ws_reactor::Netpoll;

use crate::bit_set::BitSet;
use crate::policy::constants::FIRE_BATCH;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crate::timer::clock::Clock;
use crate::timer::heap::{Key, Look, NEVER, TimerHeap, Update};

/// A cheap reference to one shard.
#[derive(Debug, Clone)]
pub(crate) struct TimerHandle(Arc<TimerShard>);

/// What all shards of a runtime share: the clock, and the netpoll that is to be told of an earlier
/// deadline.
pub(crate) struct TimeDriver {
    netpoll: Arc<Netpoll>,
    clock: Clock,
}

/// The runtime of a timer has shut down: it will never fire.
#[derive(Debug, PartialEq, Eq)]
pub struct ShutDown;

impl ShutDown {
    /// Tells the task that waits for the timer, at its line: there is nothing it could still wait
    /// for.
    #[track_caller]
    pub(crate) fn panic(self) -> ! {
        panic!("a timer of ws::time was polled after its runtime had shut down: it can never fire")
    }
}

/// What a poll of an armed timer found.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Polled {
    /// Not yet; the given waker is registered.
    Pending,
    /// It fired, and its key was taken back.
    Elapsed,
}

/// The timers of one P.
#[derive(Debug)]
pub(crate) struct TimerShard {
    state: Mutex<State>,
    /// The heap's next deadline. Written under the lock, read by any thread; see *A deadline is not
    /// overslept* in the module's head.
    next: AtomicU64,
    /// Whether `next` may be earlier than every timer, see *Gone timers*. Written under the lock.
    unsettled: AtomicBool,
    driver: Arc<TimeDriver>,
    /// Where it is listed, and as what; see *Listed shards*. None: all threads look at it.
    list: Option<(Arc<BitSet>, usize)>,
}

#[derive(Debug, Default)]
struct State {
    heap: TimerHeap,
    shut_down: bool,
}

impl TimerHandle {
    /// Makes a reference.
    pub(crate) fn new(shard: Arc<TimerShard>) -> Self {
        Self(shard)
    }

    /// Tells whether it is of that shard.
    pub(crate) fn is_of(&self, shard: &Arc<TimerShard>) -> bool {
        Arc::ptr_eq(&self.0, shard)
    }
}

impl Deref for TimerHandle {
    type Target = TimerShard;

    fn deref(&self) -> &TimerShard {
        &self.0
    }
}

impl TimeDriver {
    /// Makes the driver of a runtime.
    pub(crate) fn new(netpoll: Arc<Netpoll>, clock: Clock) -> Self {
        Self { netpoll, clock }
    }

    /// Returns the runtime's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sees to it that a thread looks at the timers at `deadline`: one that waits in the netpoll,
    /// or one that is found by *What is heard* in `permit/env.rs`. It was published before: see *A
    /// deadline is not overslept* in the module's head.
    fn tell(&self, deadline: u64) {
        self.netpoll.arm(|| {
            // A thread cannot wait for a virtual time: an instant of the past makes it look again.
            let at = if self.clock.is_virtual() { 0 } else { deadline };
            self.clock.from_ns(at)
        });
    }
}

impl fmt::Debug for TimeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeDriver")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl TimerShard {
    /// Makes a shard without timers.
    pub(crate) fn new(driver: Arc<TimeDriver>) -> Self {
        Self {
            state: Mutex::default(),
            next: AtomicU64::new(NEVER),
            unsettled: AtomicBool::new(false),
            driver,
            list: None,
        }
    }

    /// Makes one that is looked at while its bit is set in `list`.
    pub(crate) fn listed(driver: Arc<TimeDriver>, list: Arc<BitSet>, index: usize) -> Self {
        Self {
            list: Some((list, index)),
            ..Self::new(driver)
        }
    }

    /// Takes it off the list, if no timer of it will ever fire.
    pub(crate) fn unlist_if_empty(&self) {
        let state = self.state.lock();
        if let Some((list, index)) = &self.list
            && state.heap.next_deadline() == NEVER
        {
            list.remove(*index);
        }
    }

    /// Returns the clock that deadlines of this shard are counted by.
    pub(crate) fn clock(&self) -> &Clock {
        self.driver.clock()
    }

    /// Tells whether both shards belong to the same runtime.
    pub(crate) fn is_sibling_of(&self, other: &TimerShard) -> bool {
        Arc::ptr_eq(&self.driver, &other.driver)
    }

    /// Arms a timer, and tells the netpoll if it is the earliest.
    ///
    /// # Errors
    ///
    /// Fails when the runtime has shut down.
    pub(crate) fn arm(&self, deadline: u64, waker: Waker) -> Result<Key, ShutDown> {
        let mut state = self.state.lock();
        if state.shut_down {
            // The lock first: dropping a waker is user code.
            drop(state);
            drop(waker);
            return Err(ShutDown);
        }
        let key = state.heap.insert(deadline, waker);
        let earlier = self.publish(&state.heap);
        drop(state);
        self.tell_if(earlier);
        Ok(key)
    }

    /// Looks whether an armed timer has fired; if so, takes the key back, and if not, sees to it
    /// that `waker` will be woken.
    ///
    /// # Errors
    ///
    /// Fails when the runtime has shut down. The key stays.
    ///
    /// # Panics
    ///
    /// Panics without a key.
    pub(crate) fn poll(&self, key: &mut Option<Key>, waker: &Waker) -> Result<Polled, ShutDown> {
        const ARMED: &str = "an armed timer is polled with its key";
        let mut state = self.state.lock();
        if state.shut_down {
            return Err(ShutDown);
        }
        let mut look = state.heap.look(key.as_ref().expect(ARMED), waker);
        if look == Look::OtherWaker {
            drop(state);
            let new = waker.clone();
            state = self.state.lock();
            if state.shut_down {
                drop(state);
                drop(new);
                return Err(ShutDown);
            }
            let update = state.heap.update_waker(key.as_ref().expect(ARMED), new);
            let unused = match update {
                Update::Registered(old) => {
                    look = Look::Registered;
                    old
                }
                Update::Fired(new) => {
                    look = Look::Fired;
                    new
                }
            };
            if look == Look::Fired {
                Self::take_back(&mut state.heap, key);
            }
            drop(state);
            drop(unused);
        } else if look == Look::Fired {
            Self::take_back(&mut state.heap, key);
        }
        Ok(if look == Look::Fired {
            Polled::Elapsed
        } else {
            Polled::Pending
        })
    }

    /// Tells whether an armed timer has fired.
    ///
    /// # Errors
    ///
    /// Fails when the runtime has shut down: what had fired is not known any more.
    pub(crate) fn is_fired(&self, key: &Key) -> Result<bool, ShutDown> {
        let state = self.state.lock();
        if state.shut_down {
            return Err(ShutDown);
        }
        Ok(state.heap.is_fired(key))
    }

    /// Moves an armed timer to another deadline; it keeps its waker. If it has fired already, or
    /// the runtime has shut down, the timer is gone: `None`.
    pub(crate) fn reset(&self, key: Key, deadline: u64) -> Option<Key> {
        let mut state = self.state.lock();
        if state.shut_down {
            return None;
        }
        let key = state.heap.reset(key, deadline);
        self.mark_unsettled();
        let earlier = self.publish(&state.heap);
        drop(state);
        self.tell_if(earlier);
        key
    }

    /// Ends a timer, armed or fired. It runs in destructors and never panics.
    pub(crate) fn cancel(&self, key: Key) {
        drop(self.take(key));
    }

    /// The same, for a caller that wakes its task. None if it has fired, or the runtime has shut
    /// down.
    pub(crate) fn take(&self, key: Key) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.shut_down {
            return None;
        }
        let waker = state.heap.cancel(key);
        self.mark_unsettled();
        let earlier = self.publish(&state.heap);
        debug_assert!(earlier.is_none(), "a cancel makes no deadline earlier");
        waker
    }

    /// Returns the time at which this shard wants to be looked at: no later than its earliest
    /// deadline; `None` if no timer of it will ever fire. One load.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        Some(self.published()).filter(|&next| next != NEVER)
    }

    /// Returns the next deadline if it is earlier than `other`, and else `other`. A thread that
    /// sleeps until then asks this. A timer that is gone does not count, see *Gone timers*.
    pub(crate) fn earlier_of(&self, other: u64) -> u64 {
        // Ordering: Relaxed: as in `published`.
        if self.published() < other
            && self.unsettled.load(Ordering::Relaxed)
            && let Some(mut state) = self.state.try_lock()
        {
            self.unsettled.store(false, Ordering::Relaxed);
            state.heap.settle();
            let earlier = self.publish(&state.heap);
            debug_assert!(
                earlier.is_none(),
                "a timer that is gone was no earliest one"
            );
        }
        self.published().min(other)
    }

    /// Tells whether there may be something to fire. One load.
    pub(crate) fn has_due(&self, now: u64) -> bool {
        self.next_deadline().is_some_and(|next| next <= now)
    }

    /// Fires timers that are due at `now`: adds their wakers to `batch`, earliest first. The caller
    /// wakes them, after which [`has_due`](Self::has_due) tells whether there are more. Any thread
    /// may call it.
    pub(crate) fn fire_due(&self, now: u64, batch: &mut Vec<Waker>) {
        if !self.has_due(now) {
            return;
        }
        let mut state = self.state.lock();
        state.heap.fire_due(now, batch, FIRE_BATCH);
        let earlier = self.publish(&state.heap);
        debug_assert!(earlier.is_none(), "firing makes no deadline earlier");
    }

    /// Calls `f` with the waker and the deadline of each armed timer. The lock is held meanwhile.
    pub(crate) fn for_each(&self, f: impl FnMut(&Waker, u64)) {
        self.state.lock().heap.for_each(f);
    }

    /// Ends all timers for good: adds the wakers of those that were armed to `batch`, for the
    /// caller to wake, so that each task that waits sees that it is over. Doing so again does
    /// nothing.
    pub(crate) fn shut_down(&self, batch: &mut Vec<Waker>) {
        let mut state = self.state.lock();
        state.shut_down = true;
        batch.append(&mut state.heap.take_all());
        let earlier = self.publish(&state.heap);
        debug_assert!(earlier.is_none(), "an empty heap has no deadline");
    }

    fn take_back(heap: &mut TimerHeap, key: &mut Option<Key>) {
        let nothing = key.take().and_then(|key| heap.cancel(key));
        debug_assert!(nothing.is_none(), "a fired timer has given its waker away");
    }

    fn published(&self) -> u64 {
        // Ordering: Relaxed. A thread that is about to wait has a SeqCst fence before this (*A
        // deadline is not overslept*). A thread that acts on the value takes the lock first.
        self.next.load(Ordering::Relaxed)
    }

    /// Says that the top of the heap may be a timer that is gone; the lock is held.
    fn mark_unsettled(&self) {
        // Ordering: Relaxed, as `next`. The load spares a busy cache line the write.
        if !self.unsettled.load(Ordering::Relaxed) {
            self.unsettled.store(true, Ordering::Relaxed);
        }
    }

    /// Publishes the next deadline; the lock is held. Returns it if it became earlier.
    fn publish(&self, heap: &TimerHeap) -> Option<u64> {
        let next = heap.next_deadline();
        let published = self.published();
        if next != published {
            if published == NEVER
                && let Some((list, index)) = &self.list
                && !list.contains(*index)
            {
                list.insert(*index);
            }
            // Ordering: Relaxed. The lock orders the writers; readers as in `published`.
            self.next.store(next, Ordering::Relaxed);
        }
        (next < published).then_some(next)
    }

    fn tell_if(&self, earlier: Option<u64>) {
        if let Some(deadline) = earlier {
            // After the lock was released: it may be a system call.
            self.driver.tell(deadline);
        }
    }
}

#[cfg(test)]
mod tests;
