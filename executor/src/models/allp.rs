//! *All Ps*: `permit/allp.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `the_last_look_visits_a_p_that_was_just_taken` | a thread takes a P and pushes there, beside one that gives its permit up and looks once more: one of them sees the other | 3 | 0.1 | `allp_taken_again_is_not_listed` |
//! | `one_that_leaves_and_one_that_looks_lose_nothing` | a thread moves its task to the global queue and gives its P back, beside the same look | 3 | 0.1 | - |
//! | `a_p_that_is_taken_is_not_forgotten` | a walk that found no live task beside a thread that takes the P and enters one | 3 | 0.1 | `allp_forget_without_the_lock`, `allp_forget_does_not_look_again` |
//!
//! That a P which is taken beside a shutdown is told is in `models::shutdown`.

use std::sync::Arc;

use super::both_ways::explore;
use crate::{
    permit::{
        allp::{AllPs, ListedP},
        idle::Idle,
    },
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Two Ps, and whether there is a task in the queue or in the live table of each.
struct Row {
    idle: Idle,
    allp: AllPs<Owned>,
    has_task: [AtomicBool; 2],
    global: AtomicBool,
}

/// The owner's end of a P.
struct Owned {
    index: usize,
    has_live: Arc<AtomicBool>,
}

impl ListedP for Owned {
    fn index(&self) -> usize {
        self.index
    }

    fn has_live(&self) -> bool {
        self.has_live.load(Relaxed)
    }
}

impl Row {
    fn new() -> Self {
        Self {
            idle: Idle::new(1, 2),
            allp: AllPs::new(2),
            has_task: [false, false].map(AtomicBool::new),
            global: AtomicBool::new(false),
        }
    }

    fn take(&self, has_live: &Arc<AtomicBool>) -> Owned {
        let has_live = has_live.clone();
        let owned = self.allp.take(|index| Owned { index, has_live });
        owned.expect("two threads at most")
    }

    /// As `Env::any_work`: the queue of all, then those of the Ps that have a thread.
    fn any_work(&self) -> bool {
        let has_task = |index: usize| self.has_task[index].load(Relaxed);
        self.global.load(Relaxed) || self.allp.occupied().any(has_task)
    }
}

#[test]
fn the_last_look_visits_a_p_that_was_just_taken() {
    explore(3, |turn| {
        let row = Arc::new(Row::new());
        let live = Arc::new(AtomicBool::new(false));
        row.allp.give_back(row.take(&live));
        let permit = row.idle.acquire().expect("it is free");
        let looker = row.clone();
        let looks = move || {
            looker.idle.release(permit, None);
            looker.any_work()
        };
        let comes = move || {
            let owned = row.take(&live);
            row.has_task[owned.index].store(true, Relaxed);
            row.idle.submit(1).is_some()
        };
        let (seen, [woke]) = turn.race(looks, [comes]);
        assert!(seen || woke, "a task waits beside a free permit");
    });
}

#[test]
fn one_that_leaves_and_one_that_looks_lose_nothing() {
    explore(3, |turn| {
        let row = Arc::new(Row::new());
        let live = Arc::new(AtomicBool::new(false));
        let owned = row.take(&live);
        row.has_task[0].store(true, Relaxed);
        let permit = row.idle.acquire().expect("it is free");
        let looker = row.clone();
        let looks = move || {
            looker.idle.release(permit, None);
            looker.any_work()
        };
        // As `Worker::leave`.
        let leaves = move || {
            row.has_task[0].store(false, Relaxed);
            row.global.store(true, Relaxed);
            let woke = row.idle.submit(1).is_some();
            row.allp.give_back(owned);
            woke
        };
        let (seen, [woke]) = turn.race(looks, [leaves]);
        assert!(seen || woke, "a task waits beside a free permit");
    });
}

#[test]
fn a_p_that_is_taken_is_not_forgotten() {
    explore(3, |turn| {
        let row = Arc::new(Row::new());
        let live = Arc::new(AtomicBool::new(true));
        // Its thread leaves a task behind, which ends.
        row.allp.give_back(row.take(&live));
        live.store(false, Relaxed);
        let (walker, has_live) = (row.clone(), live.clone());
        let walks = move || {
            for index in walker.allp.populated() {
                let has_live = || has_live.load(Relaxed);
                if !has_live() {
                    walker.allp.forget(index, has_live);
                }
            }
        };
        let owner = row.clone();
        let comes = move || {
            let owned = owner.take(&live);
            live.store(true, Relaxed);
            owned
        };
        turn.race(walks, [comes]);
        let listed = row.allp.populated().collect::<Vec<_>>();
        assert_eq!(listed, [0], "a live task is in no list");
    });
}
