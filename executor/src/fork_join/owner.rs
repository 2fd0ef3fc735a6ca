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
//! (`jobs.rs`) without asking. If one thread is idle and none searches, a spawn wakes one.
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
#![expect(
    unsafe_code,
    reason = "attaches the thread's tail to the branch deque of its P"
)]

use std::{cell::Cell, future::poll_fn, hint, panic::Location, ptr, task::Poll, time::Instant};

use super::{BranchDeque, Header, Settled, Tail, compute, deque::NO_DEQUE, jobs::Job, scope::Core};
use crate::{
    context,
    no_unwind::NoUnwind,
    permit::env::Env,
    policy::{
        Heuristic, TimedBackoff,
        constants::{FORK_WAKES, FORK_WAKES_PAUSE, JOIN_WAIT, JOIN_WAIT_LOOKS},
        forks::{are_far_apart, promotes},
    },
    sched::{Shared, Worker, block_in_place, block_on, events::event},
    sync::{
        Arc,
        atomic::{Ordering::SeqCst, fence},
        thread,
    },
};

thread_local! {
    /// The tail of the branch deque of this thread's P, or [`NO_DEQUE`]. No destructor, like all of
    /// ours.
    static TAIL: Cell<*const Tail> = const { Cell::new(&raw const NO_DEQUE) };
    /// The same for a join whose first closure has ended. It needs the tail at once, for a store
    /// that the next join's loads may depend on. Kept on the stack meanwhile, it would be there
    /// only after a load of what was just stored. And read from the same variable, the compiler
    /// keeps that one's offset in a register, and every call has to save it, also one that does not
    /// fork.
    ///
    /// Seen before branches were linked, on an Intel Xeon (Emerald Rapids), where the address of
    /// the code alone makes a difference of a third: with the code aligned in seven ways, a join of
    /// skynet took 1.0 to 1.8 ns above plain calls (median 1.4), and 2.5 to 3.8 (2.9) with the tail
    /// on the stack and a destructor for panics.
    static TAIL_AFTER: Cell<*const Tail> = const { Cell::new(&raw const NO_DEQUE) };
    /// The scope that has the newest closure or branch on this thread's stack.
    static SCOPE: Cell<Place> = const { Cell::new(Place::NONE) };
    /// See *How many it promotes*. A try is a wake-up for a branch. It paid if the branch is stolen
    /// when its owner comes back to it.
    static WAKE_BACKOFF: TimedBackoff = const { wake_backoff() };
    /// When this thread last promoted branches, in nanoseconds of its runtime's clock. Older ones
    /// are judged by it as well.
    static PROMOTED_AT: Cell<u64> = const { Cell::new(0) };
}

/// The scope that this thread is in, and the branch deque whose list gets what is spawned there:
/// its frame looks at it afterwards.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) scope: *const Core,
    pub(super) branch_deque: *const BranchDeque,
}

impl Place {
    const NONE: Self = Self {
        scope: ptr::null(),
        branch_deque: ptr::null(),
    };
}

const fn wake_backoff() -> TimedBackoff {
    TimedBackoff::new(FORK_WAKES, FORK_WAKES_PAUSE)
}

/// Whether this thread may wake another one for a branch, as far as the back-off goes.
fn may_wake(now: impl FnOnce() -> u64) -> bool {
    !Heuristic::ForkBackoff.is_on() || WAKE_BACKOFF.with(|backoff| backoff.is_due(now))
}

/// This thread's tail.
///
/// # Safety
///
/// - The reference is not used after this thread is attached or detached, unless it is attached to
///   the same P again. While a branch is on the tail, its frame is above that of the worker that
///   has the P. What attaches to another P is above in turn, and takes it back before it ends.
#[inline(always)]
pub(super) unsafe fn tail<'a>() -> &'a Tail {
    // SAFETY: a static, or that of this thread's P, which has it until `detach`.
    unsafe { &*TAIL.get() }
}

/// The same for a join whose first closure has ended.
///
/// # Safety
///
/// - As for [`tail`].
#[inline(always)]
pub(super) unsafe fn tail_after<'a>() -> &'a Tail {
    // SAFETY: as in `tail`.
    unsafe { &*TAIL_AFTER.get() }
}

/// From here on this is the thread's tail.
///
/// # Safety
///
/// - It is [`NO_DEQUE`], or that of a P which is this thread's until the next call.
pub(crate) unsafe fn set_tail(tail: *const Tail) {
    TAIL.set(tail);
    TAIL_AFTER.set(tail);
}

/// [`tail`] for one closure, which does not attach or detach.
pub(super) fn with_tail<R>(f: impl FnOnce(&Tail) -> R) -> R {
    // SAFETY: by contract.
    f(unsafe { tail() })
}

/// This thread becomes `worker`.
pub(crate) fn attach(worker: &Worker) {
    // SAFETY: the worker's P, and so its branch deque, is this thread's until the worker's frame is
    // left. That attaches to the one below or detaches. A frame that waits for a branch on the
    // branch deque is above it, and ends before.
    unsafe { set_tail(worker.branch_deque().attach()) };
}

/// This thread is no worker any more.
pub(crate) fn detach() {
    debug_assert!(
        !with_tail(Tail::has_branches),
        "a frame still waits for a branch"
    );
    // SAFETY: a static.
    unsafe { set_tail(&raw const NO_DEQUE) };
}

/// What a thread has of its own for its forks, while it plays another one.
pub(crate) struct Aside {
    tail: *const Tail,
    scope: Place,
    computation: usize,
    backoff: TimedBackoff,
    promoted_at: u64,
}

