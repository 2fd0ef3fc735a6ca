//! Threads of the runtime: how one is started, and how many there may be.
//!
//! A thread is started when a permit and the duty to spin find nobody parked (`ground.rs`, *Who is woken*).
//! It is counted before it exists, under the lock that a shutdown looks at, so that the closing either
//! refuses it or waits for it. What the cap or the system refuses is reported once, and nothing is
//! lost: the P goes back to the vacant ones, and permit and spinning are *refused*.

use super::{
    Shared,
    closing::Closing,
    ground::Ground,
    idle::{Permit, Spinning, Stands},
    processor::{Peer, Processor},
    worker,
};
use crate::{
    sync::{Arc, Mutex, atomic::Ordering::Relaxed, thread},
    task::{Task, report},
};

impl Shared {
    /// What [`Ground::start_thread`] does for a runtime.
    pub(super) fn start_worker(&self, permit: Permit, spinning: Spinning) {
        let back = self.start_worker_with(permit, spinning, None);
        debug_assert!(back.is_none(), "nothing was handed to it");
    }

    /// The same for one that has a call to run first, which comes back if it is refused.
    fn start_worker_with(
        &self,
        permit: Permit,
        spinning: Spinning,
        call: Option<Task>,
    ) -> Option<Task> {
        let Some(processor) = self.admit_thread() else {
            self.refused(permit, spinning);
            if !self.phase.is_closing() {
                self.report_no_thread(
                    "the runtime has as many threads as `Builder::max_threads` allows",
                );
            }
            return call;
        };
        if let Some(stage) = &self.stage {
            processor.peer.standing.run(permit);
            spinning.hand_over();
            stage.start(processor);
            return call;
        }
        let number = {
            let mut threads = self.threads.lock();
            threads.started += 1;
            threads.started
        };
        let mut builder = thread::Builder::new().name(self.config.thread_name(number));
        if let Some(bytes) = self.config.stack_size {
            builder = builder.stack_size(bytes);
        }
        let shared = self.hold();
        processor.peer.standing.run(permit);
        spinning.hand_over();
        // The P goes to the thread in a cell that we keep a hold on, so that it comes back if the
        // system refuses the thread. The call goes with it.
        let cell = Arc::new(Mutex::new(Some((processor, call))));
        let seat = cell.clone();
        let started = builder.spawn(move || {
            let (processor, call) = seat
                .lock()
                .take()
                .expect("the P is put there before the start");
            worker::main(&shared, processor, call);
        });
        let Err(error) = started else {
            if self.refusal.load(Relaxed) {
                self.refusal.store(false, Relaxed);
            }
            return None;
        };
        let mut back = None;
        let seated = cell.lock().take();
        let permit = seated.and_then(|(processor, call)| {
            back = call;
            let permit = processor.peer.standing.vacate();
            self.return_processor(processor);
            permit
        });
        self.thread_gone();
        if let Some(permit) = permit {
            self.refused(permit, Spinning::take_over());
        }
        self.report_no_thread(&error.to_string());
        back
    }

    /// Whether a thread could be woken or started, as far as one can see.
    pub(super) fn could_have_a_thread(&self) -> bool {
        !self.idle.parked().is_empty() || self.threads.lock().count < self.config.max_threads
    }

    /// The same for one that has no pinned tasks and no root; not where the last start was refused.
    pub(super) fn could_have_an_unbound_thread(&self) -> bool {
        let may_start =
            || !self.refusal.load(Relaxed) && self.threads.lock().count < self.config.max_threads;
        self.unbound().next().is_some() || may_start()
    }

    /// Ps whose thread is parked, and has nothing that waits for it alone.
    fn unbound(&self) -> impl Iterator<Item = &Peer> {
        let is_unbound =
            |peer: &&Peer| peer.standing.load() == Stands::Parked && !peer.bound.load(Relaxed);
        self.peers().filter(is_unbound)
    }

    /// Hands a call to one of these or to a new thread, with a permit and the duty to search. It comes back if there is none.
    pub(super) fn hand_call(
        &self,
        mut call: Task,
        mut permit: Permit,
        spinning: Spinning,
    ) -> Result<(), Task> {
        for peer in self.unbound() {
            // It is there before its thread is up: that may be shut down and leave in its next step.
            if let Err(back) = peer.hand_call(call) {
                call = back;
                continue;
            }
            // Before: a bit that is taken away later may be that of its next sleep.
            self.idle.parked().remove(peer.index);
            match peer.standing.hand_to_parked(permit) {
                Ok(()) => {
                    spinning.hand_over();
                    self.unpark(peer);
                    return Ok(());
                }
                Err(back) => permit = back,
            }
            match peer.take_handed() {
                Some(back) => call = back,
                // Its thread got up by itself, and has it.
                None => {
                    self.release(permit, Some(spinning));
                    return Ok(());
                }
            }
        }
        match self.start_worker_with(permit, spinning, Some(call)) {
            Some(back) => Err(back),
            None => Ok(()),
        }
    }

    /// A P for one more thread, if the cap allows it; the thread is counted.
    fn admit_thread(&self) -> Option<Box<Processor>> {
        let mut threads = self.threads.lock();
        if threads.count >= self.config.max_threads || self.phase.is_closing() {
            return None;
        }
        let processor = self.take_processor()?;
        threads.count += 1;
        Some(processor)
    }

    /// Whether the runtime has threads of its own.
    pub(crate) fn has_threads(&self) -> bool {
        self.threads.lock().count > 0
    }

    fn report_no_thread(&self, why: &str) {
        if self.reported_no_thread.fetch_add(1, Relaxed) == 0 {
            report(|| tracing::warn!(why, "no thread could be started: work waits for the others"));
        }
    }
}

#[cfg(all(test, not(ws_loom)))]
mod tests;
