//! What the system gives a new thread from the thread that makes it: CPUs, niceness and signal
//! mask.
//!
//! A runtime starts threads where work comes in, also on a thread of others in the middle of a
//! wake. That thread may be pinned to one CPU, have a lower priority, or block signals, and a new
//! thread would have all that for life. So a runtime notes these three of the thread that builds
//! it, and each of its threads takes them as the first step.
//!
//! On other systems than Linux nothing is noted and nothing is done.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "CPUs, niceness and signal mask of a thread have no face in std"
    )
)]

#[cfg(target_os = "linux")]
use std::{io, mem};

/// CPUs, niceness and signal mask of a thread.
///
/// ```
/// let own = ws_reactor::Inherited::of_this_thread();
/// std::thread::spawn(move || own.apply()).join().unwrap();
/// ```
#[derive(Clone, Copy)]
pub struct Inherited {
    /// None: more CPUs than fit.
    #[cfg(target_os = "linux")]
    cpus: Option<libc::cpu_set_t>,
    #[cfg(target_os = "linux")]
    nice: Option<libc::c_int>,
    #[cfg(target_os = "linux")]
    signals: libc::sigset_t,
}

impl std::fmt::Debug for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inherited").finish_non_exhaustive()
    }
}

#[cfg(target_os = "linux")]
impl Inherited {
    /// Those of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {
            cpus: cpus(),
            nice: nice(),
            signals: signals(None),
        }
    }

    /// Gives them to the calling thread. What the system refuses stays as it is: a niceness that is
    /// lower than that of the calling thread needs a privilege, and CPUs may be gone.
    pub fn apply(&self) {
        // A change of the set may cost a move to another CPU, a look costs next to nothing.
        if let (Some(cpus), Some(own)) = (self.cpus, cpus())
            && !is_same(&cpus, &own)
        {
            // SAFETY: the pointer is valid for a read of the size that goes with it. 0 is the
            // calling thread.
            let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
        }
        if let Some(wanted) = self.nice
            && nice() != Some(wanted)
        {
            // SAFETY: the call has no pointers. On Linux 0 is the calling thread, and not its
            // process.
            let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
        }
        signals(Some(&self.signals));
    }
}

#[cfg(target_os = "linux")]
fn is_same(one: &libc::cpu_set_t, other: &libc::cpu_set_t) -> bool {
    // SAFETY: both are sets of the same size.
    unsafe { libc::CPU_EQUAL(one, other) }
}

/// The CPUs of the calling thread.
#[cfg(target_os = "linux")]
fn cpus() -> Option<libc::cpu_set_t> {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the pointer is valid for a write of the size that goes with it. More CPUs than fit
    // are an error.
    let read = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } == 0;
    read.then_some(set)
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

/// The signals that the calling thread blocked so far. Blocks others from now on, if it is told to.
#[cfg(target_os = "linux")]
fn signals(new: Option<&libc::sigset_t>) -> libc::sigset_t {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    let new = new.map_or(std::ptr::null(), |new| &raw const *new);
    // SAFETY: the first pointer is null or valid for a read of one set, the second one for a write.
    // The only error is an operation that does not exist.
    let _ = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, new, &raw mut before) };
    before
}

#[cfg(not(target_os = "linux"))]
impl Inherited {
    /// Those of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self {}
    }

    /// Gives them to the calling thread.
    pub fn apply(&self) {}
}
