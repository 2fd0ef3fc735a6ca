//! Permits, spinners and sleepers: which thread is woken when work comes, and which may go to
//! sleep.
//!
//! # The words
//!
//! `counts` holds two numbers: `free`, the permits without a holder, and `spinning` (Go's
//! `nmspinning`), the holders that have no work and look for some. Its top bit is of *The monitor's
//! sleep*. `parked` is a bit set of the Ps whose thread can be handed a permit. Each P has a
//! [`WorkerStateCell`] of its own. That word says whether the P has a permit; a waker uses the bit
//! to find the P, and then asks the word. A thief reads the bit alone: *A parked P is empty*.
//!
//! | worker state | its thread | permit | left by |
//! | --- | --- | --- | --- |
//! | `VACANT` | none | no | a thread that takes the P |
//! | `RUNNING` | polls, or spins | yes | its thread (park, wait, vacate); a thread that revokes it |
//! | `STUCK` | is awake without a permit: mostly in a poll that lost it | no | its thread, when it gets a permit or sleeps |
//! | `PARKED` | sleeps, and takes any work | no | a thread that hands it a permit; its thread |
//! | `WAITING` | sleeps, and wants only its own root | no | its thread |
//! | `WANTING` | sleeps, and has work that is pinned to it | no | a thread that hands it a permit; its thread |
//!
//! Every change away from `RUNNING` or `PARKED` is one read-modify-write (a swap, or a
//! compare-and-swap), since two parties may want it. The winner of a change away from `RUNNING`
//! *has the permit* and must hand it on or release it. A [`Permit`] is a token. It is a value only
//! between two holders. A holder's worker state stands for it.
//!
//! # *The spinning hand-over*
//!
//! *Invariant* (I5): while work is queued and a permit is free, a thread spins, or is being woken.
//! (A branch of a join counts as queued only while there is a core for it: *Detached computations*
//! in `fork_join/owner.rs`.)
//!
//! - **Submit**: push; fence; look at `counts`. If a permit is free and no thread spins, take both
//!   (one compare-and-swap) and wake a parked thread with them. For a batch more threads may spin,
//!   up to half of the permits.
//! - **Retire**: worker state to `PARKED`, set the bit; give up spinning and permit (one step);
//!   fence; look at every queue once more. If there is work, undo.
//!
//! The two fences are sequentially consistent. So of a submit and a retire that overlap, either the
//! submit sees the free permit and the gone spinner, or the retire sees the push. A push wakes no
//! thread while one spins: the spinner looks. The last spinner that finds work looks again. If
//! anything is left, it wakes another thread ([`Idle::stop_spinning`] has the same fence).
//!
//! Every release of a permit goes through the same look, also that of a thread that did not spin: a
//! submit that found no permit free has woken no thread.
//!
//! Spinners are bounded (I6): by the permits, and by the busy workers. A worker begins to spin only
//! if the spinners are fewer than half of the permits that are held (as in Go; a spinner holds one,
//! too).
//!
//! # *Pinned work*
//!
//! Work that only one thread may do cannot wait for a spinner. A thread that has some, and finds no
//! permit free, is `WANTING`, sets its bit in `wanting`, fences, and tries once more. A thread that
//! releases a permit looks at `wanting` after its fence and hands the permit on. A permit that was
//! revoked, or given up at a fork, goes first to work that any thread may take (*What a release
//! owes* in `env.rs`). A worker that never runs dry looks there at a *look for all* if no permit is
//! free, and gives its own permit up.
//!
//! # The monitor's sleep
//!
//! The monitor sleeps for good while all permits are free, after a few looks. The top bit of
//! `counts` says that it does. One compare-and-swap checks that no permit is held, and sets the
//! bit. The thread that takes the first permit clears it in the same step, and so knows that the
//! monitor is to be woken. That needs no fence, and no load beyond the one that is made anyway.
//!
//! *A long rest*: where only computations that fork go on, the monitor rests for up to 4 ms
//! (`monitor/compute_only.rs`). A task in the global queue must not wait for that. So the monitor
//! sets a flag, fences, and looks at the queue once more. A thread that pushes comes by the fence
//! of `submit`, and looks at the flag. So of a rest and a push that overlap, either the monitor
//! sees the task and does not rest, or the pusher sees the flag and wakes it.
//!
//! # *Parking is a claim*
//!
//! The waking thread clears a bit, and then changes that P's worker state from `PARKED` to
//! `RUNNING` by a compare-and-swap. Only the winner hands its permit over. The owner may wake up by
//! itself. It then tries the same change, from `PARKED` alone. If this fails, another thread has
//! handed it a permit and the duty to spin. If the monitor has taken the permit back since, the
//! worker state is `STUCK`, and the duty is still the owner's. To a waking thread a bit that is
//! left behind is harmless: the compare-and-swap fails, and it goes on to the next bit. From
//! thieves it would hide work, so the owner takes it away (see below). A bit is never missing: the
//! owner sets it after its worker state, so the thread that clears it finds the worker state
//! `PARKED`, or already claimed by another one.
//!
//! # *A parked P is empty*
//!
//! On a machine with many CPUs most threads sleep, and a look at the queues of each costs two lines
//! of cache. So searches and last looks pass by every P whose bit in `parked` is set.
//!
//! *Invariant*: a P whose bit is set has nothing in a queue that others take from. Its thread
//! begins to park when its queues are empty, and only that thread sets the bit and fills the
//! queues. A bit that another thread left behind is cleared by the thread itself when it takes note
//! of the permit, before it runs anything (`Sleeper::was_handed_a_permit`).
//!
//! *Why a last look misses nothing*: whichever thread clears the bit, that happens before the
//! thread's next push, and so before the fence of that push. A last look behind a later fence sees
//! the bit cleared. If the fence of the last look came first, the pusher finds the permit free
//! (*The spinning hand-over*).
//!
//! # Rejected
//!
//! A list of sleepers under a lock (Go's `sched.lock`): a wake-up took a lock, and the word and the
//! list had to be kept in step. One word with the sleepers' bits in it: 512 threads do not fit.
//! Storing the worker state where another thread may change it, in place of a swap: a permit is
//! lost or doubled, as the mutants show.
//!
//! The words, and single steps on them, are here. The steps between them are in `env.rs` (pushes
//! and releases) and `sleep.rs` (sleep). Checked by `models::idle` and `models::permit`.

