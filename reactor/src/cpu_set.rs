//! On which CPUs a thread may run, and how to keep a thread that is about to wake off one of them.
//!
//! A worker that wakes another and computes on wants it on *another* CPU. The system does not
//! always see to that: in a virtual machine an idle CPU is halted, its host counts it as preempted,
//! and the guest's scheduler then does not take it for idle. So a thread that slept on the waker's
//! CPU is queued behind the waker, until the waker stops (seen here: 1 to 5 ms in one of ten
//! wake-ups). To take the waker's CPU out of the sleeper's set for a moment leaves the system no
//! choice.
//!
//! On other systems than Linux nothing is known and nothing is done.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "a thread's CPU set has no face in std")
)]

use crate::ThreadId;

/// The CPUs on which a thread was allowed to run before [`ThreadId::keep_off`].
///
/// ```
/// let thread = ws_reactor::ThreadId::current();
/// if let Some(cpu) = ws_reactor::current_cpu()
///     && let Some(before) = thread.keep_off(cpu)
/// {
///     assert_ne!(ws_reactor::current_cpu(), Some(cpu));
///     before.restore(thread);
/// }
/// ```
#[derive(Clone, Copy)]
#[must_use = "the thread stays kept off until its set is restored"]
pub struct CpuSet {
    #[cfg(target_os = "linux")]
    set: libc::cpu_set_t,
}

impl std::fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuSet").finish_non_exhaustive()
    }
}

/// The CPU that the calling thread runs on, which may be another one right afterwards.
#[must_use]
pub fn current_cpu() -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the call has no arguments; an error is a negative number.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

impl ThreadId {
    /// Takes `cpu` out of the set of CPUs that the thread may run on, and returns the set as it
    /// was. None, and nothing is done, if the thread is gone, if it could not run on that CPU
    /// anyway, if it could run on no other, or if the system does not allow it.
    ///
    /// Costs about 10 us when the caches are cold. A set that other code gives the thread until
    /// [`CpuSet::restore`] is lost.
    pub fn keep_off(self, cpu: u32) -> Option<CpuSet> {
        #[cfg(target_os = "linux")]
        {
            let thread = self.as_u32().cast_signed();
            let cpu = cpu as usize;
            // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
            let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is valid for a write of the size that goes with it. More CPUs
            // than fit are an error.
            let read =
                unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &raw mut set) } == 0;
            let fits = cpu < 8 * size_of_val(&set);
            // SAFETY: both read the set; `cpu` is a bit of it.
            let useful =
                read && fits && unsafe { libc::CPU_ISSET(cpu, &set) && libc::CPU_COUNT(&set) > 1 };
            if !useful {
                return None;
            }
            let before = CpuSet { set };
            // SAFETY: `cpu` is a bit of the set, as was seen.
            unsafe { libc::CPU_CLR(cpu, &mut set) };
            // SAFETY: the pointer is valid for a read of the size that goes with it.
            let done =
                unsafe { libc::sched_setaffinity(thread, size_of_val(&set), &raw const set) } == 0;
            done.then_some(before)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = cpu;
            None
        }
    }
}

impl CpuSet {
    /// Gives the thread its set back. That fails only if the thread is gone, or if the system has
    /// narrowed what the process may use; then it has set the thread's CPUs itself.
    pub fn restore(self, thread: ThreadId) {
        #[cfg(target_os = "linux")]
        {
            let thread = thread.as_u32().cast_signed();
            // SAFETY: the pointer is valid for a read of the size that goes with it.
            let _ = unsafe {
                libc::sched_setaffinity(thread, size_of_val(&self.set), &raw const self.set)
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = thread;
    }
}

#[cfg(all(test, target_os = "linux", not(ws_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_elsewhere_until_its_set_is_restored() {
        let thread = ThreadId::current();
        let cpu = current_cpu().expect("Linux tells");
        let Some(before) = thread.keep_off(cpu) else {
            // One CPU is all that this process may use.
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            return;
        };
        assert_ne!(current_cpu(), Some(cpu));
        assert!(thread.keep_off(cpu).is_none(), "it is kept off already");
        before.restore(thread);
        let again = thread.keep_off(cpu).expect("the CPU is in the set again");
        again.restore(thread);
    }

    #[test]
    fn a_thread_keeps_its_last_cpu_and_a_gone_one_is_no_error() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let thread = ThreadId::current();
            let mut sets = Vec::new();
            for cpu in 0..1024 {
                sets.extend(thread.keep_off(cpu));
            }
            let left = current_cpu().expect("Linux tells");
            assert!(thread.keep_off(left).is_none(), "the last one stays");
            for set in sets.into_iter().rev() {
                set.restore(thread);
            }
            tell.send(thread).unwrap();
        })
        .join()
        .unwrap();
        let gone = told.recv().unwrap();
        while gone.cpu_time_ns().is_some() {
            std::thread::yield_now();
        }
        assert!(gone.keep_off(0).is_none());
        assert!(ThreadId::current().keep_off(100_000).is_none());
    }
}
