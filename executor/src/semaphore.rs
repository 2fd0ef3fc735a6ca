//! *The limit*: how many calls of `spawn_blocking` may run at once. A semaphore that is fair and
//! keeps wakers; what it is for is in `blocking.rs`.

use std::{
    cmp,
    collections::BTreeMap,
    task::{Poll, Waker},
};

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many closures of `spawn_blocking` may run at once, and the calls that wait for a place, in
/// order.
#[derive(Debug)]
pub(crate) struct Semaphore {
    state: Mutex<SemaphoreState>,
    /// Calls that have not begun.
    calls: AtomicUsize,
}

#[derive(Debug)]
struct SemaphoreState {
    free: usize,
    /// The tickets of the calls that wait. A ticket that is gone from here has been given a place.
    /// A map, since any of them may be given up, and all at once: searched one by one, n jobs that
    /// are aborted would cost n² / 2 steps under the lock.
    waiting: BTreeMap<Ticket, Waker>,
    next_ticket: u64,
}

/// A place in the queue: the lowest is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Ord for Ticket {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ticket {}

impl Semaphore {
    pub(crate) fn new(places: usize) -> Self {
        let state = SemaphoreState {
            free: places,
            waiting: BTreeMap::new(),
            next_ticket: 0,
        };
        Self {
            state: Mutex::new(state),
            calls: AtomicUsize::new(0),
        }
    }

    /// How many calls have not begun, or had not a moment ago.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }

    /// A call is there that has not begun.
    pub(crate) fn add_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// It begins, or will not.
    pub(crate) fn remove_call(&self) {
        self.calls.fetch_sub(1, Relaxed);
    }

    /// Takes a place, or a ticket.
    pub(crate) fn poll_enter(&self, ticket: &mut Option<Ticket>, waker: Waker) -> Poll<()> {
        let mut state = self.state.lock();
        match *ticket {
            None if state.free > 0 => {
                state.free -= 1;
                Poll::Ready(())
            }
            None => {
                let new = Ticket(state.next_ticket);
                state.next_ticket += 1;
                state.waiting.insert(new, waker);
                *ticket = Some(new);
                Poll::Pending
            }
            Some(own) => match state.waiting.get_mut(&own) {
                Some(entry) => {
                    let stale = std::mem::replace(entry, waker);
                    drop(state);
                    drop(stale);
                    Poll::Pending
                }
                None => {
                    *ticket = None;
                    Poll::Ready(())
                }
            },
        }
    }

    /// Gives a place up: to the call that has waited longest, if one waits.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        let next = state.waiting.pop_first();
        if next.is_none() {
            state.free += 1;
        }
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    /// Gives a ticket up, or the place that it was given already.
    pub(crate) fn give_up(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        let entry = state.waiting.remove(&ticket);
        drop(state);
        if entry.is_none() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Comparisons of tickets on this thread.
        pub(super) static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// Last in, first out: the worst order for a search from the front.
    #[test]
    fn to_give_up_many_tickets_takes_few_steps() {
        const MANY: u64 = 4096;
        let room = Semaphore::new(0);
        let mut tickets: Vec<_> = (0..MANY)
            .map(|_| {
                let mut ticket = None;
                assert!(
                    room.poll_enter(&mut ticket, Waker::noop().clone())
                        .is_pending()
                );
                ticket
            })
            .collect();
        for ticket in &mut tickets {
            assert!(room.poll_enter(ticket, Waker::noop().clone()).is_pending());
        }
        for ticket in tickets.into_iter().rev() {
            room.give_up(ticket.expect("it waits"));
        }
        assert!(room.state.lock().waiting.is_empty());
        // A hundred for each of the three rounds; one by one it were some 16 millions.
        let compared = COMPARED.get();
        assert!(compared < MANY * 300, "{compared}");
    }

    #[derive(Default)]
    struct Flag(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    /// Fails if the first waker of a ticket is kept.
    #[test]
    fn the_last_waker_of_a_ticket_is_woken() {
        let room = Semaphore::new(0);
        let mut ticket = None;
        let flag = std::sync::Arc::new(Flag::default());
        for waker in [Waker::noop().clone(), Waker::from(flag.clone())] {
            assert!(room.poll_enter(&mut ticket, waker).is_pending());
        }
        room.leave();
        assert!(flag.0.load(Relaxed));
    }

    /// Fails if the last one to come is the first.
    #[test]
    fn places_go_in_the_order_of_the_tickets() {
        let room = Semaphore::new(0);
        let mut tickets = [None, None, None];
        for ticket in &mut tickets {
            assert!(room.poll_enter(ticket, Waker::noop().clone()).is_pending());
        }
        for ended in 1..=3 {
            room.leave();
            let enters = |ticket: &mut Option<Ticket>| {
                ticket.is_some() && room.poll_enter(ticket, Waker::noop().clone()).is_ready()
            };
            let entered: Vec<_> = tickets.iter_mut().map(enters).collect();
            let expected: Vec<_> = (1..=3).map(|n| n == ended).collect();
            assert_eq!(entered, expected);
        }
    }
}
