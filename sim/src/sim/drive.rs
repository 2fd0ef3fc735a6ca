//! The run: which task or host takes the next step, and when the time moves.
//!
//! ```text
//! loop:
//!   commands (crash, restart, pause)
//!   news of sockets go to the epoll descriptors of their hosts
//!   one task or one host that can step takes one step          -> loop
//!   none can: the time moves to the next event                 -> loop
//!   there is none: the run fails, with the tasks that wait
//! ```
//!
//! Which one it is, is the [`Order`](super::Order)'s. Most orders choose a task among the ready
//! ones of all hosts (`explore.rs`). With `Production` a host is drawn at random, and its scheduler
//! chooses: the rest of this head is about that.
//!
//! A host whose machine cannot step is tried once more for each new event of its epoll descriptors:
//! the thread that waits in the netpoll is woken, and looks there. Before the time moves, each host
//! is tried, since one host may wake another through memory that they share.

use std::{mem, rc::Rc, time::Duration};

use ws_executor::{
    runtime::{Builder, Reports},
    sim::Machine,
};

use super::{
    Main, Phase, Sim,
    ends::{Begins, bring, drop_told, forget_ends},
    faults::Command,
};
use crate::{
    Disk, Failure,
    clock::Clock,
    world::{Host, as_host},
};

