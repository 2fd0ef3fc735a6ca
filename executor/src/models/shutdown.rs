//! The phases of a shutdown: `permit/phase.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `one_that_pushes_after_the_last_thread_drops_the_task` | a waker that has only its task meets the whole shutdown: the task is dropped once, and the runtime stands until the waker is out | 3 | 0.3 | `shutdown_pusher_does_not_look`, `shutdown_keeps_nothing`, `shutdown_lets_go_of_a_live_task` |
//! | `one_that_queued_before_the_sweep_and_pushes_after_the_end_drops_the_task` | the same for a task that nobody finds idle | 3 | 0.3 | `shutdown_push_no_fence`, `shutdown_close_no_fence`, `shutdown_closed_does_not_drain` |
//! | `the_last_task_and_the_end_see_each_other` | a task that ends on a foreign thread meets the end, and the thread that waits for it | 3 | 3.4 | `shutdown_foreign_does_not_look`, `shutdown_foreign_no_fence`, `shutdown_last_task_*` |
//! | `two_that_end_the_last_tasks_of_two_tables_see_each_other` | two tasks that are pushed after the end, and whose tables their threads find empty | 3 | 3.4 | `shutdown_two_tables_no_fence` |
//! | `a_task_that_enters_at_the_end_has_a_runtime` | a task that a foreign thread enters when the end may be over: the runtime stands until its waker is out | 3 | 5.8 | `shutdown_foreign_keeps_nothing`, `shutdown_counts_without_the_lock` |
//! | `a_task_that_enters_when_it_drains_is_cancelled` | a task that a foreign thread enters when the draining may have begun is cancelled by one or the other | 3 | 0.5 | `shutdown_drain_no_fence`, `shutdown_foreign_does_not_abort` |
//! | `the_last_task_and_the_draining_see_each_other` | a task that ends on a P's thread when the draining begins: the shutdown thread is told | 3 | 0.5 | `shutdown_drain_asks_nobody`, `shutdown_drain_does_not_look`, `shutdown_called_no_fence` |
//! | `a_new_p_is_told_of_the_closing` | a P that is made meanwhile is told, by one or the other | 3 | 0.3 | `shutdown_begin_no_fence`, `shutdown_new_p_no_fence`, `shutdown_tells_and_wakes_nobody` |
//! | `a_p_that_is_taken_again_is_told_of_the_closing` | the same for a P whose last thread has gone | 3 | 0.3 | `allp_taken_again_is_not_listed` |
//! | `a_thread_that_ends_by_itself_leaves_nothing_behind` | the last thread sweeps if nobody has | 3 | 0.7 | `shutdown_last_thread_does_not_sweep` |
//!
//! The environment is a `MockRuntime` with threads that have no work of their own, so no permit
//! moves; its tasks, their live table and the global queue are the shipped ones. Every reference to
//! the runtime is counted, and a thread that comes in touches a cell that the last reference
//! touches when it goes: a runtime that goes too early is a race that loom reports, and one that
//! never goes is seen at the end.
#![expect(
    unsafe_code,
    reason = "a scheduler handle finds its runtime by the address that it carries, as in `given.rs`"
)]

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize as Counter, Ordering::SeqCst as Observer},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::both_ways::explore;
use crate::{
    cell::{
        Birth, Functions, Id, Lane, Outcome, Parts, Place, SchedulerHandle, Task, TaskRef,
        live::{LiveOwner, Removed, live_table},
    },
    park::Parker,
    permit::{
        allp::{AllPs, ListedP},
        env::{Env, PeerEnv},
        idle::{Idle, Permit, Spinning, WorkerStateCell},
        phase::{Phase, ShutdownEnv, Threads},
    },
    queue::{GlobalRunQueue, OrderedShared, Stealer, local_queue},
    sync::{
        Condvar, Mutex, UnsafeCell,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

static FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    report_panic: |_, _| {},
};

/// What all threads share.
struct MockRuntime {
    idle: Idle,
    /// The only permit: nobody is to be woken.
    _permit: Permit,
    grq: GlobalRunQueue<Task>,
    ordered: OrderedShared<Task>,
    phase: Phase,
    peers: [Peer; 2],
    /// Those of them that have a thread.
    allp: AllPs<Owned>,
    netpoll_waiter: AtomicUsize,
    refusal: AtomicBool,
    /// With their tables, as each P has one.
    schedulers: Vec<(SchedulerHandle, Mutex<LiveOwner<TaskRef>>)>,
    kept: Mutex<Option<Strong>>,
    threads: Mutex<Threads>,
    changed: Condvar,
    holds: AtomicUsize,
    /// Read by threads inside, written when the runtime goes.
    gone: UnsafeCell<bool>,
    /// Futures that were made, less those that were dropped.
    futures: Arc<Counter>,
}

// SAFETY: `gone` is what the protocol has to keep apart, and everything else is `Sync`.
unsafe impl Sync for MockRuntime {}
// SAFETY: as above.
unsafe impl Send for MockRuntime {}

struct Peer {
    index: usize,
    asked: AtomicBool,
    told: AtomicBool,
    state: WorkerStateCell,
    parker: Parker,
    stealer: Stealer<Task>,
}

/// The owner's end of a P.
struct Owned(usize);

impl ListedP for Owned {
    fn index(&self) -> usize {
        self.0
    }

    fn has_live(&self) -> bool {
        false
    }
}

/// A counted reference to the runtime. The memory stays until the model is over.
struct Strong(Arc<MockRuntime>);

impl Drop for Strong {
    fn drop(&mut self) {
        if self.0.holds.fetch_sub(1, AcqRel) == 1 {
            assert_eq!(self.0.live_tasks(), 0, "a live task keeps its runtime");
            // SAFETY: nobody holds the runtime any more.
            self.0.gone.with_mut(|gone| unsafe { *gone = true });
        }
    }
}

fn schedule(scheduler: &SchedulerHandle, task: Task) {
    // SAFETY: `MockRuntime::new` put its address there, and its memory stays until the model is
    // over.
    let runtime = unsafe { &*scheduler.runtime().cast::<MockRuntime>() };
    runtime.come_in();
    let _strong = runtime.strong();
    runtime.push(task);
}

fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    // SAFETY: as above.
    let runtime = unsafe { &*scheduler.runtime().cast::<MockRuntime>() };
    runtime.come_in();
    let removed = scheduler.live().remove(index);
    runtime.task_ended(|| scheduler.live().len() == 0);
    removed
}

