//! What holds after every step: I1, I2, I3, I4, I5, I6, S1, S3 and the bounds; and what is counted
//! at the end: L4, F1, F2.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use super::{Driver, Thread};
use crate::{
    cell::{Id, Task},
    permit::{
        env::{Env, PeerEnv},
        idle::WorkerState,
        sleep::Sleeper,
    },
    queue::OrderedStealer,
    sched::{Shared, processor::Peer},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A task may be queued for this time: a slice until its thread counts as stuck, a period of the
/// monitor until it looks, both once more for the next one, and what others computed meanwhile.
const QUEUED_NS_MAX: u64 = 80_000_000;

fn ordered_len(peer: &Peer) -> usize {
    peer.queues.ordered.get().map_or(0, OrderedStealer::len)
}

/// Entries of tasks that are queued no more are kept, up to so many.
const FORGOTTEN: usize = 64;

/// What is remembered from step to step.
pub(super) struct Checks {
    /// For each P: its ticks, and what it had taken from the global queue, when that was seen empty
    /// last or the P took from it.
    global: RefCell<Vec<(u64, u64)>>,
    /// Tasks that were queued at one of the last looks: since when, and at which look last. A list
    /// was searched for each task, which was half of the time that a seed took.
    queued: RefCell<HashMap<Id, (u64, u64)>>,
    looks: Cell<u64>,
    steals: RefCell<Vec<(u64, u64)>>,
    /// The longest that a task was queued.
    pub(super) longest: Cell<u64>,
    cap: bool,
}

impl Checks {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let workers = shared.config.workers;
        Self {
            global: RefCell::default(),
            queued: RefCell::default(),
            looks: Cell::new(0),
            steals: RefCell::default(),
            longest: Cell::new(0),
            cap: shared.config.max_threads < 4 * workers,
        }
    }

    /// A worker is about to poll `task`.
    pub(super) fn polls(&self, driver: &Driver, thread: &Thread, task: &Task) {
        if !thread.worker.own_peer().state().has_permit() {
            driver.fail(|| format!("S3: task {} is polled without a permit", task.header().id()));
        }
        let others = driver
            .shared
            .peers()
            .any(|peer| peer.progress.running.load(Relaxed) == task.header().address());
        if others {
            driver.fail(|| format!("S1: task {} is polled already", task.header().id()));
        }
    }

    /// A worker is about to run a branch that it has stolen.
    pub(super) fn runs_a_branch(&self, driver: &Driver, thread: &Thread) {
        if !thread.worker.own_peer().state().has_permit() {
            driver.fail(|| "S3: a branch is stolen without a permit".to_owned());
        }
    }

    pub(super) fn after_step(&self, driver: &Driver) {
        self.permits(driver);
        self.spinners(driver);
        self.work_beside_a_permit(driver);
        self.bounds(driver);
        self.one_place(driver);
        Self::parked_is_empty(driver);
    }

    /// I5: thieves and last looks pass by a P whose bit is set.
    fn parked_is_empty(driver: &Driver) {
        for index in 0..driver.shared.peer_count() {
            let peer = driver.shared.peer(index);
            let len = peer.queues.lrq.len() + ordered_len(peer) + peer.queues.parents.len();
            let next = peer.queues.runnext.peek().is_some() || peer.queues.has_child();
            if driver.shared.idle.parked().contains(index) && (len > 0 || next) {
                driver.fail(|| format!("I5: P {index} counts as parked, and has work"));
            }
        }
    }

    /// S3: permits that are out and those that are free are as many as there are.
    fn permits(&self, driver: &Driver) {
        let shared = &driver.shared;
        let running = shared
            .peers()
            .filter(|peer| peer.state.load() == WorkerState::Running)
            .count();
        let free = shared.idle.free();
        if running + free != shared.idle.workers() {
            driver.fail(|| format!("S3: {running} run and {free} permits are free"));
        }
    }

    /// I6, and a thread that is counted as a spinner is one.
    fn spinners(&self, driver: &Driver) {
        let shared = &driver.shared;
        let counted = shared.idle.spinning();
        if counted > shared.idle.workers() {
            driver.fail(|| format!("I6: {counted} spinners"));
        }
        let mut known = shared
            .threads
            .sim_threads
            .as_ref()
            .map_or(0, |sim_threads| sim_threads.len());
        for thread in driver.threads.borrow().iter().flatten() {
            let spinning = thread.worker.spinning.take();
            let spins = spinning.is_some();
            thread.worker.spinning.set(spinning);
            // Handed over, and not taken note of yet.
            let gets = thread.worker.parking.get()
                && matches!(
                    thread.worker.own_peer().state().load(),
                    WorkerState::Running | WorkerState::Stuck
                );
            known += usize::from(spins || gets);
        }
        if known != counted {
            driver.fail(|| format!("I6: {known} threads spin, and {counted} are counted"));
        }
    }

    /// I5. A lone `runnext` or forked child is excepted, and so is what a thread is about to take
    /// by itself, and a runtime that may not start another thread.
    fn work_beside_a_permit(&self, driver: &Driver) {
        let shared = &driver.shared;
        let idle = &shared.idle;
        if idle.free() == 0 || idle.spinning() > 0 || self.cap || shared.end.phase.is_closing() {
            return;
        }
        let threads = driver.threads.borrow();
        let waits = threads.iter().flatten().any(|thread| {
            let peer = thread.worker.own_peer();
            let takes_one = peer.state.load() == WorkerState::Running
                && !thread.busy.get()
                && peer.queues.runnext.peek().is_none()
                && !peer.queues.has_child();
            peer.queues.lrq.len() + ordered_len(peer) + peer.queues.parents.len()
                > usize::from(takes_one)
        });
        if waits || shared.has_queued() {
            driver.fail(|| {
                format!(
                    "I5: {} permits are free, nobody spins, and work is queued: {} in the global queue, {} in \
                     the shared ordered one",
                    idle.free(),
                    shared.queues.grq.len(),
                    shared.queues.ordered.len()
                )
            });
        }
    }

    /// I3, I4, L4.
    fn bounds(&self, driver: &Driver) {
        let shared = &driver.shared;
        let empty = shared.queues.grq.is_empty();
        let mut global = self.global.borrow_mut();
        let mut steals = self.steals.borrow_mut();
        global.resize(shared.peer_count(), (0, 0));
        steals.resize(shared.peer_count(), (0, 0));
        for peer in shared.all_peers() {
            let index = peer.index;
            let len = peer.queues.lrq.len();
            if len > 256 {
                driver.fail(|| format!("I3: {len} tasks in one ring"));
            }
            let ordered = ordered_len(peer);
            if ordered > 256 {
                driver.fail(|| format!("O2: {ordered} tasks in one ordered queue"));
            }
            let now = (peer.counters.steals.get(), peer.counters.stolen.get());
            let before = std::mem::replace(&mut steals[index], now);
            if now.1 - before.1 > 128 * (now.0 - before.0) {
                driver.fail(|| format!("I4: {} tasks were stolen at once", now.1 - before.1));
            }
            let ticks = peer.progress.ticks.load(Relaxed);
            let taken = peer.counters.global.get();
            let (since, had) = global[index];
            if empty || taken != had || peer.state.load() != WorkerState::Running {
                global[index] = (ticks, taken);
            } else if ticks > since + 62 {
                driver.fail(|| {
                    format!(
                        "L4: P {index} left the global queue alone for {} ticks",
                        ticks - since
                    )
                });
            }
        }
    }

    /// I1, I2: there are as many tasks in queues as are queued, and as many running as are polled;
    /// and F1, F2, F4: none is queued for long.
    fn one_place(&self, driver: &Driver) {
        let shared = &driver.shared;
        let now = driver.now();
        let mut in_queues = shared.queues.grq.len() + shared.queues.ordered.len();
        let mut polled = Vec::new();
        for peer in shared.peers() {
            in_queues += peer.queues.lrq.len() + ordered_len(peer);
            in_queues += peer.queues.parents.len();
            in_queues += usize::from(peer.queues.runnext.peek().is_some());
            in_queues += usize::from(peer.queues.has_child());
            in_queues += peer.queues.inbox.len();
            let running = peer.progress.running.load(Relaxed);
            if running != 0 {
                polled.push(running);
            }
        }
        polled.sort_unstable();
        for thread in driver.threads.borrow().iter().flatten() {
            in_queues += thread.worker.p.pinned.ready.borrow().len();
        }
        let mut queued = 0;
        let mut since_when = self.queued.borrow_mut();
        let look = self.looks.get() + 1;
        self.looks.set(look);
        shared.for_each_live(|task| {
            let address = task.header().address();
            if task.header().snapshot().wakes() == 0 || polled.binary_search(&address).is_ok() {
                return;
            }
            queued += 1;
            let entry = since_when.entry(task.header().id()).or_insert((now, look));
            if entry.1 + 1 < look {
                // It was taken, and queued again since.
                entry.0 = now;
            }
            entry.1 = look;
            let long = now - entry.0;
            // What is low has its turns counted in ticks.
            if !task.header().is_pinned() && task.header().priority() >= 0 {
                self.longest.set(self.longest.get().max(long));
                if long > QUEUED_NS_MAX && !self.cap {
                    driver.fail(|| {
                        format!(
                            "F1: task {} is queued for {} us",
                            task.header().id(),
                            long / 1000
                        )
                    });
                }
            }
        });
        if since_when.len() > 2 * queued + FORGOTTEN {
            since_when.retain(|_, (_, seen)| *seen == look);
        }
        if queued != in_queues {
            driver
                .fail(|| format!("I1: {queued} tasks are queued, and {in_queues} are in a queue"));
        }
    }
}
