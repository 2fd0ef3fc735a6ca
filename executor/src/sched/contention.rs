//! *Contended calls*: threads that call into the runtime while interrupted ones have the permits
//! (H4).
//!
//! Many threads that call at a time share few permits, and each needs one for a microsecond. If the
//! system takes a thread off its core in that moment, its permit is away for some milliseconds. The
//! next caller finds none, so its child goes to the workers. From then on these have the permits,
//! child after child, and a thread has to be woken for each. That does not end by itself: there is
//! always one more caller.
//!
//! So if there are more than two calls for each permit, a call that has none gives its core up
//! before it hands on the first task that it spawns, [`YIELDS`] times at most. Then the interrupted
//! thread goes on, and leaves its permit; or the workers come to the end of what is queued.
//! Measured with 64 threads whose calls spawn a task each and await it (AMD EPYC, 2 cores, Linux
//! 6.18): 4.2 us a call and 0.9 switches without it; 0.8 us and 0.02 with it (smol 3.8 us). What a
//! yield does is the kernel's affair. If it does nothing, it costs two system calls.
//!
//! If the permits are with workers that compute, it is in vain. Others have the core meanwhile, for
//! a slice of the system's, say. After that it is mostly skipped (`policy/backoff.rs`). Without
//! contention no thread does it: beside two workers that always had short polls to make, calls of
//! three threads had the same p99 with it, but a p999 of 3 ms where it was 1 ms. A thread that
//! waits in a call counts as well: under contention nearly all wait.
//!
//! A wake, a timer, a socket or a `block_on` inside does not give the core up. Wakers are often
//! called under a lock, and none of these needs a permit to go on. (A spawn under a lock may do so,
//! as it may be interrupted there.)
//!
//! Rejected:
//!
//! - To do it only while a permit is with another caller: once the workers have them all, it does
//!   not end.
//! - Not to try again for 16 or 64 times as long as it took in vain: under contention that is long,
//!   since each thread has the core for its slice. Nothing was gained.
//!
//! Checked by the tests below. The benchmarks `call_spawn_foreign_64` and `ghc_callback001` show
//! what it gains.

use super::{
    Shared,
    processor::{Peer, ROOT},
    worker::{Scope, Worker},
};
use crate::{
    permit::{env::Env, idle::WorkerState, sleep::Sleeper},
    policy::{
        constants::YIELDS,
        wake::{may_yield, uncontended_calls, yields_tell},
    },
    sync::atomic::Ordering::Relaxed,
};

impl Worker {
    /// A task was spawned. For want of a permit it is about to be handed on; see the module's head.
    /// `yields` gives the core up.
    #[cold]
    pub(super) fn yield_for_a_permit(&self, mut yields: impl FnMut()) {
        let peer = self.peer();
        let in_call = self.scope == Scope::Own
            && peer.progress.running.load(Relaxed) == ROOT
            && !peer.flags.announced.load(Relaxed);
        let spawned = peer.counters.spawned.get() - self.spawned_before;
        if !may_yield(in_call, spawned)
            || !self.p.backoffs.yielding.is_due()
            || !self.shared.is_contended()
        {
            return;
        }
        let began = self.now();
        let got = (0..YIELDS).any(|_| {
            peer.counters.yields.add_one();
            yields();
            self.try_run()
        });
        if got || yields_tell(self.now().saturating_sub(began)) {
            self.p.backoffs.yielding.settle(got);
        }
    }
}

impl Shared {
    /// Whether many threads are in calls at this moment.
    fn is_contended(&self) -> bool {
        let calls =
            |peer: &&Peer| peer.flags.own.load(Relaxed) && peer.state.load() != WorkerState::Vacant;
        let most = uncontended_calls(self.idle.workers());
        self.peers().filter(calls).nth(most).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, time::Duration};

    use super::*;
    use crate::{
        monitor::tests::eventually,
        policy::constants::YIELDS_TAKE,
        runtime::{Builder, Runtime, Sysmon},
        timer::Clock,
    };

    /// Threads that are in calls on a runtime that has one permit. The first has it.
    fn callers<const N: usize>(runtime: &Runtime) -> [Worker; N] {
        let shared = runtime.handle().shared();
        [(); N].map(|()| {
            let processor = shared.take_processor().expect("there is room for it");
            let worker = Worker::new(shared.clone(), processor, Scope::Own, None);
            worker.arrive();
            worker.begin_root();
            worker.peer().counters.spawned.add(1);
            worker
        })
    }

    fn leave(callers: impl IntoIterator<Item = Worker>) {
        for caller in callers {
            caller.end_root();
            caller.leave();
        }
    }

