//! The timers of one P: which waker to wake, and when, earliest first.
//!
//! # Shape
//!
//! ```text
//! nodes   a 4-ary heap, 16 bytes a node      [deadline u64 | order u32 | slot u32]
//! slots   a slab, one entry for each node    Armed { waker, deadline, order } | Fired | Dead
//! ```
//!
//! The heap compares nodes alone: the four children of a node lie side by side, so that a step down
//! costs one or two cache lines and no visit to the slab. Nodes do not tell their entries where
//! they are. That is what makes a sift cheap, and it is why two operations do not touch the heap:
//!
//! - **Cancel** takes the waker and marks the entry `Dead`; its node stays until it comes to the
//!   top or until the dead are swept. Only the node at the very end, which is where a timer that
//!   was armed a moment ago mostly is, leaves at once.
//! - **Reset to a later deadline** writes the new deadline into the entry; the node moves when it
//!   comes to the top. (Reset to an earlier deadline is a cancel and an insert.)
//!
//! `order` counts armings and resets, so that equal deadlines fire in the order in which they were
//! set. It wraps after 2^32 of them. Then two timers of one nanosecond with the wrap between them
//! fire the other way round, and that is all that happens.
//!
//! # Invariants
//!
//! 1. Each `Armed` or `Dead` entry has exactly one node, and a `Fired` one has none. A slot is
//!    given back only when no node and no [`Key`] is left. So a stale key or node cannot exist, and
//!    no generation is needed to recognise one.
//! 2. A node is never later than its entry. So a top that agrees with its entry ("settled") is the
//!    earliest timer of all.
//! 3. At most [`DEAD_KEPT`] entries are dead, or no more than are armed. A thread that makes it one
//!    more sweeps the heap. A sweep is linear and pays for itself: half of what it visits goes.
//!
//! The top may be dead, or put off. A thread that is about to sleep until its deadline [settles](
//! TimerHeap::settle) it first, so that an idle runtime is not woken for a timer that is gone. A
//! busy one does not pay for that at each cancel: a timer that comes and goes is never in the way
//! of the others.
//!
//! # What it costs, and what else was tried
//!
//! Nanoseconds for each timer, on one thread of an EPYC with 1 MiB of L2, without the lock; the
//! best of seven runs each, beside two heaps that remove a cancelled node at once (for that each
//! entry must know where its node is):
//!
//! | | this heap | 4-ary, at once | the same, four nodes to a cache line |
//! | --- | --- | --- | --- |
//! | 10,000 live: cancel one, arm one | 37 | 33 | 31 |
//! | a million, ascending: arm | 39 | 40 | 41 |
//! | ... and cancel in that order | 21 | 106 | 83 |
//! | ... or in a random order | 63 | 134 | 96 |
//! | a million at random deadlines: fire | 300 | 411 | 303 |
//!
//! Most timers are timeouts, and most timeouts are cancelled, many at once when many connections
//! end; that is where the cancel without a sift wins. Its price is a sweep of some milliseconds now
//! and then at a million timers, and twice the memory at worst. Go's timers are a 4-ary heap with
//! the deadline beside the pointer and lazy deletion for the same reasons (`src/runtime/time.go`,
//! "zombies").
//!
//! A `sleep` of a minute that is boxed, polled once and dropped takes 880 to 940 instructions,
//! alone or beside 1, 16, 32, 1,000 or 10,000 others; tokio's takes 940 to 950 (by valgrind). A
//! fifth of its time is in the clock; the rest are the box, the lock, twice, the waker, the
//! reference to the shard, and the word to the netpoll. The top was once settled at each cancel
//! while there were few timers. The timeouts of a service all have the same length, so the one that
//! is cancelled is mostly the top: that cost 1,263 instructions beside 32 others.
//!
//! A hashed wheel arms and cancels in a few nanoseconds as well, but knows deadlines only to its
//! tick. A tick of a millisecond would be ten times the lateness that is wanted here. A much finer
//! one cascades each long timer through more levels. A thread needs the next deadline before it
//! sleeps, and that is a search over the levels rather than the top of an array.
//!
//! Checked by `agrees_with_a_sorted_map` below, against a `BTreeMap`.

