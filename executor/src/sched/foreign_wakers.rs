//! Foreign wakers: wakers that are neither of a task nor of a root. So to wake them is to run code
//! of unknown origin, which may block.
//!
//! A look at the netpoll or at the timers brings wakers of both kinds, and so does the end of a
//! runtime. A foreign waker that blocks must not keep the others from being woken (S9), or the
//! monitor from its looks (L2). Hence:
//!
//! 1. *Tasks and roots first.* Their wake never blocks.
//! 2. *No other foreign waker in hand.* A thread that brings several foreign wakers puts them into
//!    a list of the runtime, and takes them out one at a time, as any other thread may. If one
//!    blocks, the rest is in the list.
//! 3. *Somebody sees to the list.* If nothing was taken from it for a while, one more thread in the
//!    background starts to take.
//!
//! | brings them | wakes them | sees to the list |
//! | --- | --- | --- |
//! | a step or a wait of a worker | itself, and what others have left in the list, as code of the user's | the monitor |
//! | the monitor | a thread in the background at once | the monitor |
//! | a thread that closes a socket, or wakes what waits for it | itself | the monitor |
//! | the same where there is no monitor, or the runtime ends; and the end | threads in the background | itself, until the list is empty |
//!
//! A lone foreign waker does not come into the list, but for those of the monitor and of the end,
//! which go on to others behind it. Where the system refuses a thread, and with the clock of a
//! driver, the thread that sees to the list takes from it itself.
//!
//! *Known gap*: without a monitor, what a worker has left in the list waits for the next worker
//! that brings a foreign waker.
//!
//! # The monitor does not oversleep
//!
//! It sleeps for good only while all permits are free, after a look at the list. A thread that puts
//! foreign wakers there looks at the permits afterwards, and wakes the monitor if all are free. The
//! look and the entry are under one lock. So if the look missed the entry, this thread sees the
//! permits as the monitor did, or a later state of them. If that is a later state, a permit has
//! been taken, and the thread that took it has woken the monitor.
//!
//! # Rejected
//!
//! - A task for each foreign waker, or for the rest of a batch. A `FuturesUnordered` has a foreign
//!   waker for each of its futures: a batch with a few of them would wake a thread each time.
//! - Threads of the runtime for what the monitor brings. All permits may be held by polls that
//!   compute, for a slice of 10 ms.
//!
//! Checked by `tests/liveness/a_waker_that_blocks_holds_up_nobody.rs` and
//! `tests/whole/a_waker_that_blocks_holds_up_no_socket.rs`.

use std::{iter, task::Waker, time::Duration};

use super::{Shared, Worker, root::is_of_a_root};
use crate::{
    cell::{task_of, wake_quietly},
    permit::phase::ShutdownEnv,
    policy::constants::LIST_WAIT,
    sync::Arc,
};

/// What the monitor saw of the list: how many were taken by when, if some were left.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<(u64, u64)>);

impl Watch {
    /// A look at `now`, in nanoseconds. Whether some are left.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>, now: u64) -> bool {
        let Some(taken) = shared.io.foreign_wakers.taken() else {
            self.0 = None;
            return false;
        };
        match self.0 {
            Some((before, since)) if before == taken => {
                if Duration::from_nanos(now.saturating_sub(since)) >= LIST_WAIT {
                    self.0 = Some((taken, now));
                    shared.wake_foreign_in_the_background();
                }
            }
            _ => self.0 = Some((taken, now)),
        }
        true
    }
}

/// Wakes those that are of tasks or roots, and returns the foreign wakers.
fn wake_tasks(wakers: impl Iterator<Item = Waker>) -> Vec<Waker> {
    let mut foreign_wakers = Vec::new();
    wakers.for_each(|waker| wake_task(waker, &mut foreign_wakers));
    foreign_wakers
}

/// Wakes a waker that is of a task or a root; any other comes to the foreign wakers.
#[inline]
pub(crate) fn wake_task(waker: Waker, foreign_wakers: &mut Vec<Waker>) {
    if task_of(&waker).is_some() || is_of_a_root(&waker) {
        wake_quietly(waker);
    } else {
        foreign_wakers.push(waker);
    }
}

impl Shared {
    /// Wakes all, on a thread that is in a poll, or is no worker.
    pub(crate) fn wake_all(&self, wakers: Vec<Waker>) {
        let mut foreign_wakers = wake_tasks(wakers.into_iter()).into_iter();
        // The end goes on behind this with others that wait.
        let in_background =
            self.end.phase.is_ending() || (!self.is_monitored() && foreign_wakers.len() > 1);
        if in_background && !self.has_a_drivers_clock() {
            self.io.foreign_wakers.put(foreign_wakers);
            self.see_to_foreign_wakers();
        } else {
            for waker in self.one_at_a_time(&mut foreign_wakers) {
                wake_quietly(waker);
            }
        }
    }

    /// The first one, the others through the list, and what others have left there.
    fn one_at_a_time(
        &self,
        foreign_wakers: &mut impl ExactSizeIterator<Item = Waker>,
    ) -> impl Iterator<Item = Waker> {
        let mut first = foreign_wakers.next();
        if foreign_wakers.len() > 0 {
            self.io.foreign_wakers.put(foreign_wakers);
            if self.idle.free() == self.idle.workers() {
                self.idle.monitor().unpark(|| ());
            }
        }
        iter::from_fn(move || first.take().or_else(|| self.io.foreign_wakers.take()))
    }

    /// For the monitor, which wakes no foreign waker itself.
    pub(crate) fn wake_from_monitor(self: &Arc<Self>, wakers: impl Iterator<Item = Waker>) {
        let foreign_wakers = wake_tasks(wakers);
        if !foreign_wakers.is_empty() {
            self.io.foreign_wakers.put(foreign_wakers.into_iter());
            self.wake_foreign_in_the_background();
        }
    }

    /// Returns when the list is empty.
    fn see_to_foreign_wakers(&self) {
        let shared = self.strong();
        let mut before = None;
        while let Some(taken) = self.io.foreign_wakers.taken() {
            let last = before.replace(taken);
            if last.is_none_or(|last| last == taken) {
                shared.wake_foreign_in_the_background();
            }
            self.io.foreign_wakers.wait();
        }
    }

    /// One more thread takes from the list until it is empty: one in the background, if it can be
    /// had.
    fn wake_foreign_in_the_background(self: &Arc<Self>) {
        let in_background = !self.has_a_drivers_clock()
            && self.in_the_background("wake", |shared| {
                shared.wake_foreign();
                shared.join_the_one_before();
            });
        if !in_background {
            self.wake_foreign();
        }
    }

    fn wake_foreign(&self) {
        iter::from_fn(|| self.io.foreign_wakers.take()).for_each(wake_quietly);
    }

    fn has_a_drivers_clock(&self) -> bool {
        self.time.clock().is_virtual()
    }
}

impl Worker {
    /// Wakes what a step or a wait brought that is not of a task.
    #[cold]
    pub(crate) fn wake_foreign(&self, foreign_wakers: Vec<Waker>) {
        let mut foreign_wakers = foreign_wakers.into_iter();
        let shared = self.shared();
        self.batch(shared.one_at_a_time(&mut foreign_wakers), |waker| {
            self.enter_user_code(|| wake_quietly(waker));
        });
    }
}
