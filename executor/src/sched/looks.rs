//! *The look for all*: what a worker sees to however much local work there is.
//!
//! However much local work there is, a worker looks at what is for all at the 61st tick at the
//! latest, as in Go (L4). 61 ticks are some microseconds in a ping-pong, and 6 ms where polls take
//! 100 us. So a look counts the ticks since the last one, and reads the clock. The next look comes
//! after as many ticks as filled 100 us just now: at least five, and at most 61. Earlier ticks
//! count as well if they took longer. Their weight falls with time: to a third after five looks of
//! 100 us, and to nothing after one of half a millisecond. Else a hundred tasks that end at once
//! between polls of 10 us would put off the next look by 600 us. After a sleep the time counts from
//! its end.
//!
//! At the look, too, `runnext` goes to the back of a local queue that waits, if its slice began 50
//! us and three ticks ago (F4): it has the worker for some 150 us, or for eight polls if these take
//! longer; where polls have just become long, for 64 at most. Go has a slice of 10 ms for that. A
//! chain of tasks that wake each other stays in `runnext` for hundreds of polls in that time, but
//! what computes, and spawns what comes after it, keeps no queue waiting.
//!
//! The netpoll and others' timers have their turn at a look if no worker has looked there for 50 us
//! and 61 ticks have gone by, or for 500 us. A
//! worker that is brought more before it runs dry does not come to steal, nor to *the rescue
//! steal*: in one run p99 of an HTTP server was 4.3 ms with the netpoll at each look, and 2.7
//! without.
//!
//! *Rejected:* the monitor counted the ticks of a millisecond, and asked a worker of few to look at
//! the global queue at every fourth tick. It looked at nothing else then, and polls of 10 us were
//! no reason: 600 us from look to look.

use super::{
    find::is_call,
    processor::Peer,
    worker::{Scope, Step, Worker},
};
use crate::{
    cell::Task,
    permit::{env::Env, idle::WorkerState, sleep::Sleeper},
    policy::{
        Heuristic,
        constants::FILLS_TO,
        forks::lends,
        share::Waiting,
        tick::{Tick, lending_is_due, netpoll_is_due, next_slice_is_over},
    },
    queue::Batch,
    sync::atomic::Ordering::Relaxed,
};

impl Worker {
    /// See the module's head.
    pub(super) fn look_for_all(&self, tick: Tick) -> Option<Step> {
        let now = self.now();
        self.p.set_now(now);
        self.p.clocks.looks(tick, now);
        let step = self.take_for_all(tick, now);
        // Behind what was just taken: the task in `runnext` is newer.
        let clocks = &self.p.clocks;
        let ticks = tick.0.saturating_sub(clocks.slice_tick.get());
        if next_slice_is_over(ticks, clocks.slice_began.get(), now) && !self.p.lrq.is_empty() {
            self.end_slice();
        }
        step
    }

    fn take_for_all(&self, tick: Tick, now: u64) -> Option<Step> {
        let (last, then) = self.p.clocks.looked_to_lend.get();
        if lending_is_due(last, then, tick, now) {
            self.p.clocks.looked_to_lend.set((tick.0, now));
            if lends(
                !self.shared.idle.wanting().is_empty(),
                self.shared.idle.free(),
            ) {
                self.lend_permit();
                if !self.peer().state.has_permit() {
                    return Some(self.step_without_permit());
                }
            }
        }
        if self.scope == Scope::Own {
            return self.leaves_others_out().then(|| {
                self.begin_blocking();
                self.step_without_permit()
            });
        }
        let ticks = tick.0.saturating_sub(self.p.clocks.looked_around.get());
        if netpoll_is_due(self.shared.io.last_look.load(Relaxed), now, ticks) {
            // Also where there is no source, and so no look at the netpoll.
            self.shared.io.last_look.store(now, Relaxed);
            self.p.clocks.looked_around.set(tick.0);
            self.look_around();
            if !self.peer().state.has_permit() {
                return Some(self.step_without_permit());
            }
        }
        if self.shared.queues.grq.is_empty() || self.is_outranked() {
            return None;
        }
        if self.waiting().is_share_above(self.p.lrq.len()) {
            return self.global(FILLS_TO).map(Step::Run);
        }
        let exchange = match Heuristic::Exchange.is_on() {
            true => self.exchange_is_due(tick),
            false => None,
        };
        let grq = &self.shared.queues.grq;
        // What is exchanged comes behind what is left here. A fresh task does not wait for that.
        let task = match exchange {
            Some(_) => grq.pop_fresh()?,
            None => grq.pop()?,
        };
        self.count_global(1);
        // The task that has waited longest runs now. The next ones come behind what is here.
        if let Some(at_most) = exchange {
            self.exchange(at_most);
        }
        Some(Step::Run(task))
    }

    /// What waits for all workers.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting {
            tasks: self.shared.queues.grq.len(),
            workers: self.shared.config.workers,
        }
    }

    /// The most tasks to exchange at this tick, which counts as an exchange.
    pub(super) fn exchange_is_due(&self, tick: Tick) -> Option<usize> {
        let clocks = &self.p.clocks;
        let (last, last_ms) = clocks.exchanged.get();
        let now = clocks.now_ms.get();
        let at_most = tick.exchange(last, now.wrapping_sub(last_ms))?;
        clocks.exchanged.set((tick.0, now));
        Some(at_most)
    }

    /// *The exchange*: takes its share of the global queue as if its own were empty. The local
    /// tasks for which there is then no room go to the back of the global queue. One task in 61
    /// ticks is little if thousands wait there, and a few hundred that are always ready have the
    /// local queues. Measured with 10,000 tasks that yield, 10 us each, on two workers: a new one
    /// was polled after 3 s, and the others together take 50 ms for a turn.
    #[cold]
    pub(super) fn exchange(&self, at_most: usize) {
        let (lrq, grq) = (&self.p.lrq, &self.shared.queues.grq);
        let Some(share) = self.waiting().exchanged(at_most, lrq.len(), lrq.room()) else {
            return;
        };
        let mut taken = grq.take(share);
        self.count_global(taken.len() as u64);
        // A blocking call has not had a turn, and is looked for among those.
        let (mut back, mut calls) = (Batch::new(), Batch::new());
        let mut leaves = |task: Task| {
            let queue = if is_call(&task) {
                &mut calls
            } else {
                &mut back
            };
            queue.push(task);
        };
        for _ in lrq.room()..taken.len() {
            lrq.pop().into_iter().for_each(&mut leaves);
        }
        lrq.push_batch(&mut taken);
        taken.for_each(leaves);
        if !back.is_empty() {
            self.shared.push_again_batch(back);
        }
        if !calls.is_empty() {
            self.shared.push_batch(calls);
        }
    }

    /// For a thread in `block_on` that is always busy: whether work for all waits, or something is
    /// awaited, and no thread would come to it (L4, L6), since such threads hold every permit. If
    /// so, the thread goes on without a permit, with its root alone.
    fn leaves_others_out(&self) -> bool {
        let shared = &*self.shared;
        let takes_any = |peer: &Peer| {
            peer.state.load() == WorkerState::Running && !peer.flags.own.load(Relaxed)
        };
        shared.idle.free() == 0
            && (shared.has_queued() || (shared.nobody_polls() && shared.awaits()))
            && !shared.threads.refused.load(Relaxed)
            && shared.could_have_a_thread()
            && !shared.peers().any(takes_any)
    }
}
