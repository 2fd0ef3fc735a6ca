//! What the system knows of a thread: whether it computes, waits, or is gone.
//!
//! A monitor that sees a thread make no progress wants to know why. The thread's CPU clock tells
//! whether it has run since the last look. If it has not, its state tells whether it waits for
//! something or only for a core: on a busy machine the clock of a runnable thread stands still in
//! many looks.
//!
//! On other systems than Linux nothing is known, and a monitor has to go by the time alone.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "a thread's id and its CPU clock have no face in std"
    )
)]

use std::{fs::File, io::Read};

/// The state of a thread is in so many bytes of its `stat`: a number of ten digits at most, and a
/// name of 63 (`proc_task_name` in linux/fs/proc/array.c), come before it.
const STATE_WITHIN: usize = 128;

/// A thread of this process.
///
/// It may end at any time; questions about it then have no answer.
///
/// ```
/// let thread = ws_reactor::ThreadId::current();
/// let before = thread.cpu_time_ns();
/// let sum = std::hint::black_box((0..100_000u64).sum::<u64>());
/// assert!(thread.cpu_time_ns() >= before, "{sum}");
/// assert_ne!(thread.is_waiting(), Some(true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(u32);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> Self {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: the call has no arguments and cannot fail.
            let id = unsafe { libc::gettid() };
            Self(id.cast_unsigned())
        }
        #[cfg(not(target_os = "linux"))]
        Self(0)
    }

    /// The number that the system has given it, or 0 where that is not known.
    pub fn as_u32(self) -> u32 {
        self.0
    }

    /// The thread with that number.
    pub fn from_u32(id: u32) -> Self {
        Self(id)
    }

    /// The CPU time that it has used, in nanoseconds. None if it is gone, or the system does not
    /// tell.
    pub fn cpu_time_ns(self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        {
            /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`: the lower bits of a clock id that names
            /// a thread, the upper ones being the complement of its number (linux/posix-timers.h).
            const THREAD_CLOCK: libc::clockid_t = 0b110;
            let clock = (!self.0.cast_signed() << 3) | THREAD_CLOCK;
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: `time` is valid for a write of one `timespec`; a clock that does not exist is
            // an error.
            let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
            (result == 0)
                .then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Whether it waits for something other than a core. None if it is gone, or the system does not
    /// tell. Costs some microseconds: a file is read.
    pub fn is_waiting(self) -> Option<bool> {
        let mut stat = File::open(format!("/proc/self/task/{}/stat", self.0)).ok()?;
        // The rest of it, and where it ends, would be read for nothing.
        let mut begin = [0; STATE_WITHIN];
        let read = stat.read(&mut begin).ok()?;
        // The name of the thread, in parentheses, may contain anything; the state follows the last
        // one.
        let name_ends = begin[..read].windows(2).rposition(|two| two == b") ")?;
        Some(*begin.get(name_ends + 2)? != b'R')
    }
}

#[cfg(all(test, target_os = "linux", not(ws_loom)))]
mod tests {
    use super::*;

    /// Waits until it is so, for as long as a test may take.
    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let begin = std::time::Instant::now();
        while !is_so() {
            assert!(begin.elapsed().as_secs() < 60, "never: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_computes() {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        // Fails for this name if the state is looked for behind the first parenthesis: "R" says
        // that it runs.
        let thread = std::thread::Builder::new().name("waits) R".to_owned());
        let thread = thread.spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            wait.recv().unwrap_err();
        });
        let thread = thread.unwrap();
        let id = told.recv().unwrap();
        // It may wait for something else, and go on, on its way to where it stays.
        eventually("it waits, and its clock stands still", || {
            let before = id.cpu_time_ns().unwrap();
            id.is_waiting() == Some(true) && id.cpu_time_ns() == Some(before)
        });
        drop(stop);
        thread.join().unwrap();
        eventually("it is gone", || id.cpu_time_ns().is_none());
        assert_eq!(ThreadId::current().is_waiting(), Some(false));
    }
}
