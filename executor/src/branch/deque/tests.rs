//! J1: branches are found from the oldest on, wherever they were when somebody asked: linked,
//! placed, or above both. J5: none of them is lost or left on the tail, however many there are. A
//! print of a runtime from another thread reads no cell of a branch deque's owner. That fails when
//! `Debug` is derived for `Tail`.
//!
//! It fails when `place` in `branch/deque.rs` gives the indices the wrong way round, forgets
//! what stays linked, or links it to what was placed; and when `pop_placed` in `branch/deque.rs`
//! does not look at the split.

use std::ptr::NonNull;

use super::{BranchDeque, FIRST_CAPACITY, MAX_CAPACITY, Tail, What};
use crate::{
    branch::{job::StackJob, latch::Settled},
    sync::Arc,
};

type Job = StackJob<Box<dyn FnOnce() -> usize>, usize>;

/// A tail, and beside it what is true of a stack from whose lower end others take.
struct Both {
    branch_deque: Arc<BranchDeque>,
    /// The oldest first.
    jobs: Vec<NonNull<Job>>,
    split: usize,
    head: usize,
}

impl Both {
    fn new() -> Self {
        let branch_deque = Arc::new(BranchDeque::new());
        // SAFETY: this thread alone has it, and keeps it for longer than the tail.
        unsafe { branch_deque.attach() };
        Self {
            branch_deque,
            jobs: Vec::new(),
            split: 0,
            head: 0,
        }
    }

    fn tail(&self) -> &Tail {
        &self.branch_deque.tail
    }

    /// As many as have an index once all are placed.
    fn indices(&self) -> usize {
        self.jobs.len().min(MAX_CAPACITY)
    }

    /// A job whose result is how many were there before it.
    fn job(&self) -> NonNull<Job> {
        let number = self.jobs.len();
        let job = Job::new(Box::new(move || number));
        NonNull::new(Box::into_raw(Box::new(job))).expect("it is a box")
    }

    fn push(&mut self) {
        let job = self.job();
        // SAFETY: it is attached, and the job stays until `pop`.
        unsafe { self.tail().push(job.cast()) };
        self.jobs.push(job);
        assert!(self.tail().has_linked());
    }

    fn place(&self) {
        self.tail().place();
        self.is_placed();
    }

    fn is_placed(&self) {
        assert_eq!(self.tail().top(), self.indices());
        assert_eq!(self.tail().has_linked(), self.jobs.len() > MAX_CAPACITY);
    }

    fn promote(&mut self, at_most: usize) {
        let count = self.tail().promote(at_most, 0);
        assert_eq!(count, at_most.min(self.indices() - self.split));
        self.split += count;
        self.is_placed();
    }

    /// As a thief does.
    fn steal(&mut self) {
        let branch = BranchDeque::claim(&self.branch_deque, 0);
        assert_eq!(branch.is_some(), self.head < self.split);
        if let Some(branch) = branch {
            let What::Half(job) = branch.what else {
                unreachable!("there is no scope")
            };
            assert_eq!(job, self.jobs[self.head].cast(), "not the oldest");
            self.head += 1;
            branch.run(1, 0);
        }
    }

    /// As the frame of the newest does at its end. The frame below it is the next.
    fn pop(&mut self) {
        let Some(job) = self.jobs.pop() else {
            return;
        };
        let index = self.jobs.len();
        // SAFETY: it is there until `free`.
        let header = unsafe { &job.as_ref().header };
        let private = self.tail().pop(header);
        assert_eq!(private, index >= self.split);
        let own = private || {
            assert_eq!(header.index(), index);
            self.tail().reclaim(index)
        };
        assert_eq!(own, index >= self.head);
        let result = if own {
            self.split = self.split.min(index);
            // SAFETY: it was popped or reclaimed.
            let closure = unsafe { job.as_ref().take() };
            closure()
        } else {
            // SAFETY: it was promoted.
            assert_eq!(unsafe { header.latch() }.settled(), Some(Settled::Done));
            self.tail().settle(index);
            (self.split, self.head) = (index, index);
            // SAFETY: it is done.
            unsafe { job.as_ref().take_result() }.unwrap()
        };
        assert_eq!(result, index, "another branch");
        free(job);
    }

    fn end(&mut self) {
        while !self.jobs.is_empty() {
            self.pop();
        }
        assert!(!self.tail().has_branches());
        assert!(!self.branch_deque.has_shared());
    }
}

fn free(job: NonNull<Job>) {
    // SAFETY: it came from a box, and is nobody's any more.
    drop(unsafe { Box::from_raw(job.as_ptr()) });
}

#[test]
fn all_mixes_of_steps_keep_the_order() {
    let steps: [fn(&mut Both); 5] = [
        Both::push,
        |both| both.place(),
        |both| both.promote(1),
        Both::steal,
        Both::pop,
    ];
    let length = if cfg!(miri) { 3 } else { 7 };
    for mix in 0..steps.len().pow(length) {
        // Two are linked from the beginning, or most mixes would have too few.
        let mut both = Both::new();
        both.push();
        both.push();
        let mut rest = mix;
        for _ in 0..length {
            steps[rest % steps.len()](&mut both);
            rest /= steps.len();
        }
        both.end();
    }
}

#[test]
fn a_larger_array_has_what_was_shared_and_what_was_not() {
    let mut both = Both::new();
    for _ in 0..FIRST_CAPACITY - 1 {
        both.push();
    }
    both.promote(3);
    both.steal();
    for _ in 0..FIRST_CAPACITY * 4 {
        both.push();
    }
    both.place();
    both.promote(2);
    for _ in 0..5 {
        both.steal();
    }
    both.end();
}

#[test]
fn the_newest_stay_linked_where_the_array_has_no_place() {
    let times = |n, step: fn(&mut Both), both: &mut Both| (0..n).for_each(|_| step(both));
    let mut both = Both::new();
    times(MAX_CAPACITY, Both::push, &mut both);
    // There is one for each, and not one more.
    both.place();
    assert!(!both.tail().has_linked());
    times(10, Both::push, &mut both);
    both.place();
    both.promote(2);
    times(2, Both::steal, &mut both);
    // Above those that stayed linked. Asked again, they stay.
    times(3, Both::push, &mut both);
    both.place();
    // Down into what is placed.
    times(13 + 5, Both::pop, &mut both);
    assert!(!both.tail().has_linked());
    assert_eq!(both.tail().top(), MAX_CAPACITY - 5);
    // Some of those that come now get the indices of those that went.
    times(8, Both::push, &mut both);
    both.place();
    times(3 + 2, Both::pop, &mut both);
    times(1, Both::push, &mut both);
    both.place();
    assert!(!both.tail().has_linked());
    // The last of all can be taken.
    both.promote(MAX_CAPACITY);
    times(MAX_CAPACITY, Both::steal, &mut both);
    both.end();
}

#[test]
fn a_print_of_a_branch_deque_reads_nothing_of_its_owners() {
    let printed = format!("{:?}", BranchDeque::new());
    assert!(printed.contains("asked"), "{printed}");
    for cell in ["newest", "capacity", "top", "split:"] {
        assert!(!printed.contains(cell), "{printed}");
    }
}
