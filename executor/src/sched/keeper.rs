//! The keeper: a thread that a runtime has from its build to its end, so that a thread is left where the system refuses one.
//!
//! The system may refuse a thread at any moment (`pids.max`, `RLIMIT_NPROC`, memory). A wake has no way to report that, and a
//! task that was spawned is accepted. So some thread has to try again, and it has to exist before the refusal.
//! `Builder::build` starts it, where a refusal is an error that the caller sees.
//!
//! *Invariant* (L5): while work is queued, a permit is free and the system has refused a thread, a thread of the runtime looks
//! for work, or tries for a thread every 10 ms. *Known gap*: if the runtime has one thread in all, and a task blocks that
//! one, nothing is tried until the task comes back.
//!
//! # The role
//!
//! One thread at a time has the role. What it does:
//!
//! | it | does | until |
//! | --- | --- | --- |
//! | *watches* | is the monitor (`sysmon.rs`), which tries again at each look | it stands in |
//! | *is in reserve*, with `sysmon(false)` | sleeps until the system refuses a thread, then tries every 10 ms until no work waits | it stands in |
//! | *stands in* | is a worker like any other: it is counted, has a P, and runs the hooks; the role is free | it ends as a worker does |
//!
//! It stands in if work waits, a try for a thread has just been refused, and the runtime has no thread. So the monitor never
//! takes the only thread from the tasks. While the role is free, each thread that begins tries to start another keeper, and so
//! does each worker that goes to sleep, every 10 ms at most. A thread that stood in takes the role again if it is still free when
//! it has ended as a worker; otherwise it ends.
//!
//! Not while the runtime has a thread, even if that one is stuck: the second thread could be blocked as well, and then
//! nothing would be tried any more.
//!
//! The gap is open because a try needs a thread that runs. If the thread that stood in blocks, the runtime has no
//! other one. A signal handler must not start a thread. A push from another thread of the program could try, but no push
//! need come. A keeper that never stands in would close the gap, at the price that a runtime with one thread runs no task.
//!
//! # *No refusal is missed*
//!
//! - *The monitor* sleeps for good only while all permits are free, and the thread that takes one wakes it (*The monitor's bed* in
//!   `idle.rs`). A thread that is refused has taken a permit. The monitor stays up while work waits.
//! - *The reserve* sleeps on the same parker. A thread that the system refuses unparks it, after its push and after
//!   the mark of the refusal; so does the end of the runtime. The reserve takes such a note first and looks afterwards, at
//!   the queues and at the phase. So it sees what the note is about, or the next sleep ends at once.
//!
//! # Rejected
//!
//! - To start it by need. There is no moment later on at which a refusal could be told: `spawn` would have to fail, and a
//!   wake cannot.
//! - To start a worker instead of the monitor. A parked worker waits in the netpoll. A program that does all its work in
//!   `block_on` would then be woken by another thread for each of its sockets.
//! - No thread where `sysmon(false)` asks for no monitor. The first task from outside could wait for ever there.
//!
//! What it costs at the build, and what the first task gains: `docs/decisions/2026-11-24-read-from-outside.md`.
//!
//! Checked by `tests/work_waits_when_there_is_no_thread.rs`.

use std::{io, time::Duration};

use super::{Shared, ground::Ground, processor::Processor, sysmon::Monitor, worker};
use crate::{
    no_unwind::NoUnwind,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Relaxed, SeqCst},
            fence,
        },
        thread,
    },
    task::report,
    throttle::{REPORT_EVERY, Throttle},
};

/// Time between two tries. As the longest period of the monitor.
const RETRY: Duration = Duration::from_millis(10);

/// Whether a thread has the role.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// A thread has it, or none is wanted.
    is_taken: AtomicBool,
    tries: Throttle,
    reports: Throttle,
}

impl Keeper {
    /// Not wanted where the clock is a driver's: there are no threads, or tasks run during `block_on` alone.
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            is_taken: AtomicBool::new(!wanted),
            tries: Throttle::new(RETRY),
            reports: Throttle::new(REPORT_EVERY),
        }
    }
}

