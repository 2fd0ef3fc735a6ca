//! The thread's side of fork and join: its tail, for which threads it promotes branches, and the
//! waiting join.
//!
//! # *Give way at a fork*
//!
//! A computation is one long poll, and the monitor takes its permit after a slice if others need
//! one (J6). The thread that gets the permit serves them, finds nothing more, and would then take a
//! branch. So every slice one more thread would compute on the same cores. Therefore the monitor
//! asks the branch deque as a thief does, and a thread that comes to a fork without its permit
//! waits there until it gets one, as *Pinned work* in `permit/idle.rs` has it. A thread that finds
//! no task gives its permit to such a thread before it takes a branch. A lock that the waiting
//! thread holds is released later than otherwise. Like preemption, this cannot make two threads
//! wait for each other.
//!
//! I/O and timers do not wait for the end of a slice. The monitor takes the permit of a computation
//! that forks after 100 us already (`FORK_SLICE` in `policy/constants.rs`): it is a *detached
//! computation* then, until the end of its leaf. If the leaves are shorter than that, and a thread
//! has tasks that I/O or timers made ready but finds no permit, it leaves word
//! ([`Shared::ask_at_forks`]) and asks all branch deques. The first thread that comes to a fork
//! takes the word, gives its permit to a thread for them, and waits for the next one. It does so at
//! most once in that time, so that a computation gets its part however much I/O there is. The word
//! may be missed, or be too early for that: then it stays for the next thread that leaves one, and
//! the monitor asks the branch deques again whenever it looks.
//!
//! # *Detached computations*
//!
//! Until it comes to a fork, a thread whose permit was taken computes on, and a leaf may take 30
//! ms. The permit is mostly free again at once, since tasks are short. If it went to a thread that
//! takes a branch, one more thread than there are cores would compute. After the next tick that
//! thread loses its permit in turn. With leaves of 30 ms beside a tick each millisecond 11 threads
//! computed on two cores.
//!
//! So a thread for which there is no core takes no branch. The threads without work that have a
//! permit, or could have one, are counted less the detached computations. If none is left, a search
//! leaves the branches alone, no thread stays awake for them, and a thread that is asked for one
//! wakes no other. The permit lies free meanwhile, for the next tick; and a detached computation
//! that comes to its fork, or ends, finds it.
//!
//! The monitor says which threads are detached computations: each thread that computes in a poll
//! without a permit, such as one that the monitor took a permit from. It is none any more if it was
//! on a core for less than a quarter of the time between two looks and is seen to wait for
//! something else than a core. The CPU time alone would say the same of one that only waits for a
//! core, because there are more threads than cores already. Where one ends, the monitor asks all
//! branch deques: the threads that slept have asked in vain, or not at all. A thread that comes
//! back from a block that it announced, and finds no permit, counts until the monitor knows better.
//!
//! A detached computation holds up only threads that compute as well, so a computation that forks
//! need not have a slice before it becomes one. It gives its permit up for tasks after 100 us,
//! within two limits: at most half of the workers have done so, and fewer computations have begun
//! and have no permit than there are workers. The tasks may compute, too, and each of them would
//! begin one thread more. (After a slice there is no such bound, L2.) A computation that has not
//! come to a fork, and has not shown a branch to others, is not known to fork.
//!
//! Seen on two cores, a computation of half a second in leaves of 1, 4 and 30 ms beside a task that
//! sleeps for a millisecond at a time, medians of six. It took 23, 19 and 10 % longer than its
//! leaves, then 5, 5 and 6 %. The sleep ended 6.2, 10.4 and 12.0 ms late (p99), then 0.4, 0.2 and
//! 0.2. (With tokio and rayon 1, 2 and 2 %, and 1.1 ms, with half as many ticks: there such a sleep
//! takes two.)
//!
//! What is not in an order with others here is a count that is a moment old. Then a thread too many
//! takes a branch, or one that could have had one sleeps until the next look of the monitor: that
//! finds a free permit and a branch.
//!
//! # How many it promotes
//!
//! A thread that searches and finds nothing asks every P. So a P that begins to fork beside idle
//! threads has been asked already, by the last search that each of them made before it slept. Its
//! first join promotes a branch and wakes one of them. It promotes one branch for each thread that
//! searches or has a permit to come and search, less the detached computations, and one for a
//! thread that helps at a waiting join. If there are fewer branches than such threads, the next
//! join promotes as well: else a thread that has three branches below a long leaf would keep two of
//! them to itself. If there is no such thread, it promotes one at most (see *After a steal*, also
//! for forks that are far apart), and wakes only a thread that is idle by then. So a thread that
//! gives its permit up at a waiting join asks all once more afterwards: no thread has searched with
//! that permit, and its own asks may have been forgotten before.
//!
//! For the branches of a scope none of this is needed: idle threads find them in the lists
//! (`branch/jobs.rs`) without asking. If one thread is idle and none searches, a spawn wakes one.
//!
//! With one worker branches are promoted only for the thread that has the permit, while this thread
//! goes on without.
//!
//! A wake-up costs more than many a branch is worth. If the owner comes back to a branch for which
//! it woke a thread, and finds it still there, the wake-up was in vain. After a few of these in a
//! row it waits a while before the next one, each time twice as long, up to about a millisecond.
//! (*The wake back-off* in `sched/push.rs` does the same for tasks.) A branch that is stolen ends
//! the back-off.
//!
//! # *After a steal*
//!
//! If there are 100 us between two forks, as in a sort, a thief that asks first and waits for the
//! next fork has gone to sleep by then. A wake-up costs half as much again. So a steal of the last
//! branch that the victim shares is an ask too, of the victim and of the thief. Each of them
//! promotes its oldest branch at its next fork, if it shares none, although no thread asks yet. The
//! one that ends first then finds a branch. (A thread that was asked for another reason, or by a
//! thread that is gone, promotes one, too.) A branch that no thread takes costs a compare-and-swap
//! when its owner comes back to it. Since the next oldest is half as large in a balanced recursion,
//! that happens about as often as the recursion is deep, for each steal. Seen with two workers: a
//! mergesort went from 89 % of the speed of two copies to 98 %.
//!
//! If a thread takes a branch back that others could have had for 100 us, it shares the next one at
//! its next fork, too: the forks are far apart, and a thief that comes now would wait for one of
//! them. That costs two readings of the clock and the compare-and-swap for each fork that is so far
//! from the next. A matrix product whose leaves take 4 ms had a core idle for 4 to 9 ms at its end.
//!
//! Such a branch is no reason to take a computing thread's permit: no thread is idle, or the branch
//! would be gone (see *Others need one* in `monitor.rs`).
#![expect(unsafe_code, reason = "uses the tail of this thread")]

