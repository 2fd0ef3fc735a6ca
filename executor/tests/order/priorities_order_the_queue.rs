//! O1, O2, O3, O4: tasks have a priority. A worker takes the higher ones first, and equals in their
//! order; its queue is bounded, and what does not fit goes where its priority belongs; a worker
//! that has nothing steals the high ones; and a high one in the queue of a stuck worker does not
//! wait.
//!
//! Most of it is about one worker that is active while the others are held, so that the order is
//! exact. They fail when `highest` in `sched/priority.rs` takes what it finds first, when
//! `push_full` in `queue/src/ordered/local.rs` gives the new task away, when `ordered_first` does
//! not look at others, when `Worker::running_task` is no task.

use crate::common;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use common::{Count, Gate};
use proptest::prelude::*;
use ws_executor::{
    runtime::{Builder, Handle, Priorities, Runtime, Sysmon},
    task::{self, Priority},
};

/// A runtime with one active worker: all others are in the middle of a poll until the gate opens,
/// and nobody takes their permits.
struct OneActive {
    runtime: Runtime,
    gate: Arc<Gate>,
}

impl OneActive {
    fn new(workers: usize, priorities: Priorities) -> Self {
        let runtime = Builder::new()
            .workers(workers)
            .sysmon(Sysmon::Off)
            .priorities(priorities)
            .build()
            .unwrap();
        let gate = Arc::new(Gate::default());
        hold(runtime.handle(), workers - 1, &gate);
        Self { runtime, gate }
    }

    /// Runs `first` in a task on the active worker, and waits for its end.
    fn run(&self, first: impl FnOnce() + Send + 'static) {
        let done = Arc::new(Count::new());
        let counted = done.clone();
        drop(self.runtime.spawn(async move {
            first();
            counted.add();
        }));
        done.wait_for(1);
    }
}

impl Drop for OneActive {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Holds so many workers until the gate opens.
fn hold(handle: &Handle, workers: usize, gate: &Arc<Gate>) {
    let begun = Arc::new(Count::new());
    for _ in 0..workers {
        let (begun, gate) = (begun.clone(), gate.clone());
        drop(handle.spawn(async move {
            begun.add();
            gate.pass();
        }));
    }
    begun.wait_for(workers);
}

/// Notes in which order tasks run.
#[derive(Clone, Default)]
struct Order {
    noted: Arc<Mutex<Vec<(i64, usize)>>>,
    count: Arc<Count>,
}

impl Order {
    fn note(&self, priority: i64, number: usize) {
        self.noted.lock().unwrap().push((priority, number));
        self.count.add();
    }

    /// Spawns a task that notes its turn.
    fn spawn(&self, priority: i64, number: usize) {
        let order = self.clone();
        let task = task::Builder::new().priority(priority);
        drop(task.spawn(async move { order.note(priority, number) }));
    }

    fn wait_for(&self, count: usize) -> Vec<(i64, usize)> {
        self.count.wait_for(count);
        self.noted.lock().unwrap().clone()
    }
}

/// Spawns tasks of these priorities from one task, and tells in which order they ran.
fn order_of(workers: usize, priorities: Vec<i64>) -> Vec<(i64, usize)> {
    let one = OneActive::new(workers, Priorities::Strict);
    let order = Order::default();
    let (spawner, count) = (order.clone(), priorities.len());
    one.run(move || {
        for (number, priority) in priorities.into_iter().enumerate() {
            spawner.spawn(priority, number);
        }
    });
    order.wait_for(count)
}

/// How many tasks are in the ordered queues of all Ps, and in the shared one.
fn lengths() -> (usize, usize) {
    let metrics = Handle::current().metrics();
    let own = metrics.processors.iter().map(|p| p.ordered_queue).sum();
    (own, metrics.ordered_queue)
}

const LEVELS: [i64; 8] = [i64::MIN, -7, -1, 0, 1, 2, 1000, i64::MAX];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// O1, as long as all fit into the worker's own queues.
    #[test]
    fn the_higher_first_and_equals_in_their_order(
        levels in prop::collection::vec(0..LEVELS.len(), 1..250),
        workers in prop::sample::select(vec![1_usize, 2, 8]),
    ) {
        let priorities: Vec<i64> = levels.iter().map(|&at| LEVELS[at]).collect();
        let mut expected: Vec<_> = priorities.iter().copied().zip(0..).collect();
        expected.sort_by_key(|&(priority, _)| std::cmp::Reverse(priority));
        let in_turn = expected.clone();
        // The last task of the default priority is in `runnext`, until its slice is over (F4).
        let default: Vec<_> = (0..expected.len()).filter(|&at| expected[at].0 == 0).collect();
        if let (Some(&first), Some(&last)) = (default.first(), default.last()) {
            expected[first..=last].rotate_right(1);
        }
        let order = order_of(workers, priorities);
        prop_assert!(order == expected || order == in_turn, "{:?}", order);
    }
}

