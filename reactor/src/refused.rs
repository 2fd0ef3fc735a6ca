//! What the system refuses, and the runtime does without.
//!
//! A sandbox (seccomp, a container without `/proc`, an old kernel) may refuse a call that makes the
//! runtime better and that it does not need. Whoever meets such a refusal notes it here, once for
//! the process. The executor tells of it, once, and counts it. A call that is refused is not tried
//! again where a try would cost something each time.
//!
//! *Invariant*: a refusal is noted only if it is one of the call itself ([`is_refusal`]). "The
//! thread is gone" and "no descriptor is left" are answers for now, and change nothing here. The
//! one exception is `timerfd_settime`: a descriptor that cannot be set is of no use, whatever the
//! error.
//!
//! Rejected: to try each call when the runtime is built. It would cost a start some system calls
//! more, and a filter may come later (a program that locks itself up after its start).

use std::{
    fmt, io,
    sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed},
};

/// Something of the system that the runtime can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[non_exhaustive]
pub enum Facility {
    /// A timer that counts nanoseconds: `timerfd_create`, `timerfd_settime`.
    Timer,
    /// A counter that wakes a poll: `eventfd2`.
    Event,
    /// Which CPUs a thread may use: `sched_getaffinity`, `sched_setaffinity`.
    Affinity,
    /// The CPU time of another thread: `clock_gettime`.
    ThreadClock,
    /// The files of `/proc`.
    Proc,
    /// A descriptor of a process: `pidfd_open`.
    ProcessDescriptor,
}

const ALL: [Facility; 6] = [
    Facility::Timer,
    Facility::Event,
    Facility::Affinity,
    Facility::ThreadClock,
    Facility::Proc,
    Facility::ProcessDescriptor,
];

/// The number of the error of each facility that is refused. 0: it is not, as far as is known.
static ERRORS: [AtomicI32; ALL.len()] = [const { AtomicI32::new(0) }; ALL.len()];
/// A bit for each refusal that was taken by `untold`.
static TOLD: AtomicU32 = AtomicU32::new(0);
/// A bit for each refusal.
static NOTED: AtomicU32 = AtomicU32::new(0);

impl Facility {
    /// Whether the system has refused it.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "what can be refused is Linux's alone")
    )]
    pub(crate) fn is_refused(self) -> bool {
        NOTED.load(Relaxed) & self.bit() != 0
    }

    /// Whether the error says that the call is refused for good. Notes it then.
    pub(crate) fn note(self, error: &io::Error) -> bool {
        let number = error.raw_os_error().filter(|&number| is_refusal(number));
        number.is_some_and(|number| {
            self.note_number(number);
            true
        })
    }

    #[cold]
    pub(crate) fn note_number(self, number: i32) {
        // The number comes first, so that the bit has one. A reader that sees the bit without it
        // says so in words that are less exact, which does no harm.
        ERRORS[self as usize].store(number, Relaxed);
        NOTED.fetch_or(self.bit(), Relaxed);
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }

    fn name(self) -> &'static str {
        match self {
            Self::Timer => "a timerfd",
            Self::Event => "eventfd2",
            Self::Affinity => "the set of CPUs of a thread",
            Self::ThreadClock => "clock_gettime of a thread",
            Self::Proc => "/proc",
            Self::ProcessDescriptor => "pidfd_open",
        }
    }

    fn loss(self) -> &'static str {
        match self {
            Self::Timer => "timers of an idle thread fire at the next whole millisecond",
            Self::Event => "a pipe wakes the thread that waits for sockets",
            Self::Affinity => {
                "a woken thread may have to wait for the CPU of its waker, and a new thread has the \
                 CPUs of the thread that starts it"
            }
            Self::ThreadClock => "the monitor knows of a thread only how long it made no progress",
            Self::Proc => {
                "the monitor does not know whether a thread waits, and the number of workers does \
                 not follow the quota of a cgroup"
            }
            Self::ProcessDescriptor => "each SIGCHLD is a reason to look after children",
        }
    }
}

/// A facility that the system refuses. As a text it says which, why, and what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(Facility);

impl Refusal {
    /// Which.
    #[must_use]
    pub fn facility(self) -> Facility {
        self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(ERRORS[self.0 as usize].load(Relaxed));
        let (name, loss) = (self.0.name(), self.0.loss());
        write!(f, "{name} is refused ({error}), so {loss}")
    }
}

/// How many facilities the system has refused so far.
///
/// ```
/// assert!(ws_reactor::refusals() < 10);
/// ```
#[must_use]
pub fn refusals() -> usize {
    NOTED.load(Relaxed).count_ones() as usize
}

/// The refusals that no caller has got so far. Each is got once in the life of a process, but for
/// those that are [given back](untell). Costs two loads if there is none.
///
/// ```
/// let before = ws_reactor::untold_refusals();
/// assert!(before.iter().all(|refusal| !refusal.to_string().is_empty()));
/// ```
#[must_use]
pub fn untold_refusals() -> Vec<Refusal> {
    let noted = NOTED.load(Relaxed);
    if noted & !TOLD.load(Relaxed) == 0 {
        return Vec::new();
    }
    let new = noted & !TOLD.fetch_or(noted, Relaxed);
    let is_new = |facility: &Facility| new & facility.bit() != 0;
    ALL.into_iter().filter(is_new).map(Refusal).collect()
}

/// Gives back refusals that could not be told: the next caller of [`untold_refusals`] gets them.
///
/// ```
/// let refusals = ws_reactor::untold_refusals();
/// // There is nobody to tell.
/// ws_reactor::untell(&refusals);
/// ```
pub fn untell(refusals: &[Refusal]) {
    let bits = refusals
        .iter()
        .fold(0, |bits, Refusal(facility)| bits | facility.bit());
    TOLD.fetch_and(!bits, Relaxed);
}

/// Whether the error says that this process may not do it at all.
#[cfg(target_os = "linux")]
pub(crate) fn is_refusal(number: i32) -> bool {
    matches!(number, libc::EPERM | libc::EACCES | libc::ENOSYS)
}

/// Whether the error says that this process may not do it at all.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_refusal(_: i32) -> bool {
    false
}
