//! A virtual thread, which both drivers step: a `Worker`, and the point of its loop at which it
//! stands; and the monitor's.
//!
//! The steps are those that a real thread takes one after the other (`worker::main`,
//! `Sleeper::park`, `Monitor::run`); who takes the next one, and when, is the driver's.

use std::cell::{Cell, RefCell};

use crate::{
    cell::Task,
    context,
    monitor::{Monitor, Rest},
    permit::{
        env::{Env, PeerEnv},
        phase::ShutdownEnv,
        sleep::{Awake, Look, Sleeper, Slept},
    },
    sched::{Shared, Worker, processor::Processor, worker::Step},
    sync::Arc,
};

/// Where a virtual thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Between two steps of its loop.
    Up,
    /// It found nothing, and begins to park next.
    Dry,
    /// It has begun to park, or slept, and checks next.
    Parking,
    /// On its own parker.
    Asleep,
    /// In the netpoll.
    Polling,
    /// On its parker, waiting for a permit.
    Wanting,
}

/// What a driver decides in the middle of a step.
pub(super) trait Hand {
    /// `thread` has found `task`, and would poll it now.
    fn found(&self, thread: &Thread, task: Task);
    /// `thread` has stolen a branch, and would run it now.
    fn stole(&self, thread: &Thread);
    /// Whether a sleep that nobody ended lasted for as long as a thread is kept.
    fn expires(&self) -> bool;
}

/// What would be a thread of the runtime.
pub(super) struct Thread {
    pub(super) worker: Worker,
    pub(super) at: Cell<At>,
    /// It is in the middle of a step, below us on the stack.
    pub(super) busy: Cell<bool>,
}

impl Thread {
    pub(crate) fn begin(shared: &Arc<Shared>, processor: Box<Processor>) -> Self {
        Self {
            worker: Worker::begin(shared, processor),
            at: Cell::new(At::Up),
            busy: Cell::new(false),
        }
    }

    pub(crate) fn end(self) {
        let shared = self.worker.shared().clone();
        self.worker.leave();
        shared.thread_ended();
    }

    pub(super) fn is_notified(&self) -> bool {
        self.worker.own_peer().parker().is_notified()
    }

    /// Runs `f` as this thread.
    pub(super) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        self.busy.set(true);
        let r = context::with_worker_frame(&self.worker, f);
        self.busy.set(false);
        r
    }

    /// One step. False if the thread ends.
    pub(super) fn step(&self, hand: &impl Hand) -> bool {
        self.within(|| {
            let goes_on = self.step_worker(hand);
            if !goes_on {
                self.worker.clear_away();
            }
            goes_on
        })
    }

    fn step_worker(&self, hand: &impl Hand) -> bool {
        let worker = &self.worker;
        let parker = worker.own_peer().parker();
        let at = match self.at.get() {
            At::Up => match worker.step() {
                Step::Run(task) => {
                    hand.found(self, task);
                    At::Up
                }
                Step::Branch(branch) => {
                    hand.stole(self);
                    worker.run_branch(branch);
                    At::Up
                }
                Step::Park => At::Dry,
                Step::Root => unreachable!("it has no root"),
                Step::Leave => return false,
            },
            At::Dry if worker.begin_park() => At::Up,
            At::Dry => {
                worker.falls_asleep();
                At::Parking
            }
            At::Parking => match worker.check_before_sleep() {
                Look::Up => At::Up,
                Look::Wants => self.wants(),
                Look::Nothing if worker.shared().nobody_polls() => {
                    worker.shared().enter_netpoll(worker.index());
                    parker.try_sleep_polling();
                    At::Polling
                }
                Look::Nothing => {
                    parker.try_sleep();
                    At::Asleep
                }
            },
            at @ (At::Asleep | At::Polling) => {
                let notified = parker.wake_up();
                if at == At::Polling {
                    worker.shared().leave_netpoll();
                    worker.fire_due();
                }
                let slept = Slept {
                    expired: at == At::Asleep && !notified && hand.expires(),
                    ready: !worker.ready.borrow().is_empty(),
                };
                match worker.after_sleep(slept) {
                    None => At::Parking,
                    Some(Awake::Go) => At::Up,
                    Some(Awake::Leave) => return false,
                }
            }
            At::Wanting => {
                parker.wake_up();
                if worker.was_answered() {
                    At::Up
                } else {
                    self.wants()
                }
            }
        };
        self.at.set(at);
        true
    }

    fn wants(&self) -> At {
        if self.worker.ask_for_permit() {
            At::Up
        } else {
            self.worker.own_peer().parker().try_sleep();
            At::Wanting
        }
    }
}

/// What would be the monitor's thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    monitor: RefCell<Monitor>,
    /// When it looks next; None: it sleeps for good.
    next: Cell<Option<u64>>,
    looks: Cell<bool>,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: shared.clone(),
            monitor: RefCell::new(Monitor::new(shared)),
            next: Cell::new(Some(0)),
            looks: Cell::new(false),
        }
    }

    /// When it looks by itself.
    pub(super) fn next(&self) -> Option<u64> {
        self.next.get().filter(|_| !self.looks.get())
    }

    /// Whether its time is over, or it is woken.
    pub(super) fn is_due(&self, now: u64) -> bool {
        let woken = self.shared.idle.monitor().is_notified();
        !self.looks.get() && (woken || self.next.get().is_some_and(|at| at <= now))
    }

    /// What its thread does in its loop.
    pub(super) fn look(&self) {
        self.looks.set(true);
        let mut monitor = self.monitor.borrow_mut();
        self.shared.idle.monitor().wake_up();
        if self.next.get().is_some() {
            monitor.look();
        } else {
            monitor.wake_up();
        }
        self.next.set(match monitor.rest() {
            // No stall is reported here.
            Rest::ForGood(_) => None,
            Rest::For(period) => Some(self.shared.time.clock().now_ns() + period.as_nanos() as u64),
        });
        self.looks.set(false);
    }
}