impl PeerEnv for Peer {
    type Task = Task;

    fn index(&self) -> usize {
        self.index
    }

    fn state(&self) -> &WorkerStateCell {
        &self.state
    }

    fn parker(&self) -> &Parker {
        &self.parker
    }

    fn stealer(&self) -> &Stealer<Task> {
        &self.stealer
    }

    fn steal_next(&self) -> Option<Task> {
        None
    }

    fn has_alone(&self) -> bool {
        false
    }
}

impl Env for MockRuntime {
    type Task = Task;
    type Peer = Peer;

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalRunQueue<Task> {
        &self.grq
    }

    fn ordered(&self) -> &OrderedShared<Task> {
        &self.ordered
    }

    fn phase(&self) -> &Phase {
        &self.phase
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.allp.occupied().map(|index| &self.peers[index])
    }

    fn peer(&self, index: usize) -> &Peer {
        &self.peers[index]
    }

    fn refusal(&self) -> &AtomicBool {
        &self.refusal
    }

    fn netpoll_waiter(&self) -> &AtomicUsize {
        &self.netpoll_waiter
    }

    fn interrupt(&self) {
        unreachable!("nobody waits in a netpoll here");
    }

    fn awaits(&self) -> bool {
        false
    }

    fn start_thread(&self, _: Permit, _: Spinning) {
        unreachable!("no permit is ever free");
    }

    fn notify_owner(&self, peer: &Peer) {
        self.unpark(peer);
    }

    fn cancel(task: Task) {
        let _ = task.cancel();
    }
}

impl ShutdownEnv for MockRuntime {
    type Strong = Strong;

