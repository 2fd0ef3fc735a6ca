//! The run: who takes the next step, and when the time moves.
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

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use ws_executor::{
    runtime::{Builder, Reports},
    sim::{Machine, own_ids},
    task::{Builder as Task, JoinError, JoinHandle},
};

use super::{Main, Phase, Sim, faults::Command};
use crate::{
    Disk, Failure,
    clock::Clock,
    failure::tasks,
    program::Program,
    record,
    world::{self, Host, as_host},
};

thread_local! {
    /// Programs on their way to their runtimes: a task that brings one has to be `Send`.
    static PROGRAMS: RefCell<BTreeMap<usize, Program>> = const { RefCell::new(BTreeMap::new()) };
    /// The programs that have ended.
    static ENDS: RefCell<Vec<(usize, End)>> = const { RefCell::new(Vec::new()) };
}

/// How a program ended: an error in words.
type End = Option<String>;

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

pub(super) fn run(sim: &Sim) -> Result<(), Failure> {
    let inner = &sim.inner;
    assert!(
        inner.phase.get() == Phase::New,
        "a simulation runs once: make another `Sim` with the same seed"
    );
    let Some(_installed) = world::install(&inner.world) else {
        panic!("a simulation runs on this thread: start another one after its end");
    };
    /// Also if a closure of the user panics: hosts end while their world is there.
    struct End<'a>(&'a Sim);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.end();
            own_ids(false);
        }
    }
    let end = End(sim);
    own_ids(true);
    world::seed_fastrand(&inner.world);
    inner.phase.set(Phase::Running);
    sim.plan_faults();
    let count = inner.hosts.borrow().len();
    (0..count).for_each(|index| sim.start(index));
    let mut result = sim.go();
    drop(end);
    if let (Err(failure), Some(recording)) = (&mut result, sim.recording()) {
        failure.recorded = Some(Box::new(record::told(&recording)));
    }
    result
}

