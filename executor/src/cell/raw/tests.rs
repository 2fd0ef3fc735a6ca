//! What a task's header says to code that does not know its future, for tasks of each kind.

use std::{
    future::{pending, poll_fn},
    ptr,
    task::Poll,
};

use super::*;
use crate::cell::{
    live::{LiveOwner, LiveTable, live_table},
    reference::task_of,
    scheduler::{Functions, Place},
};

static FUNCTIONS: Functions = Functions {
    schedule: |_, _| panic!("nobody wakes it"),
    remove: |scheduler, index| scheduler.live().remove(index),
    report_panic: |_, _| panic!("nobody panics"),
};

fn scheduler() -> (SchedulerHandle, LiveOwner<TaskRef>) {
    let (table, owner): (LiveTable<_>, _) = live_table();
    let scheduler = SchedulerHandle::new(Place::Processor(3), ptr::null(), table, &FUNCTIONS);
    (scheduler, owner)
}

fn parts(scheduler: &SchedulerHandle, extra: Option<Extra>) -> Parts {
    Parts {
        birth: Birth {
            scheduler: NonNull::from(scheduler),
            id: Id::new(1),
            born_ms: 5,
            lane: Lane::NONE,
            parent: None,
        },
        location: Location::caller(),
        extra: extra.map(Box::new),
    }
}

/// The task ends, and its handle says that it was cancelled.
fn refuse<T>(task: Task, mut handle: JoinCell<T>) {
    task.refuse();
    let answer = handle.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Err(failure)) if !failure.is_panic()));
}

#[test]
fn pinned_tasks_and_those_with_a_priority_go_other_ways() {
    let (scheduler, _owner) = scheduler();
    for (is_pinned, priority) in [
        (false, None),
        (false, Some(0)),
        (false, Some(7)),
        (true, None),
        (true, Some(0)),
        (true, Some(7)),
    ] {
        let extra = priority.map(|priority| Extra {
            name: Some("batch".into()),
            priority,
            ..Extra::default()
        });
        let parts = parts(&scheduler, extra);
        let (task, handle) = if is_pinned {
            // SAFETY: it is run nowhere, and ends on this thread.
            unsafe { Task::new_pinned(pending::<()>(), parts) }
        } else {
            Task::new(pending::<()>(), parts)
        };
        let header = task.header();
        let is_special = priority == Some(7);
        assert_eq!(header.name(), priority.map(|_| "batch"));
        assert_eq!(header.born_ms(), 5);
        assert_eq!(header.is_plain(), !is_pinned && priority.is_none());
        assert_eq!(header.is_pinned(), is_pinned);
        assert_eq!(header.ways(), (is_pinned, !is_pinned && !is_special));
        assert_eq!(header.is_ordered(), !is_pinned && is_special);
        assert_eq!(Ordered::is_ordered(&task), header.is_ordered());
        assert_eq!(Ordered::priority(&task), priority.unwrap_or(0));
        assert!(!header.blocks());
        header.set_priority(9);
        assert_eq!(header.priority(), 9);
        refuse(task, handle);
    }
    let (task, handle) = Task::new_blocking(pending::<()>(), parts(&scheduler, None));
    assert!(task.header().blocks());
    refuse(task, handle);
}

/// A dump tells by it which thread runs which task.
#[test]
fn an_address_is_that_of_one_live_task() {
    let (scheduler, owner) = scheduler();
    let entered = [(); 3].map(|()| {
        let (task, handle) = Task::new(async {}, parts(&scheduler, None));
        task.enter(|reference| owner.insert(reference));
        (task, handle)
    });
    let [first, second, third] = entered.each_ref().map(|(task, _)| task.address());
    assert!(first != second && second != third && third != first);
    for (index, (task, handle)) in entered.into_iter().enumerate() {
        let address = task.header().address();
        assert_eq!(Place::from_number((address >> 32) - 1), scheduler.place());
        assert_eq!(address & u64::from(u32::MAX), index as u64);
        let outcome = task.run_apart();
        assert!(matches!(outcome, Outcome::Done(Ended::Well)));
        drop(handle);
    }
    assert_eq!(scheduler.live().len(), 0);
}

/// S6: what is dropped unjoined may panic, and so may the code that is told of it.
#[test]
fn an_output_whose_drop_panics_harms_nobody() {
    struct Spiteful;

    impl Drop for Spiteful {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }

    let (scheduler, owner) = scheduler();
    let (task, handle) = Task::new(async { Spiteful }, parts(&scheduler, None));
    task.enter(|reference| owner.insert(reference));
    drop(handle);
    assert!(matches!(task.run_apart(), Outcome::Done(_)));
    let mut is_told = false;
    report(|| is_told = true);
    assert!(is_told);
    report(|| std::panic::resume_unwind(Box::new(())));
}

#[test]
fn a_waker_says_whose_it_is() {
    let (scheduler, owner) = scheduler();
    let seen = poll_fn(|cx| Poll::Ready(task_of(cx.waker())));
    let (task, mut handle) = Task::new(seen, parts(&scheduler, None));
    task.enter(|reference| owner.insert(reference));
    let address = task.address();
    assert!(matches!(task.run_apart(), Outcome::Done(Ended::Well)));
    let foreign = Waker::noop();
    let Poll::Ready(Ok(seen)) = handle.poll(&mut Context::from_waker(foreign)) else {
        panic!("it has ended");
    };
    assert_eq!((seen, task_of(foreign)), (Some(address), None));
}

/// What a task costs above its future and its slot in the live table.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_header_has_eleven_words() {
    let console = size_of::<TaskSpan>();
    assert_eq!(size_of::<Header>() - console, 11 * size_of::<usize>());
}
