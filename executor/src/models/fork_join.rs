//! The branches of joins: `branch/deque.rs`, `branch/latch.rs`, and the steps in
//! `fork_join/steps.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_branch_is_run_once` | owner or thief runs it, each sees what the other wrote, and the owner wakes | 3 | 0.1 | `fork_promote_relaxed`, `fork_claim_relaxed`, `fork_reclaim_stores`, `fork_latch_set_relaxed`, `fork_latch_settled_relaxed`, `fork_latch_asleep_stores` |
//! | `the_oldest_goes_first` | two thieves at two nested joins, over an array that grows: each branch once, the older one first | 2 | 10.4 | `fork_newest_first`, `fork_grow_forgets` |
//! | `two_that_were_linked_go_together` | two nested joins that are placed and promoted at once, and joins between and above them that are only linked: each branch once, the older one first, and nothing is left on the tail | 3 | 3.5 | `fork_place_newest_first`, `fork_place_keeps_the_newest`, `fork_place_forgets_the_top`, `fork_place_grows_once`, `fork_pop_ignores_the_split`, `fork_pop_forgets_the_rest` |
//! | `an_index_is_used_again` | a second branch at the index of the first, which a slow thief still looks at | 3 | 0.3 | `fork_settle_keeps_the_index` |
//! | `a_branch_that_is_given_back_is_run_by_its_owner` | the same as the first for a branch that was claimed and not run | 3 | 0.1 | `fork_latch_forgets_the_sleeper` |
//! | `a_helper_does_not_run_what_was_forked_before` | a helper at a waiting join never runs what the thief had forked before it took our branch | 2 | 0.1 | `fork_helper_ignores_the_base` |
//! | `a_helper_does_not_run_what_was_forked_afterwards` | nor what it forks after that has ended | 2 | 0.1 | `fork_helper_does_not_look_again` |
//! | `a_cancel_is_seen` | a thread that answers an ask while the computation that it runs is cancelled sees that, or is asked again | 3 | 0.0 | `fork_cancel_set_no_fence`, `fork_cancel_look_no_fence` |
//! | `a_scope_is_left_after_its_branches` | two branches that end elsewhere, and an owner that sleeps and then frees the scope | 3 | 5.9 | `fork_count_latch_end_relaxed`, `fork_count_latch_open_relaxed`, `fork_count_latch_forgets_the_owner` |
//! | `a_job_is_run_by_an_owner_that_sleeps` | a branch puts a job into a list while the owner of the scope falls asleep, and nobody else takes the job | 3 | 0.1 | `fork_count_latch_sleeper_no_fence`, `fork_count_latch_spawner_no_fence` |
//!
//! loom does not see the links, which are plain cells of the owner's: that nobody else looks at
//! them is for ThreadSanitizer to say.
//!
//! The owner's and the thief's letters are cells that only the protocol keeps apart; a job that is
//! freed while somebody still looks at it, or whose closure is taken twice, is an access that loom
//! reports.
#![expect(unsafe_code, reason = "letters that only the protocol keeps apart")]

use std::{cell::Cell, mem, ptr};

use super::{
    both_ways::{Turn, explore},
    fork_join_steps::join_on,
};
use crate::{
    branch::{BranchDeque, CancelFlag, CountLatch, Header, Settled, Tail},
    park::Parker,
    sync::{
        Arc, Mutex, UnsafeCell,
        atomic::{AtomicUsize, Ordering::Relaxed},
        thread,
    },
};

/// A worker's branch deque, on its own thread.
struct Owner {
    branch_deque: Arc<BranchDeque>,
    /// In the branch deque.
    tail: *const Tail,
}

impl Owner {
    fn new(branch_deque: &Arc<BranchDeque>) -> Self {
        let branch_deque = branch_deque.clone();
        // SAFETY: the branch deque is kept, and a model makes one owner for it.
        let tail = ptr::from_ref(unsafe { branch_deque.attach() });
        Self { branch_deque, tail }
    }

