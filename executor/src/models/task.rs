//! The life of a task: `cell/state.rs` and `cell/raw.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_wake_reaches_the_next_poll` | two wakes meet each other and the polls that they bring about: one queue at a time, one poll at a time, and the last poll sees what both wrote | 3 | 0.3 | `task_load_relaxed`, `task_settle_loses_a_wake`, `task_settle_relaxed`, `task_wake_relaxed` |
//! | `a_wake_that_gives_its_reference_back_reaches_the_next_poll` | the same for wakers that are consumed | 3 | 0.2 | `task_wake_by_value_relaxed` |
//! | `an_abort_meets_a_wake_and_a_poll` | the task ends once, with its output or cancelled | 3 | 0.1 | also `task_cancel_does_not_count` |
//! | `an_abort_of_a_waiting_task_ends_it` | an abort is not lost beside a wake and a poll that is not ready | 3 | 0.1 | `task_cancel_does_not_count`, `task_settle_ignores_a_cancel` |
//! | `a_poll_that_goes_on_by_itself_meets_a_wake` | a poll that forked is followed by another, in one queue and one at a time, and no wake is lost | 3 | 0.1 | `task_goes_on_without_a_count` |
//! | `a_joiner_that_changes_its_waker_is_woken` | a handle that is polled with one waker and then another gets the output, or its last waker is woken | 3 | 0.1 | `task_done_relaxed`, `task_register_relaxed`, `task_unregister_ignores_done` |
//! | `a_handle_that_goes_away_leaves_nothing_behind` | output and waker are dropped once, whoever is first | 3 | 0.1 | `task_detach_forgets_the_output`, `task_last_reference_relaxed` |
//! | `the_last_reference_frees_the_cell_once` | the cell is freed once, after all that anybody did with it | 3 | 0.1 | `task_drop_reference_relaxed`, `task_last_waker_does_not_free` |
//! | `a_wake_beyond_the_limit_reaches_the_next_poll` | a wake that does not count any more, of a task that runs, is not lost | 3 | 0.1 | `task_settle_trusts_the_limit`, `task_uncounted_wake_relaxed` |
//! | `a_refused_task_says_cancelled` | a task that was never entered ends as one that was cancelled | 3 | 0.1 | also `task_done_relaxed`, `task_register_relaxed` |
//! | `a_place_is_read_beside_the_first_priority` | the word of a task's place and priority is read while two threads set its first priority: the place is the same, and one priority is kept | 3 | 6 | `task_meta_is_read_twice` |
//!
//! The scheduler here is one queue, and every thread runs what it finds there when it has done its
//! part. What a future and an output own is touched when it is dropped, so that loom sees a drop
//! that races; and every cell's end is an access of its own (`sync.rs`).
#![expect(
    unsafe_code,
    reason = "a scheduler handle finds its world by the address that it carries, as in `given.rs`"
)]

use std::{
    collections::VecDeque,
    future::Future,
    panic::{Location, resume_unwind},
    pin::Pin,
    ptr::NonNull,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst as Observer},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::both_ways::explore;
