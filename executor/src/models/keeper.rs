//! The keeper (L5): `permit/keeper.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_task_from_outside_is_run_where_no_thread_can_be_had` | two spawns from outside: one may rely on the other's thread, and that thread is refused. The reserve stands in and runs both | 1 | 1.6 | `keeper_refusal_calls_nobody` |
//! | `a_refusal_beside_the_reserves_sleep_is_seen` | a thread is refused while the reserve is about to sleep again | 3 | 7.3 | `keeper_looks_before_the_notification_is_taken` |
//! | `a_refusal_beside_a_thread_that_is_started_is_seen` | the starter of an earlier thread takes the mark of a later refusal back: the reserve tries again | 2 | 15 | `keeper_relies_on_the_mark` |
//! | `the_role_is_taken_again_beside_a_start` | a thread that stood in ends while another keeper is started, or refused: one thread has the role | 3 | 0.1 | `keeper_starts_without_the_lock`, `keeper_does_not_ask_for_the_role`, `keeper_forgets_the_role` |
//! | `the_end_beside_the_reserves_sleep_is_seen` | the runtime ends while the reserve is about to sleep again | 3 | 0.1 | `keeper_takes_the_notification_of_the_end` |
//!
//! The environment is a `MockRuntime` whose system gives or refuses each thread as the model says.
//! Its threads run jobs from the global queue, and end when there are none. A job that is never run
//! is a deadlock, which loom reports, and so is a reserve that misses the end. The time between two
//! tries is over at once, and a try that is refused lets other threads get on.

use std::{
    array,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize as Counter, Ordering::SeqCst as Observer},
    },
};

use super::{
    both_ways::explore,
    mock::{Job, Pair},
};
use crate::{
    park::Parker,
    permit::{
        env::{Env, PeerEnv},
        idle::{Idle, Permit, Spinning, WorkerStateCell},
        keeper::{Keeper, KeeperEnv},
        phase::{Phase, ShutdownEnv, Threads},
    },
    queue::{GlobalRunQueue, OrderedShared, Stealer, local_queue},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize},
        thread,
    },
};

/// What all threads share.
struct MockRuntime {
    this: Weak<Self>,
    idle: Idle,
    grq: GlobalRunQueue<Job>,
    ordered: OrderedShared<Job>,
    phase: Phase,
    peers: [Peer; 3],
    vacant: Mutex<Vec<usize>>,
    netpoll_waiter: AtomicUsize,
    refusal: AtomicBool,
    keeper: Keeper,
    threads: Mutex<Threads>,
    changed: Condvar,
    kept: Mutex<Option<Arc<Self>>>,
    system: System,
    started: Mutex<Vec<thread::JoinHandle<()>>>,
    /// The first two jobs wait for each other.
    pair: Option<Arc<Pair>>,
    /// Jobs that are not done yet, and where their pusher waits for the last one.
    left: Counter,
    all_done: Parker,
}

/// Whether the system gives the threads that it is asked for, the first one first. The last answer
/// is that to all further ones.
struct System {
    answers: &'static [bool],
    asked: Counter,
}

struct Peer {
    index: usize,
    state: WorkerStateCell,
    parker: Parker,
    stealer: Stealer<Job>,
}

impl PeerEnv for Peer {
    type Task = Job;

    fn index(&self) -> usize {
        self.index
    }

    fn state(&self) -> &WorkerStateCell {
        &self.state
    }

    fn parker(&self) -> &Parker {
        &self.parker
    }

    fn stealer(&self) -> &Stealer<Job> {
        &self.stealer
    }

    fn steal_next(&self) -> Option<Job> {
        None
    }

    fn has_alone(&self) -> bool {
        false
    }
}

impl Env for MockRuntime {
    type Task = Job;
    type Peer = Peer;

    fn idle(&self) -> &Idle {
        &self.idle
    }

    fn grq(&self) -> &GlobalRunQueue<Job> {
        &self.grq
    }

    fn ordered(&self) -> &OrderedShared<Job> {
        &self.ordered
    }

    fn phase(&self) -> &Phase {
        &self.phase
    }

