//! Threads of the runtime: how one is started, and how many there may be.
//!
//! A thread is started when a permit and the duty to spin find no thread parked (`permit/env.rs`,
//! *Which thread is woken*). It is counted before it exists, under the lock that a shutdown looks
//! at, so that the closing either refuses it or waits for it. What the cap or the system refuses is
//! counted, and reported once a second at most. Nothing is lost: the P goes back to the vacant
//! ones, and permit and spinning are *refused*.
//!
//! # *What a thread begins with*
//!
//! CPUs, niceness and signal mask of a thread are those of the thread that makes it. That may be a
//! thread of others in the middle of a wake, which is pinned to a CPU. So each thread of the
//! runtime first takes those of the thread that built the runtime, noted at the build. A start hook
//! comes later and may change them. `affinity.rs` changes the CPUs of parked threads alone, so it
//! never meets this step.
//!
//! Rejected: to have the monitor start every thread, so that no thread is made inside a wake. The
//! task would wait for a second thread to wake up first. And where the monitor is stuck in a report
//! hook, the task would wait for that.
//!
//! Checked by `tests/interface/threads_are_as_their_builder_was.rs`.
//!
//! # *Joining*
//!
//! When the drop of a runtime returns, its threads have ended, with the thread-locals of users that
//! they had. So each thread that is started leaves its handle in `Joins`
//! (`state/runtime_threads.rs`).
//!
//! - A thread that ends for want of work leaves its handle in `ended`, and joins the one that it
//!   finds there. So at most one handle of a thread that has ended waits there, and the thread that
//!   joins that one has joined those before.
//! - The end takes all handles but that of its own thread. Most of these threads return in a
//!   moment, and it looks for that. It has the others joined by a thread in the background, for a
//!   destructor of a thread-local is user code, and the grace bounds the wait for it.
//! - If the system refuses that thread, the shutdown thread waits within the grace until each of
//!   them has returned, and joins it then. In this case alone a destructor of a thread-local that
//!   blocks holds up the shutdown thread.
//!
//! If a thread-local has the runtime and drops it when its thread ends, another thread may wait for
//! that one. Then the grace ends the wait.
//!
//! A handle is there before its thread can look for it: the lock is held while the thread is
//! started.
//!
//! # *Threads in their start hook*
//!
//! A thread runs its start hook before its first task, and the hook may block. So it has no permit
//! and no duty to spin meanwhile: the thread that starts it releases both. It comes out of the hook
//! as a thread that parks, with the last look that belongs to that. If something was pushed while
//! it was in its hook, it sees that then.
//!
//! Nothing counts such a thread as one that will come, so each push would start one more. Therefore
//! only as many are in their hook as permits are free, besides those that the monitor gave up
//! waiting for. It gives up one after a slice with work queued beside a free permit, the
//! second after twice that time, and so on: a hook of half a second costs six threads.
//!
//! Both the count and its end are under a lock, and a thread that comes out of its hook can be
//! handed a permit before it counts itself out. If a pusher finds too many in their hook, it has
//! pushed before, and the thread looks at the queues after it has counted itself out: so it sees
//! the push. A pusher that comes later finds it asleep, and starts none.
//!
//! A pusher may have found no thread parked before a thread came out of its hook, and look at the
//! count afterwards. So it looks once more for a parked thread. Without that look the runtime
//! started a thread more than it has permits, now and then.
//!
//! Checked by `tests/liveness/a_hook_that_blocks_holds_up_nobody.rs`.

use std::{
    fmt, io,
    time::{Duration, Instant},
};

use ws_reactor::try_join;

use super::{
    Shared,
    processor::{Peer, Processor},
    worker,
};
use crate::{
    advice::{Advised, THREAD, advice},
    cell::Task,
    permit::{
        env::Env,
        idle::{Permit, Spinning, WorkerState},
        keeper::KeeperEnv,
        phase::ShutdownEnv,
    },
    policy::constants::{JOIN_LOOKS, JOIN_SOON, SLICE_NS},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{
            Ordering::{Relaxed, SeqCst},
            fence,
        },
        thread,
    },
};