use crate::{
    cell::{
        Birth, Ended, Functions, Id, JoinCell, Lane, Outcome, Parts, Place, SchedulerHandle, Task,
        TaskRef,
        live::{LiveOwner, Removed, live_table},
        state::{self, Settle, State},
    },
    sync::{
        Mutex, UnsafeCell,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

static FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    report_panic: |_, _| {},
};

/// The scheduler of these models.
pub(super) struct World {
    scheduler: SchedulerHandle,
    owner: Mutex<LiveOwner<TaskRef>>,
    queue: Mutex<VecDeque<Task>>,
    /// Canaries that were made, less those that were dropped.
    alive: Arc<AtomicUsize>,
}

fn schedule(scheduler: &SchedulerHandle, task: Task) {
    // SAFETY: `World::new` put its address there, and the world outlives its tasks.
    let world = unsafe { &*scheduler.runtime().cast::<World>() };
    world.push(task);
}

fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    scheduler.live().remove(index)
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        let (table, owner) = live_table();
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            scheduler: SchedulerHandle::new(
                Place::Foreign,
                this.as_ptr().cast(),
                table,
                &FUNCTIONS,
            ),
            owner: Mutex::new(owner),
            queue: Mutex::new(VecDeque::new()),
            alive: Arc::new(AtomicUsize::new(0)),
        })
    }

    fn canary(&self) -> Canary {
        self.alive.fetch_add(1, Observer);
        Canary {
            touched: UnsafeCell::new(0),
            alive: self.alive.clone(),
        }
    }

    fn make<F>(&self, future: F) -> (Task, JoinCell<F::Output>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let parts = Parts {
            birth: Birth {
                scheduler: NonNull::from(&self.scheduler),
                id: Id::new(1),
                born_ms: 0,
                lane: Lane::NONE,
                parent: None,
            },
            location: Location::caller(),
            extra: None,
        };
        Task::new(future, parts)
    }

    /// Makes a task and queues it.
    fn spawn<F>(&self, future: F) -> JoinCell<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, handle) = self.make(future);
        task.enter(|reference| self.owner.lock().insert(reference));
        self.push(task);
        handle
    }

    fn push(&self, task: Task) {
        let mut queue = self.queue.lock();
        assert!(queue.is_empty(), "the one task is in the queue already");
        queue.push_back(task);
    }

    fn pop(&self) -> Option<Task> {
        self.queue.lock().pop_front()
    }

    /// Runs what is queued.
    pub(super) fn run(&self) {
        while let Some(task) = self.pop() {
            match task.run_apart() {
                Outcome::Idle | Outcome::Done(Ended::Well) => {}
                Outcome::Requeue(task) => self.push(task),
                Outcome::Done(Ended::Panicked) => panic!("a poll or a drop failed"),
            }
        }
    }

    /// Polls what is queued once, which goes on by itself if it is not ready.
    fn run_and_go_on(&self) {
        let Some(task) = self.pop() else { return };
        match task.run::<false>(|| 0, |_| true) {
            Outcome::Requeue(task) => self.push(task),
            Outcome::Done(Ended::Well) => {}
            outcome => panic!("it goes on, and was {outcome:?}"),
        }
    }

    pub(super) fn for_each_live(&self, f: impl FnMut(TaskRef)) {
        self.scheduler.live().for_each(f);
    }

    /// For when all is over.
    pub(super) fn assert_empty(&self) {
        assert!(self.pop().is_none(), "a task is queued still");
        assert_eq!(self.scheduler.live().len(), 0, "a task is alive still");
        assert_eq!(
            self.alive.load(Observer),
            0,
            "a future or an output was leaked, or dropped twice"
        );
    }
}

/// Counts what is there, and touches itself when it is dropped.
pub(super) struct Canary {
    touched: UnsafeCell<u32>,
    alive: Arc<AtomicUsize>,
}

impl Canary {
    fn touch(&self) {
        // SAFETY: its owner is the only one that comes here.
        self.touched.with_mut(|touched| unsafe { *touched += 1 });
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.touch();
        self.alive.fetch_sub(1, Observer);
    }
}

// SAFETY: as a value that is moved; it is never shared.
unsafe impl Send for Canary {}

/// Is ready when all its flags are set, and leaves its waker outside at the first poll.
struct Flags {
    canary: Canary,
    output: Option<Canary>,
    outside: Arc<Outside>,
    first: bool,
}

/// What the wakers of a [`Flags`] have.
pub(super) struct Outside {
    flags: [AtomicBool; 2],
    /// How many of them are to be set.
    count: usize,
    waker: std::sync::Mutex<Option<Waker>>,
}

impl Outside {
    /// A clone, or the one that the future left here.
    fn waker(&self) -> Waker {
        let waker = self.waker.lock().unwrap();
        waker.as_ref().expect("it was polled once").clone()
    }

    pub(super) fn last_waker(&self) -> Waker {
        let mut waker = self.waker.lock().unwrap();
        waker.take().expect("it was polled once")
    }

    pub(super) fn set(&self, which: usize) {
        self.flags[which].store(true, Relaxed);
    }
}

impl Future for Flags {
    type Output = Canary;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Canary> {
        self.canary.touch();
        if self.first {
            self.first = false;
            *self.outside.waker.lock().unwrap() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // Only the wake makes these visible.
        let outside = self.outside.clone();
        if outside.flags[..outside.count]
            .iter()
            .all(|flag| flag.load(Relaxed))
        {
            Poll::Ready(self.output.take().expect("it is ready once"))
        } else {
            Poll::Pending
        }
    }
}

/// A task that was polled once, and now waits for `count` flags.
pub(super) fn waiting(world: &World, count: usize) -> (JoinCell<Canary>, Arc<Outside>) {
    let outside = Arc::new(Outside {
        flags: [AtomicBool::new(false), AtomicBool::new(false)],
        count,
        waker: std::sync::Mutex::new(None),
    });
    let handle = world.spawn(Flags {
        canary: world.canary(),
        output: Some(world.canary()),
        outside: outside.clone(),
        first: true,
    });
    world.run();
    (handle, outside)
}

/// A joiner that counts its wakes.
#[derive(Default)]
struct Joiner {
    woken: AtomicUsize,
}

impl Wake for Joiner {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Observer);
    }
}