    fn one_worker() -> Builder {
        Builder::new().workers(1).sysmon(Sysmon::Off)
    }

    /// How often this caller gives its core up. Each time `then` runs.
    fn yields(caller: &Worker, mut then: impl FnMut()) -> u32 {
        let mut yields = 0;
        caller.yield_for_a_permit(|| {
            yields += 1;
            then();
        });
        yields
    }

    #[test]
    fn one_that_has_no_permit_under_contention_gives_its_core_up_twice() {
        let runtime = one_worker().build_with(Clock::stopped()).unwrap();
        let [first, second, third] = callers(&runtime);
        let mut first = Some(first);
        let mut tries = 0;
        let tried = yields(&third, || {
            tries += 1;
            if tries == YIELDS {
                leave(first.take());
            }
        });
        assert_eq!(tried, YIELDS);
        assert!(third.peer().state.has_permit());
        leave([second, third]);
    }

    #[test]
    fn one_that_is_no_caller_under_contention_keeps_its_core() {
        let runtime = one_worker().build_with(Clock::stopped()).unwrap();
        let [first, second, third] = callers(&runtime);
        assert_eq!(yields(&third, || ()), YIELDS);
        third.end_root();
        assert_eq!(
            yields(&third, || ()),
            0,
            "what spawns is a task, or a waker"
        );
        third.begin_root();
        assert_eq!(yields(&third, || ()), YIELDS, "it took no time");
        third.peer().counters.spawned.add(1);
        assert_eq!(yields(&third, || ()), 0, "the second task");
        leave([first]);
        assert_eq!(yields(&second, || ()), 0, "two do not contend");
        leave([second, third]);
    }

    #[test]
    fn one_that_gave_its_core_up_for_long_in_vain_mostly_keeps_it() {
        let runtime = one_worker().build_with(Clock::stopped()).unwrap();
        let [first, second, third] = callers(&runtime);
        let clock = third.shared.time.clock();
        let tries = |takes: Duration| {
            let calls = (0..100).map(|_| yields(&third, || clock.advance(takes)));
            calls.sum::<u32>() / YIELDS
        };
        assert_eq!(tries(YIELDS_TAKE / YIELDS), 100, "as long as it gains");
        // It is skipped once, then two times in a row, then four, and so on.
        let longer = YIELDS_TAKE / YIELDS + Duration::from_nanos(1);
        assert_eq!(tries(longer), 8);
        leave([first, second, third]);
    }

    /// How often a contended call gives its core up while no permit is free. What it spawns cannot
    /// run yet.
    fn yields_in<T>(runtime: &Runtime, call: impl Future<Output = T>) -> u64 {
        let shared = runtime.handle().shared();
        let mut others = None;
        // A worker may be on its way to sleep, or come back.
        eventually("the permit is to be had", || {
            let callers = callers::<2>(runtime);
            let has_it = callers[0].peer().state.has_permit();
            let (kept, gone) = if has_it {
                (Some(callers), None)
            } else {
                (None, Some(callers))
            };
            others = kept;
            leave(gone.into_iter().flatten());
            has_it
        });
        runtime.block_on(call);
        leave(others.into_iter().flatten());
        let yields = |peer: &Peer| peer.counters.yields.get();
        shared.all_peers().map(yields).sum()
    }

    #[test]
    fn a_call_that_spawns_under_contention_gives_its_core_up_once() {
        let runtime = one_worker().build().unwrap();
        let spawns = async { [crate::spawn(async {}), crate::spawn(async {})].map(drop) };
        assert_eq!(yields_in(&runtime, spawns), YIELDS.into());
    }

    #[test]
    fn a_call_that_needs_no_permit_keeps_its_core() {
        let runtime = one_worker().build().unwrap();
        let sleep = async { crate::time::sleep(Duration::from_nanos(1)).await };
        assert_eq!(yields_in(&runtime, sleep), 0);
        let inside = async { runtime.block_on(async { drop(crate::spawn(async {})) }) };
        assert_eq!(yields_in(&runtime, inside), 0);
        let calls = async { drop(crate::spawn_blocking(|| ())) };
        assert_eq!(yields_in(&runtime, calls), 0);
        let (sender, receiver) = futures::channel::oneshot::channel();
        let waits = runtime.spawn(receiver);
        let is_taken = || runtime.handle().metrics().global_queue == 0;
        eventually("who has the permit polls it", is_taken);
        let wakes = async { sender.send(()) };
        assert_eq!(yields_in(&runtime, wakes), 0);
        runtime.block_on(waits).unwrap().unwrap();
    }
}
