//! On which CPUs a thread may run, and how to keep a thread that is about to wake off one of them.
//!
//! A worker that wakes another and computes on wants it on *another* CPU. The system does not
//! always see to that: in a virtual machine an idle CPU is halted, its host counts it as preempted,
//! and the guest's scheduler then does not take it for idle. So a thread that slept on the waker's
//! CPU is queued behind the waker, until the waker stops (seen here: 1 to 5 ms in one of ten
//! wake-ups). To take the waker's CPU out of the sleeper's set for a moment leaves the system no
//! choice.
//!
//! A set has as many bits as the kernel may have CPUs, and the kernel refuses a shorter one
//! (`EINVAL`). glibc's `cpu_set_t` has 1,024 bits, which is too few for a kernel built for more. So
//! a set is a row of words here, and [`Mask::read_by`] doubles it until the kernel takes it.
//!
//! A waker keeps a thread off in the middle of a wake. So the row is the caller's and is kept for
//! the next time: after the first one nothing is allocated.
//!
//! On other systems than Linux nothing is known and nothing is done.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "a thread's CPU set has no face in std")
)]

#[cfg(target_os = "linux")]
use std::io;

use crate::ThreadId;
#[cfg(target_os = "linux")]
use crate::refused::Facility;

/// The CPUs on which a thread was allowed to run before [`ThreadId::keep_off`], and room for them.
///
/// ```
/// let thread = ws_reactor::ThreadId::current();
/// let mut before = ws_reactor::CpuSet::default();
/// if let Some(cpu) = ws_reactor::current_cpu()
///     && thread.keep_off(cpu, &mut before)
/// {
///     assert_ne!(ws_reactor::current_cpu(), Some(cpu));
///     before.restore(thread);
/// }
/// ```
#[derive(Default)]
pub struct CpuSet {
    #[cfg(target_os = "linux")]
    mask: Mask,
}

/// A set of CPUs as the kernel has it: one bit for each, in words of its own length.
#[cfg(target_os = "linux")]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask(Vec<libc::c_ulong>);

#[cfg(target_os = "linux")]
impl Mask {
    const BITS: usize = libc::c_ulong::BITS as usize;
    /// Words of a `cpu_set_t`, with which nearly every kernel is content.
    const WORDS_FIRST: usize = 1024 / Self::BITS;
    /// The kernel knows no more than 8,192 CPUs on any processor today.
    const WORDS_MAX: usize = 65_536 / Self::BITS;

    fn contains(&self, cpu: usize) -> bool {
        let word = self.0.get(cpu / Self::BITS);
        word.is_some_and(|word| word & (1 << (cpu % Self::BITS)) != 0)
    }

    /// Puts a CPU that is in the set out of it, or in again.
    fn flip(&mut self, cpu: usize) {
        self.0[cpu / Self::BITS] ^= 1 << (cpu % Self::BITS);
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The set of a thread; 0 is the calling one.
    pub(crate) fn of(thread: libc::pid_t) -> Option<Self> {
        let mut mask = Self::default();
        mask.read(thread).then_some(mask)
    }

    /// Takes the set of a thread; 0 is the calling one. False if the system does not tell.
    fn read(&mut self, thread: libc::pid_t) -> bool {
        self.read_by(|words| {
            // SAFETY: the pointer is valid for a write of the size that goes with it. The call
            // knows its set by address and size alone, and a row of words is aligned as one.
            let result = unsafe {
                libc::sched_getaffinity(
                    thread,
                    size_of_val(words),
                    words.as_mut_ptr().cast::<libc::cpu_set_t>(),
                )
            };
            if result == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            Facility::Affinity.note(&error);
            Err(error)
        })
    }

    /// Has `call` fill the words, and doubles them until they are enough for the kernel. False if
    /// the kernel has another error.
    fn read_by(&mut self, mut call: impl FnMut(&mut [libc::c_ulong]) -> io::Result<()>) -> bool {
        self.0.resize(self.0.len().max(Self::WORDS_FIRST), 0);
        while self.0.len() <= Self::WORDS_MAX {
            self.0.fill(0);
            match call(&mut self.0) {
                Ok(()) => return true,
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.0.resize(2 * self.0.len(), 0);
                }
                Err(_) => return false,
            }
        }
        *self = Self::default();
        false
    }

    /// Gives the set to a thread; 0 is the calling one. False if the system refuses it.
    pub(crate) fn apply(&self, thread: libc::pid_t) -> bool {
        // SAFETY: the pointer is valid for a read of the size that goes with it; see `read`.
        let result = unsafe {
            libc::sched_setaffinity(
                thread,
                size_of_val(&*self.0),
                self.0.as_ptr().cast::<libc::cpu_set_t>(),
            )
        };
        if result != 0 {
            Facility::Affinity.note(&io::Error::last_os_error());
        }
        result == 0
    }
}

