//! What a worker does where time is virtual: its sleep, and *The shuffle*.

use std::time::Duration;

use super::Paused;
use crate::{
    cell::Task,
    note::way,
    park::Parker,
    permit::{env::Env, sleep::Sleeper},
    policy::constants::GLOBAL_TICK,
    sched::worker::{Step, Worker},
    sync::atomic::Ordering::Relaxed,
};

impl Worker {
    /// What `wait_on` does where time is virtual: sleeps in the netpoll, where the clock may be
    /// moved, or if another thread is there on `parker`. True if `keep_alive` went by.
    #[cold]
    #[inline(never)]
    pub(in crate::sched) fn wait_paused(
        &self,
        paused: &Paused,
        parker: &Parker,
        keep_alive: Option<Duration>,
    ) -> bool {
        let shared = &self.shared;
        let Some(poller) = shared.io.netpoll.try_poller() else {
            if paused.fall_asleep() {
                shared.have_a_look(paused);
            }
            let expired = self.sleep_on(parker, keep_alive);
            paused.wake_up();
            return expired;
        };
        shared.poll_as(self.index(), poller, |poller| {
            parker.park_polling(|| {
                poller.prepare();
                let ready = &mut *self.brought.ready.borrow_mut();
                if paused.fall_asleep() {
                    shared.pass_time(paused, poller, ready);
                } else {
                    shared.wait(poller, shared.next_by_the_system(), ready);
                }
                paused.wake_up();
            });
        });
        self.fire_due();
        false
    }

    /// *The shuffle*. None if nothing is ready here, or there is no permit for it: then the
    /// ordinary search goes on.
    #[cold]
    #[inline(never)]
    pub(in crate::sched) fn draw(&self, paused: &Paused) -> Option<Step> {
        let p = &*self.p;
        if !p.peer.state.has_permit() {
            return None;
        }
        if p.peer
            .progress
            .ticks
            .load(Relaxed)
            .is_multiple_of(GLOBAL_TICK)
        {
            if !self.shared.idle.wanting().is_empty() {
                self.lend_permit();
                if !p.peer.state.has_permit() {
                    return None;
                }
            }
            // The virtual clock does not say when a thread looked last.
            self.look_at_netpoll();
            if !p.peer.state.has_permit() {
                return None;
            }
        }
        if self.shared.queues.ordered.is_used()
            && let Some(task) = self.ordered_first()
        {
            return Some(Step::Run(task));
        }
        if let Some(child) = p.forks.take_child() {
            return Some(Step::Run(child));
        }
        self.gather();
        let root = self.root.as_ref().filter(|root| root.is_notified());
        let counts = [
            usize::from(root.is_some()),
            p.pinned.ready.borrow().len(),
            usize::from(p.peer.queues.runnext.peek().is_some()),
            usize::from(!p.forks.parents.is_empty()),
            p.lrq.len(),
        ];
        let ready = counts.iter().sum();
        if ready == 0 {
            return None;
        }
        let mut at = paused.draw(ready);
        let mut queue = 0;
        while at >= counts[queue] {
            at -= counts[queue];
            queue += 1;
        }
        let task = match queue {
            0 => return root.filter(|root| root.take()).map(|_| Step::Root),
            1 => p.pinned.ready.borrow_mut().remove(at),
            2 => p.runnext.take(),
            3 => p.forks.parents.pop().inspect(|_task| {
                way!(self, ParentResumed, _task.header());
            }),
            _ => {
                (0..at)
                    .filter_map(|_| p.lrq.pop())
                    .for_each(|task| self.put_back(task));
                p.lrq.pop()
            }
        };
        task.map(Step::Run)
    }

    /// Takes all that is ready for this thread into its own queues.
    pub(super) fn gather(&self) {
        let p = &*self.p;
        // No thread of such a runtime leaves others' work to others: `block_on` is a `run` there.
        if !self.shared.queues.grq.is_empty() {
            let room = p.lrq.room();
            if room > 0 {
                let mut tasks = self.shared.queues.grq.take(room);
                self.count_global(tasks.len() as u64);
                p.lrq.push_batch(&mut tasks);
            }
        }
        p.take_in();
    }

    fn put_back(&self, task: Task) {
        if let Err(batch) = self.p.lrq.push(task) {
            self.shared.push_batch(batch);
        }
    }
}