use std::mem;
use std::task::Waker;

use slab::Slab;

use crate::policy::constants::{DEAD_KEPT, KEPT_CAPACITY};

/// The deadline of a timer that never fires, and the next deadline of a heap without timers.
pub(crate) const NEVER: u64 = u64::MAX;

/// Owns one entry of a heap, armed or fired; [`TimerHeap::cancel`] takes it back.
///
/// Not `Copy` and not `Clone`: a key that could outlive its entry would name another timer.
#[derive(Debug)]
#[must_use]
pub(crate) struct Key(u32);

/// Where a timer stands, from the view of a task that polls it; see [`TimerHeap::look`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The timer has fired.
    Fired,
    /// It has not, and it will wake the waker that was asked about.
    Registered,
    /// It has not, and it would wake another one.
    OtherWaker,
}

/// The outcome of [`TimerHeap::update_waker`]. Either way, a waker to drop outside the lock.
#[derive(Debug)]
#[must_use]
pub(crate) enum Update {
    /// The timer will wake the new waker; here is the old one.
    Registered(Waker),
    /// The timer has fired already; here is the new one back.
    Fired(Waker),
}

/// A 4-ary min-heap of wakers by deadline, with lazy deletion. Deadlines are nanoseconds of some
/// clock that only the caller knows.
///
/// It has no lock, runs no user code (S8: wakers go in and out by value) and never reads a clock.
#[derive(Debug, Default)]
pub(crate) struct TimerHeap {
    nodes: Vec<Node>,
    slots: Slab<Entry>,
    /// Counts armings and resets.
    order: u32,
    /// How many entries are `Dead`.
    dead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    deadline: u64,
    order: u32,
    slot: u32,
}

#[derive(Debug)]
enum Entry {
    /// Waits for its deadline, which its node may precede.
    Armed {
        waker: Waker,
        deadline: u64,
        order: u32,
    },
    /// Its waker was handed out; the owner of the key has not looked yet.
    Fired,
    /// Cancelled; the slot is given back with the node.
    Dead,
}

/// What one step of settling found at the top.
enum Step {
    Empty,
    /// The top was dead or postponed, and something else is there now.
    Settling,
    Live(Node),
}

impl Node {
    /// The sort key as one number, so that a comparison has no branches.
    fn rank(self) -> u128 {
        u128::from(self.deadline) << 64 | u128::from(self.order) << 32 | u128::from(self.slot)
    }
}

impl TimerHeap {
    /// Arms a timer.
    pub(crate) fn insert(&mut self, deadline: u64, waker: Waker) -> Key {
        let order = self.next_order();
        let slot = self.slots.insert(Entry::Armed {
            waker,
            deadline,
            order,
        });
        // 2^32 entries would be 192 GB of timers on one P.
        let slot = u32::try_from(slot).expect("fewer than 2^32 timers on one processor");
        let node = Node {
            deadline,
            order,
            slot,
        };
        self.nodes.push(node);
        self.sift_up(self.nodes.len() - 1, node);
        Key(slot)
    }

    /// Tells whether the timer has fired, and if not, whether it would wake `waker`.
    pub(crate) fn look(&self, key: &Key, waker: &Waker) -> Look {
        match &self.slots[key.0 as usize] {
            Entry::Armed {
                waker: registered, ..
            } if registered.will_wake(waker) => Look::Registered,
            Entry::Armed { .. } => Look::OtherWaker,
            Entry::Fired => Look::Fired,
            Entry::Dead => unreachable!("a dead entry has no key"),
        }
    }