    fn tail(&self) -> &Tail {
        // SAFETY: the branch deque is kept.
        unsafe { &*self.tail }
    }

    /// A join whose branch is promoted at once, and whose stall sleeps.
    fn join<RA, RB>(&self, a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
        self.join_with(a, b, |_, header| self.sleep(header))
    }

    fn join_with<RA, RB>(
        &self,
        a: impl FnOnce() -> RA,
        b: impl FnOnce() -> RB,
        wait_for_thief: impl Fn(&Tail, &Header) -> Settled,
    ) -> (RA, RB) {
        self.join_promoting(1, a, b, wait_for_thief)
    }

    /// A join after whose push so many branches are promoted, of those that are there. With 0
    /// nobody asked: its own is only linked.
    fn join_promoting<RA, RB>(
        &self,
        count: usize,
        a: impl FnOnce() -> RA,
        b: impl FnOnce() -> RB,
        wait_for_thief: impl Fn(&Tail, &Header) -> Settled,
    ) -> (RA, RB) {
        let pushed = |tail: &Tail| {
            if count > 0 {
                assert_eq!(tail.promote(count, 0), count, "a branch was not placed");
            }
        };
        // SAFETY: it is attached.
        unsafe { join_on(self.tail(), || self.tail(), a, b, pushed, wait_for_thief) }
    }

    fn sleep(&self, header: &Header) -> Settled {
        // SAFETY: a branch that is waited for was promoted.
        unsafe { header.latch() }.wait(&self.branch_deque.parker)
    }
}

/// A cell that is written before a branch and read in it, or the other way round.
struct Letter(UnsafeCell<u32>);

// SAFETY: the models show that accesses are ordered.
unsafe impl Sync for Letter {}
// SAFETY: it is a number.
unsafe impl Send for Letter {}

impl Letter {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn write(&self) {
        // SAFETY: the readers come after it, which is what the models show.
        self.0.with_mut(|letter| unsafe { *letter = 7 });
    }

    fn read(&self) {
        // SAFETY: as in `write`.
        self.0.with(|letter| assert_eq!(unsafe { *letter }, 7));
    }
}

fn steal(branch_deque: &Arc<BranchDeque>) {
    if let Some(branch) = BranchDeque::claim(branch_deque, 0) {
        branch.run(1, 0);
    }
}

#[test]
fn a_branch_is_run_once() {
    explore(3, |turn: Turn| {
        let branch_deque = Arc::new(BranchDeque::new());
        let thief = branch_deque.clone();
        let owner = move || {
            let owner = Owner::new(&branch_deque);
            let (there, back, runs) = (Letter::new(), Letter::new(), Cell::new(0));
            there.write();
            let (letter, answer) = (there.clone(), back.clone());
            let branch = move || {
                letter.read();
                answer.write();
                Arc::new(5)
            };
            let ((), five) = owner.join(|| runs.set(runs.get() + 1), branch);
            assert_eq!((*five, runs.get()), (5, 1));
            back.read();
            assert_eq!(owner.tail().top(), 0);
        };
        turn.race(owner, [move || steal(&thief)]);
    });
}