/// What the end and the thread that joins the others share.
#[derive(Debug, Default)]
struct Joined {
    handles: Mutex<Vec<thread::JoinHandle<()>>>,
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// Joins those that return in a moment. Gives back the others.
fn join_soon(mut handles: Vec<thread::JoinHandle<()>>) -> Vec<thread::JoinHandle<()>> {
    let begin = Instant::now();
    loop {
        handles = handles
            .into_iter()
            .filter_map(|handle| try_join(handle).err())
            .collect();
        if handles.is_empty() || cfg!(not(target_os = "linux")) || begin.elapsed() >= JOIN_SOON {
            return handles;
        }
        thread::yield_now();
    }
}

/// Joins a thread where no other thread can be had for that. False if it takes too long.
fn join_here(handle: thread::JoinHandle<()>, left: &mut impl FnMut() -> Option<Duration>) -> bool {
    while !handle.is_finished() {
        let Some(left) = left() else {
            return false;
        };
        thread::sleep(left.min(JOIN_LOOKS));
    }
    // A panic was its own affair.
    let _ = handle.join();
    true
}

/// What a thread that has a hook for its start does not get before it is through with that.
type Kept = Option<(Permit, Spinning)>;

impl Shared {
    /// Starts a thread that the end joins.
    pub(super) fn start(
        &self,
        builder: thread::Builder,
        f: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let inherited = self.threads.inherited.clone();
        let mut joins = self.threads.joins.lock();
        let handle = builder.spawn(move || {
            inherited.apply();
            f();
        })?;
        joins.running.push((handle.thread().id(), handle));
        Ok(())
    }

    /// At the very end of a thread that does no more for the runtime.
    pub(super) fn join_the_one_before(&self) {
        let own = thread::current().id();
        let before = {
            let mut joins = self.threads.joins.lock();
            let place = joins.running.iter().position(|(id, _)| *id == own);
            // If it is not there, the end has taken it.
            place.and_then(|place| {
                let (_, handle) = joins.running.swap_remove(place);
                joins.ended.replace(handle)
            })
        };
        if let Some(handle) = before {
            // A panic was its own affair.
            let _ = handle.join();
        }
    }

    /// Joins all threads but this one, also those that they start meanwhile (`snapshots.rs`).
    /// `left` says how long one may still wait. False if that was not long enough.
    pub(super) fn join_threads(&self, mut left: impl FnMut() -> Option<Duration>) -> bool {
        let own = thread::current().id();
        loop {
            let handles: Vec<_> = {
                let mut joins = self.threads.joins.lock();
                let ended = joins.ended.take();
                let running = joins.running.drain(..).filter(|(id, _)| *id != own);
                running.map(|(_, handle)| handle).chain(ended).collect()
            };
            if handles.is_empty() {
                return true;
            }
            let handles = join_soon(handles);
            if !handles.is_empty() && !self.join_these(handles, &mut left) {
                return false;
            }
        }
    }

    fn join_these(
        &self,
        handles: Vec<thread::JoinHandle<()>>,
        left: &mut impl FnMut() -> Option<Duration>,
    ) -> bool {
        let joined = Arc::new(Joined {
            handles: Mutex::new(handles),
            ..Joined::default()
        });
        let tells = joined.clone();
        let builder = thread::Builder::new().name(format!("{}-end", self.config.name));
        let inherited = self.threads.inherited.clone();
        let joiner = builder.spawn(move || {
            inherited.apply();
            for handle in std::mem::take(&mut *tells.handles.lock()) {
                let _ = handle.join();
            }
            *tells.is_over.lock() = true;
            tells.changed.notify_all();
        });
        let Ok(joiner) = joiner else {
            let handles = std::mem::take(&mut *joined.handles.lock());
            return handles.into_iter().all(|handle| join_here(handle, left));
        };
        let mut is_over = joined.is_over.lock();
        while !*is_over {
            let Some(left) = left() else {
                return false;
            };
            is_over = joined.changed.wait_timeout(is_over, left);
        }
        drop(is_over);
        let _ = joiner.join();
        true
    }