use std::{future::poll_fn, hint, panic::Location, task::Poll, time::Instant};

use super::steps::AtPromoted;
use crate::{
    block_on::{block_on, in_place::block_in_place},
    branch::{
        BranchDeque, Header, Settled, Tail, compute,
        jobs::Job,
        own::{
            Place, come_by, enter_scope, may_wake, promoted_at, promotes_at, run_claimed, tail,
            wake_begins, wake_settled, with_tail,
        },
    },
    context,
    no_unwind::NoUnwind,
    note::event,
    permit::env::Env,
    policy::{
        Heuristic,
        constants::{JOIN_WAIT, JOIN_WAIT_LOOKS},
        forks::{are_far_apart, promotes},
    },
    sched::{Shared, Worker},
    sync::{
        Arc,
        atomic::{Ordering::SeqCst, fence},
        thread,
    },
};

/// How a join goes on that was disturbed.
pub(super) enum Way {
    /// Push; then promote branches for the threads that asked.
    Push,
    /// Two plain calls: there is no P for this thread.
    Call,
    /// Once more, inside this runtime.
    Enter(Arc<Shared>),
}

#[cold]
pub(super) fn prepare(caller: &'static Location<'static>) -> Way {
    if with_tail(|tail| tail.branch_deque().is_none()) {
        // A thread in `block_on` gets its P by need.
        context::ensure_worker();
    }
    // SAFETY: what follows attaches to nothing more.
    let tail = unsafe { tail() };
    if tail.branch_deque().is_some() {
        come_to_a_fork(tail);
        compute::check();
        return Way::Push;
    }
    if context::is_busy() {
        return Way::Call;
    }
    context::with_current(|current| match current {
        Some((shared, _)) => Way::Enter(shared.clone()),
        None => no_runtime(caller),
    })
}