common::with_workers! {
    /// O2: more tasks and more levels than fit. Each runs once, and levels come in their order.
    fn what_does_not_fit_keeps_its_level(workers: usize) {
        let priorities: Vec<i64> = (0..2_000).map(|i| i * 7919 % 23 - 11).filter(|&p| p != 0).collect();
        let count = priorities.len();
        let ran = order_of(workers, priorities);
        assert!(ran.is_sorted_by_key(|&(priority, _)| std::cmp::Reverse(priority)), "{ran:?}");
        let mut numbers: Vec<_> = ran.iter().map(|&(_, number)| number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>());
    }

    /// O2: the queue is full of low ones, and then comes a high one, which stays.
    fn a_high_one_stays_in_a_full_queue(workers: usize) {
        let one = OneActive::new(workers, Priorities::Strict);
        let order = Order::default();
        let spawner = order.clone();
        one.run(move || {
            for number in 0..256 {
                spawner.spawn(-5, number);
            }
            assert_eq!(lengths(), (256, 0));
            spawner.spawn(5, 256);
            assert_eq!(lengths(), (129, 128), "the lower half goes out, and not the new one");
            spawner.spawn(-6, 257);
            assert_eq!(lengths(), (130, 128));
        });
        let ran = order.wait_for(258);
        assert_eq!((ran[0], ran[257]), ((5, 256), (-6, 257)));
    }

    /// Children inherit nothing, and the default is what nobody chose.
    fn a_child_has_the_default_priority(workers: usize) {
        let one = OneActive::new(workers, Priorities::Fair);
        let task = task::Builder::new()
            .priority(Priority::HIGHEST)
            .spawn_on(async { ws_executor::spawn(async {}).priority() }, one.runtime.handle());
        let seen = Arc::new(Mutex::new(None));
        let (done, noted) = (Arc::new(Count::new()), seen.clone());
        let counted = done.clone();
        drop(one.runtime.spawn(async move {
            *noted.lock().unwrap() = Some(task.await.unwrap());
            counted.add();
        }));
        done.wait_for(1);
        assert_eq!(*seen.lock().unwrap(), Some(Priority::DEFAULT));
    }

    /// Unless it is asked for, also where the parent's has changed meanwhile.
    fn a_child_may_have_that_of_its_parent(workers: usize) {
        let one = OneActive::new(workers, Priorities::Fair);
        let seen = Arc::new(Mutex::new(vec![]));
        let (done, noted) = (Arc::new(Count::new()), seen.clone());
        let counted = done.clone();
        one.run(move || {
            let own = Arc::new(Mutex::new(None::<task::AbortHandle>));
            let slot = own.clone();
            let parent = task::Builder::new().priority(7).spawn(async move {
                let child = || task::Builder::new().priority(Priority::current()).spawn(async {}).priority();
                let first = child();
                slot.lock().unwrap().take().unwrap().set_priority(Priority::LOWEST);
                *noted.lock().unwrap() = vec![first, child()];
                counted.add();
            });
            *own.lock().unwrap() = Some(parent.abort_handle());
            assert_eq!(Priority::current(), Priority::DEFAULT, "as nobody chose another for this one");
        });
        done.wait_for(1);
        assert_eq!(*seen.lock().unwrap(), [Priority::new(7), Priority::LOWEST]);
        assert_eq!(Priority::current(), Priority::DEFAULT, "of a thread without a task");
        assert_eq!(one.runtime.block_on(async { Priority::current() }), Priority::DEFAULT);
    }

    /// O3, O4: what is shared comes before what another P has only if it is above that.
    fn what_is_shared_is_taken_by_its_level(workers: usize) {
        let one = OneActive::new(workers, Priorities::Strict);
        let order = Order::default();
        let (begun, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (spawner, told, held) = (order.clone(), begun.clone(), gate.clone());
        drop(one.runtime.spawn(async move {
            for (number, priority) in [1, 3, 5].into_iter().enumerate() {
                spawner.spawn(priority, number);
            }
            told.open();
            held.pass();
        }));
        begun.pass();
        for (number, priority) in [(3, 4), (4, 2), (5, 6)] {
            let order = order.clone();
            let task = task::Builder::new().priority(priority);
            drop(task.spawn_on(async move { order.note(priority, number) }, one.runtime.handle()));
        }
        gate.open();
        let ran: Vec<_> = order.wait_for(6).iter().map(|&(priority, _)| priority).collect();
        assert_eq!(ran, [6, 5, 4, 3, 2, 1]);
    }

    /// O4: after 60 of its own, a worker takes the highest of what is shared.
    fn after_sixty_of_its_own_it_takes_what_is_shared(workers: usize) {
        let one = OneActive::new(workers, Priorities::Fair);
        let order = Order::default();
        let (begun, gate) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let (spawner, told, held) = (order.clone(), begun.clone(), gate.clone());
        drop(one.runtime.spawn(async move {
            for number in 0..200 {
                spawner.spawn(9, number);
            }
            told.open();
            held.pass();
        }));
        begun.pass();
        for number in 200..203 {
            let order = order.clone();
            let task = task::Builder::new().priority(7);
            drop(task.spawn_on(async move { order.note(7, number) }, one.runtime.handle()));
        }
        gate.open();
        let ran = order.wait_for(203);
        let shared: Vec<_> = (0..203).filter(|&at| ran[at].0 == 7).collect();
        assert!(shared[0] > 20, "as a turn, and not first: {shared:?}");
        let gaps = [shared[0], shared[1] - shared[0], shared[2] - shared[1]];
        assert!(gaps.iter().all(|&gap| gap <= 62), "{shared:?}");
    }
}

/// As `with_workers`, for what takes two.
macro_rules! with_several {
    ($($(#[$attribute:meta])* fn $name:ident($workers:ident: usize) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn scenario($workers: usize) $body

            #[test]
            fn with_2() { common::limited(|| scenario(2)) }
            #[test]
            fn with_8() { common::limited(|| scenario(8)) }
        }
    )*};
}

with_several! {
    /// A push wakes a thread: the one that pushed computes on.
    fn beside_a_free_permit_it_starts_at_once(workers: usize) {
        let gate = Arc::new(Gate::default());
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        hold(runtime.handle(), workers - 2, &gate);
        for priority in [Priority::LOWEST, Priority::HIGHEST] {
            let done = Arc::new(Count::new());
            let counted = done.clone();
            drop(runtime.spawn(async move {
                let ran = Arc::new(Gate::default());
                let opener = ran.clone();
                let task = task::Builder::new().priority(priority);
                drop(task.spawn(async move { opener.open() }));
                ran.pass();
                counted.add();
            }));
            done.wait_for(1);
        }
        gate.open();
    }

    /// O3: a worker that has nothing takes the upper half of another's, the highest first.
    fn one_that_has_nothing_steals_the_high_ones_first(workers: usize) {
        let runtime = Builder::new()
            .workers(workers)
            .sysmon(Sysmon::Off)
            .priorities(Priorities::Strict)
            .build()
            .unwrap();
        let (gate, both) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        hold(runtime.handle(), workers - 2, &gate);
        // One worker has a queue, and is stuck; the other is let go when that is so.
        let thief = Arc::new(Gate::default());
        hold(runtime.handle(), 1, &thief);
        let order = Order::default();
        let (filled, spawner, stuck) = (Arc::new(Gate::default()), order.clone(), both.clone());
        let told = filled.clone();
        drop(runtime.spawn(async move {
            for (number, priority) in [-2, 4, 1, 3, -1, 2].into_iter().enumerate() {
                spawner.spawn(priority, number);
            }
            told.open();
            stuck.pass();
        }));
        filled.pass();
        thief.open();
        let ran: Vec<_> = order.wait_for(6).iter().map(|&(priority, _)| priority).collect();
        assert_eq!(ran, [4, 3, 2, 1, -1, -2]);
        both.open();
        gate.open();
    }

    /// O4: a worker that is busy with tasks of the default priority finds what a stuck one has.
    fn a_high_one_of_a_stuck_worker_does_not_wait(workers: usize) {
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let (gate, other) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        hold(runtime.handle(), workers - 2, &gate);
        hold(runtime.handle(), 1, &other);
        let (stop, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (pushed, ran) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        let ran_at = Arc::new(AtomicUsize::new(usize::MAX));
        let (told, held, counted, noted) =
            (pushed.clone(), ran.clone(), polls.clone(), ran_at.clone());
        drop(runtime.spawn(async move {
            let opener = held.clone();
            let task = task::Builder::new().priority(Priority::HIGHEST);
            drop(task.spawn(async move {
                noted.store(counted.load(Relaxed), Relaxed);
                opener.open();
            }));
            told.open();
            held.pass();
        }));
        pushed.pass();
        // Two that are always ready: the other worker finds them first, and never runs dry.
        for _ in 0..2 {
            let (stop, polls) = (stop.clone(), polls.clone());
            drop(runtime.spawn(async move {
                while !stop.load(Relaxed) {
                    polls.fetch_add(1, Relaxed);
                    task::yield_now().await;
                }
            }));
        }
        other.open();
        ran.pass();
        let waited = ran_at.load(Relaxed);
        assert!(waited <= 62, "it waited for {waited} polls");
        stop.store(true, Relaxed);
        gate.open();
    }
}