    /// What [`Env::start_thread`] does for a runtime.
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
        let Some((processor, kept)) = self.begin_thread(permit, spinning) else {
            return call;
        };
        if let Some(sim_threads) = &self.threads.sim_threads {
            sim_threads.start(processor);
            return call;
        }
        let number = {
            let mut threads = self.threads.counts.lock();
            threads.started += 1;
            threads.started
        };
        let mut builder = thread::Builder::new().name(self.config.thread_name(number));
        if let Some(bytes) = self.config.stack_size {
            builder = builder.stack_size(bytes);
        }
        let shared = self.strong();
        // The P goes to the thread in a cell that we keep a reference to, so that it comes back if
        // the system refuses the thread. The call goes with it.
        let cell = Arc::new(Mutex::new(Some((processor, call))));
        let given = cell.clone();
        let started = self.start(builder, move || {
            let (processor, call) = given
                .lock()
                .take()
                .expect("the P is put there before the start");
            worker::main(&shared, processor, call);
        });
        let Err(error) = started else {
            self.was_given_a_thread();
            if let Some((permit, spinning)) = kept {
                self.put_off(permit, spinning);
            }
            return None;
        };
        let hooked = kept.is_some();
        let mut back = None;
        let returned = cell.lock().take();
        let permit = returned.and_then(|(processor, call)| {
            back = call;
            let permit = processor.peer.state.vacate();
            self.return_processor(processor);
            permit
        });
        self.thread_gone();
        if hooked {
            self.start_hook_ended();
        }
        let handed = permit.map(|permit| (permit, Spinning::take_over()));
        self.was_refused_by_the_system(kept.or(handed));
        let advice = advice(THREAD, &error);
        self.report_no_thread(&Advised(&error, advice));
        back
    }

    /// The first steps of a thread: it is counted, and has a P. With a hook for its start, permit
    /// and spinning come back, and the caller puts them off when the thread is there. Otherwise the
    /// thread has them. None: it was refused, or put off.
    pub(super) fn begin_thread(
        &self,
        permit: Permit,
        spinning: Spinning,
    ) -> Option<(Box<Processor>, Kept)> {
        let hooked = self.config.hooks.has_start();
        if hooked && !self.start_hook_begins() {
            self.put_off(permit, spinning);
            return None;
        }
        let Some(processor) = self.admit_thread() else {
            if hooked {
                self.start_hook_ended();
            }
            self.refused(permit, spinning);
            if !self.end.phase.is_closing() {
                self.report_no_thread(
                    &"the runtime has as many threads as `Builder::max_threads` allows: raise it, \
                      or let fewer tasks and calls block",
                );
            }
            return None;
        };
        if hooked {
            return Some((processor, Some((permit, spinning))));
        }
        processor.peer.state.run(permit);
        spinning.hand_over();
        Some((processor, None))
    }

    /// Whether one more thread may begin with its start hook; it is counted then.
    fn start_hook_begins(&self) -> bool {
        let mut hooks = self.threads.in_start_hook.lock();
        // A thread that parks enters its bit and then gives its permit back; one that wakes up
        // takes a permit and then takes its bit away. So between two looks at the permits each
        // thread is seen as the one or the other.
        let free = self.idle.free();
        // Ordering: SeqCst: the three looks are made in this order; pairs with the exchanges of
        // `Idle` and of the bits.
        fence(SeqCst);
        let is_one_parked = !self.idle.parked().is_empty();
        fence(SeqCst);
        let free = free.min(self.idle.free());
        // One permit that was free is the caller's.
        let begins = !is_one_parked && hooks.count <= free + hooks.late;
        hooks.count += usize::from(begins);
        begins
    }

    /// A thread is through with its hook, or was not started. It looks at the queues afterwards, or
    /// the caller does.
    pub(super) fn start_hook_ended(&self) {
        let mut hooks = self.threads.in_start_hook.lock();
        hooks.count -= 1;
        hooks.late = hooks.late.min(hooks.count);
    }