    fn strong(&self) -> Strong {
        let before = self.holds.fetch_add(1, Relaxed);
        assert!(before > 0, "nobody holds the runtime");
        // SAFETY: the address of an `Arc`'s contents, which is there until the model is over.
        Strong(unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        })
    }

    fn kept(&self) -> &Mutex<Option<Strong>> {
        &self.kept
    }

    fn threads(&self) -> &Mutex<Threads> {
        &self.threads
    }

    fn changed(&self) -> &Condvar {
        &self.changed
    }

    fn live_tasks(&self) -> usize {
        self.schedulers
            .iter()
            .map(|(scheduler, _)| scheduler.live().len())
            .sum()
    }

    fn cancel_all(&self, mut dispose: impl FnMut(Task)) {
        for (scheduler, _) in &self.schedulers {
            scheduler.live().sweep(|task| {
                if let Some(task) = task.cancel() {
                    dispose(task);
                }
            });
        }
    }

    fn abort_all(&self) {
        for (scheduler, _) in &self.schedulers {
            scheduler.live().sweep(|task| {
                if let Some(task) = task.cancel() {
                    self.push(task);
                }
            });
        }
    }

    fn ask(&self, peer: &Peer) {
        peer.asked.store(true, Relaxed);
    }

    fn tell(&self, peer: &Peer) {
        peer.told.store(true, Relaxed);
    }

    fn dismiss_others(&self) {}

    fn clear_on_a_foreign_thread(&self) {
        self.clear_away();
    }

    fn shut_down_resources(&self) {}
}

impl MockRuntime {
    /// A runtime with `threads` of them, each with a P, and the reference of its builder.
    fn new(threads: usize) -> Strong {
        Self::with_tables(1, threads)
    }

    /// The same with so many tables.
    fn with_tables(tables: usize, threads: usize) -> Strong {
        let idle = Idle::new(1, 2);
        let permit = idle.acquire().expect("it is free");
        let runtime = Arc::new_cyclic(|this: &std::sync::Weak<Self>| Self {
            idle,
            _permit: permit,
            grq: GlobalRunQueue::new(),
            ordered: OrderedShared::new(),
            phase: Phase::new(),
            peers: [0, 1].map(|index| Peer {
                index,
                asked: AtomicBool::new(false),
                told: AtomicBool::new(false),
                state: WorkerStateCell::new(),
                parker: Parker::new(),
                stealer: local_queue().1,
            }),
            allp: AllPs::new(2),
            netpoll_waiter: AtomicUsize::new(0),
            refusal: AtomicBool::new(false),
            schedulers: (0..tables)
                .map(|_| {
                    let (table, owner) = live_table();
                    let scheduler = SchedulerHandle::new(
                        Place::Foreign,
                        this.as_ptr().cast(),
                        table,
                        &FUNCTIONS,
                    );
                    (scheduler, Mutex::new(owner))
                })
                .collect(),
            kept: Mutex::new(None),
            threads: Mutex::new(Threads {
                count: threads,
                ..Threads::default()
            }),
            changed: Condvar::new(),
            holds: AtomicUsize::new(1),
            gone: UnsafeCell::new(false),
            futures: Arc::new(Counter::new(0)),
        });
        (0..threads).for_each(|_| _ = runtime.take());
        Strong(runtime)
    }

    /// A P for one more thread.
    fn take(&self) -> Owned {
        let owned = self.allp.take(Owned);
        owned.expect("two threads at most")
    }

    /// Whoever is inside finds the runtime standing.
    fn come_in(&self) {
        // SAFETY: a thread that comes in knows that the runtime is there.
        self.gone
            .with(|gone| assert!(!unsafe { *gone }, "the runtime is gone"));
    }

    /// A live task that is queued, on the way to its queue. It leaves its waker `outside` and
    /// waits, or is ready at once.
    fn spawn(&self, outside: Option<Outside>) -> Task {
        self.spawn_in(0, outside)
    }

    /// The same in the table of that number.
    fn spawn_in(&self, table: usize, outside: Option<Outside>) -> Task {
        self.futures.fetch_add(1, Observer);
        let (scheduler, owner) = &self.schedulers[table];
        let parts = Parts {
            birth: Birth {
                scheduler: NonNull::from(scheduler),
                id: Id::new(1),
                born_ms: 0,
                lane: Lane::NONE,
                parent: None,
            },
            location: Location::caller(),
            extra: None,
        };
        let alive = self.futures.clone();
        let (task, handle) = Task::new(Waits { outside, alive }, parts);
        drop(handle);
        task.enter(|reference| owner.lock().insert(reference));
        task
    }