    /// All work is in the global queue, and nobody waits for a root.
    fn peers(&self) -> impl Iterator<Item = &Peer> {
        [].into_iter()
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

    /// In the order of `Shared::start_worker`.
    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        let Some(p) = self.become_worker(permit, spinning) else {
            return;
        };
        if self.system.gives_a_thread() {
            let runtime = self.strong();
            let started = thread::spawn(move || runtime.work(p));
            self.started.lock().push(started);
            self.was_given_a_thread();
            return;
        }
        let permit = self.peer(p).state.vacate();
        self.vacant.lock().push(p);
        self.thread_gone();
        self.was_refused_by_the_system(permit.map(|permit| (permit, Spinning::take_over())));
        // Time goes by until the next try, and others get on.
        thread::yield_now();
    }

    fn notify_owner(&self, peer: &Peer) {
        self.unpark(peer);
    }

    fn cancel(job: Job) {
        job.done();
    }
}

impl ShutdownEnv for MockRuntime {
    type Strong = Arc<Self>;

    fn strong(&self) -> Arc<Self> {
        self.this.upgrade().expect("callers have a reference")
    }

    fn kept(&self) -> &Mutex<Option<Arc<Self>>> {
        &self.kept
    }

    fn threads(&self) -> &Mutex<Threads> {
        &self.threads
    }

    fn changed(&self) -> &Condvar {
        &self.changed
    }

    fn live_tasks(&self) -> usize {
        0
    }

    fn cancel_all(&self, _: impl FnMut(Job)) {}

    fn abort_all(&self) {}

    fn ask_to_drain(&self, _: &Peer) {}

    fn tell(&self, _: &Peer) {}

    fn dismiss_others(&self) {
        self.idle.monitor().unpark(|| ());
    }

    fn clear_on_a_foreign_thread(&self) {
        self.sweep(|_| ());
    }

    fn shut_down_resources(&self) {}
}

impl KeeperEnv for MockRuntime {
    /// The index of its P.
    type OwnedP = usize;

    fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    fn has_reserve(&self) -> bool {
        true
    }

    fn could_have_a_thread(&self) -> bool {
        true
    }

    fn become_worker(&self, permit: Permit, spinning: Spinning) -> Option<usize> {
        let mut threads = self.threads.lock();
        if self.phase.is_closing() {
            drop(threads);
            self.refused(permit, spinning);
            return None;
        }
        threads.count += 1;
        drop(threads);
        let p = self.vacant.lock().pop().expect("there are enough");
        self.peer(p).state.run(permit);
        spinning.hand_over();
        Some(p)
    }
}

impl System {
    fn gives_a_thread(&self) -> bool {
        let asked = self.asked.fetch_add(1, Observer);
        let last = self.answers.len() - 1;
        self.answers[asked.min(last)]
    }
}

impl MockRuntime {
    /// With free permits, what the system answers, and jobs to do. A keeper is in reserve.
    fn new(permits: usize, answers: &'static [bool], jobs: usize) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            idle: Idle::new(permits, 3),
            grq: GlobalRunQueue::new(),
            ordered: OrderedShared::new(),
            phase: Phase::new(),
            peers: array::from_fn(|index| Peer {
                index,
                state: WorkerStateCell::new(),
                parker: Parker::new(),
                stealer: local_queue().1,
            }),
            vacant: Mutex::new(vec![2, 1, 0]),
            netpoll_waiter: AtomicUsize::new(0),
            refusal: AtomicBool::new(false),
            keeper: Keeper::new(false),
            threads: Mutex::new(Threads::default()),
            changed: Condvar::new(),
            kept: Mutex::new(None),
            system: System {
                answers,
                asked: Counter::new(0),
            },
            started: Mutex::new(Vec::new()),
            pair: (permits == 2).then(Pair::new),
            left: Counter::new(jobs),
            all_done: Parker::new(),
        })
    }

    /// As the keeper's thread in a runtime without a monitor.
    fn keep_runtime(&self) -> bool {
        self.live_as_keeper(|| self.wait_in_reserve(), |p| self.work(p))
    }

    /// The life of a worker.
    fn work(&self, p: usize) {
        let mut spinning = Some(Spinning::take_over());
        while let Some(job) = self.pop_queued() {
            if let Some(spinning) = spinning.take() {
                self.stop_spinning(spinning);
            }
            job.done();
            if let Some(pair) = &self.pair {
                pair.do_one();
            }
            if self.left.fetch_sub(1, Observer) == 1 {
                self.all_done.unpark(|| ());
            }
        }
        if self.phase.is_closing() {
            self.sweep(|_| ());
        }
        let permit = self.peer(p).state.vacate();
        self.vacant.lock().push(p);
        self.left(permit, spinning);
        self.thread_ended();
    }

    /// Waits until all jobs are done, and ends the runtime.
    fn end_after_all(&self) {
        self.all_done.park();
        self.begin_shutdown();
    }

    /// For when all parties are done.
    fn assert_settled(&self) {
        loop {
            let Some(started) = self.started.lock().pop() else {
                break;
            };
            started.join().expect("a panic ends the model");
        }
        // As the shutdown thread does where it finds no thread.
        assert!(!self.has_threads());
        self.help_to_clear();
        assert_eq!(self.left.load(Observer), 0, "a job was not done");
        assert_eq!(self.idle.free(), self.idle.workers(), "a permit was lost");
        assert_eq!(self.idle.spinning(), 0, "a spinner was not counted down");
    }
}