    /// Permit and spinning go back, for a thread that is on its way. Others may have pushed
    /// meanwhile, seen a spinner, and relied on it.
    pub(super) fn put_off(&self, permit: Permit, spinning: Spinning) {
        self.idle.release(permit, Some(spinning));
        self.after_release();
        if !self.idle.parked().is_empty() && self.any_work() {
            self.wake_for(1);
        }
    }

    /// The monitor looks at the threads in their start hook. Whether work may have to wait for
    /// them.
    pub(crate) fn look_at_start_hooks(&self, now: u64) -> bool {
        let mut hooks = self.threads.in_start_hook.lock();
        if hooks.count == 0 || self.idle.free() == 0 || !self.any_work() {
            hooks.since = None;
            return hooks.count > 0;
        }
        let since = *hooks.since.get_or_insert(now);
        let late = now.saturating_sub(since) / SLICE_NS;
        // One after the first period, two after the second, three after the fourth, and so on.
        let late = (u64::BITS - late.leading_zeros()) as usize;
        hooks.late = late.min(hooks.count);
        true
    }

    /// Whether a thread could be woken or started, by what is seen now.
    pub(crate) fn could_have_a_thread(&self) -> bool {
        !self.idle.parked().is_empty()
            || (self.threads.counts.lock().count < self.config.max_threads
                && self.may_begin_a_hook())
    }

    /// Whether a thread that is started now is not put off for those that are in their start hook.
    fn may_begin_a_hook(&self) -> bool {
        if !self.config.hooks.has_start() {
            return true;
        }
        let hooks = self.threads.in_start_hook.lock();
        hooks.count < self.idle.free() + hooks.late
    }

    /// The same for one that has no pinned tasks and no root; not where the last start was refused.
    pub(super) fn could_have_an_unbound_thread(&self) -> bool {
        let may_start = || {
            !self.threads.refused.load(Relaxed)
                && self.threads.counts.lock().count < self.config.max_threads
        };
        self.unbound().next().is_some() || may_start()
    }

    /// Ps whose thread is parked, and has nothing that waits for it alone.
    fn unbound(&self) -> impl Iterator<Item = &Peer> {
        let is_unbound = |peer: &&Peer| {
            peer.state.load() == WorkerState::Parked && !peer.flags.bound.load(Relaxed)
        };
        self.peers().filter(is_unbound)
    }

    /// Hands a call to one of these or to a new thread, with a permit and the duty to search. It
    /// comes back if there is none.
    pub(super) fn hand_call(
        &self,
        mut call: Task,
        mut permit: Permit,
        spinning: Spinning,
    ) -> Result<(), Task> {
        for peer in self.unbound() {
            // It is there before its thread is awake: that may be shut down and leave in its next
            // step.
            if let Err(back) = peer.thread.handed.put(call) {
                call = back;
                continue;
            }
            // Before: a bit that is taken away later may be that of its next sleep.
            self.idle.parked().remove(peer.index);
            match peer.state.hand_to_parked(permit) {
                Ok(()) => {
                    spinning.hand_over();
                    self.unpark(peer);
                    return Ok(());
                }
                Err(back) => permit = back,
            }
            match peer.thread.handed.take() {
                Some(back) => call = back,
                // Its thread woke up by itself, and has it.
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
        let mut threads = self.threads.counts.lock();
        if threads.count >= self.config.max_threads || self.end.phase.is_closing() {
            return None;
        }
        let processor = self.take_processor()?;
        threads.count += 1;
        Some(processor)
    }

    fn report_no_thread(&self, why: &dyn fmt::Display) {
        self.threads.refusals.fetch_add(1, Relaxed);
        if self.threads.refusal_reports.passes() {
            self.telling.reports.tell_limited(
                || tracing::warn!(%why, "no thread could be started: work waits for the others"),
                format_args!("no thread could be started: work waits for the others: {why}"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
