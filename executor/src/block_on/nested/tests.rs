//! *Above a poll*, one step at a time: where pinned tasks are polled, and where a thread sleeps.

use std::{cell::Cell, future::poll_fn, rc::Rc, sync::Arc as Shares};

use super::*;
use crate::{
    block_in_place,
    runtime::Runtime,
    sched::{
        find::tests::{runtime, thread},
        processor::ROOT,
        shutdown::tests::end,
        worker::Scope,
    },
    spawn_local,
};

/// What a P says of a task that it polls.
const TASK: u64 = 1 << 32;

/// Pins a task to this thread that counts its polls there.
fn pin_one(polls: &Rc<Cell<usize>>) {
    let polls = polls.clone();
    drop(spawn_local(async move { polls.set(polls.get() + 1) }));
}

fn root_that_is_not_due() -> Shares<Root> {
    let root = Root::new();
    assert!(root.take(), "the first poll is");
    root
}

#[test]
fn pinned_tasks_are_polled_above_a_task_or_a_root() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let (root, polls) = (root_that_is_not_due(), Rc::new(Cell::new(0)));
    // In a poll of this: whether something was done, and the polls so far.
    let above = |running| {
        worker.peer().progress.running.store(running, Relaxed);
        let did = worker.run_pinned_above(&root);
        assert_eq!(worker.peer().progress.running.load(Relaxed), running);
        assert!(!worker.peer().state.has_permit(), "it blocks");
        worker.peer().progress.running.store(0, Relaxed);
        (did, polls.get())
    };
    context::with_worker_frame(&worker, || {
        block_in_place(|| {
            pin_one(&polls);
            assert_eq!(above(0), (false, 0), "it is between two polls");
            assert_eq!(above(BRANCH), (false, 0), "its task is elsewhere");
            assert_eq!(above(TASK), (true, 1));
            assert_eq!(above(TASK), (false, 1), "there is no more");
            pin_one(&polls);
            assert_eq!(above(ROOT), (true, 2));
        });
    });
    end(runtime, [worker]);
}

/// A budget of another package is filled for each of its polls, or the package refuses for ever.
#[test]
fn the_begin_of_each_poll_is_told() {
    thread_local! {
        static BEGUN: Cell<u32> = const { Cell::new(0) };
    }
    budget::on_poll(|| BEGUN.set(BEGUN.get() + 1));
    let wait_for_three_polls = || {
        let before = BEGUN.get();
        let mut polls = 0;
        let three = poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls < 3 {
                Poll::Pending
            } else {
                Poll::Ready(BEGUN.get() - before)
            }
        });
        Runtime::new().unwrap().block_on(three)
    };
    assert_eq!(wait_for_three_polls(), 3);
    let runtime = Runtime::new().unwrap();
    assert_eq!(runtime.block_on(async { wait_for_three_polls() }), 3);
}

#[test]
fn a_pinned_task_is_not_polled_without_a_permit() {
    let runtime = runtime();
    let [first, second] = [thread(&runtime), thread(&runtime)];
    let worker = thread(&runtime);
    let polls = Rc::new(Cell::new(0));
    context::with_worker_frame(&worker, || {
        pin_one(&polls);
        worker.peer().progress.running.store(TASK, Relaxed);
        block_in_place(|| {
            // Its own future is due, and needs none.
            assert!(worker.run_pinned_above(&Root::new()));
            assert_eq!(polls.get(), 0);
            assert!(worker.p.has_pinned(), "it waits");
            assert!(worker.peer().flags.announced.load(Relaxed));
        });
        worker.peer().progress.running.store(0, Relaxed);
        worker.clear_pinned();
    });
    end(runtime, [first, second, worker]);
}

#[test]
fn a_future_that_a_pinned_task_has_woken_is_polled_before_a_sleep() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let root = Root::new();
    worker.share_parker(&root);
    let waker = root.clone().waker();
    let polls = Cell::new(0);
    let future = poll_fn(|_| {
        polls.set(polls.get() + 1);
        if polls.get() == 2 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    context::with_worker_frame(&worker, || {
        let wakes = waker.clone();
        drop(spawn_local(async move { wakes.wake() }));
        worker.peer().progress.running.store(TASK, Relaxed);
        block_in_place(|| wait_above(worker.shared(), &worker, &root, &waker, pin!(future)));
        worker.peer().progress.running.store(0, Relaxed);
    });
    assert_eq!(polls.get(), 2);
    assert!(worker.peer().thread.parker.is_notified(), "it has slept");
    end(runtime, [worker]);
}

#[test]
fn one_that_waits_above_a_poll_is_woken_where_its_thread_sleeps() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let above = Root::new();
    worker.share_parker(&above);
    above.unpark();
    assert!(worker.peer().thread.parker.is_notified());
    let (in_block_on, below) = in_block_on(&runtime);
    let above = Root::new();
    in_block_on.share_parker(&above);
    above.unpark();
    assert!(below.parker().is_notified());
    end(runtime, [worker, in_block_on]);
}

/// A thread with a root of its own, on whose parker it sleeps.
fn in_block_on(runtime: &Runtime) -> (Worker, Shares<Root>) {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    root.settle(&shared.io.netpoll, None);
    let worker = Worker::new(shared.clone(), processor, Scope::Own, Some(root.clone()));
    worker.peer().state.arrive();
    (worker, root)
}