/// A hash of what the driver has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn with(self, word: u64) -> Self {
        Self((self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

impl Sim {
    /// Runs until all clients are done, or until a time. Tells whether they are done.
    pub(super) fn go(&self, until: Option<u64>) -> Result<bool, Failure> {
        let inner = &self.inner;
        let has_client = inner
            .hosts
            .borrow()
            .iter()
            .any(|host| host.main.is_client());
        if until.is_none() && !has_client {
            let what = "there is no client, so nothing says when the run is over: \
                        add one with `Sim::client`";
            return Err(self.failure(None, what));
        }
        // At the begin of a later part none is ready but those that the test has woken. So a run by
        // parts draws what the whole run draws.
        let mut ready = Vec::new();
        if inner.events.get() == 0 {
            self.find_ready(&mut ready);
        }
        loop {
            if self.follow_commands() {
                ready.clear();
                self.find_ready(&mut ready);
            }
            self.look_at_ends()?;
            if self.is_over() {
                self.look_at_panics()?;
                return Ok(true);
            }
            self.is_within_limit()?;
            if self.inner.chooser.borrow().is_some() {
                if !self.explore() {
                    self.look_at_panics()?;
                    if inner.commands.borrow().is_empty() {
                        let Some(anyone) = self.move_time(until)? else {
                            return Ok(false);
                        };
                        self.time_moved(anyone);
                    }
                }
                continue;
            }
            if ready.is_empty() {
                // A host may have been woken by another host, and not by the network.
                self.find_ready(&mut ready);
                ready.retain(|&index| self.try_step(index));
                self.look_at_panics()?;
                if ready.is_empty() && inner.commands.borrow().is_empty() {
                    if self.move_time(until)?.is_none() {
                        return Ok(false);
                    }
                    self.find_ready(&mut ready);
                }
                continue;
            }
            let place = self.below(ready.len() as u64) as usize;
            if !self.try_step(ready[place]) {
                ready.swap_remove(place);
            }
        }
    }

    /// The hosts that may take a step, if they have one to take.
    fn find_ready(&self, ready: &mut Vec<usize>) {
        let world = self.inner.world.borrow();
        let now = world.net.now();
        let hosts = self.inner.hosts.borrow();
        for (index, host) in hosts.iter().enumerate() {
            let Some(machine) = host.machine.as_ref().filter(|_| !host.is_paused) else {
                continue;
            };
            machine.jump_to(world.shown(index) - host.base);
            host.has_news.set(true);
            if world.hosts[index].busy_until <= now {
                ready.push(index);
            }
        }
    }

    /// The clocks of hosts have moved. Those with a timer that is due look for work. `anyone` may
    /// have work if code of the test ran: it may have woken a task.
    fn time_moved(&self, anyone: bool) {
        let world = self.inner.world.borrow();
        for (index, host) in self.inner.hosts.borrow().iter().enumerate() {
            let Some(machine) = host.machine.as_ref().filter(|_| !host.is_paused) else {
                continue;
            };
            let shown = world.shown(index) - host.base;
            machine.jump_to(shown);
            if anyone || machine.next_timer().is_some_and(|timer| timer <= shown) {
                host.has_news.set(true);
            }
        }
    }

    /// Lets a host take a step. False if there is none to take.
    fn try_step(&self, index: usize) -> bool {
        let machine = {
            let hosts = self.inner.hosts.borrow();
            let host = &hosts[index];
            match &host.machine {
                Some(machine) if !host.is_paused => machine.clone(),
                _ => return false,
            }
        };
        let edges = {
            let mut world = self.inner.world.borrow_mut();
            world.spread_news();
            let now = world.net.now();
            let host = &world.hosts[index];
            if host.busy_until > now {
                return false;
            }
            host.edges
        };
        let step = || {
            as_host(index, || {
                self.begins_step(index);
                machine.step(|count| {
                    let choice = self.below(count as u64);
                    self.note(choice);
                    choice as usize
                })
            })
        };
        let stepped = step() || {
            let is_new = self.inner.hosts.borrow()[index].woken_at < edges;
            is_new && as_host(index, || machine.wake_poller()) && {
                self.inner.hosts.borrow_mut()[index].woken_at = edges;
                step()
            }
        };
        if stepped {
            self.note(index as u64);
            self.takes_time(index);
        }
        stepped
    }

    /// What a step of a slow host sends leaves at the end of the step.
    pub(super) fn begins_step(&self, index: usize) {
        let mut world = self.inner.world.borrow_mut();
        let (step_time, id) = (world.hosts[index].step_time, world.hosts[index].id);
        if step_time > 0 {
            let end = world.now(index).saturating_add(step_time);
            world.net.set_busy(id, end);
        }
    }

    /// The host that has just done a step is busy with it, if it is a slow one.
    pub(super) fn takes_time(&self, index: usize) {
        let mut world = self.inner.world.borrow_mut();
        let step_time = world.hosts[index].step_time;
        if step_time > 0 {
            world.is_busy(index, step_time);
        }
    }

    /// Counts an event, and takes it into the digest.
    pub(super) fn note(&self, what: u64) {
        let inner = &self.inner;
        inner.events.set(inner.events.get() + 1);
        inner.digest.set(inner.digest.get().with(what));
    }

    fn is_within_limit(&self) -> Result<(), Failure> {
        let inner = &self.inner;
        let (limit, moment_limit) = (inner.event_limit, inner.moment_limit);
        let events = inner.events.get();
        let what = if events >= limit {
            format!("the limit of {limit} steps is reached: `Builder::event_limit` sets it")
        } else if events - inner.moment.get() >= moment_limit {
            format!(
                "no time passes: {moment_limit} steps were in one moment. A task that tries again \
                 has to sleep in between; if all that work is meant, set `Builder::moment_limit`"
            )
        } else {
            return Ok(());
        };
        self.look_at_panics()?;
        Err(Failure {
            is_of_steps: true,
            ..self.failure(None, &what)
        })
    }

    /// Moves the time to the next event, and does what is planned for that time. Tells whether
    /// something was. None: it moved to `until`, and what is next comes later.
    fn move_time(&self, until: Option<u64>) -> Result<Option<bool>, Failure> {
        let next = match self.next_event() {
            Some(next) => next,
            None if until.is_some() => u64::MAX,
            None => return Err(self.failure(None, "nothing can go on, and a client is not done")),
        };
        let limit = self.inner.time_limit;
        let end = until.filter(|&until| until < next && until <= limit);
        if let Some(end) = end.or((next > limit).then_some(limit)) {
            if end > self.inner.world.borrow().net.now() {
                self.inner.moment.set(self.inner.events.get());
            }
            self.inner.world.borrow_mut().net.advance_to(end);
            if let Some(record) = &self.inner.record {
                record.moves_to(end);
            }
        }
        if end.is_some() {
            return Ok(None);
        }
        if next > limit {
            let limit = Duration::from_nanos(limit);
            let what = format!(
                "the limit of {limit:?} of simulated time is reached: `Builder::time_limit` sets it"
            );
            return Err(self.failure(None, &what));
        }
        self.note(next);
        if next > self.inner.world.borrow().net.now() {
            self.inner.moment.set(self.inner.events.get());
        }
        self.inner.world.borrow_mut().net.advance_to(next);
        if let Some(record) = &self.inner.record {
            record.moves_to(next);
        }
        let mut acts = false;
        loop {
            let mut later = self.inner.later.borrow_mut();
            match later.first_entry() {
                Some(first) if first.key().0 <= next => {
                    let action = first.remove();
                    drop(later);
                    // It may plan another one for the same time, and so on.
                    self.note(next);
                    self.is_within_limit()?;
                    action(self);
                    acts = true;
                }
                _ => return Ok(Some(acts)),
            }
        }
    }

    fn next_event(&self) -> Option<u64> {
        let world = self.inner.world.borrow();
        let now = world.net.now();
        let hosts = self.inner.hosts.borrow();
        let timers = hosts.iter().enumerate().filter_map(|(index, host)| {
            let machine = host.machine.as_ref().filter(|_| !host.is_paused)?;
            let Host {
                busy_until, clock, ..
            } = world.hosts[index];
            if busy_until > now {
                return Some(busy_until);
            }
            let timer = machine.next_timer()?.saturating_add(host.base);
            let timer = clock.time_of(timer);
            (timer > now && timer < u64::MAX).then_some(timer)
        });
        let planned = self.inner.later.borrow();
        let planned = planned.first_key_value().map(|(key, _)| key.0);
        let others = [world.net.next_event(), planned];
        timers.chain(others.into_iter().flatten()).min()
    }

    /// Does what was commanded. Tells whether there was something.
    fn follow_commands(&self) -> bool {
        let mut any = false;
        loop {
            let command = self.inner.commands.borrow_mut().pop_front();
            let Some(command) = command else { return any };
            any = true;
            self.note_command(command);
            match command {
                Command::Start(index) => self.start(index),
                Command::Crash(index) => {
                    self.stop(index);
                    self.lose_power(index);
                }
                Command::CrashHard(index) => {
                    self.stop_hard(index);
                    self.lose_power(index);
                }
                Command::Restart(index) => {
                    if self.inner.hosts.borrow()[index].machine.is_some() {
                        self.stop(index);
                        self.lose_power(index);
                    }
                    self.start(index);
                }
                Command::Pause(index) => self.pause_host(index),
                Command::Signal(index, number) => self.raise(index, number),
                Command::Resume(index) => self.resume_host(index),
                Command::Jump(index, by) => self.set_clock(index, |clock, now| clock.jump(now, by)),
                Command::Drift(index, ppm) => {
                    self.set_clock(index, |clock, now| clock.drift(now, ppm));
                }
            }
        }
    }

    /// Starts a host's machine with its program.
    pub(super) fn start(&self, index: usize) {
        let (now, base) = {
            let mut world = self.inner.world.borrow_mut();
            let now = world.net.now();
            let host = &mut world.hosts[index];
            (host.up, host.busy_until) = (true, 0);
            // It may have been changed at a time to which a sleep had brought the host.
            host.clock.jump(now, 0);
            let id = host.id;
            world.begins(index);
            world.net.restart(id);
            (now, world.shown(index))
        };
        let name = self.inner.hosts.borrow()[index].name.clone();
        let make = match &mut self.inner.hosts.borrow_mut()[index].main {
            Main::Host(main) => Err(main.clone()),
            Main::Client(program) => Ok(program.take().expect("a client starts once")),
        };
        // The code of `main` runs as a task, and so inside of the runtime.
        let program = match make {
            Ok(program) => program,
            Err(main) => {
                let disk = Disk::new(self.inner.world.clone(), index);
                Box::pin(async move { main(disk).await })
            }
        };
        Begins::new(index, program).waits();
        let seed = self.inner.choices.borrow_mut().next_u64();
        let builder = move || {
            let builder = Builder::new().workers(self.inner.workers).seed(seed);
            let builder = builder.reports(Reports::TracingOnly);
            match &self.inner.record {
                Some(record) => record.set_up(builder),
                None => builder.recorder(0),
            }
        };
        let machine = as_host(index, || {
            let machine = match Machine::new(builder()) {
                Ok(machine) => machine,
                Err(error) => panic!("host {name:?} cannot be built: {error}"),
            };
            if let Some(record) = &self.inner.record {
                record.begins(index, &machine, now);
            }
            bring(&machine, index);
            machine
        });
        let machine = Rc::new(machine);
        self.inner.world.borrow_mut().hosts[index].machine = (Rc::downgrade(&machine), base);
        let host = &mut self.inner.hosts.borrow_mut()[index];
        host.machine = Some(machine);
        (host.base, host.is_paused, host.is_done, host.woken_at) = (base, false, false, 0);
        host.signals.clear();
    }

    fn set_clock(&self, index: usize, set: impl FnOnce(&mut Clock, u64)) {
        let mut world = self.inner.world.borrow_mut();
        let now = world.now(index);
        set(&mut world.hosts[index].clock, now);
        world.clock_is_set(index);
    }

    /// Stops a host, as a crash does.
    fn stop(&self, index: usize) {
        self.vanish(index);
        self.end_program(index);
    }

    /// Ends a host's machine, and lets destructors run.
    pub(super) fn end_program(&self, index: usize) {
        let Some(machine) = self.take_machine(index) else {
            return;
        };
        let panics = as_host(index, || {
            let panics = machine.end();
            // It may be there still, if the host has taken no step.
            drop(Begins::take(index));
            panics
        });
        self.note_last(index, panics);
    }

    /// Stops a host without a destructor. These run at the end of the run.
    fn stop_hard(&self, index: usize) {
        self.vanish(index);
        let Some(machine) = self.take_machine(index) else {
            return;
        };
        self.note_last(index, machine.take_panics());
        let program = Begins::take(index);
        self.inner.lost.borrow_mut().push((index, machine, program));
    }

    /// Takes a host from the network: its sockets and timers are gone, and nobody is told.
    fn vanish(&self, index: usize) {
        self.inner.world.borrow_mut().crash(index);
    }

    /// Gives the machine of a host, if it runs. What is left of its program makes no sockets.
    fn take_machine(&self, index: usize) -> Option<Machine> {
        let machine = self.inner.hosts.borrow_mut()[index].machine.take()?;
        if let Some(record) = &self.inner.record {
            record.ends(index, &machine);
        }
        if let Some(chooser) = &mut *self.inner.chooser.borrow_mut() {
            chooser.forget(index);
        }
        self.inner.world.borrow_mut().hosts[index].up = false;
        Some(Rc::into_inner(machine).expect("no step is under way"))
    }

    /// Ends all hosts, and drops what the caller gave.
    pub(super) fn end(&self) {
        let inner = &self.inner;
        let count = inner.hosts.borrow().len();
        (0..count).for_each(|index| self.stop(index));
        for (index, machine, program) in inner.lost.take() {
            as_host(index, || drop((machine, program)));
        }
        // Of a host without power no destructor runs, as far as the run goes.
        forget_ends();
        inner.phase.set(Phase::Over);
        inner.commands.borrow_mut().clear();
        // A destructor of one may add another one.
        for index in 0.. {
            let main = match inner.hosts.borrow_mut().get_mut(index) {
                Some(host) => mem::replace(&mut host.main, Main::Client(None)),
                None => break,
            };
            as_host(index, || drop_told(index, main));
            self.note_last(index, Vec::new());
        }
        // Closures may hold clones of this simulation. Destructors may call it.
        let later = inner.later.take();
        let hosts = inner.hosts.take();
        drop((later, hosts));
    }
}