#[test]
fn the_oldest_goes_first() {
    explore(2, |turn: Turn| {
        let branch_deque = Arc::new(BranchDeque::new());
        let thieves = [branch_deque.clone(), branch_deque.clone()];
        let owner = move || {
            let owner = Owner::new(&branch_deque);
            let order = Arc::new(AtomicUsize::new(0));
            let (old, new) = (order.clone(), order.clone());
            let ran_by_thief = |header: &Header| {
                let settled = owner.sleep(header);
                assert_eq!(settled, Settled::Done);
                settled
            };
            let ((((), inner), inner_stolen), outer_stolen) = {
                let inner_stolen = Cell::new(false);
                let outer_stolen = Cell::new(false);
                let (inner, ()) = owner.join_with(
                    || {
                        owner.join_with(
                            || (),
                            move || new.fetch_add(1, Relaxed),
                            |_, header| {
                                inner_stolen.set(true);
                                ran_by_thief(header)
                            },
                        )
                    },
                    move || {
                        old.fetch_add(1, Relaxed);
                    },
                    |_, header| {
                        outer_stolen.set(true);
                        ran_by_thief(header)
                    },
                );
                ((inner, inner_stolen.get()), outer_stolen.get())
            };
            assert!(inner < 2);
            // The inner one is taken only after the outer one.
            assert!(!inner_stolen || outer_stolen);
            assert_eq!(order.load(Relaxed), 2);
        };
        turn.race(
            owner,
            thieves.map(|branch_deque| move || steal(&branch_deque)),
        );
    });
}

#[test]
fn two_that_were_linked_go_together() {
    explore(3, |turn: Turn| {
        let branch_deque = Arc::new(BranchDeque::new());
        let thieves = [branch_deque.clone(), branch_deque.clone()];
        let owner = move || {
            let owner = Owner::new(&branch_deque);
            let runs = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
            let stolen = [Cell::new(false), Cell::new(false)];
            let branch = |which: usize| {
                let (there, back, runs) = (Letter::new(), Letter::new(), runs[which].clone());
                there.write();
                let answer = back.clone();
                let branch = move || {
                    there.read();
                    answer.write();
                    runs.fetch_add(1, Relaxed);
                };
                (branch, back)
            };
            let wait_for_thief = |which: usize, header: &Header| {
                stolen[which].set(true);
                owner.sleep(header)
            };
            // A join where nobody asks: its branch is linked, and goes back by its link.
            let quiet = || {
                let own = thread::current().id();
                let by = || thread::current().id();
                let ((), by) = owner.join_promoting(0, || (), by, |_, _| unreachable!());
                assert_eq!(by, own);
            };
            let (old, old_back) = branch(0);
            let inner = || {
                // Linked to the older one, which is the newest again afterwards.
                quiet();
                assert_eq!(owner.tail().top(), 0, "it was placed for nobody");
                let (new, new_back) = branch(1);
                owner.join_promoting(2, quiet, new, |_, header| wait_for_thief(1, header));
                new_back.read();
            };
            owner.join_promoting(0, inner, old, |_, header| wait_for_thief(0, header));
            old_back.read();
            // The newer one is taken only after the older one.
            assert!(!stolen[1].get() || stolen[0].get());
            for runs in runs {
                assert_eq!(runs.load(Relaxed), 1);
            }
            assert!(!owner.tail().has_branches());
        };
        turn.race(
            owner,
            thieves.map(|branch_deque| move || steal(&branch_deque)),
        );
    });
}

#[test]
fn an_index_is_used_again() {
    explore(3, |turn: Turn| {
        let branch_deque = Arc::new(BranchDeque::new());
        let thief = branch_deque.clone();
        let owner = move || {
            let owner = Owner::new(&branch_deque);
            for round in 0..2 {
                let letter = Letter::new();
                letter.write();
                let branch = move || {
                    letter.read();
                    round
                };
                let ((), ran) = owner.join(|| (), branch);
                assert_eq!(ran, round);
            }
        };
        turn.race(owner, [move || steal(&thief)]);
    });
}

#[test]
fn a_branch_that_is_given_back_is_run_by_its_owner() {
    explore(3, |turn: Turn| {
        let branch_deque = Arc::new(BranchDeque::new());
        let thief = branch_deque.clone();
        let owner = move || {
            let owner = Owner::new(&branch_deque);
            let own = thread::current().id();
            let ((), by) = owner.join(|| (), || thread::current().id());
            assert_eq!(by, own);
            assert_eq!(owner.tail().top(), 0);
        };
        turn.race(owner, [move || drop(BranchDeque::claim(&thief, 0))]);
    });
}