/// This thread plays another one, which has no P, and has not forked yet.
pub(crate) fn lay_aside() -> Aside {
    let backoff = wake_backoff();
    WAKE_BACKOFF.with(|own| own.swap(&backoff));
    let aside = Aside {
        tail: TAIL.get(),
        scope: SCOPE.replace(Place::NONE),
        computation: compute::lay_aside(),
        backoff,
        promoted_at: PROMOTED_AT.replace(0),
    };
    // SAFETY: a static.
    unsafe { set_tail(&raw const NO_DEQUE) };
    aside
}

impl Aside {
    /// This thread is itself again.
    ///
    /// # Safety
    ///
    /// - It was this thread's, whose frames are as they were.
    pub(crate) unsafe fn take_up(&self) {
        WAKE_BACKOFF.with(|own| own.swap(&self.backoff));
        SCOPE.set(self.scope);
        compute::take_up(self.computation);
        PROMOTED_AT.set(self.promoted_at);
        // SAFETY: by contract.
        unsafe { set_tail(self.tail) };
    }
}

/// Where the branches begin that what is run now may fork.
pub(crate) fn base() -> usize {
    with_tail(|tail| {
        tail.place();
        tail.top()
    })
}

/// Whether a branch waits on this thread's stack, or a scope or a computation is open there.
pub(crate) fn is_inside() -> bool {
    with_tail(Tail::has_branches) || !current_scope().scope.is_null() || compute::current() != 0
}

pub(super) fn current_scope() -> Place {
    SCOPE.get()
}

/// Makes a scope the newest on this thread's stack. The one before.
pub(super) fn enter_scope(place: Place) -> Place {
    SCOPE.replace(place)
}

/// This thread's next join is disturbed.
pub(super) fn come_by() {
    with_tail(|tail| {
        if tail.branch_deque().is_some() {
            tail.ask_again();
        }
    });
}

/// This thread begins with a branch of that branch deque; see *After a steal*.
pub(super) fn stole_from(branch_deque: &BranchDeque) {
    if !Heuristic::AfterSteal.is_on() {
        return;
    }
    // Else the thread that comes next finds one.
    if !branch_deque.has_shared() {
        branch_deque.ask();
    }
    come_by();
}

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
        // One that looks without being woken.
        let looking = shared.idle.spinning() + usize::from(helper);
        if looking == 0 && shared.idle.free() > 0 && !may_wake(now) {
            tail.ask_again();
            return;
        }
        let wanted = shared.could_take() + usize::from(helper);
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
        let wakes = wanted > 0 && shared.idle.could_wake() && shared.could_take() > 0;
        PROMOTED_AT.set(now());
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
        if wakes && count > 0 {
            WAKE_BACKOFF.with(|backoff| backoff.begin(now()));
        }
    });
    feeding.over();
}

/// A job was put into a list: wakes a thread for it, if no thread searches, and that is worth it.
pub(super) fn wake_for_a_job(shared: &Shared) {
    let idle = &shared.idle;
    let now = || shared.time.clock().now_ns();
    // A thread that searches wakes the next one when it has found something. Ordering: the caller
    // has a fence between the push and this; pairs with that in `Idle::release`.
    if idle.free() > 0
        && idle.spinning() == 0
        && !shared.end.phase.is_closing()
        // What waits during the back-off is found by the monitor, if there is one.
        && (!shared.is_monitored() || may_wake(now))
        && shared.could_take() > 0
    {
        shared.wake_for(1);
        WAKE_BACKOFF.with(|backoff| backoff.begin(now()));
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
        compute::within(scope.computation(), || job.run());
        enter_scope(outer);
        if !branch_deque.jobs.is_empty() {
            come_by_between_jobs();
        }
        next = branch_deque.jobs.take_newest();
    }
}

/// The owner of a scope has taken a job from its own list.
pub(super) fn took_its_own() {
    WAKE_BACKOFF.with(|backoff| backoff.settle(false));
}

/// The owner has come to a branch that was stolen.
pub(super) fn was_stolen() {
    WAKE_BACKOFF.with(|backoff| backoff.settle(true));
}

/// The owner has reclaimed a branch that it had promoted.
pub(super) fn reclaimed() {
    WAKE_BACKOFF.with(|backoff| backoff.settle(false));
    let far_apart = context::with_worker(|worker| {
        let worker = worker.expect("it is attached to its branch deque");
        // What is left is enough.
        Heuristic::AfterSteal.is_on() && !worker.branch_deque().has_shared() && {
            let now = worker.shared().time.clock().now_ns();
            are_far_apart(PROMOTED_AT.get(), now)
        }
    });
    if far_apart {
        come_by();
    }
}

/// *The waiting join*.
#[cold]
pub(super) fn wait_for_thief(tail: &Tail, header: &Header) -> Settled {
    was_stolen();
    // SAFETY: it was stolen, and so promoted.
    let latch = unsafe { header.latch() };
    context::with_worker(|worker| {
        let worker = worker.expect("the tail is attached to its branch deque");
        // While it unwinds a thread runs nothing more: what it ran could not unwind in its turn.
        if thread::panicking() {
            None
        } else {
            help(worker, tail, header)
        }
    })
    .unwrap_or_else(|| {
        let branch_deque = tail.branch_deque().expect("it is attached");
        let shared = context::with_worker(|worker| worker.map(|worker| worker.shared().clone()));
        block_in_place(|| {
            // Its permit is free only now, and no thread has searched with it.
            for peer in shared.iter().flat_map(|shared| shared.peers()) {
                peer.queues.branch_deque.ask();
            }
            latch.wait(&branch_deque.parker)
        })
    })
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
                    event!(worker, BranchStolen, &(), thief);
                    debug_assert!(!tail.has_linked(), "a branch was left above");
                    branch.run(worker.index(), tail.top());
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
