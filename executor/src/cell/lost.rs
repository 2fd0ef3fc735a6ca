//! Tasks that can never wake: *lost tasks*.
//!
//! An idle task is polled again when one of its wakers wakes it. The task's state word counts its
//! wakers (*Wakers* in `state.rs`). So an idle task without a waker is lost: it is in no
//! socket, no timer, no channel and no other library's list, and nothing can make a new waker of
//! it, since a waker is made in a poll of the task, or from another waker. All that can still
//! happen to it is an abort, or the end of the runtime.
//!
//! A task that waits for another one's handle is lost with that task: its waker is in that task's
//! slot for a joiner, and is woken only if that task ends. If tasks wait for each other's handles
//! in a ring, each has a waker, and all are lost. But an abort ends a task, and wakes the task that
//! waits for it. So no task is lost together with one that has an abort handle. The handle that is
//! waited for could abort as well. But the task that has it sleeps. Another task could use the
//! handle only if it is in a lock that both use, and that is not reckoned with.
//!
//! # How they are found
//!
//! 1. Of every live task, in this order: how often its handle was registered, and which joiner is
//!    in its slot. Then, when all of these are read: how often it was polled, and its state word.
//! 2. Of every task once more, in the opposite order: the word, the polls, the registrations. If
//!    anything has changed, the task is not lost.
//! 3. Of those that are idle and have not changed, remove each that has a waker outside: count its
//!    wakers, and the joiner slots of the remaining tasks that hold one of them. If there are more
//!    wakers than slots, remove the task. Repeat until none is removed. The rest are lost.
//!
//! # Why there is no false report
//!
//! Let T be a moment between step 1 and step 2.
//!
//! - *No task of the rest was polled* from its first word to its second. It was idle at both, and a
//!   poll would have counted: the count is written before the poll, and the word that shows the
//!   task idle again is written after.
//! - *The slots of the rest did not change* from where they were read, before all words, to the
//!   second word of their task. A registration counts, after the slot is written and before the bit
//!   is set that says that the slot is full; the bit was set at both words. The end of a task and
//!   the drop of its handle change the word for good.
//! - *So no task of the rest had a waker outside at T.* Say that one had. No poll of it has made
//!   that waker since its first word, and no waker in a slot can be cloned there. So it was made
//!   from another one outside, and at the first word there was at least one more waker than the
//!   slots had. But step 3 found no more.
//! - At T, all wakers of all tasks of the rest were in slots of the rest. A slot's waker is woken
//!   by the end of its task, which takes a poll of it. So none of them is ever polled again, and
//!   what is true at T stays true, but for an abort of one of them.
//!
//! A reference that something else holds for a moment, such as another thread's dump, counts as a
//! waker: a lost task may be missed by one look, and none is invented. The same holds for a waker
//! that was leaked, and for a task with more abort handles than its word can count.
//!
//! What cannot be found: a ring that leads through a channel or a lock. Its waker is in a list that
//! belongs to a library, and whether that list will be used is not known.
//!
//! Rejected: to reckon with the wakers that the runtime has given to timers and sockets. It would
//! find tasks that wait for nothing that the runtime knows, and most of them wait for a channel.
//!
//! Checked by `models::lost`, and by `tests/interface/lost_tasks_are_found.rs`, with a storm of
//! tasks that are not lost. What users get is in `sched/lost.rs`.

use std::collections::HashMap;

use super::{reference::TaskRef, state::Snapshot};
use crate::sync::atomic::{Ordering::Acquire, fence};

/// What a look reads of a task, in the two orders.
pub(crate) trait Look {
    /// Its address, as a slot has it.
    fn address(&self) -> usize;
    /// Registrations and the slot.
    fn slot(&self) -> (u32, Option<usize>);
    /// Abort handles that only another task's lead to.
    fn own_aborts(&self) -> u64;
    /// The polls and then the word; the other way round if it is the `second` look.
    fn progress(&self, second: bool) -> (u32, Snapshot);
}

impl Look for TaskRef {
    fn address(&self) -> usize {
        self.number()
    }

    fn slot(&self) -> (u32, Option<usize>) {
        let header = self.header();
        let registrations = header.account().registrations();
        (registrations, header.joined_by())
    }

    fn own_aborts(&self) -> u64 {
        // By its carrier's abort handles alone; see `carried.rs`.
        u64::from(self.header().is_carried())
    }

    fn progress(&self, second: bool) -> (u32, Snapshot) {
        let header = self.header();
        if second {
            let word = header.snapshot();
            (header.account().polls(), word)
        } else {
            let polls = header.account().polls();
            // Ordering: Acquire: the polls are read before the word.
            fence(Acquire);
            (polls, header.snapshot())
        }
    }
}