    /// Tells whether the timer has fired.
    pub(crate) fn is_fired(&self, key: &Key) -> bool {
        matches!(self.slots[key.0 as usize], Entry::Fired)
    }

    /// Has the timer wake `new` instead of the waker that it was armed with.
    pub(crate) fn update_waker(&mut self, key: &Key, new: Waker) -> Update {
        match &mut self.slots[key.0 as usize] {
            Entry::Armed { waker, .. } => Update::Registered(mem::replace(waker, new)),
            Entry::Fired => Update::Fired(new),
            Entry::Dead => unreachable!("a dead entry has no key"),
        }
    }

    /// Moves an armed timer to another deadline; it keeps its waker. A fired one stays fired, and
    /// its entry is given back: `None`.
    pub(crate) fn reset(&mut self, key: Key, new: u64) -> Option<Key> {
        let new_order = self.next_order();
        let Entry::Armed {
            deadline, order, ..
        } = &mut self.slots[key.0 as usize]
        else {
            let nothing = self.cancel(key);
            debug_assert!(nothing.is_none(), "only an armed entry holds a waker");
            return None;
        };
        // Later than the entry is later than the node as well (invariant 2). The order is part of
        // the comparison, or a reset to the same deadline just after `order` wrapped would break
        // it.
        if (new, new_order) > (*deadline, *order) {
            (*deadline, *order) = (new, new_order);
            return Some(key);
        }
        let waker = self.cancel(key).expect("an armed entry holds a waker");
        Some(self.insert(new, waker))
    }

