//! The environment of the protocols of permits, sleep and shutdown, and the part of them that is
//! the same for all threads: how a permit finds a thread.
//!
//! [`Env`] names the few things that those protocols need of the runtime around them: the counts,
//! the global queue, the Ps, a way into the netpoll, and what to do when no thread sleeps that
//! could be woken. Everything else is here, once, for the runtime and for the models. The runtime's
//! environment is `Shared`. The models' environment is `models/mock.rs`: Ps without tasks,
//! clocks or sockets. So a model drives what ships.
//!
//! | file | trait | side of | protocols of `idle.rs` and others |
//! | --- | --- | --- | --- |
//! | here | [`Env`] | a thread that pushes, or gives a permit up | *The spinning hand-over*, *Pinned work*; revocation |
//! | `sleep.rs` | [`Sleeper`](super::sleep::Sleeper) | a thread with its P | the same, and *Parking is a claim* |
//! | `phase.rs` | [`ShutdownEnv`](super::phase::ShutdownEnv) | the thread that ends the runtime | the phases of a shutdown |
//!
//! All of it is generic and has one user in the shipped build, so it costs what functions cost.
//!
//! # Which thread is woken
//!
//! A wake-up begins with a permit and the duty to spin, taken in one step (`Idle::submit`). They go
//! to a parked thread; the one that waits in the netpoll is the last to be disturbed. If none is
//! parked, a thread is started. If that is refused they go back, and the thread looks once more
//! ([`Env::refused`]): others may have pushed meanwhile and relied on this spinner, and a thread
//! that wants a permit may have found this one taken.
//!
//! # What a release owes
//!
//! A thread that gives a permit up looks, after its fence, at three things in this order:
//!
//! 1. whether a thread wants a permit for pinned work;
//! 2. whether work is queued, for its pusher found no permit free and woke no thread;
//! 3. whether a thread waits in the netpoll, if there is anything to wait for.
//!
//! If the permit was taken away for the sake of others, the first comes last. If that thread does
//! not want a permit any more, the other two are looked at once more.
//!
//! # *What is heard*
//!
//! Something that is awaited (an armed timer, a registered source) is *heard* if one of two facts
//! holds:
//!
//! - **A thread waits** in the netpoll, or is about to, until the timer's moment at the latest.
//! - **A permit is held.** Its holder looks at what is awaited after it has given the permit up
//!   (*What a release owes*). As long as it never runs dry it looks at *the look for all*; one in
//!   `block_on`, which takes nothing of others, gives the permit up there if no thread looks.
//!
//! *Invariant* (L6): whatever is awaited is heard, short transitions aside. Three steps may end
//! that, and each is followed by a look at the facts. If neither holds, a thread is woken. It finds
//! nothing to run and goes to wait in the netpoll:
//!
//! | the step | ends | the look |
//! | --- | --- | --- |
//! | a timer is armed or moved to an earlier time, or a source is registered | - | [`heard`](Env::heard) |
//! | a permit is given up | the second fact | [`ensure_poller`](Env::ensure_poller), or the thread goes to the netpoll itself |
//! | a thread leaves the netpoll | the first fact | it goes there again, or it finds every permit taken, or takes one |
//!
//! Nothing else counts. It does not matter to which P the timers belong, or which thread arms: a
//! worker, one in an announced block, in a nested `block_on`, in a hook, or none of this runtime's.
//! So no other place decides what is heard.
//!
//! Each step ends with a sequentially consistent fence before its look. Of two steps that overlap,
//! the one with the second fence sees what the other one did:
//!
//! - *An arm and a release*: either the armer sees the free permit, or the releaser sees the timer.
//! - *An arm and a thread that leaves the netpoll*: if the armer still saw that thread wait, one of
//!   three things follows. That thread waits again, and sees the timer; or it finds a permit; or it
//!   finds all of them taken, and their holders see the timer.
//! - *A release and a thread that leaves the netpoll*: either the releaser sees that none waits, or
//!   the other thread sees the free permit and takes it. Hence the fence in
//!   [`poll_as`](Env::poll_as), after the netpoll was given back: a releaser that goes to the
//!   netpoll itself must not find the door closed by a thread that goes away.
//!
//! A shard reports a new deadline only if it is the earliest of that shard (`timer/shard.rs`). A
//! later one is heard with the earlier one, for the thread that fires the earlier one looks at the
//! next.
//!
//! A permit may be held by a thread that is stuck without a word. Then the monitor fires the timers
//! and looks at the netpoll (`monitor.rs`). If no thread can be had, the monitor does so too,
//! and threads that wait for a root are told, since they can wait in the netpoll like any other.
//!
//! Checked by `models::heard`.
//!
//! Rejected: to let a worker that arms rely on itself ("it will look before it sleeps"). It may be
//! in a block that has no end but this timer's, or have no permit and go away.
//!
//! # Rejected
//!
//! The whole scheduler under loom, with tasks, contexts and a netpoll: more steps than it can
//! explore. A copy of these steps for the models: a mutant of the copy says nothing of the code
//! that ships.
//!
//! Checked by `models::idle`, `models::permit` and `models::shutdown`.