/// Which of these tasks are lost, by their place. The caller has one reference to each.
pub(crate) fn find(tasks: &[impl Look]) -> Vec<usize> {
    // Step 1.
    let slots: Vec<_> = tasks.iter().map(Look::slot).collect();
    // Ordering: Acquire: the slots are read before all words.
    fence(Acquire);
    let first: Vec<_> = tasks.iter().map(|task| task.progress(false)).collect();
    // Step 2.
    let is_same = |at: usize| {
        let task = &tasks[at];
        let (polls, word) = task.progress(true);
        (polls, word) == first[at] && task.slot().0 == slots[at].0
    };
    let is_idle = |at: usize| {
        let word = first[at].1;
        word.is_idle() && !word.is_done()
    };
    let mut is_in: Vec<_> = (0..tasks.len())
        .map(|at| is_idle(at) && is_same(at))
        .collect();
    // Step 3.
    let place: HashMap<usize, usize> = tasks.iter().map(Look::address).zip(0..).collect();
    let joiner = |at: usize| {
        let word = first[at].1;
        let may_be_aborted = word.aborts() > tasks[at].own_aborts();
        let joiner = slots[at]
            .1
            .filter(|_| word.has_waker() && !may_be_aborted)?;
        place.get(&joiner).copied()
    };
    let joined_by: Vec<_> = (0..tasks.len()).map(joiner).collect();
    // How many wakers are not in a slot of those that are still in.
    let mut outside: Vec<_> = first.iter().map(|(_, word)| word.wakers(1)).collect();
    for (at, joiner) in joined_by.iter().enumerate() {
        if let Some(joiner) = joiner.filter(|_| is_in[at]) {
            outside[joiner] = outside[joiner].map(|outside| outside.saturating_sub(1));
        }
    }
    let mut leave: Vec<_> = (0..tasks.len())
        .filter(|&at| is_in[at] && outside[at] != Some(0))
        .collect();
    while let Some(at) = leave.pop() {
        is_in[at] = false;
        if let Some(joiner) = joined_by[at] {
            outside[joiner] = outside[joiner].map(|outside| outside + 1);
            if is_in[joiner] && outside[joiner] == Some(1) {
                leave.push(joiner);
            }
        }
    }
    (0..tasks.len()).filter(|&at| is_in[at]).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::cell::state::{Settle, State};

    /// What was asked of which task.
    type Log = RefCell<Vec<(usize, &'static str)>>;

    /// A task as two looks see it.
    struct Seen<'a> {
        address: usize,
        registrations: [u32; 2],
        joined_by: Option<usize>,
        polls: [u32; 2],
        words: [Snapshot; 2],
        looks: RefCell<[usize; 2]>,
        log: &'a Log,
    }

    /// An idle task with so many wakers, that someone waits for or not.
    fn word(wakers: usize, is_joined: bool) -> Snapshot {
        let state = State::new();
        assert_eq!(state.settle(state.load(), |_| ()), Settle::Idle);
        // One for this look.
        (0..=wakers).for_each(|_| state.add_reference());
        if is_joined {
            let _ = state.register();
        }
        state.load()
    }

    fn seen(log: &Log, address: usize, wakers: usize, joined_by: Option<usize>) -> Seen<'_> {
        let word = word(wakers, joined_by.is_some());
        Seen {
            address,
            registrations: [7, 7],
            joined_by,
            polls: [5, 5],
            words: [word, word],
            looks: RefCell::default(),
            log,
        }
    }

    impl Look for Seen<'_> {
        fn address(&self) -> usize {
            self.address
        }

        fn slot(&self) -> (u32, Option<usize>) {
            self.log.borrow_mut().push((self.address, "slot"));
            let look = &mut self.looks.borrow_mut()[0];
            *look += 1;
            (self.registrations[*look - 1], self.joined_by)
        }

        fn own_aborts(&self) -> u64 {
            0
        }

        fn progress(&self, second: bool) -> (u32, Snapshot) {
            self.log.borrow_mut().push((self.address, "progress"));
            let look = &mut self.looks.borrow_mut()[1];
            *look += 1;
            assert_eq!(*look, if second { 2 } else { 1 });
            (self.polls[*look - 1], self.words[*look - 1])
        }
    }

    #[test]
    fn slots_come_before_all_words_and_after_the_second_ones() {
        let log = Log::default();
        let tasks = [seen(&log, 1, 1, Some(2)), seen(&log, 2, 1, Some(1))];
        assert_eq!(find(&tasks), [0, 1]);
        let expected = [
            (1, "slot"),
            (2, "slot"),
            (1, "progress"),
            (2, "progress"),
            (1, "progress"),
            (1, "slot"),
            (2, "progress"),
            (2, "slot"),
        ];
        assert_eq!(*log.borrow(), expected);
    }

    #[test]
    fn what_has_changed_takes_the_task_and_its_slot_away() {
        let log = Log::default();
        let ring = || {
            [
                seen(&log, 1, 1, Some(2)),
                seen(&log, 2, 1, Some(1)),
                seen(&log, 3, 0, None),
            ]
        };
        assert_eq!(find(&ring()), [0, 1, 2]);
        let mut polled = ring();
        polled[0].polls[1] += 1;
        assert_eq!(find(&polled), [2]);
        let mut registered = ring();
        registered[1].registrations[1] += 1;
        assert_eq!(find(&registered), [2]);
        let mut woken = ring();
        woken[2].words[1] = word(1, false);
        assert_eq!(find(&woken), [0, 1]);
    }

    #[test]
    fn a_waker_outside_takes_all_away_that_wait_for_the_task() {
        let log = Log::default();
        // 1 waits for 2, and that for 3. Nothing waits for 1.
        let chain = |outside| {
            [
                seen(&log, 1, 1, None),
                seen(&log, 2, 1, Some(1)),
                seen(&log, 3, outside, Some(2)),
            ]
        };
        assert_eq!(find(&chain(0)), [0, 1, 2]);
        assert!(find(&chain(1)).is_empty());
        // The slot is not full any more, or its task is not alive.
        let mut left = chain(0);
        left[1].words = [word(1, false); 2];
        assert_eq!(find(&left), [1, 2]);
        let mut gone = chain(0);
        gone[1].joined_by = Some(9);
        assert_eq!(find(&gone), [1, 2]);
    }

    #[test]
    fn one_that_is_queued_is_not_lost() {
        let log = Log::default();
        let mut tasks = [seen(&log, 1, 0, None)];
        let state = State::new();
        state.add_reference();
        tasks[0].words = [state.load(); 2];
        assert!(find(&tasks).is_empty());
    }
}
