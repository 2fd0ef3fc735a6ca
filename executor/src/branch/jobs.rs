//! The jobs of a P: branches of scopes that wait to be run.
//!
//! A job is flat: it needs no frame of its owner's stack, and runs nothing below it. In the deque
//! of the joins every index belongs to a frame. So a job does not wait there but in a list beside
//! it, in the same branch deque. The list has a lock. Any thread that has the branch deque may push
//! and take. The lock is held for a few instructions, and no code of the user's runs under it.
//!
//! | thread | takes |
//! | --- | --- |
//! | a worker without work | the oldest of any list |
//! | the same, after a job | the newest of its own list, until that is empty |
//! | the owner of a scope, at its end | jobs of this scope: the newest of its own list, or else the oldest of others' |
//!
//! The first two have no frame of the user's below. The third runs nothing but its own scope's jobs
//! (J2).
//!
//! A tree of branches is so walked depth first by each worker, and a thief gets the oldest branch,
//! which is the largest.
#![allow(unsafe_code)]

use std::{collections::VecDeque, ptr::NonNull};

use super::BranchDeque;
use crate::{
    policy::constants::JOBS_KEPT,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// The beginning of every job, in front of its closure.
#[repr(C)]
pub(crate) struct Header {
    /// Runs the job and frees it. The scope may be gone when it returns.
    pub(crate) run: unsafe fn(NonNull<Header>),
    /// Valid until the job has ended: the scope counts it.
    pub(crate) scope: NonNull<ScopeHead>,
}

/// What a scope is to the lists, and to a thief. Its scope begins with it.
#[derive(Debug)]
pub(crate) struct ScopeHead {
    /// The branch deque of its owner, which sleeps on the parker there. If the owner has no P, no
    /// other thread knows this branch deque.
    pub(crate) owner_deque: Arc<BranchDeque>,
    /// What its owner computes (`compute.rs`).
    pub(crate) computation: usize,
    /// How a thief runs a job, since a scope knows the scheduler and this file does not.
    pub(crate) run_stolen: fn(Job),
}

/// A job that has not begun. The thread that has it runs it, or puts it into a list: its scope
/// waits for it.
#[derive(Debug)]
#[must_use = "its scope waits for it"]
pub(crate) struct Job(NonNull<Header>);

// SAFETY: a job is made to be run by another thread: its closure is `Send`, and its scope is
// `Sync`.
unsafe impl Send for Job {}

impl Job {
    /// # Safety
    ///
    /// - The header is that of a job which its scope counts, and no other thread has it.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Its scope.
    pub(crate) fn scope(&self) -> &ScopeHead {
        // SAFETY: the scope counts the job, and so waits for it.
        unsafe { self.0.as_ref().scope.as_ref() }
    }

    fn is_of(&self, scope: &ScopeHead) -> bool {
        std::ptr::eq(self.scope(), scope)
    }

    /// Runs it on a thread that stole it, and then those that it has spawned here.
    pub(crate) fn run_stolen(self) {
        let run = self.scope().run_stolen;
        run(self);
    }

    /// Runs it. A panic goes to its scope.
    pub(crate) fn run(self) {
        // SAFETY: it is there, and this thread alone runs it.
        unsafe { (self.0.as_ref().run)(self.0) };
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// How many are in the list. Written under its lock.
    waiting: AtomicUsize,
    /// The oldest first.
    list: Mutex<VecDeque<Job>>,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            list: Mutex::new(VecDeque::new()),
        }
    }

    /// How many there are. A caller that needs to see a push that came before has a fence.
    pub(crate) fn len(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push(&self, job: Job) {
        self.with(|list| list.push_back(job));
    }

    /// A job that was taken and not begun.
    pub(crate) fn put_back(&self, job: Job) {
        self.with(|list| list.push_front(job));
    }

    pub(crate) fn take_oldest(&self) -> Option<Job> {
        self.take(VecDeque::pop_front)
    }

    pub(crate) fn take_newest(&self) -> Option<Job> {
        self.take(VecDeque::pop_back)
    }

    pub(crate) fn take_oldest_of(&self, scope: &ScopeHead) -> Option<Job> {
        self.take(|list| {
            let at = list.iter().position(|job| job.is_of(scope))?;
            list.remove(at)
        })
    }

    pub(crate) fn take_newest_of(&self, scope: &ScopeHead) -> Option<Job> {
        self.take(|list| {
            let at = list.iter().rposition(|job| job.is_of(scope))?;
            list.remove(at)
        })
    }

    pub(crate) fn has_of(&self, scope: &ScopeHead) -> bool {
        !self.is_empty() && self.list.lock().iter().any(|job| job.is_of(scope))
    }

    fn take(&self, take: impl FnOnce(&mut VecDeque<Job>) -> Option<Job>) -> Option<Job> {
        if self.is_empty() {
            return None;
        }
        self.with(take)
    }

    fn with<R>(&self, f: impl FnOnce(&mut VecDeque<Job>) -> R) -> R {
        let mut list = self.list.lock();
        let result = f(&mut list);
        self.waiting.store(list.len(), Relaxed);
        if list.is_empty() && list.capacity() > JOBS_KEPT {
            *list = VecDeque::new();
        }
        result
    }
}