/// How many CPUs the calling thread may run on, if the system tells: also if it has more than
/// 1,024, which `std::thread::available_parallelism` does not count. If Linux refuses the question
/// (seccomp), it is how many CPUs are online.
///
/// ```
/// if let Some(cpus) = ws_reactor::allowed_cpus() {
///     assert!(cpus >= 1);
/// }
/// ```
#[must_use]
pub fn allowed_cpus() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        let cpus = Mask::of(0).map_or_else(online_cpus, |mask| mask.len());
        Some(cpus).filter(|&cpus| cpus > 0)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn online_cpus() -> usize {
    // SAFETY: a number goes in, and an error is -1.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(cpus).unwrap_or(0)
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
    /// Takes `cpu` out of the set of CPUs that the thread may run on. `before` is the set as it was
    /// then. False if the thread is gone, if it could not run on that CPU anyway, if it could run
    /// on no other, or if the system does not allow it: the thread runs where it did, and `before`
    /// has no meaning.
    ///
    /// Costs about 10 us when the caches are cold, and allocates nothing unless `before` is too
    /// small for the kernel's sets. A set that other code gives the thread until
    /// [`CpuSet::restore`] is lost.
    #[must_use = "the thread stays kept off until its set is restored"]
    pub fn keep_off(self, cpu: u32, before: &mut CpuSet) -> bool {
        #[cfg(target_os = "linux")]
        {
            let thread = self.as_u32().cast_signed();
            let cpu = cpu as usize;
            let mask = &mut before.mask;
            // Each wake-up would ask in vain. Where only the other call is refused, the number of
            // CPUs can still be had.
            let is_refused = Facility::Affinity.is_refused();
            if is_refused || !mask.read(thread) || !mask.contains(cpu) || mask.len() == 1 {
                return false;
            }
            mask.flip(cpu);
            let is_off = mask.apply(thread);
            mask.flip(cpu);
            is_off
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (cpu, before);
            false
        }
    }
}

impl CpuSet {
    /// Gives the thread its set back. That fails only if the thread is gone, or if the system has
    /// narrowed what the process may use; then it has set the thread's CPUs itself.
    pub fn restore(&self, thread: ThreadId) {
        #[cfg(target_os = "linux")]
        {
            self.mask.apply(thread.as_u32().cast_signed());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = thread;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_elsewhere_until_its_set_is_restored() {
        let thread = ThreadId::current();
        let cpu = current_cpu().expect("Linux tells");
        let [mut before, mut other] = [CpuSet::default(), CpuSet::default()];
        if !thread.keep_off(cpu, &mut before) {
            // One CPU is all that this process may use.
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            return;
        }
        assert_ne!(current_cpu(), Some(cpu));
        assert!(!thread.keep_off(cpu, &mut other), "it is kept off already");
        before.restore(thread);
        assert!(
            thread.keep_off(cpu, &mut other),
            "the CPU is in the set again"
        );
        other.restore(thread);
    }

    /// A kernel with room for so many CPUs, which lets the thread use the one of the highest number
    /// and CPU 3.
    fn kernel_of(cpus: usize) -> impl FnMut(&mut [libc::c_ulong]) -> io::Result<()> {
        move |words| {
            if 8 * size_of_val(words) < cpus {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            for cpu in [3, cpus - 1] {
                words[cpu / Mask::BITS] |= 1 << (cpu % Mask::BITS);
            }
            Ok(())
        }
    }

    #[test]
    fn a_mask_grows_until_the_kernel_takes_it() {
        for cpus in [5, 64, 1024, 1025, 2048, 5000, 8192] {
            let mut mask = Mask::default();
            assert!(mask.read_by(kernel_of(cpus)), "it fits");
            assert_eq!(mask.len(), 2, "{cpus}");
            assert!(mask.contains(3) && mask.contains(cpus - 1), "{cpus}");
            assert!(!mask.contains(cpus), "{cpus}");
            mask.flip(cpus - 1);
            assert_eq!(mask.len(), 1, "{cpus}");
            // The words are there for the next set, and nothing of this one is left in them.
            let few = mask.0.len();
            assert!(mask.read_by(|_| Ok(())), "{cpus}");
            assert_eq!((mask.0.len(), mask.len()), (few, 0), "{cpus}");
        }
    }

    #[test]
    fn a_mask_does_not_grow_for_ever_and_another_error_ends_it() {
        let mut calls = 0;
        let einval = || io::Error::from_raw_os_error(libc::EINVAL);
        let mut mask = Mask::default();
        assert!(!mask.read_by(|_| {
            calls += 1;
            Err(einval())
        }));
        assert_eq!(calls, 7, "1,024 bits, and six times twice as many");
        assert!(mask.read_by(|_| Ok(())), "it is as new");
        let refused = io::Error::from_raw_os_error(libc::ESRCH);
        let mut refused = Some(refused);
        assert!(!mask.read_by(|_| Err(refused.take().expect("it is asked once"))));
    }

    #[test]
    fn the_cpus_of_this_thread_are_counted_as_std_counts_them() {
        let allowed = allowed_cpus().expect("Linux tells");
        let counted = std::thread::available_parallelism().unwrap().get();
        // A quota makes the second number smaller.
        assert!(counted <= allowed, "{counted} {allowed}");
    }

    #[test]
    fn a_thread_keeps_its_last_cpu_and_a_gone_one_is_no_error() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let thread = ThreadId::current();
            let mut sets = Vec::new();
            for cpu in 0..1024 {
                let mut set = CpuSet::default();
                if thread.keep_off(cpu, &mut set) {
                    sets.push(set);
                }
            }
            let left = current_cpu().expect("Linux tells");
            let mut none = CpuSet::default();
            assert!(!thread.keep_off(left, &mut none), "the last one stays");
            for set in sets.iter().rev() {
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
        let mut none = CpuSet::default();
        assert!(!gone.keep_off(0, &mut none));
        assert!(!ThreadId::current().keep_off(100_000, &mut none));
    }
}
