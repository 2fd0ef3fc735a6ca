//! A virtual thread: a `Worker`, and the point of its loop at which it stands.
//!
//! Its steps are those that a real thread takes one after the other (`worker::main`,
//! `Sleeper::park`). Drivers decide which thread takes the next one, and when: a
//! [`Machine`](crate::sim::Machine), and in the scheduler's own tests those of `sched/sim.rs`.

use std::cell::Cell;

use crate::{
    cell::Task,
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
pub(crate) enum At {
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

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepped {
    On,
    /// It found nothing, and its driver keeps it awake.
    Stays,
    Ends,
}

/// What a driver decides in the middle of a step.
pub(crate) trait Hand {
    /// `thread` has found `task`, and would poll it now.
    fn found(&self, thread: &Thread, task: Task) {
        thread.worker.poll(task);
    }

    /// `thread` has found nothing, and would park. Whether it stays awake.
    fn stays(&self, _thread: &Thread) -> bool {
        false
    }

    /// `thread` has stolen a branch, and would run it now.
    fn stole(&self, _thread: &Thread) {}

    /// Whether a sleep that nobody ended lasted for as long as a thread is kept.
    fn expires(&self) -> bool {
        false
    }
}

/// What would be a thread of the runtime.
pub(crate) struct Thread {
    pub(crate) worker: Worker,
    pub(crate) at: Cell<At>,
    /// It is in the middle of a step, below us on the stack.
    pub(crate) busy: Cell<bool>,
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

    pub(crate) fn is_notified(&self) -> bool {
        self.worker.own_peer().parker().is_notified()
    }

    /// Whether it waits in the netpoll, and nobody has woken it.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_in_netpoll(&self) -> bool {
        self.at.get() == At::Polling && !self.is_notified()
    }

    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn wake(&self) {
        self.worker.own_peer().parker().unpark(|| {});
    }

    /// It holds tasks that it has found: it is no spinner.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn holds_work(&self) {
        self.worker.found_work();
    }

    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn has_permit(&self) -> bool {
        self.worker.peer().state.has_permit()
    }

    /// Whether it can take a step. `is_due`: a timer is.
    pub(crate) fn can_step(&self, is_due: impl FnOnce() -> bool) -> bool {
        !self.busy.get() && !self.rests(is_due)
    }

    fn rests(&self, is_due: impl FnOnce() -> bool) -> bool {
        match self.at.get() {
            At::Up | At::Dry | At::Parking => false,
            At::Polling => !self.is_notified() && !is_due(),
            At::Asleep | At::Wanting => !self.is_notified(),
        }
    }

    /// Runs `f` as this thread.
    pub(crate) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        self.busy.set(true);
        let (mut f, mut result) = (Some(f), None);
        let above = self.worker.shared().config.above;
        (above.as_worker)(&self.worker, &mut || result = f.take().map(|f| f()));
        self.busy.set(false);
        result.expect("it was called once")
    }

    /// One step. False if the thread ends.
    pub(crate) fn step(&self, hand: &impl Hand) -> bool {
        self.within(|| self.step_worker(hand) != Stepped::Ends)
    }

    /// Steps until it sleeps, or stays awake by the word of `hand`. False if the thread ends.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn step_to_rest(&self, hand: &impl Hand, is_due: impl Fn() -> bool) -> bool {
        self.within(|| {
            loop {
                match self.step_worker(hand) {
                    Stepped::Ends => return false,
                    Stepped::Stays => return true,
                    Stepped::On if self.rests(&is_due) => return true,
                    Stepped::On => {}
                }
            }
        })
    }

    fn step_worker(&self, hand: &impl Hand) -> Stepped {
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
                Step::Park if hand.stays(self) => return Stepped::Stays,
                Step::Park => At::Dry,
                Step::Root => unreachable!("it has no root"),
                Step::Leave => return self.leaves(),
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
                    worker.take_news();
                    worker.fire_due();
                }
                let slept = Slept {
                    expired: at == At::Asleep && !notified && hand.expires(),
                    ready: !worker.brought.ready.borrow().is_empty(),
                };
                match worker.after_sleep(slept) {
                    None => At::Parking,
                    Some(Awake::Go) => At::Up,
                    Some(Awake::Leave) => return self.leaves(),
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
        Stepped::On
    }

    fn leaves(&self) -> Stepped {
        self.worker.clear_away();
        Stepped::Ends
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