    /// A task that waits, and its waker.
    fn waiting(&self) -> Waker {
        let outside = Outside::default();
        let task = self.spawn(Some(outside.clone()));
        assert!(matches!(task.run_apart(), Outcome::Idle));
        let waker = outside.lock().unwrap().take();
        waker.expect("it was polled")
    }

    /// What `Worker::clear_away` does, without pinned tasks and other Ps.
    fn clear_away(&self) {
        self.sweep(Self::cancel);
        self.drain_global();
    }

    /// The life of a thread with the P `index`: it runs nothing, and waits for the end.
    fn live_in(&self, index: usize) {
        let peer = self.peer(index);
        while !peer.told.load(Relaxed) {
            peer.parker.park();
        }
        self.was_called();
        self.clear_away();
        self.thread_ended();
    }

    /// What a model's end has to show.
    fn assert_gone(&self) {
        assert_eq!(self.holds.load(Acquire), 0, "the runtime keeps itself");
        assert_eq!(self.futures.load(Observer), 0, "a future was leaked");
        assert!(self.grq.is_empty(), "a task is queued still");
    }
}

/// Where a future leaves its waker.
type Outside = Arc<std::sync::Mutex<Option<Waker>>>;

/// Waits for ever, or is ready at once.
struct Waits {
    outside: Option<Outside>,
    alive: Arc<Counter>,
}

impl Future for Waits {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.outside {
            Some(outside) => {
                *outside.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Observer);
    }
}

#[test]
fn one_that_pushes_after_the_last_thread_drops_the_task() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let waker = runtime.waiting();
        // It has only the waker: the runtime is there because the task is alive.
        let wakes = move || waker.wake();
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [wakes]);
        runtime.assert_gone();
    });
}

#[test]
fn one_that_queued_before_the_sweep_and_pushes_after_the_end_drops_the_task() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        // It is queued, and its waker has not come to the push.
        let task = runtime.spawn(None);
        let address = runtime.clone();
        let pushes = move || schedule(&address.schedulers[0].0, task);
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [pushes]);
        runtime.assert_gone();
    });
}

#[test]
fn the_last_task_and_the_end_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let task = runtime.spawn(None);
        // A thread that is not one of the runtime's, as in `block_on`, runs it.
        let own = strong.0.strong();
        let runs = move || {
            let _ = task.run_apart();
            own.0.left(None, None);
            own.0.foreign_thread_left();
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
            let forever = || Some(Duration::MAX);
            assert!(strong.0.wait_for_the_end(forever));
        };
        turn.race(ends, [runs]);
        runtime.assert_gone();
    });
}

#[test]
fn two_that_end_the_last_tasks_of_two_tables_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::with_tables(2, 1);
        let runtime = strong.0.clone();
        // They are queued, and their wakers have not come to the push.
        let [first, second] = [0, 1].map(|table| runtime.spawn_in(table, None));
        strong.0.begin_shutdown();
        strong.0.live_in(0);
        drop(strong);
        let [one, other] = [runtime.clone(), runtime.clone()];
        let pushes = move || schedule(&one.schedulers[0].0, first);
        let pushes_too = move || schedule(&other.schedulers[1].0, second);
        turn.race(pushes, [pushes_too]);
        runtime.assert_gone();
    });
}

#[test]
fn a_task_that_enters_when_it_drains_is_cancelled() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        // A thread that is not one of the runtime's: it saw the runtime open.
        let own = strong.0.strong();
        let enters = move || {
            let task = own.0.spawn(Some(Outside::default()));
            own.0.push(task);
            own.0.left(None, None);
            own.0.foreign_thread_left();
        };
        let ends = move || {
            strong.0.begin_draining();
            // The thread that ends it stays until the task is gone.
            strong
        };
        let kept = Arc::new(std::sync::Mutex::new(None));
        let keeps = kept.clone();
        turn.race(move || *keeps.lock().unwrap() = Some(ends()), [enters]);
        // A worker comes by.
        while let Some(task) = runtime.pop_queued() {
            assert!(matches!(task.run_apart(), Outcome::Done(_)), "it waits");
        }
        assert_eq!(runtime.live_tasks(), 0, "it waits");
        let strong = kept.lock().unwrap().take().expect("it was put there");
        strong.0.begin_shutdown();
        strong.0.live_in(0);
        drop(strong);
        runtime.assert_gone();
    });
}