/// What comes before a push that was disturbed; [`promote_for_asks`] comes after it.
#[cold]
pub(super) fn come_to_a_fork(tail: &Tail) {
    // First of all, so that an ask from now on makes the next fork come by.
    tail.heed();
    context::with_worker(|worker| {
        worker
            .expect("it is attached to its branch deque")
            .come_to_a_fork();
    });
}

fn no_runtime(caller: &'static Location<'static>) -> ! {
    panic!(
        "a join or scope at {caller} is outside of a runtime: call it in a task or a `block_on`, \
         or enter a runtime by `Handle::enter`"
    )
}

/// Runs `f` on this thread inside the runtime, with a P if there is one.
pub(super) fn inside<R>(shared: &Arc<Shared>, f: impl FnOnce() -> R) -> R {
    let mut f = Some(f);
    block_on(
        shared,
        poll_fn(move |_| {
            let f = f.take().expect("a ready future is not polled again");
            Poll::Ready(f())
        }),
    )
}

/// A thread asked: promotes what the others can take.
#[cold]
pub(super) fn promote_for_asks(tail: &Tail) {
    // The branch is on the tail by now, and lies in the caller's frame.
    let feeding = NoUnwind;
    context::with_worker(|worker| {
        let shared = worker
            .expect("the tail is attached to its branch deque")
            .shared();
        let helper = tail.branch_deque().is_some_and(BranchDeque::take_helper);
        if shared.end.phase.is_closing() {
            return;
        }
        let now = || shared.time.clock().now_ns();
        let could_wake = shared.idle.could_wake();
        // A helper looks without being woken.
        if could_wake && !helper && !may_wake(now) {
            tail.ask_again();
            return;
        }
        let takers = shared.could_take();
        let wanted = takers + usize::from(helper);
        let seen = tail.branch_deque().map_or(0, BranchDeque::shared);
        // With one worker the order is that of plain calls (J3), also where the first closure
        // blocks and its permit goes to another thread, which would find the second.
        if wanted == 0 && shared.idle.workers() == 1 {
            return;
        }
        let most = promotes(wanted, seen);
        if most == 0 {
            return;
        }
        promotes_at(now());
        let count = tail.promote(most, compute::current());
        if count < most {
            // The next join has one more for them.
            tail.ask_again();
        }
        // Also if no thread is idle: one that released a permit since then has not seen it.
        // Ordering: SeqCst: between the promotion and the look at which threads are idle; pairs
        // with that in `Idle::release`.
        fence(SeqCst);
        if shared.could_take() > 0 {
            shared.wake_for(count);
        }
        if could_wake && takers > 0 && count > 0 {
            wake_begins(now());
        }
    });
    feeding.over();
}

/// A job was put into a list: wakes a thread for it, if no thread searches, and that is worth it.
pub(super) fn wake_for_a_job(shared: &Shared) {
    let now = || shared.time.clock().now_ns();
    // A thread that searches wakes the next one when it has found something. Ordering: the caller
    // has a fence between the push and this; pairs with that in `Idle::release`.
    if shared.idle.could_wake()
        && !shared.end.phase.is_closing()
        // What waits during the back-off is found by the monitor, if there is one.
        && (!shared.is_monitored() || may_wake(now))
        && shared.could_take() > 0
    {
        shared.wake_for(1);
        wake_begins(now());
    }
}

/// A fork point between two jobs: this thread has none in its hand.
pub(super) fn come_by_between_jobs() {
    with_tail(|tail| {
        let Some(branch_deque) = tail.branch_deque() else {
            return;
        };
        if tail.is_undisturbed() {
            return;
        }
        come_to_a_fork(tail);
        compute::heed_later(tail);
        // Else the others find what is left.
        if branch_deque.jobs.len() <= 1 {
            promote_for_asks(tail);
            if !tail.has_branches() {
                // The job that begins may fork.
                tail.ask_again();
            }
        }
    });
}