/// What a handle got.
enum Joined {
    Output(Canary),
    Cancelled,
}

fn poll_with<T>(handle: &mut JoinCell<T>, waker: &Waker) -> Poll<Result<T, ()>> {
    handle
        .poll(&mut Context::from_waker(waker))
        .map(|result| match result {
            Ok(output) => Ok(output),
            Err(failure) => match failure.into_panic() {
                None => Err(()),
                Some(payload) => resume_unwind(payload),
            },
        })
}

/// The output of a task that is done.
fn joined(handle: &mut JoinCell<Canary>) -> Joined {
    match poll_with(handle, Waker::noop()) {
        Poll::Ready(Ok(output)) => Joined::Output(output),
        Poll::Ready(Err(())) => Joined::Cancelled,
        Poll::Pending => panic!("a wake was lost: the task is not done"),
    }
}

pub(super) fn assert_output(handle: &mut JoinCell<Canary>) {
    match joined(handle) {
        Joined::Output(output) => output.touch(),
        Joined::Cancelled => panic!("nobody cancelled it"),
    }
}

#[test]
fn a_wake_reaches_the_next_poll() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 2);
        let waker = outside.last_waker();
        let parties = [0, 1].map(|which| {
            let (world, outside, waker) = (world.clone(), outside.clone(), waker.clone());
            move || {
                outside.set(which);
                waker.wake_by_ref();
                world.run();
            }
        });
        drop(waker);
        let [first, second] = parties;
        turn.race(first, [second]);
        world.run();
        assert_output(&mut handle);
        drop(handle);
        world.assert_empty();
    });
}

#[test]
fn a_wake_that_gives_its_reference_back_reaches_the_next_poll() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 2);
        let waker = outside.last_waker();
        let parties = [0, 1].map(|which| {
            let (world, outside, waker) = (world.clone(), outside.clone(), waker.clone());
            move || {
                outside.set(which);
                waker.wake();
                world.run();
            }
        });
        drop(waker);
        let [first, second] = parties;
        turn.race(first, [second]);
        world.run();
        assert_output(&mut handle);
        drop(handle);
        world.assert_empty();
    });
}

#[test]
fn an_abort_meets_a_wake_and_a_poll() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let (aborting, task) = (world.clone(), handle.task_ref());
        let aborts = move || {
            task.abort();
            aborting.run();
        };
        let waking = world.clone();
        let wakes = move || {
            outside.set(0);
            outside.last_waker().wake();
            waking.run();
        };
        turn.race(aborts, [wakes]);
        world.run();
        match joined(&mut handle) {
            Joined::Output(output) => output.touch(),
            Joined::Cancelled => {}
        }
        drop(handle);
        world.assert_empty();
    });
}

#[test]
fn an_abort_of_a_waiting_task_ends_it() {
    explore(3, |turn| {
        let world = World::new();
        let (handle, outside) = waiting(&world, 1);
        let (waking, waker) = (world.clone(), outside.last_waker());
        // A wake for nothing: the poll that follows is not ready.
        let wakes = move || {
            waker.wake();
            waking.run();
        };
        let aborting = world.clone();
        let aborts = move || {
            handle.abort();
            aborting.run();
            handle
        };
        let (mut handle, _) = turn.race(aborts, [wakes]);
        world.run();
        assert!(matches!(joined(&mut handle), Joined::Cancelled));
        drop(handle);
        world.assert_empty();
    });
}

#[test]
fn a_poll_that_goes_on_by_itself_meets_a_wake() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let waker = outside.waker();
        let going = world.clone();
        let goes_on = move || {
            waker.wake();
            going.run_and_go_on();
            going.run();
        };
        let running = world.clone();
        turn.race(goes_on, [move || finish(&running, &outside)]);
        world.run();
        assert_output(&mut handle);
        drop(handle);
        world.assert_empty();
    });
}