    /// Ends the timer and takes its entry back. The waker, if it was still armed, is to be dropped
    /// outside the lock.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<Waker> {
        let slot = key.0 as usize;
        let is_last = self.nodes.last().is_some_and(|last| last.slot == key.0);
        let entry = if is_last {
            self.nodes.pop();
            self.slots.remove(slot)
        } else if self.is_fired(&key) {
            self.slots.remove(slot)
        } else {
            self.dead += 1;
            mem::replace(&mut self.slots[slot], Entry::Dead)
        };
        self.tidy();
        match entry {
            Entry::Armed { waker, .. } => Some(waker),
            Entry::Fired => None,
            Entry::Dead => unreachable!("a dead entry has no key"),
        }
    }

    /// Returns the deadline at which to look next: never later than that of the earliest timer, and
    /// equal to it after [`settle`](Self::settle). [`NEVER`] without timers.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.nodes.first().map_or(NEVER, |top| top.deadline)
    }

    /// Fires what is due at `now`, earliest first: moves the wakers to `into`.
    ///
    /// It stops after `limit` nodes, dead ones included, so that no thread waits long for the lock.
    /// What is left shows in [`next_deadline`](Self::next_deadline), which then is still due.
    pub(crate) fn fire_due(&mut self, now: u64, into: &mut Vec<Waker>, limit: usize) {
        for _ in 0..limit {
            match self.settle_step() {
                Step::Settling => {}
                Step::Live(top) if top.deadline <= now && top.deadline != NEVER => {
                    let entry = &mut self.slots[top.slot as usize];
                    match mem::replace(entry, Entry::Fired) {
                        Entry::Armed { waker, .. } => into.push(waker),
                        Entry::Fired | Entry::Dead => unreachable!("a settled top is armed"),
                    }
                    self.remove_top();
                }
                Step::Live(_) | Step::Empty => break,
            }
        }
        self.tidy();
    }

    /// Calls `f` with the waker and the deadline of each armed timer.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Waker, u64)) {
        for (_, entry) in &self.slots {
            if let Entry::Armed {
                waker, deadline, ..
            } = entry
            {
                f(waker, *deadline);
            }
        }
    }

    /// Hands out the wakers of all armed timers, in no particular order, and forgets the rest. The
    /// keys that are still out become meaningless: the caller sees to it that none is used.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        let entries = mem::take(self).slots;
        let wakers = entries.into_iter().filter_map(|(_, entry)| match entry {
            Entry::Armed { waker, .. } => Some(waker),
            Entry::Fired | Entry::Dead => None,
        });
        wakers.collect()
    }

    fn next_order(&mut self) -> u32 {
        self.order = self.order.wrapping_add(1);
        self.order
    }

    /// Removes dead nodes from the top, and moves those that were put off.
    pub(crate) fn settle(&mut self) {
        while let Step::Settling = self.settle_step() {}
        self.tidy();
    }

    /// Keeps the third invariant after an operation, and gives the memory of a burst back when its
    /// last timer is gone.
    #[inline]
    fn tidy(&mut self) {
        if self.dead > DEAD_KEPT && self.dead * 2 > self.nodes.len() {
            self.sweep();
        }
        if self.slots.is_empty() && self.slots.capacity() > KEPT_CAPACITY {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        self.slots = Slab::new();
        self.nodes = Vec::new();
    }

    /// Looks at the top: removes a dead node, moves a postponed one to where it belongs.
    #[inline]
    fn settle_step(&mut self) -> Step {
        let Some(&top) = self.nodes.first() else {
            return Step::Empty;
        };
        let slot = top.slot as usize;
        match self.slots[slot] {
            Entry::Armed {
                deadline, order, ..
            } if (deadline, order) == (top.deadline, top.order) => {
                return Step::Live(top);
            }
            Entry::Armed {
                deadline, order, ..
            } => {
                self.sift_down(
                    0,
                    Node {
                        deadline,
                        order,
                        slot: top.slot,
                    },
                );
            }
            Entry::Dead => {
                self.slots.remove(slot);
                self.dead -= 1;
                self.remove_top();
            }
            Entry::Fired => unreachable!("a fired entry has no node"),
        }
        Step::Settling
    }

    /// Removes all dead nodes, moves the postponed ones, and makes a heap of what is left: all of
    /// it is settled.
    #[inline(never)]
    fn sweep(&mut self) {
        let slots = &mut self.slots;
        self.nodes
            .retain_mut(|node| match slots[node.slot as usize] {
                Entry::Armed {
                    deadline, order, ..
                } => {
                    (node.deadline, node.order) = (deadline, order);
                    true
                }
                Entry::Dead => {
                    slots.remove(node.slot as usize);
                    false
                }
                Entry::Fired => unreachable!("a fired entry has no node"),
            });
        self.dead = 0;
        // Bottom up, from the last node that has a child. Timers of one duration are in order
        // already, and nothing moves.
        for place in (0..(self.nodes.len() + 2) / 4).rev() {
            self.sift_down(place, self.nodes[place]);
        }
    }

    fn remove_top(&mut self) {
        if let Some(last) = self.nodes.pop()
            && !self.nodes.is_empty()
        {
            self.sift_down(0, last);
        }
    }

    /// Puts `node` at `place` or above. What was at `place` is overwritten.
    fn sift_up(&mut self, mut place: usize, node: Node) {
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.nodes[parent].rank() <= node.rank() {
                break;
            }
            self.nodes[place] = self.nodes[parent];
            place = parent;
        }
        self.nodes[place] = node;
    }

    /// Puts `node` at `place` or below. What was at `place` is overwritten.
    fn sift_down(&mut self, mut place: usize, node: Node) {
        loop {
            let first = 4 * place + 1;
            let end = self.nodes.len().min(first + 4);
            let Some(children) = self.nodes.get(first..end) else {
                break;
            };
            let mut least = first;
            let mut rank = u128::MAX;
            for (i, child) in children.iter().enumerate() {
                if child.rank() < rank {
                    (least, rank) = (first + i, child.rank());
                }
            }
            if node.rank() <= rank {
                break;
            }
            self.nodes[place] = self.nodes[least];
            place = least;
        }
        self.nodes[place] = node;
    }
}

#[cfg(test)]
mod tests;
