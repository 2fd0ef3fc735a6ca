//! Tasks that their owner polls: `owned.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_wake_reaches_an_owner_that_waits` | a wake meets an owner that polls what is queued, leaves its waker, and waits: the task is polled again | 3 | 0.1 | `owned_push_wakes_nobody`, `owned_register_does_not_look`, `owned_wake_before_the_push` |
//! | `a_spawn_reaches_an_owner_that_waits` | the same for a task that is spawned | 3 | 0.1 | `owned_spawn_wakes_nobody`, `owned_register_does_not_look` |
//! | `the_end_waits_for_a_task_in_hand` | a wake meets the end: no task is left, and all that it owned was dropped | 3 | 0.1 | `owned_end_waits_for_nobody` |
//! | `nothing_comes_in_after_the_end` | a spawn meets the end: the task was cancelled, and nothing of it is left | 3 | 0.1 | `owned_spawn_after_the_end` |
//!
//! An owner that would wait goes on only if its waker was woken since it looked last. So a lost
//! wake shows as a task that is not done.
#![expect(unsafe_code, reason = "a value that loom sees, as in `task.rs`")]

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    sync::{
        Arc, Mutex as Plain,
        atomic::{AtomicUsize, Ordering::SeqCst as Observer},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::both_ways::explore;
use crate::{
    cell::{Id, JoinCell, Outcome, Task},
    owned::Owned,
    sync::{
        UnsafeCell,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// What a future owns: counts itself, and is touched when it is dropped.
struct Canary {
    touched: UnsafeCell<u32>,
    alive: Arc<AtomicUsize>,
}

impl Canary {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Observer);
        Self {
            touched: UnsafeCell::new(0),
            alive: alive.clone(),
        }
    }

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

/// Leaves its waker outside, and is ready when its flag is set, which a wake alone makes visible.
struct Flag {
    canary: Canary,
    outside: Arc<Outside>,
}

struct Outside {
    set: AtomicBool,
    waker: Plain<Option<Waker>>,
}

impl Future for Flag {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.canary.touch();
        if self.outside.set.load(Relaxed) {
            return Poll::Ready(());
        }
        *self.outside.waker.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The owner's waker.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Observer);
    }
}

struct World {
    owned: Arc<Owned>,
    woken: Arc<Woken>,
    alive: Arc<AtomicUsize>,
}

fn poll(task: Task) -> Outcome {
    task.run_apart()
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            owned: Owned::new(|_| {}),
            woken: Arc::default(),
            alive: Arc::default(),
        })
    }

    fn spawn(&self, set: bool) -> (JoinCell<()>, Arc<Outside>) {
        let outside = Arc::new(Outside {
            set: AtomicBool::new(set),
            waker: Plain::new(None),
        });
        let future = Flag {
            canary: Canary::new(&self.alive),
            outside: outside.clone(),
        };
        let parts = self.owned.parts(Id::new(1), Location::caller());
        let (task, handle) = Task::new(future, parts);
        self.owned.begin(task);
        (handle, outside)
    }

    /// Polls what there is, and waits; goes on as long as it is woken.
    fn run_until_it_waits(&self) {
        let waker = Waker::from(self.woken.clone());
        loop {
            while self.owned.clone().run_next(poll) || self.owned.end_round() {}
            let any = self.owned.register(&waker);
            if !any && !self.woken.0.swap(false, Observer) {
                break;
            }
        }
    }

    /// When all others are done: if the owner was woken, it goes on.
    fn run_if_woken(&self) {
        if self.woken.0.swap(false, Observer) {
            self.run_until_it_waits();
        }
    }

    /// After the end.
    fn assert_nothing_is_left(&self) {
        assert_eq!(self.owned.queued(), 0, "a task is queued still");
        assert_eq!(self.owned.alive(), 0, "a task is alive still");
        assert_eq!(self.alive.load(Observer), 0, "a future was not dropped");
    }
}

/// None: it was cancelled.
fn joined(handle: &mut JoinCell<()>) -> Option<()> {
    match handle.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.ok(),
        Poll::Pending => panic!("the task has not ended"),
    }
}

#[test]
fn a_wake_reaches_an_owner_that_waits() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = world.spawn(false);
        assert!(world.owned.clone().run_next(poll));
        let waker = outside.waker.lock().unwrap().take().expect("it waits");
        let owner = world.clone();
        turn.race(
            move || {
                outside.set.store(true, Relaxed);
                waker.wake();
            },
            [move || owner.run_until_it_waits()],
        );
        world.run_if_woken();
        assert_eq!(joined(&mut handle), Some(()));
        world.owned.end(poll);
        world.assert_nothing_is_left();
    });
}

#[test]
fn a_spawn_reaches_an_owner_that_waits() {
    explore(3, |turn| {
        let world = World::new();
        let (owner, spawner) = (world.clone(), world.clone());
        let (mut handle, [()]) = turn.race(
            move || spawner.spawn(true).0,
            [move || owner.run_until_it_waits()],
        );
        world.run_if_woken();
        assert_eq!(joined(&mut handle), Some(()));
        world.owned.end(poll);
        world.assert_nothing_is_left();
    });
}

#[test]
fn the_end_waits_for_a_task_in_hand() {
    explore(3, |turn| {
        let world = World::new();
        let (mut handle, outside) = world.spawn(false);
        assert!(world.owned.clone().run_next(poll));
        let waker = outside.waker.lock().unwrap().take().expect("it waits");
        let owner = world.clone();
        turn.race(
            move || waker.wake(),
            [move || {
                owner.owned.end(poll);
                owner.assert_nothing_is_left();
            }],
        );
        assert_eq!(joined(&mut handle), None);
        world.assert_nothing_is_left();
    });
}

#[test]
fn nothing_comes_in_after_the_end() {
    explore(3, |turn| {
        let world = World::new();
        let (owner, spawner) = (world.clone(), world.clone());
        let (mut handle, [()]) = turn.race(
            move || spawner.spawn(false).0,
            [move || owner.owned.end(poll)],
        );
        assert_eq!(joined(&mut handle), None);
        world.assert_nothing_is_left();
    });
}