#[test]
fn the_last_task_and_the_draining_see_each_other() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let task = runtime.spawn(None);
        let own = strong.0.strong();
        let runs = move || {
            let _ = task.run_apart();
            let peer = own.0.peer(0);
            while !peer.asked.load(Relaxed) {
                peer.parker.park();
            }
            own.0.was_called();
            own.0.drain_own(|| ());
            own.0.live_in(0);
        };
        let ends = move || {
            strong.0.begin_draining();
            assert!(strong.0.wait_for_the_last_task(|| Some(Duration::MAX)));
            strong.0.begin_shutdown();
            assert!(strong.0.wait_for_the_end(|| Some(Duration::MAX)));
        };
        turn.race(ends, [runs]);
        runtime.assert_gone();
    });
}

#[test]
fn a_new_p_is_told_of_the_closing() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        strong.0.threads.lock().count += 1;
        let new = strong.0.strong();
        let arrives = move || {
            // As in `Shared::take_processor`.
            let index = new.0.take().index();
            new.0.notify_new_p(new.0.peer(index));
            new.0.live_in(1);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [arrives]);
        runtime.assert_gone();
    });
}

#[test]
fn a_p_that_is_taken_again_is_told_of_the_closing() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        strong.0.threads.lock().count += 1;
        // Its last thread has gone.
        runtime.allp.give_back(runtime.take());
        let new = strong.0.strong();
        let arrives = move || {
            // As in `Shared::take_processor`.
            let index = new.0.take().index();
            new.0.notify_new_p(new.0.peer(index));
            new.0.live_in(1);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [arrives]);
        runtime.assert_gone();
    });
}

#[test]
fn a_thread_that_ends_by_itself_leaves_nothing_behind() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let waker = runtime.waiting();
        let idler = strong.0.strong();
        let goes = move || {
            // It was idle for long, and has looked at its P for the last time.
            if idler.0.peer(0).told.load(Relaxed) {
                idler.0.clear_away();
            }
            idler.0.thread_ended();
        };
        let ends = move || {
            if strong.0.begin_shutdown() && strong.0.threads.lock().count == 0 {
                strong.0.help_to_clear();
            }
        };
        turn.race(ends, [goes]);
        drop(waker);
        runtime.assert_gone();
    });
}

#[test]
fn a_task_that_enters_at_the_end_has_a_runtime() {
    explore(3, |turn| {
        let strong = MockRuntime::new(1);
        let runtime = strong.0.clone();
        let address = runtime.clone();
        // A thread that is not one of the runtime's, as in `block_on`: it saw the runtime open.
        let own = strong.0.strong();
        let enters = move || {
            let task = own.0.spawn(None);
            own.0.left(None, None);
            own.0.foreign_thread_left();
            drop(own);
            // A waker has it by now, on its way to the push: the runtime is there because the task
            // is alive.
            schedule(&address.schedulers[0].0, task);
        };
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
        };
        turn.race(ends, [enters]);
        runtime.assert_gone();
    });
}

/// Too large for loom: see `large.rs`.
#[cfg(ws_shuttle)]
#[test]
fn everybody_at_the_end() {
    explore(4, |turn| {
        let strong = MockRuntime::new(2);
        let runtime = strong.0.clone();
        let wakers = [runtime.waiting(), runtime.waiting()];
        let task = runtime.spawn(None);
        let foreign = strong.0.strong();
        let second = strong.0.strong();
        let [one, other] = wakers;
        let parties: [Box<dyn FnOnce()>; 4] = [
            Box::new(move || one.wake()),
            Box::new(move || {
                other.wake_by_ref();
                other.wake();
            }),
            Box::new(move || {
                let _ = task.run_apart();
                foreign.0.left(None, None);
                foreign.0.foreign_thread_left();
            }),
            Box::new(move || second.0.live_in(1)),
        ];
        let ends = move || {
            strong.0.begin_shutdown();
            strong.0.live_in(0);
            assert!(strong.0.wait_for_the_end(|| Some(Duration::MAX)));
        };
        turn.race(ends, parties);
        runtime.assert_gone();
    });
}