/// As `owner::help` does it, with one look.
fn help(owner: &Owner, thief: &Arc<BranchDeque>, header: &Header) -> Settled {
    // SAFETY: a branch that is waited for was promoted.
    let (latch, by) = unsafe { (header.latch(), header.thief()) };
    if let Some((processor, base)) = by {
        assert_eq!(processor, 1);
        if let Some(branch) = BranchDeque::claim_descendant(thief, base, latch) {
            branch.run(0, owner.tail().top());
        }
    }
    latch.wait(&owner.branch_deque.parker)
}

crate::sync::thread_local! {
    /// This thread, while it runs somebody's branch in `helper`.
    static THIEF: Cell<*const Owner> = Cell::new(ptr::null());
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    Before,
    After,
}

#[test]
fn a_helper_does_not_run_what_was_forked_before() {
    helper(Foreign::Before);
}

#[test]
fn a_helper_does_not_run_what_was_forked_afterwards() {
    helper(Foreign::After);
}

/// The thief has a branch of its own when it takes ours, or forks one afterwards.
fn helper(when: Foreign) {
    explore(2, move |turn: Turn| {
        let branch_deques = [Arc::new(BranchDeque::new()), Arc::new(BranchDeque::new())];
        let [own, thief] = branch_deques.clone();
        let run_by_thief = move || {
            let worker = Owner::new(&branch_deques[1]);
            let foreign = || thread::current().id();
            let steal = || {
                if let Some(branch) = BranchDeque::claim(&branch_deques[0], 0) {
                    THIEF.with(|current| current.set(&raw const worker));
                    branch.run(1, worker.tail().top());
                    THIEF.with(|current| current.set(ptr::null()));
                }
            };
            let ((), by) = if when == Foreign::Before {
                worker.join(steal, foreign)
            } else {
                steal();
                worker.join(|| (), foreign)
            };
            assert_eq!(by, thread::current().id(), "the wrong branch was helped");
        };
        let owner = move || {
            let owner = Owner::new(&own);
            let runs = Arc::new(AtomicUsize::new(0));
            let counted = runs.clone();
            let branch = move || {
                let count = || counted.fetch_add(1, Relaxed);
                // SAFETY: it is null, or set by this thread for as long as this runs.
                match unsafe { THIEF.with(Cell::get).as_ref() } {
                    // On the thief it forks in its turn.
                    Some(worker) => worker.join(|| (), count).1,
                    None => count(),
                }
            };
            owner.join_with(|| (), branch, |_, header| help(&owner, &thief, header));
            assert_eq!(runs.load(Relaxed), 1);
        };
        turn.race(owner, [run_by_thief]);
    });
}

#[test]
fn a_cancel_is_seen() {
    /// What a join does that was asked, as far as a cancel goes: whether it saw one.
    fn comes_by(tail: &Tail, flag: &CancelFlag) -> bool {
        !tail.is_undisturbed() && {
            tail.heed();
            flag.is_set()
        }
    }

    explore(3, |turn: Turn| {
        let (branch_deque, flag) = (Arc::new(BranchDeque::new()), Arc::new(CancelFlag::new()));
        // A thief has asked. (A new branch deque begins so.)
        branch_deque.ask();
        let cancels = {
            let (branch_deque, flag) = (branch_deque.clone(), flag.clone());
            move || {
                flag.set();
                branch_deque.ask();
            }
        };
        let runs = {
            let flag = flag.clone();
            move || {
                let owner = Owner::new(&branch_deque);
                let saw = comes_by(owner.tail(), &flag);
                (owner, saw)
            }
        };
        let ((owner, saw), [()]) = turn.race(runs, [cancels]);
        assert!(saw || comes_by(owner.tail(), &flag));
    });
}

/// Where the owner of a scope sleeps. It stays when the scope is gone.
struct SharedParker(Parker);