impl Sim {
    fn go(&self) -> Result<(), Failure> {
        let inner = &self.inner;
        if !inner
            .hosts
            .borrow()
            .iter()
            .any(|host| host.main.is_client())
        {
            let what = "there is no client, so nothing says when the run is over: \
                        add one with `Sim::client`";
            return Err(self.failure(None, what));
        }
        let mut ready = Vec::new();
        self.find_ready(&mut ready);
        loop {
            if self.follow_commands() {
                ready.clear();
                self.find_ready(&mut ready);
            }
            if self.look_at_ends()? {
                return Ok(());
            }
            self.is_within_limit()?;
            if self.inner.chooser.borrow().is_some() {
                if !self.explore() {
                    self.look_at_panics()?;
                    if inner.commands.borrow().is_empty() {
                        self.move_time()?;
                        self.find_ready(&mut ready);
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
                    self.move_time()?;
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
        let limit = self.inner.event_limit;
        if self.inner.events.get() < limit {
            return Ok(());
        }
        self.look_at_panics()?;
        let what = format!("the limit of {limit} steps is reached");
        Err(self.failure(None, &what))
    }

    /// Moves the time to the next event, and does what is planned for that time.
    fn move_time(&self) -> Result<(), Failure> {
        let Some(next) = self.next_event() else {
            return Err(self.failure(None, "nothing can go on, and a client is not done"));
        };
        if next > self.inner.time_limit {
            let limit = Duration::from_nanos(self.inner.time_limit);
            let what = format!("the limit of {limit:?} of simulated time is reached");
            return Err(self.failure(None, &what));
        }
        self.note(next);
        self.inner.world.borrow_mut().net.advance_to(next);
        if let Some(record) = &self.inner.record {
            record.moves_to(next);
        }
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
                }
                _ => return Ok(()),
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
                Command::Pause(index) => self.inner.hosts.borrow_mut()[index].is_paused = true,
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
    fn start(&self, index: usize) {
        let (now, base) = {
            let mut world = self.inner.world.borrow_mut();
            let now = world.net.now();
            let host = &mut world.hosts[index];
            (host.up, host.busy_until) = (true, 0);
            // It may have been changed at a time to which a sleep had brought the host.
            host.clock.jump(now, 0);
            let id = host.id;
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
        PROGRAMS.with_borrow_mut(|programs| programs.insert(index, program));
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
            drop(machine.handle().spawn(bring(index)));
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
        as_host(index, || machine.end());
        drop(PROGRAMS.with_borrow_mut(|programs| programs.remove(&index)));
        forget_end(index);
    }

    /// Stops a host without a destructor. These run at the end of the run.
    fn stop_hard(&self, index: usize) {
        self.vanish(index);
        let Some(machine) = self.take_machine(index) else {
            return;
        };
        let program = PROGRAMS.with_borrow_mut(|programs| programs.remove(&index));
        self.inner.lost.borrow_mut().push((index, machine, program));
        forget_end(index);
    }

    /// Takes a host from the network: its sockets are gone, and nobody is told.
    fn vanish(&self, index: usize) {
        let mut world = self.inner.world.borrow_mut();
        let id = world.hosts[index].id;
        world.net.crash(id);
        world.unix.crash(index);
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
    fn end(&self) {
        let inner = &self.inner;
        let count = inner.hosts.borrow().len();
        (0..count).for_each(|index| self.stop(index));
        for (index, machine, program) in inner.lost.take() {
            as_host(index, || machine.end());
            drop(program);
        }
        inner.phase.set(Phase::Over);
        inner.commands.borrow_mut().clear();
        // Closures may hold clones of this simulation. Destructors may call it.
        let later = inner.later.take();
        let mains: Vec<_> = inner.hosts.borrow_mut().drain(..).collect();
        drop((later, mains));
    }

    /// Takes what programs have ended. Tells whether all clients are done.
    fn look_at_ends(&self) -> Result<bool, Failure> {
        let ends = ENDS.take();
        if ends.is_empty() {
            return Ok(false);
        }
        for (index, end) in ends {
            if let Some(error) = end {
                return Err(self.failure(Some(index), &error));
            }
            self.inner.hosts.borrow_mut()[index].is_done = true;
        }
        let hosts = self.inner.hosts.borrow();
        let mut clients = hosts.iter().filter(|host| host.main.is_client());
        let over = clients.all(|client| client.is_done);
        drop(hosts);
        if over {
            self.look_at_panics()?;
        }
        Ok(over)
    }

    fn look_at_panics(&self) -> Result<(), Failure> {
        let panicked = |(index, host): (usize, &super::Slot)| {
            let panics = host.machine.as_ref()?.take_panics();
            Some((index, panics.into_iter().next()?))
        };
        let first = self
            .inner
            .hosts
            .borrow()
            .iter()
            .enumerate()
            .find_map(panicked);
        match first {
            Some((index, task)) => {
                let what = format!("{task}, panicked, and nobody joins it");
                Err(self.failure(Some(index), &what))
            }
            None => Ok(()),
        }
    }

    fn failure(&self, host: Option<usize>, what: &str) -> Failure {
        let hosts = self.inner.hosts.borrow();
        let mut waits = String::new();
        for (index, other) in hosts.iter().enumerate() {
            // If one host failed, the others mostly say nothing.
            if host.is_some_and(|host| host != index) {
                continue;
            }
            match &other.machine {
                Some(machine) => {
                    let dump = as_host(index, || machine.handle().dump());
                    let dump: Vec<String> = dump.into_iter().map(String::from).collect();
                    let state = if other.is_paused { ", paused" } else { "" };
                    waits += &tasks(&other.name, state, &dump);
                }
                None => waits += &tasks(&other.name, ", crashed", &[]),
            }
        }
        Failure {
            seed: self.seed(),
            elapsed: self.elapsed(),
            host: host.map(|host| hosts[host].name.clone()),
            what: what.to_owned(),
            waits,
            faults: self.faults_so_far().into(),
            recorded: None,
        }
    }
}

/// Runs a host's program on a thread of its runtime, and tells how it ended.
async fn bring(index: usize) {
    let Some(program) = spawn_program(index) else {
        return;
    };
    let end = program.await.unwrap_or_else(|error| Some(in_words(error)));
    ENDS.with_borrow_mut(|ends| ends.push((index, end)));
}

/// What its program ended with, if it ended just before a crash, is nobody's.
fn forget_end(index: usize) {
    ENDS.with_borrow_mut(|ends| ends.retain(|(ended, _)| *ended != index));
}

fn spawn_program(index: usize) -> Option<JoinHandle<End>> {
    let program = PROGRAMS.with_borrow_mut(|programs| programs.remove(&index))?;
    Some(Task::new().name("main").spawn_local(program))
}

fn in_words(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            format!(
                "its program panicked: {}",
                text.unwrap_or("not with a text")
            )
        }
        Err(_) => "its program was cancelled".to_owned(),
    }
}
