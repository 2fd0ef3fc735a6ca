//! The driver's step for orders that choose among the ready tasks of all hosts.
//!
//! ```text
//! hosts with news look for work              Machine::find
//! the chooser takes one of all ready tasks   order.rs
//! its host polls it                          Machine::poll
//! ```
//!
//! A host has news if it has just polled a task, if its epoll descriptors were told of something,
//! or if the time has moved. One host may wake another's task through memory that they share. That
//! one is found when nothing else is ready, before the time moves.

use super::{Sim, order::Entry};
use crate::world::as_host;

impl Sim {
    /// Lets a task run, chosen among those of all hosts. False if none is ready.
    pub(super) fn explore(&self) -> bool {
        self.look_for_work(false);
        let chosen = self.choose_task().or_else(|| {
            self.look_for_work(true);
            self.choose_task()
        });
        let Some(chosen) = chosen else {
            return false;
        };
        let machine = {
            let host = &self.inner.hosts.borrow()[chosen.host];
            host.has_news.set(true);
            host.machine.clone()
        };
        self.note((chosen.host as u64) << 48 ^ chosen.task);
        if let Some(machine) = machine {
            as_host(chosen.host, || {
                self.begins_step(chosen.host);
                machine.poll(chosen.ticket)
            });
            self.takes_time(chosen.host);
        }
        true
    }

    fn choose_task(&self) -> Option<Entry> {
        let hosts = self.inner.hosts.borrow();
        let world = self.inner.world.borrow();
        let now = world.net.now();
        let can_run = |host: usize| !hosts[host].is_paused && world.hosts[host].busy_until <= now;
        let mut chooser = self.inner.chooser.borrow_mut();
        chooser.as_mut()?.choose(can_run)
    }

    /// Hosts look for work: those with news, or all.
    fn look_for_work(&self, all: bool) {
        self.inner.world.borrow_mut().spread_news();
        let count = self.inner.hosts.borrow().len();
        for index in 0..count {
            let (machine, edges, is_woken) = {
                let hosts = self.inner.hosts.borrow();
                let host = &hosts[index];
                let world = self.inner.world.borrow();
                let edges = world.hosts[index].edges;
                let is_woken = edges > host.woken_at;
                let looks = all || is_woken || host.has_news.get();
                let stands_still =
                    host.is_paused || world.hosts[index].busy_until > world.net.now();
                match &host.machine {
                    Some(machine) if looks && !stands_still => (machine.clone(), edges, is_woken),
                    _ => continue,
                }
            };
            let mut found = Vec::new();
            as_host(index, || {
                if is_woken {
                    machine.wake_poller();
                }
                machine.find(|ready| found.push(ready));
            });
            let host = &mut self.inner.hosts.borrow_mut()[index];
            host.has_news.set(false);
            host.woken_at = edges;
            if let Some(chooser) = &mut *self.inner.chooser.borrow_mut() {
                for ready in found {
                    chooser.add(index, ready.ticket, ready.task.as_u64());
                }
            }
        }
    }
}