/// Runs a job that was stolen, by a thread that has nothing of the user's below, and then those
/// that it has spawned here.
pub(super) fn run_stolen(job: Job) {
    let branch_deque = context::with_worker(|worker| {
        let worker = worker.expect("a worker has taken it");
        worker
            .shared()
            .peer(worker.index())
            .queues
            .branch_deque
            .clone()
    });
    let mut next = Some(job);
    while let Some(job) = next {
        let scope = job.scope();
        let outer = enter_scope(Place {
            scope,
            branch_deque: &raw const *branch_deque,
        });
        compute::within(scope.computation, || job.run());
        enter_scope(outer);
        if !branch_deque.jobs.is_empty() {
            come_by_between_jobs();
        }
        next = branch_deque.jobs.take_newest();
    }
}

/// The owner of a scope has taken a job from its own list.
pub(super) fn took_its_own() {
    wake_settled(false);
}

/// The owner has come to a branch that was stolen.
pub(super) fn was_stolen() {
    wake_settled(true);
}

/// This thread, at a branch that it promoted.
pub(super) struct Owner;

impl AtPromoted for Owner {
    fn reclaimed(&self) {
        wake_settled(false);
        let far_apart = context::with_worker(|worker| {
            let worker = worker.expect("it is attached to its branch deque");
            // What is left is enough.
            Heuristic::AfterSteal.is_on() && !worker.branch_deque().has_shared() && {
                let now = worker.shared().time.clock().now_ns();
                are_far_apart(promoted_at(), now)
            }
        });
        if far_apart {
            come_by();
        }
    }

    /// *The waiting join*.
    #[cold]
    fn wait_for_thief(&self, tail: &Tail, header: &Header) -> Settled {
        was_stolen();
        // SAFETY: it was stolen, and so promoted.
        let latch = unsafe { header.latch() };
        context::with_worker(|worker| {
            let worker = worker.expect("the tail is attached to its branch deque");
            // While it unwinds a thread runs nothing more: what it ran could not unwind in its
            // turn.
            if thread::panicking() {
                None
            } else {
                help(worker, tail, header)
            }
        })
        .unwrap_or_else(|| {
            let branch_deque = tail.branch_deque().expect("it is attached");
            let shared =
                context::with_worker(|worker| worker.map(|worker| worker.shared().clone()));
            block_in_place(|| {
                // Its permit is free only now, and no thread has searched with it.
                for peer in shared.iter().flat_map(|shared| shared.peers()) {
                    peer.queues.branch_deque.ask();
                }
                latch.wait(&branch_deque.parker)
            })
        })
    }
}

/// Helps with what the thief has forked, for as long as there is something.
fn help(worker: &Worker, tail: &Tail, header: &Header) -> Option<Settled> {
    let shared = worker.shared();
    // SAFETY: as in `wait_for_thief`.
    let latch = unsafe { header.latch() };
    let mut until = None;
    loop {
        for _ in 0..JOIN_WAIT_LOOKS {
            if let Some(settled) = latch.settled() {
                return Some(settled);
            }
            // SAFETY: as in `wait_for_thief`.
            if let Some((thief, base)) = unsafe { header.thief() } {
                let branch_deque = &shared.peer(thief).queues.branch_deque;
                if let Some(branch) = BranchDeque::claim_descendant(branch_deque, base, latch) {
                    event!(worker, BranchStolen, (), thief);
                    debug_assert!(!tail.has_linked(), "a branch was left above");
                    run_claimed(branch, worker.index(), tail.top());
                    until = None;
                    continue;
                }
                branch_deque.ask_as_helper();
            }
            hint::spin_loop();
        }
        let until = *until.get_or_insert_with(|| worker.until(JOIN_WAIT));
        if shared.time.clock().now_ns() >= until {
            return None;
        }
    }
}

/// Waits a moment. Whether `done` was true.
pub(super) fn spin_until(done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + JOIN_WAIT;
    loop {
        for _ in 0..JOIN_WAIT_LOOKS {
            if done() {
                return true;
            }
            hint::spin_loop();
        }
        if Instant::now() >= until {
            return false;
        }
    }
}
