//! Linux: the thread's CPU clock, and its `stat` in `/proc`.

#![expect(
    unsafe_code,
    reason = "a thread's id, its CPU clock and whether it has ended have no face in std"
)]

use std::{
    fs::File,
    io::{self, Read},
    os::unix::thread::JoinHandleExt,
    thread::JoinHandle,
};

use crate::refused::Facility;

/// The state of a thread is in so many bytes of its `stat`: a number of ten digits at most, and a
/// name of 63 (`proc_task_name` in linux/fs/proc/array.c), come before it.
const STATE_WITHIN: usize = 128;

pub(super) fn current() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    let id = unsafe { libc::gettid() };
    id.cast_unsigned()
}

pub(super) fn cpu_time_ns(thread: u32) -> Option<u64> {
    /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`: the lower bits of a clock id that names a
    /// thread, the upper ones being the complement of its number (linux/posix-timers.h).
    const THREAD_CLOCK: libc::clockid_t = 0b110;
    let clock = (!thread.cast_signed() << 3) | THREAD_CLOCK;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write of one `timespec`; a clock that does not exist is an
    // error.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        Facility::ThreadClock.note(&io::Error::last_os_error());
    }
    (result == 0)
        .then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

pub(super) fn is_waiting(thread: u32) -> Option<bool> {
    if Facility::Proc.is_refused() {
        return None;
    }
    let opened = File::open(format!("/proc/self/task/{thread}/stat"));
    let mut stat = opened.map_err(|error| super::note_of_proc(&error)).ok()?;
    // The rest of it, and where it ends, would be read for nothing.
    let mut begin = [0; STATE_WITHIN];
    let read = stat.read(&mut begin).ok()?;
    // The name of the thread, in parentheses, may contain anything; the state follows the last one.
    let name_ends = begin[..read].windows(2).rposition(|two| two == b") ")?;
    Some(*begin.get(name_ends + 2)? != b'R')
}

pub(super) fn try_join(handle: JoinHandle<()>) -> Result<(), JoinHandle<()>> {
    // A number for std, and a pointer for musl.
    let thread = handle.as_pthread_t() as libc::pthread_t;
    // SAFETY: the thread is neither joined nor detached: this handle alone could do either.
    let error = unsafe { libc::pthread_tryjoin_np(thread, std::ptr::null_mut()) };
    if error != 0 {
        return Err(handle);
    }
    // It is joined: the handle must not detach it.
    let _ = handle.into_pthread_t();
    Ok(())
}