use crate::park::Parker;
use crate::{
    bit_set::BitSet,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
};

/// The right to poll tasks, on its way from one holder to the next. There are `workers` of them.
#[derive(Debug)]
#[must_use = "a permit that is dropped is gone for ever: release it"]
pub(crate) struct Permit(());

/// Evidence of being counted in `nmspinning`; given back by [`Idle::stop_spinning`] or
/// [`Idle::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a spinner that is not counted down keeps everybody else asleep"]
pub(crate) struct Spinning(());

impl Spinning {
    /// A waker gives it away together with a permit, by the worker state.
    pub(crate) fn hand_over(self) {
        let Self(()) = self;
    }

    /// The woken thread takes it over: a thread that finds itself at `RUNNING` after `PARKED`
    /// spins.
    pub(crate) fn take_over() -> Self {
        Self(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    free: u32,
    spinning: u32,
    monitor_sleeps: bool,
}

const SPIN: u64 = 1 << 32;
const FREE: u64 = 1;
const MONITOR_SLEEPS: u64 = 1 << 63;

impl From<u64> for Counts {
    fn from(word: u64) -> Self {
        Self {
            free: word as u32,
            spinning: (word >> 32) as u32 & 0x7FFF_FFFF,
            monitor_sleeps: word & MONITOR_SLEEPS != 0,
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Idle {
    counts: AtomicU64,
    workers: u32,
    parked: BitSet,
    wanting: BitSet,
    /// Where the monitor sleeps.
    monitor: Parker,
    /// *A long rest*: the next thread that pushes for all is to end it.
    monitor_rests: AtomicBool,
}

impl Idle {
    /// For `workers` permits, all of them free, and at most `processors` Ps.
    pub(crate) fn new(workers: usize, processors: usize) -> Self {
        Self {
            counts: AtomicU64::new(workers as u64 * FREE),
            workers: workers as u32,
            parked: BitSet::new(processors),
            wanting: BitSet::new(processors),
            monitor: Parker::new(),
            monitor_rests: AtomicBool::new(false),
        }
    }

    /// How many permits there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers as usize
    }

    /// Whether a wake-up would make sense, as seen without a fence.
    pub(crate) fn could_wake(&self) -> bool {
        let counts = Counts::from(self.counts.load(Relaxed));
        counts.free > 0 && counts.spinning == 0
    }

    /// Permits without a holder.
    pub(crate) fn free(&self) -> usize {
        Counts::from(self.counts.load(Relaxed)).free as usize
    }

    /// Threads that search for work.
    pub(crate) fn spinning(&self) -> usize {
        Counts::from(self.counts.load(Relaxed)).spinning as usize
    }

    /// After a push: takes a permit for a new spinner, if no thread spins and one is free. The
    /// caller wakes a thread with them, or releases them.
    #[inline]
    pub(crate) fn submit(&self, backlog: usize) -> Option<(Permit, Spinning)> {
        // Ordering: SeqCst: the fence of *The spinning hand-over*; it stands between the caller's
        // push and the look at the counts, and pairs with those in `release` and `stop_spinning`.
        fence(SeqCst);
        // One spinner for one task; for a batch one for each task, at most half of the workers.
        let most = (backlog as u32).min(self.workers.div_ceil(2)).max(1);
        self.update(|now| (now.free > 0 && now.spinning < most).then_some(SPIN.wrapping_sub(FREE)))
            .then_some((Permit(()), Spinning(())))
    }

    /// Takes a free permit, without spinning.
    pub(crate) fn acquire(&self) -> Option<Permit> {
        self.update(|now| (now.free > 0).then_some(FREE.wrapping_neg()))
            .then_some(Permit(()))
    }

    /// For the holder of a permit that found nothing at hand. None if enough others spin already.
    pub(crate) fn start_spinning(&self) -> Option<Spinning> {
        self.update(|now| (2 * now.spinning < self.workers - now.free).then_some(SPIN))
            .then_some(Spinning(()))
    }

    /// One more spinner, for a thread that is handed a permit together with what it is to do first.
    pub(crate) fn spin(&self) -> Spinning {
        self.update(|_| Some(SPIN));
        Spinning(())
    }

    /// A spinner found work. True if it was the last one: then it looks whether there is more, and
    /// if so submits once more.
    pub(crate) fn stop_spinning(&self, spinning: Spinning) -> bool {
        let Spinning(()) = spinning;
        // Ordering: AcqRel, and the fence, as in `release`: pushes that relied on this spinner are
        // seen by the look that follows.
        let before = Counts::from(self.counts.fetch_sub(SPIN, AcqRel));
        debug_assert!(before.spinning > 0);
        fence(SeqCst);
        before.spinning == 1
    }

    /// Gives the permit up, and spinning with it. The caller then looks at every queue once more.
    pub(crate) fn release(&self, permit: Permit, spinning: Option<Spinning>) {
        let Permit(()) = permit;
        let delta = match spinning {
            Some(Spinning(())) => FREE.wrapping_sub(SPIN),
            None => FREE,
        };
        // Ordering: Release: what was done under the permit comes before its next holder's work.
        let before = Counts::from(self.counts.fetch_add(delta, AcqRel));
        debug_assert!(before.free < self.workers, "a permit too many");
        // Ordering: SeqCst: the fence of *The spinning hand-over*, between the counts and the last
        // look; pairs with the one in `submit`.
        fence(SeqCst);
    }

    /// The monitor asks whether it may sleep until a permit is taken. True: it is woken then.
    pub(crate) fn monitor_may_sleep(&self) -> bool {
        // Ordering: Relaxed: the compare-and-swap decides.
        let word = self.counts.load(Relaxed);
        Counts::from(word).free == self.workers
            && self
                .counts
                .compare_exchange(word, word | MONITOR_SLEEPS, AcqRel, Relaxed)
                .is_ok()
    }

    /// The monitor is about to begin *a long rest*. False if it had better look: something is
    /// queued by now.
    pub(crate) fn monitor_may_rest(&self, has_queued: impl FnOnce() -> bool) -> bool {
        self.monitor_rests.store(true, Relaxed);
        // Ordering: SeqCst: between the flag and the queue; pairs with the fence in `submit`.
        fence(SeqCst);
        !has_queued()
    }

    /// It looks: the rest is over.
    pub(crate) fn monitor_looks(&self) {
        self.monitor_rests.store(false, Relaxed);
    }

    /// After a push for all, and after the fence in `submit`.
    pub(crate) fn rouse_monitor(&self) {
        if self.monitor_rests.load(Relaxed) && self.monitor_rests.swap(false, Relaxed) {
            self.monitor.unpark(|| ());
        }
    }

    /// Where the monitor sleeps: until it is needed, or for a while.
    pub(crate) fn monitor(&self) -> &Parker {
        &self.monitor
    }

    /// Ps whose thread sleeps and takes any work. The worker state is `PARKED` before the bit is
    /// set.
    pub(crate) fn parked(&self) -> &BitSet {
        &self.parked
    }

    /// Ps that have pinned work and no permit. The worker state is `WANTING` before the bit is set.
    pub(crate) fn wanting(&self) -> &BitSet {
        &self.wanting
    }

    /// One compare-and-swap that adds what `change` says; false if it says no.
    #[inline]
    fn update(&self, change: impl Fn(Counts) -> Option<u64>) -> bool {
        // Ordering: Relaxed: `submit` has its fence before, and the others decide nothing by a
        // refusal that is not looked at again.
        let mut word = self.counts.load(Relaxed);
        while let Some(delta) = change(Counts::from(word)) {
            // Ordering: Acquire: work under the permit comes after its last holder's release.
            let next = word.wrapping_add(delta) & !MONITOR_SLEEPS;
            match self
                .counts
                .compare_exchange_weak(word, next, AcqRel, Relaxed)
            {
                Ok(_) => {
                    if Counts::from(word).monitor_sleeps {
                        self.monitor.unpark(|| ());
                    }
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }
}

const VACANT: u32 = 0;
const RUNNING: u32 = 1;
const STUCK: u32 = 2;
const PARKED: u32 = 3;
const WAITING: u32 = 4;
const WANTING: u32 = 5;

/// The state of a P's worker; see the table in the module's head.
#[derive(Debug)]
pub(crate) struct WorkerStateCell(AtomicU32);

/// What [`WorkerStateCell`] said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    Vacant,
    Running,
    Stuck,
    Parked,
    Waiting,
    Wanting,
}

impl WorkerStateCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(VACANT))
    }

    pub(crate) fn load(&self) -> WorkerState {
        // Ordering: Acquire pairs with the hand-over's release.
        match self.0.load(Acquire) {
            VACANT => WorkerState::Vacant,
            RUNNING => WorkerState::Running,
            STUCK => WorkerState::Stuck,
            PARKED => WorkerState::Parked,
            WAITING => WorkerState::Waiting,
            _ => WorkerState::Wanting,
        }
    }

    /// A thread takes the vacant P. It has no permit yet.
    pub(crate) fn arrive(&self) {
        // A store: no other thread changes a vacant P. Ordering: Acquire: takes over from the
        // thread that left it; Release, for a thread that looks.
        let before = self.0.load(Acquire);
        debug_assert_eq!(before, VACANT, "two threads in one P");
        self.0.store(STUCK, Release);
    }

    /// Its thread, which is awake, begins to run with `permit`.
    pub(crate) fn run(&self, permit: Permit) {
        let Permit(()) = permit;
        // A store: only its own thread changes one of these three. Ordering: Acquire: comes after a
        // revocation; Release, for the thread that revokes it next.
        let before = self.0.load(Acquire);
        debug_assert!(matches!(before, VACANT | STUCK | WAITING), "{before}");
        self.0.store(RUNNING, Release);
    }

    /// Hands a permit to a parked P, with the duty to spin. Its own thread does the same when it
    /// changes its mind.
    pub(crate) fn hand_to_parked(&self, permit: Permit) -> Result<(), Permit> {
        self.hand(PARKED, permit)
    }

    /// Hands a permit to a P that wants one.
    pub(crate) fn hand_to_wanting(&self, permit: Permit) -> Result<(), Permit> {
        self.hand(WANTING, permit)
    }

    fn hand(&self, from: u32, permit: Permit) -> Result<(), Permit> {
        // Ordering: Release: the woken thread sees what the waker did; Acquire: the waker comes
        // after its parking.
        match self.0.compare_exchange(from, RUNNING, AcqRel, Acquire) {
            Ok(_) => {
                let Permit(()) = permit;
                Ok(())
            }
            Err(_) => Err(permit),
        }
    }

    /// Its thread gives up running. None if the permit was revoked: then there is none to release,
    /// and the worker state is set all the same.
    pub(crate) fn park(&self) -> Option<Permit> {
        self.leave(PARKED)
    }

    /// As [`park`](Self::park), for a thread that wants only its own root.
    pub(crate) fn wait(&self) -> Option<Permit> {
        self.leave(WAITING)
    }

    /// Its thread gives the P up.
    pub(crate) fn vacate(&self) -> Option<Permit> {
        self.leave(VACANT)
    }

    fn leave(&self, to: u32) -> Option<Permit> {
        // A swap: only its own thread comes here, and finds RUNNING or, if it lost against
        // `revoke`, STUCK. Ordering: Acquire takes over from a revoker; Release, for a waker that
        // claims it.
        (self.0.swap(to, AcqRel) == RUNNING).then_some(Permit(()))
    }

    /// Takes the permit of a P that is stuck; its thread itself may do so (`block_in_place`). None
    /// if another thread was first.
    pub(crate) fn revoke(&self) -> Option<Permit> {
        // Ordering: AcqRel, as in `leave`.
        self.0
            .compare_exchange(RUNNING, STUCK, AcqRel, Acquire)
            .is_ok()
            .then_some(Permit(()))
    }

    /// Its own thread, without a permit, wants one for pinned work.
    pub(crate) fn want(&self) {
        // Ordering: as in `leave`.
        let before = self.0.swap(WANTING, AcqRel);
        debug_assert!(before != RUNNING, "it has a permit");
    }

    /// Its own thread, which was parked, wakes up without a permit. False if it was handed one
    /// meanwhile, also if that was revoked again: the spinning that came with it is this thread's.
    pub(crate) fn unpark_without_permit(&self) -> bool {
        // Ordering: as in `awake`.
        self.0
            .compare_exchange(PARKED, STUCK, AcqRel, Acquire)
            .is_ok()
    }

    /// Its own thread is awake again, without a permit. False if it was handed one meanwhile.
    pub(crate) fn awake(&self) -> bool {
        let now = self.0.load(Relaxed);
        // Ordering: Acquire: comes after the hand-over, if there was one.
        now != RUNNING && self.0.compare_exchange(now, STUCK, AcqRel, Acquire).is_ok()
    }

    /// Whether its thread holds a permit, for that thread itself.
    pub(crate) fn has_permit(&self) -> bool {
        self.0.load(Relaxed) == RUNNING
    }
}

#[cfg(test)]
mod tests;