impl AsRef<Parker> for SharedParker {
    fn as_ref(&self) -> &Parker {
        &self.0
    }
}

#[test]
fn a_scope_is_left_after_its_branches() {
    struct Scope {
        latch: CountLatch,
        parker: Arc<SharedParker>,
        /// Written by the branches; its end is an access as well.
        letters: [Letter; 2],
    }

    explore(3, |turn: Turn| {
        let scope = Box::new(Scope {
            latch: CountLatch::new(),
            parker: Arc::new(SharedParker(Parker::new())),
            letters: [Letter(UnsafeCell::new(0)), Letter(UnsafeCell::new(0))],
        });
        scope.latch.begin();
        scope.latch.begin();
        let address = Box::into_raw(scope);
        let shared = ScopePointer(address);
        let ends = [0, 1].map(|which| {
            let scope = ScopePointer(address);
            move || {
                let scope = scope.get();
                // SAFETY: this branch is counted.
                unsafe { (*scope).letters[which].write() };
                // SAFETY: as above, and the parker is kept by its reference.
                unsafe { CountLatch::end(&raw const (*scope).latch, || (*scope).parker.clone()) };
            }
        });
        let owner = move || {
            let scope = shared.get();
            // SAFETY: it is freed below.
            let latch = unsafe { &(*scope).latch };
            if !latch.is_open() {
                latch.fall_asleep();
                while !latch.is_open() {
                    // SAFETY: as above.
                    unsafe { &*scope }.parker.0.park();
                }
                latch.wake_up();
            }
            // SAFETY: all have ended.
            let scope = unsafe { Box::from_raw(scope) };
            scope.letters.iter().for_each(Letter::read);
        };
        turn.race(owner, ends);
    });
}

#[test]
fn a_job_is_run_by_an_owner_that_sleeps() {
    struct Scope {
        latch: CountLatch,
        parker: Arc<SharedParker>,
        /// The list of a branch deque, and what it says of its length without the lock.
        list: Mutex<usize>,
        waiting: AtomicUsize,
    }

    impl Scope {
        /// How many there were.
        fn set(&self, jobs: usize) -> usize {
            let mut list = self.list.lock();
            self.waiting.store(jobs, Relaxed);
            mem::replace(&mut *list, jobs)
        }
    }

    explore(3, |turn: Turn| {
        let scope = Arc::new(Scope {
            latch: CountLatch::new(),
            parker: Arc::new(SharedParker(Parker::new())),
            list: Mutex::new(0),
            waiting: AtomicUsize::new(0),
        });
        // The branch that spawns.
        scope.latch.begin();
        let spawns = {
            let scope = scope.clone();
            move || {
                scope.latch.begin();
                scope.set(1);
                if scope.latch.is_asleep() {
                    scope.parker.0.unpark(|| ());
                }
                // SAFETY: it is counted; scope and parker are kept.
                unsafe { CountLatch::end(&raw const scope.latch, || scope.parker.clone()) };
            }
        };
        let owner = move || {
            while !scope.latch.is_open() {
                if scope.waiting.load(Relaxed) == 1 && scope.set(0) == 1 {
                    // SAFETY: the job is counted; scope and parker are kept.
                    unsafe { CountLatch::end(&raw const scope.latch, || scope.parker.clone()) };
                    continue;
                }
                scope.latch.fall_asleep();
                while !scope.latch.is_open() && scope.waiting.load(Relaxed) == 0 {
                    scope.parker.0.park();
                }
                scope.latch.wake_up();
            }
        };
        turn.race(owner, [spawns]);
    });
}

struct ScopePointer<S>(*mut S);

// SAFETY: the models show which thread may follow it.
unsafe impl<S> Send for ScopePointer<S> {}

impl<S> ScopePointer<S> {
    fn get(&self) -> *mut S {
        self.0
    }
}