#[test]
fn a_joiner_that_changes_its_waker_is_woken() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let join = move || {
            let mut last = Arc::new(Joiner::default());
            for _ in 0..2 {
                last = Arc::new(Joiner::default());
                let waker = Waker::from(last.clone());
                if let Poll::Ready(output) = poll_with(&mut handle, &waker) {
                    output.expect("nobody cancelled it").touch();
                    return (None, last);
                }
            }
            (Some(handle), last)
        };
        let running = world.clone();
        let ((handle, last), _) = turn.race(join, [move || finish(&running, &outside)]);
        if let Some(mut handle) = handle {
            assert_eq!(
                last.woken.load(Observer),
                1,
                "the joiner sleeps, and was not woken"
            );
            assert_output(&mut handle);
        }
        assert_eq!(Arc::strong_count(&last), 1, "a waker was leaked");
        world.assert_empty();
    });
}

#[test]
fn a_handle_that_goes_away_leaves_nothing_behind() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = waiting(&world, 1);
        let join = move || {
            let last = Arc::new(Joiner::default());
            let waker = Waker::from(last.clone());
            if let Poll::Ready(output) = poll_with(&mut handle, &waker) {
                output.expect("nobody cancelled it").touch();
            }
            drop(waker);
            drop(handle);
            last
        };
        let running = world.clone();
        let (last, _) = turn.race(join, [move || finish(&running, &outside)]);
        assert_eq!(Arc::strong_count(&last), 1, "a waker was leaked");
        world.assert_empty();
    });
}

/// Ends the task of [`waiting`].
fn finish(world: &World, outside: &Outside) {
    outside.set(0);
    outside.last_waker().wake();
    world.run();
}

#[test]
fn the_last_reference_frees_the_cell_once() {
    explore(3, |turn| {
        let world = World::new();
        let (handle, outside) = waiting(&world, 1);
        let (waker, task) = (outside.waker(), handle.task_ref());
        let late = move || {
            drop(task);
            // Too late or not, it is for nothing.
            waker.wake();
        };
        drop(handle);
        let running = world.clone();
        turn.race(late, [move || finish(&running, &outside)]);
        world.run();
        world.assert_empty();
    });
}

#[test]
fn a_refused_task_says_cancelled() {
    explore(3, |turn| {
        let world = World::new();
        let (task, mut handle) = world.make(std::future::ready(world.canary()));
        let join = move || {
            let last = Arc::new(Joiner::default());
            let waker = Waker::from(last.clone());
            let answer = poll_with(&mut handle, &waker);
            drop(waker);
            (handle, last, answer)
        };
        let ((mut handle, last, answer), _) = turn.race(join, [move || task.refuse()]);
        match answer {
            Poll::Ready(answer) => assert!(answer.is_err()),
            Poll::Pending => {
                assert_eq!(last.woken.load(Observer), 1, "the joiner was not woken");
                assert!(matches!(joined(&mut handle), Joined::Cancelled));
            }
        }
        drop(handle);
        assert_eq!(Arc::strong_count(&last), 1, "a waker was leaked");
        world.assert_empty();
    });
}

#[test]
fn a_wake_beyond_the_limit_reaches_the_next_poll() {
    explore(3, |turn| {
        let state = Arc::new(State::saturated());
        let written = Arc::new(AtomicBool::new(false));
        let waker = {
            let (state, written) = (state.clone(), written.clone());
            move || {
                written.store(true, Relaxed);
                state.wake_by_ref()
            }
        };
        let runner = {
            let (state, written) = (state.clone(), written.clone());
            move || {
                loop {
                    let seen = state.load();
                    let saw = written.load(Relaxed);
                    match state.settle(seen, |_| ()) {
                        Settle::Idle => return saw,
                        Settle::Requeue => {}
                        Settle::Cancel => unreachable!("nobody cancels"),
                    }
                }
            }
        };
        let (saw, [wake]) = turn.race(runner, [waker]);
        assert!(saw || wake == state::Wake::Queue, "a wake was lost");
    });
}

#[test]
fn a_place_is_read_beside_the_first_priority() {
    explore(3, |turn| {
        let world = World::new();
        let (task, handle) = world.make(std::future::ready(()));
        let place = handle.header().location();
        let reader = {
            let task = handle.task_ref();
            move || {
                let seen = task.header().location();
                // Their addresses: what is behind a wrong one is no place.
                assert!(std::ptr::eq(seen, place), "another place");
                assert!((0..=2).contains(&task.header().priority()));
            }
        };
        let setters = [1, 2].map(|priority| {
            let task = handle.task_ref();
            move || {
                task.header().set_priority(priority);
                assert!((1..=2).contains(&task.header().priority()));
            }
        });
        turn.race(reader, setters);
        assert!((1..=2).contains(&handle.header().priority()));
        task.refuse();
        drop(handle);
        world.assert_empty();
    });
}