type Party = Box<dyn FnOnce()>;

#[test]
fn a_task_from_outside_is_run_where_no_thread_can_be_had() {
    explore(1, |turn| {
        let runtime = MockRuntime::new(1, &[false], 2);
        let (keeper, one, other) = (runtime.clone(), runtime.clone(), runtime.clone());
        let keeps = move || assert!(!keeper.keep_runtime(), "the end lets it go");
        let others: [Party; 2] = [
            Box::new(move || {
                one.push(Job::new(0));
                one.end_after_all();
            }),
            Box::new(move || other.push(Job::new(1))),
        ];
        turn.race(keeps, others);
        runtime.assert_settled();
    });
}

#[test]
fn a_refusal_beside_the_reserves_sleep_is_seen() {
    explore(3, |turn| {
        let runtime = MockRuntime::new(1, &[false], 1);
        // That of an earlier refusal, whose work is done by now.
        runtime.idle.monitor().unpark(|| ());
        let (keeper, pusher) = (runtime.clone(), runtime.clone());
        let keeps = move || assert!(!keeper.keep_runtime(), "the end lets it go");
        let pushes = move || {
            pusher.push(Job::new(0));
            pusher.end_after_all();
        };
        turn.race(keeps, [pushes]);
        runtime.assert_settled();
    });
}

#[test]
fn a_refusal_beside_a_thread_that_is_started_is_seen() {
    explore(2, |turn| {
        // The jobs wait for each other. The first thread is given, and the second only to the third
        // try.
        let runtime = MockRuntime::new(2, &[true, false, false, true, false], 2);
        // Its pusher relied on the thread that the next one starts.
        runtime.grq.push(Job::new(0));
        let (keeper, pusher) = (runtime.clone(), runtime.clone());
        let keeps = move || assert!(!keeper.keep_runtime(), "the end lets it go");
        let pushes = move || {
            pusher.push(Job::new(1));
            pusher.end_after_all();
        };
        turn.race(keeps, [pushes]);
        runtime.assert_settled();
    });
}

#[test]
fn the_role_is_taken_again_beside_a_start() {
    for given in [false, true] {
        explore(3, move |turn| {
            let runtime = MockRuntime::new(1, &[false], 0);
            let (keeper, starter) = (runtime.clone(), runtime.clone());
            let waits = Counter::new(0);
            let keeps = move || {
                // It stands in once.
                let wait = || (waits.fetch_add(1, Observer) == 0).then_some(0);
                !keeper.live_as_keeper(wait, |_| ())
            };
            let starts = move || {
                let mut begun = false;
                let started = starter.keeper.start(|| {
                    begun = given;
                    if given { Ok(()) } else { Err(()) }
                });
                assert!(started.is_ok() || !given);
                begun
            };
            let (keeps, [begun]) = turn.race(keeps, [starts]);
            assert!(keeps || begun, "nobody has the role");
            assert!(!(keeps && begun), "two have it");
            runtime.begin_shutdown();
            runtime.assert_settled();
        });
    }
}

#[test]
fn the_end_beside_the_reserves_sleep_is_seen() {
    explore(3, |turn| {
        let runtime = MockRuntime::new(1, &[false], 0);
        // As above.
        runtime.idle.monitor().unpark(|| ());
        let (keeper, ends) = (runtime.clone(), runtime.clone());
        let keeps = move || assert!(!keeper.keep_runtime(), "the end lets it go");
        turn.race(keeps, [move || assert!(ends.begin_shutdown())]);
        runtime.assert_settled();
    });
}
