//! What the system gives a new thread from the thread that makes it: CPUs, niceness and signal
//! mask.
//!
//! A runtime starts threads where work comes in, also on a thread of others in the middle of a
//! wake. That thread may be pinned to one CPU, have a lower priority, or block signals, and a new
//! thread would have all that for life. So a runtime notes these three of the thread that builds
//! it, and each of its threads takes them as the first step.
//!
//! On other systems than Linux it is the signal mask alone: there, niceness belongs to the process,
//! and what a thread has of CPUs differs from system to system.

#![cfg_attr(
    unix,
    expect(
        unsafe_code,
        reason = "CPUs, niceness and signal mask of a thread have no face in std"
    )
)]

#[cfg(target_os = "linux")]
use std::{io, sync::Arc};
#[cfg(unix)]
use std::{mem, ptr};

#[cfg(target_os = "linux")]
use crate::cpu_set::Mask;

/// CPUs, niceness and signal mask of a thread.
///
/// ```
/// let own = ws_reactor::Inherited::of_this_thread();
/// std::thread::spawn(move || own.apply()).join().unwrap();
/// ```
#[derive(Clone)]
pub struct Inherited {
    /// None: the system does not tell.
    #[cfg(target_os = "linux")]
    cpus: Option<Arc<Mask>>,
    #[cfg(target_os = "linux")]
    nice: Option<libc::c_int>,
    #[cfg(unix)]
    signals: libc::sigset_t,
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

impl Inherited {
    /// Those of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            cpus: Mask::of(0).map(Arc::new),
            #[cfg(target_os = "linux")]
            nice: nice(),
            #[cfg(unix)]
            signals: signals(None),
        }
    }

    /// Gives them to the calling thread. What the system refuses stays as it is: a niceness that is
    /// lower than that of the calling thread needs a privilege, and CPUs may be gone.
    pub fn apply(&self) {
        #[cfg(target_os = "linux")]
        self.apply_cpus_and_niceness();
        #[cfg(unix)]
        signals(Some(&self.signals));
    }

    #[cfg(target_os = "linux")]
    fn apply_cpus_and_niceness(&self) {
        // A change of the set may cost a move to another CPU, a look costs next to nothing.
        if let (Some(cpus), Some(own)) = (&self.cpus, Mask::of(0))
            && **cpus != own
        {
            let _ = cpus.apply(0);
        }
        if let Some(wanted) = self.nice
            && nice() != Some(wanted)
        {
            // SAFETY: the call has no pointers. On Linux 0 is the calling thread, and not its
            // process.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
        }
    }
}

/// The niceness of the calling thread.
#[cfg(target_os = "linux")]
fn nice() -> Option<libc::c_int> {
    // SAFETY: `errno` is the calling thread's own.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: the call has no pointers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // -1 is a niceness as well.
    (nice != -1 || io::Error::last_os_error().raw_os_error() == Some(0)).then_some(nice)
}

/// Whether the calling thread blocks this signal. Also true if the system does not tell.
///
/// ```
/// # #[cfg(unix)] {
/// // Such a number no signal has.
/// assert!(!ws_reactor::blocks_signal(1_000));
/// # }
/// ```
#[cfg(unix)]
#[must_use]
pub fn blocks_signal(signal: i32) -> bool {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the first pointer is null, so nothing changes. The second one is valid for a write of
    // one set.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set) };
    // SAFETY: the pointer is valid for a read of one set. A number that is no signal is an error.
    error != 0 || unsafe { libc::sigismember(&raw const set, signal) } == 1
}

/// The signals that the calling thread blocked so far. Blocks others from now on, if it is told to.
#[cfg(unix)]
fn signals(new: Option<&libc::sigset_t>) -> libc::sigset_t {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), |new| &raw const *new);
    // SAFETY: the first pointer is null or valid for a read of one set, the second one for a write.
    // The only error is an operation that does not exist.
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, new, &raw mut before) };
    before
}