use super::{
    idle::{Idle, Permit, Spinning, WorkerState, WorkerStateCell},
    phase::Phase,
};
use crate::{
    park::Parker,
    queue::{
        Batch, GlobalRunQueue, LocalQueue, Ordered, OrderedShared, OrderedStealer, Steal, Stealer,
    },
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

/// What others see of a P: its permit, its sleep and its queues.
pub(crate) trait PeerEnv {
    type Task: Ordered;

    fn index(&self) -> usize;
    fn state(&self) -> &WorkerStateCell;
    fn parker(&self) -> &Parker;
    fn stealer(&self) -> &Stealer<Self::Task>;
    /// The thieves' end of its ordered queue, once it has one.
    fn ordered(&self) -> Option<&OrderedStealer<Self::Task>> {
        None
    }
    /// Takes the oldest task that waits for the child that it forked.
    fn steal_parent(&self) -> Option<Self::Task> {
        None
    }
    /// Whether there is such a task.
    fn has_parent(&self) -> bool {
        false
    }
    /// Whether there is a branch of a join that others could take.
    fn has_branch(&self) -> bool {
        false
    }
    /// Makes its next fork come by: its permit is gone, or a thread asks for it.
    fn ask_at_next_fork(&self) {}
    /// Takes what is in its `runnext`, or the child that its poll has forked, for the monitor.
    fn steal_next(&self) -> Option<Self::Task>;
    /// Something of its own was given to all, without its thread's doing.
    fn was_taken_from(&self) {}
    /// Whether its thread has left a task alone in `runnext`, and has not come back to it since;
    /// see *The wake back-off* in `sched/push.rs`.
    fn has_alone(&self) -> bool;
    /// Whether there is a task in its queues that others could take: not a branch of a join.
    fn has_queued(&self) -> bool {
        !self.stealer().is_empty() || self.ordered().is_some_and(|ordered| !ordered.is_empty())
    }
}

/// See the module's head. The methods without a body are what a runtime has to bring.
pub(crate) trait Env: Sized {
    type Task: Ordered;
    type Peer: PeerEnv<Task = Self::Task>;

    /// Whether a thread is to wait in the netpoll, whatever the callers do. Not in a runtime that
    /// has no thread but that of its caller: what is awaited outside of a `block_on` waits for the
    /// next one.
    fn keeps_a_poller(&self) -> bool {
        true
    }

    fn idle(&self) -> &Idle;
    fn grq(&self) -> &GlobalRunQueue<Self::Task>;
    /// What the global queue is for tasks of another priority than the default one.
    fn ordered(&self) -> &OrderedShared<Self::Task>;
    fn phase(&self) -> &Phase;
    /// The Ps that have a thread; see `allp.rs`.
    fn peers(&self) -> impl Iterator<Item = &Self::Peer>;
    /// Those of them whose thread is not parked: only these have work for others, see *A parked P
    /// is empty* in `idle.rs`.
    fn awake_peers(&self) -> impl Iterator<Item = &Self::Peer> {
        let is_awake = |peer: &&Self::Peer| !self.idle().parked().contains(peer.index());
        self.peers().filter(is_awake)
    }
    /// The P of an index that one of these had.
    fn peer(&self, index: usize) -> &Self::Peer;
    /// The last thread that was to be started was refused, by the cap or by the system.
    fn refusal(&self) -> &AtomicBool;
    /// The thread that waits in the netpoll: its index plus one.
    fn netpoll_waiter(&self) -> &AtomicUsize;
    /// Gets that thread out of the netpoll.
    fn interrupt(&self);
    /// Whether there is anything that a thread has to wait for in the netpoll.
    fn awaits(&self) -> bool;
    /// Whether one thread more may take a branch of a join; see *Detached computations* in
    /// `fork_join/owner.rs`.
    fn takes_branches(&self) -> bool {
        true
    }
    /// Starts a thread that begins with a permit, as a spinner; or calls
    /// [`refused`](Self::refused).
    fn start_thread(&self, permit: Permit, spinning: Spinning);
    /// Wakes a P's own thread, wherever it sleeps. An unpark is kept until its next sleep, so that
    /// what was done before it is seen.
    fn notify_owner(&self, peer: &Self::Peer);
    /// Drops what came out of a queue when no thread is left to run it.
    fn cancel(task: Self::Task);

    // --- work that any thread may take ---

    /// Queues a task for all, by its priority if it has one.
    fn push(&self, task: Self::Task) {
        if task.is_ordered() {
            self.ordered().push(task);
            self.wake_for(1);
            self.pushed();
        } else {
            self.push_plain(task);
        }
    }

    /// The same for a task of the default priority.
    fn push_plain(&self, task: Self::Task) {
        self.grq().push(task);
        self.wake_for(1);
        self.pushed();
    }

    /// Queues a task of the default priority that goes on, and for which its thread has no room.
    fn push_again(&self, task: Self::Task) {
        self.grq().push_again(task);
        self.wake_for(1);
        self.pushed();
    }

    /// Queues a batch for all, in its order.
    fn push_batch(&self, batch: Batch<Self::Task>) {
        let len = batch.len();
        self.grq().push_batch(batch);
        self.wake_for(len);
        self.pushed();
    }

    /// The same for tasks that go on.
    fn push_again_batch(&self, batch: Batch<Self::Task>) {
        let len = batch.len();
        self.grq().push_again_batch(batch);
        self.wake_for(len);
        self.pushed();
    }

    /// The same for tasks of other priorities than the default one.
    fn push_ordered_batch(&self, batch: Batch<Self::Task>) {
        let len = batch.len();
        self.ordered().push_batch(batch);
        self.wake_for(len);
        self.pushed();
    }

    /// After a push, and after a thread was woken for it: if all threads have left before, the task
    /// is the pusher's to drop; see *Clearing away* in `sched/shutdown.rs`.
    fn pushed(&self) {
        self.idle().rouse_monitor();
        // Ordering: the fence in `Idle::submit`, which `wake_for` came by, stands between the push
        // and this look; it pairs with the one in `set_closed`, between the phase and the look at
        // the queue.
        if self.phase().is_closed() {
            self.drain_global();
        }
    }

    /// Takes from the queues that all share.
    fn pop_queued(&self) -> Option<Self::Task> {
        self.grq().pop().or_else(|| self.ordered().pop())
    }

    /// Whether anything is in them.
    fn has_queued(&self) -> bool {
        !self.grq().is_empty() || !self.ordered().is_empty()
    }

    /// Drops what is in them.
    fn drain_global(&self) {
        while let Some(task) = self.pop_queued() {
            Self::cancel(task);
        }
    }

    /// Whether anything is queued that any thread may take: the last look before a thread sleeps.
    fn any_work(&self) -> bool {
        self.has_queued()
            || self
                .awake_peers()
                .any(|peer| peer.has_queued() || peer.has_parent())
            || (self.awake_peers().any(Self::Peer::has_branch) && self.takes_branches())
    }

    /// As [`any_work`](Self::any_work), with tasks that are left alone: for spinners, since the
    /// threads that leave such tasks rely on them.
    fn any_left(&self) -> bool {
        self.any_work() || self.awake_peers().any(Self::Peer::has_alone)
    }

    // --- waking threads ---

    /// After a push that any thread may take: wakes up to `backlog` threads, if there are permits.
    fn wake_for(&self, backlog: usize) {
        for _ in 0..backlog.min(self.idle().workers()) {
            let Some((permit, spinning)) = self.idle().submit(backlog) else {
                return;
            };
            self.wake_with(permit, spinning);
        }
    }

    /// Gives a permit and the duty to search to a parked thread, which is returned, or starts one.
    fn wake_with(&self, permit: Permit, spinning: Spinning) -> Option<&Self::Peer> {
        let mut permit = Some(permit);
        let waiter = self.netpoll_waiter().load(Relaxed).checked_sub(1);
        let claimed = self.idle().parked().claim(waiter, |index| {
            let peer = self.peer(index);
            match peer.state().hand_to_parked(permit.take()?) {
                Ok(()) => Some(peer),
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        match (claimed, permit) {
            (Some(peer), None) => {
                spinning.hand_over();
                self.unpark(peer);
                Some(peer)
            }
            (None, Some(permit)) => {
                self.start_thread(permit, spinning);
                None
            }
            _ => unreachable!("a permit is handed to exactly one P"),
        }
    }

    /// No thread could be started for these; see *Which thread is woken* in the module's head.
    fn refused(&self, permit: Permit, spinning: Spinning) {
        self.idle().release(permit, Some(spinning));
        self.after_release();
        // Ordering: SeqCst, with the fence: a thread in `block_on` that is about to wait sees this,
        // or is seen waiting; pairs with the fence in `wait_for_root`.
        self.refusal().store(true, Relaxed);
        fence(SeqCst);
        // The set tells whether there is a thread to wake, so that this does not go round for ever.
        if !self.idle().parked().is_empty() && self.any_work() {
            self.wake_for(1);
        } else if self.has_queued() || self.lacks_a_poller() {
            // The reasons are in `block_on.rs` (*Standing in*) and under *What is heard*.
            let waiting = |peer: &&Self::Peer| peer.state().load() == WorkerState::Waiting;
            for peer in self.peers().filter(waiting) {
                self.notify_owner(peer);
            }
        }
    }

    /// Ends the sleep of a P's thread on its own parker, or in the netpoll.
    fn unpark(&self, peer: &Self::Peer) {
        peer.parker().unpark(|| self.interrupt());
    }

    // --- giving permits up ---

    /// Gives a permit up, and pays what that owes.
    fn release(&self, permit: Permit, spinning: Option<Spinning>) {
        self.idle().release(permit, spinning);
        self.after_release();
        self.see_to_the_rest();
    }

    /// The part of what a release owes that concerns queued work and what is awaited.
    fn see_to_the_rest(&self) {
        if self.any_work() {
            self.wake_for(1);
        } else {
            self.ensure_poller();
        }
    }

    /// Gives up a permit that was taken for the sake of others. It goes first to a thread for the
    /// queue, or to one that goes to wait in the netpoll, and then to a thread that wants one.
    /// Computations that wait at their forks want one too, and would hand it round among
    /// themselves.
    fn release_for_work(&self, permit: Permit, backlog: usize) {
        self.idle().release(permit, None);
        if backlog > 0 {
            self.wake_for(backlog);
        }
        if self.any_work() || self.nobody_polls() {
            self.wake_for(1);
        }
        if self.after_release() {
            self.see_to_the_rest();
        }
    }

    /// The part of what a release owes that concerns pinned work. True if a permit was taken for
    /// it, and no thread wanted one any more: a push meanwhile found none free and woke no thread,
    /// so the caller looks once more.
    fn after_release(&self) -> bool {
        let mut was_in_vain = false;
        while !self.idle().wanting().is_empty() {
            let Some(permit) = self.idle().acquire() else {
                break;
            };
            if let Err(permit) = self.hand_to_wanting(permit) {
                self.idle().release(permit, None);
                was_in_vain = true;
            }
        }
        was_in_vain
    }

    /// Hands a permit to a thread that has pinned work and no permit.
    fn hand_to_wanting(&self, permit: Permit) -> Result<(), Permit> {
        let mut permit = Some(permit);
        self.idle().wanting().claim(None, |index| {
            let peer = self.peer(index);
            match peer.state().hand_to_wanting(permit.take()?) {
                Ok(()) => {
                    self.notify_owner(peer);
                    Some(())
                }
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        permit.map_or(Ok(()), Err)
    }

    /// Gives up spinning without a permit. The last spinner sees to what was pushed in reliance on
    /// it.
    fn stop_spinning(&self, spinning: Spinning) {
        if self.idle().stop_spinning(spinning) && self.any_left() {
            self.wake_for(1);
        }
    }

    /// A thread has left its P, with the permit and the spinning that it had, if any. In every case
    /// there is a fence between what it did before and what it sees afterwards.
    fn left(&self, permit: Option<Permit>, spinning: Option<Spinning>) {
        match (permit, spinning) {
            (Some(permit), spinning) => self.release(permit, spinning),
            (None, Some(spinning)) => self.stop_spinning(spinning),
            // Ordering: SeqCst: for the third race in `phase.rs`; the calls above have a fence.
            (None, None) => fence(SeqCst),
        }
    }

    /// Takes the permit of a P that is stuck, and what is in its queues, and gives both to others.
    /// False if it has no permit any more.
    ///
    /// `scratch` is an empty queue, and is one again afterwards.
    fn revoke(&self, peer: &Self::Peer, scratch: &LocalQueue<Self::Task>) -> bool {
        let Some(permit) = peer.state().revoke() else {
            return false;
        };
        peer.ask_at_next_fork();
        let mut batch = Batch::new();
        batch.extend(std::iter::from_fn(|| peer.steal_next()));
        batch.extend(std::iter::from_fn(|| peer.steal_parent()));
        loop {
            match peer.stealer().steal_into(scratch) {
                Steal::Stolen { first, .. } => {
                    batch.push(first);
                    scratch.drain(|task| batch.push(task));
                }
                Steal::Busy => {}
                Steal::Empty => break,
            }
        }
        let mut ordered = Batch::new();
        if let Some(queue) = peer.ordered() {
            queue.take_all(|task| ordered.push(task));
        }
        // All of it is there before the permit is handed on: its next holder finds what comes
        // first.
        let len = ordered.len() + batch.len();
        if len > 0 {
            peer.was_taken_from();
        }
        if !ordered.is_empty() {
            self.ordered().push_batch(ordered);
        }
        if !batch.is_empty() {
            self.grq().push_batch(batch);
        }
        self.release_for_work(permit, len);
        if len > 0 {
            self.pushed();
        }
        true
    }

    // --- a thread in the netpoll ---

    /// Polls as the thread of P `index` and gives the right to poll back, before anything else that
    /// thread may do.
    fn poll_as<P>(&self, index: usize, mut poller: P, poll: impl FnOnce(&mut P)) {
        self.enter_netpoll(index);
        poll(&mut poller);
        self.leave_netpoll();
        drop(poller);
        // Ordering: SeqCst: between this thread's leave and its look at the permits; pairs with the
        // fence in `Idle::release`, see *What is heard*.
        fence(SeqCst);
    }

    /// Before the wait in the netpoll.
    fn enter_netpoll(&self, index: usize) {
        // Ordering: Release: a thread that finds none there (Acquire, in `nobody_polls`) comes
        // after.
        self.netpoll_waiter().store(index + 1, Release);
    }

    /// After it, and before another thread may begin to wait there.
    fn leave_netpoll(&self) {
        self.netpoll_waiter().store(0, Release);
    }

    fn nobody_polls(&self) -> bool {
        // Ordering: Acquire pairs with `leave_netpoll`.
        self.netpoll_waiter().load(Acquire) == 0
    }

    /// A timer was armed or moved to an earlier time, or a source registered, and no thread waited
    /// in the netpoll: sees to it that it is heard, see *What is heard*. After a sequentially
    /// consistent fence, which is the netpoll's.
    fn heard(&self) {
        if self.is_unattended() {
            self.wake_for(1);
        }
    }

    /// Sees to it that what is awaited stays heard: for a thread that gives its permit up.
    fn ensure_poller(&self) {
        if self.lacks_a_poller() {
            self.wake_for(1);
        }
    }

    fn lacks_a_poller(&self) -> bool {
        self.is_unattended() && self.awaits()
    }

    /// Whether neither of the two facts holds.
    fn is_unattended(&self) -> bool {
        self.keeps_a_poller() && self.nobody_polls() && self.idle().free() == self.idle().workers()
    }
}