impl Shared {
    /// Starts the first keeper.
    ///
    /// # Errors
    ///
    /// If the system refuses the thread.
    pub(crate) fn start_keeper(self: &Arc<Self>) -> io::Result<()> {
        if self.keeper.is_taken.swap(true, AcqRel) {
            return Ok(());
        }
        let shared = self.clone();
        let mut builder = thread::Builder::new().name(format!("{}-mon", self.config.name));
        // It may have to run tasks.
        if let Some(bytes) = self.config.stack_size {
            builder = builder.stack_size(bytes);
        }
        let started = self.start(builder, move || keep(&shared));
        if started.is_err() {
            self.keeper.is_taken.store(false, Relaxed);
        }
        started
    }

    /// Starts another one if the role is free.
    pub(crate) fn ensure_keeper(self: &Arc<Self>) {
        let keeper = &self.keeper;
        if keeper.is_taken.load(Relaxed) || self.phase.is_closing() || !keeper.tries.passes() {
            return;
        }
        if let Err(error) = self.start_keeper()
            && self.config.sysmon
            && keeper.reports.passes()
        {
            report(|| tracing::warn!(%error, "no thread for sysmon: stuck tasks hold up others"));
        }
    }

    /// Whether there is a monitor, as far as is known.
    pub(crate) fn is_monitored(&self) -> bool {
        self.config.sysmon && self.keeper.is_taken.load(Relaxed)
    }

    /// After the system has refused a thread, and that was marked.
    pub(super) fn call_the_reserve(&self) {
        if !self.config.sysmon {
            self.idle.monitor().unpark(|| ());
        }
    }

    /// Sleeps until the keeper has to stand in. None: the runtime closes.
    fn wait_in_reserve(&self) -> Option<Box<Processor>> {
        let whole = NoUnwind;
        let parker = self.idle.monitor();
        let mut waits = false;
        let processor = loop {
            // After the note was taken, which may be that of the closing.
            if self.phase.is_closing() {
                break None;
            }
            if waits {
                parker.park_timeout(RETRY);
            } else {
                parker.park();
            }
            if self.lacks_a_thread() && self.could_have_a_thread() {
                self.wake_for(1);
            }
            if let Some(processor) = self.stand_in() {
                break Some(processor);
            }
            // Its own try has left a note as well, which must not end the next sleep. What other notes are about is looked
            // at behind this.
            parker.wake_up();
            waits = self.refusal.load(Relaxed) && self.lacks_a_thread();
        };
        whole.over();
        processor
    }

    /// After a try for a thread. A P, with the permit of a spinner or as its hooks want it, if this thread has to be a worker.
    pub(super) fn stand_in(&self) -> Option<Box<Processor>> {
        if !self.refusal.load(Relaxed) || self.has_threads() || !self.lacks_a_thread() {
            return None;
        }
        let (permit, spinning) = self.idle.submit(1)?;
        let (processor, kept) = self.begin_thread(permit, spinning)?;
        if let Some((permit, spinning)) = kept {
            self.put_off(permit, spinning);
        }
        Some(processor)
    }

    /// Whether work waits beside a free permit, and no thread looks for it.
    fn lacks_a_thread(&self) -> bool {
        // Ordering: SeqCst: between the refusal's note, which was taken, and this look; pairs with the fence in `refused`.
        fence(SeqCst);
        self.idle.could_wake() && (self.any_work() || self.lacks_a_poller())
    }
}

/// The life of a keeper.
fn keep(shared: &Arc<Shared>) {
    loop {
        let processor = if shared.config.sysmon {
            Monitor::new(shared).run()
        } else {
            shared.wait_in_reserve()
        };
        let Some(processor) = processor else {
            // The end joins it.
            return;
        };
        shared.keeper.is_taken.store(false, Relaxed);
        worker::work(shared, processor, None);
        if shared.keeper.is_taken.swap(true, AcqRel) {
            break;
        }
    }
    shared.join_the_one_before();
}
