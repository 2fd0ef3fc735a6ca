//! How programs begin and end, and why a run fails.
//!
//! A program tells how it ends ([`Begins`]), and a machine which of its tasks have panicked. The
//! driver looks at both before the time moves. A host may be gone before that: by a crash in the
//! same moment, or by a signal. So what it has ended with is noted when its machine ends, and so
//! are the panics of its destructors ([`Sim::note_last`]).
//!
//! *Invariant*: no panic of a program is lost, and none of a task whose handle was gone by then. A
//! handle that is there gives the panic to its join, or hides it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    thread::LocalKey,
};

use ws_executor::{runtime::TaskDump, sim::Machine, task::Builder as Task};

use super::Sim;
use crate::{
    Failure,
    failure::{in_words, panicked_at, tasks},
    program::Program,
    world::as_host,
};

thread_local! {
    /// Programs on their way to their runtimes: a task that brings one has to be `Send`.
    static PROGRAMS: RefCell<BTreeMap<usize, Begins>> = const { RefCell::new(BTreeMap::new()) };
    /// The programs that have ended, and whose hosts have not come to that time yet.
    static LAST: RefCell<Vec<(usize, End)>> = const { RefCell::new(Vec::new()) };
    /// The programs that have ended.
    static ENDS: RefCell<Vec<(usize, End)>> = const { RefCell::new(Vec::new()) };
}

/// Takes what was told of a host.
fn take_of(index: usize, ends: &'static LocalKey<RefCell<Vec<(usize, End)>>>) -> Vec<(usize, End)> {
    let (its, others) = ends.take().into_iter().partition(|(of, _)| *of == index);
    ends.set(others);
    its
}

/// How a program ended: an error in words.
type End = Option<String>;

/// The program of a host, which tells [`LAST`] how it ends. So it does if its destructor panics.
pub(super) struct Begins {
    index: usize,
    /// None: it has ended.
    program: Option<Program>,
}

impl Begins {
    pub(super) fn new(index: usize, program: Program) -> Self {
        Self {
            index,
            program: Some(program),
        }
    }

    /// It begins when its host takes a step.
    pub(super) fn waits(self) {
        PROGRAMS.with_borrow_mut(|programs| programs.insert(self.index, self));
    }

    /// Takes the program of a host that waits.
    pub(super) fn take(index: usize) -> Option<Self> {
        PROGRAMS.with_borrow_mut(|programs| programs.remove(&index))
    }
}

impl Future for Begins {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(program) = &mut self.program else {
            return Poll::Ready(());
        };
        let end = match catch_unwind(AssertUnwindSafe(|| program.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(end)) => end,
            Err(payload) => Some(in_words(&*payload)),
        };
        LAST.with_borrow_mut(|last| last.push((self.index, end)));
        drop_told(self.index, self.program.take());
        Poll::Ready(())
    }
}

impl Drop for Begins {
    fn drop(&mut self) {
        drop_told(self.index, self.program.take());
    }
}

/// Drops what belongs to the program of a host. If it panics, the program has ended so.
pub(super) fn drop_told<T>(index: usize, what: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(what))) {
        LAST.with_borrow_mut(|last| last.push((index, Some(in_words(&*payload)))));
    }
}

/// Runs a host's program on a thread of its runtime, and tells how it ended: at a later step than
/// its last one, which may have slept.
pub(super) fn bring(machine: &Machine, index: usize) {
    let spawn = move || {
        let program = Begins::take(index)?;
        Some(Task::new().name("main").spawn_local(program))
    };
    drop(machine.handle().spawn(async move {
        if let Some(program) = spawn() {
            let _ = program.await;
            let its = take_of(index, &LAST);
            ENDS.with_borrow_mut(|ends| ends.extend(its));
        }
    }));
}

/// Forgets what has ended and was not noted.
pub(super) fn forget_ends() {
    drop((LAST.take(), ENDS.take()));
}

impl Sim {
    /// Takes what a host has done before its machine went, and in destructors at its end.
    pub(super) fn note_last(&self, index: usize, panics: Vec<String>) {
        let its = [take_of(index, &ENDS), take_of(index, &LAST)].concat();
        let noted = self.note_ends(its).and_then(|()| {
            let task = panics.into_iter().next();
            task.map_or(Ok(()), |task| Err(self.of_task(index, &task)))
        });
        if let Err(failure) = noted {
            self.inner.failed.borrow_mut().get_or_insert(failure);
        }
    }

    /// Takes what programs have ended.
    pub(super) fn look_at_ends(&self) -> Result<(), Failure> {
        // What a host has ended with that is gone.
        self.failed().map_or(Ok(()), Err)?;
        self.note_ends(ENDS.take())
    }

    fn note_ends(&self, ends: Vec<(usize, End)>) -> Result<(), Failure> {
        for (index, end) in ends {
            if let Some(error) = end {
                return Err(self.failure(Some(index), &error));
            }
            self.inner.hosts.borrow_mut()[index].is_done = true;
        }
        Ok(())
    }

    /// Whether all clients are done.
    pub(super) fn is_over(&self) -> bool {
        let hosts = self.inner.hosts.borrow();
        let mut clients = hosts.iter().filter(|host| host.main.is_client());
        clients.next().is_some_and(|client| client.is_done) && clients.all(|client| client.is_done)
    }

    pub(super) fn look_at_panics(&self) -> Result<(), Failure> {
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
            Some((index, task)) => Err(self.of_task(index, &task)),
            None => Ok(()),
        }
    }

    fn of_task(&self, host: usize, task: &str) -> Failure {
        let what = format!("{task}, panicked, and nobody joins it");
        self.failure(Some(host), &what)
    }

    pub(super) fn failure(&self, host: Option<usize>, what: &str) -> Failure {
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
                    let of_test = dump
                        .into_iter()
                        .filter_map(|task| of_test(task, other.place));
                    let dump: Vec<String> = of_test.map(String::from).collect();
                    let state = match (other.is_paused, dump.is_empty()) {
                        (true, _) => ", paused",
                        (false, true) => ", no task",
                        (false, false) => "",
                    };
                    waits += &tasks(&other.name, state, &dump);
                }
                None => waits += &tasks(&other.name, ", crashed", &[]),
            }
        }
        Failure {
            seed: self.seed(),
            elapsed: self.elapsed(),
            host: host.map(|host| hosts[host].name.as_str().into()),
            what: what.into(),
            place: panicked_at(),
            is_of_steps: false,
            waits: waits.into(),
            faults: self.faults_so_far().into(),
            recorded: None,
        }
    }
}

/// A task as the test knows it: the program of a host is from the line that added the host. None
/// for the task that brings the program.
fn of_test(mut task: TaskDump, place: &'static Location<'static>) -> Option<TaskDump> {
    if task.location.file() == file!() {
        task.name.as_ref()?;
        task.location = place;
    }
    Some(task)
}
