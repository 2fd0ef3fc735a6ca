//! Linux: the thread's CPU clock, and its `stat` in `/proc`.

#![expect(
    unsafe_code,
    reason = "a thread's id, its CPU clock and whether it has ended have no face in std"
)]

use std::{
    cell::Cell,
    fs::File,
    io::{self, Read},
    os::unix::thread::JoinHandleExt,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread::JoinHandle,
};

use crate::refused::Facility;

/// The state of a thread is in so many bytes of its `stat`: a number of ten digits at most, and a
/// name of 63 (`proc_task_name` in linux/fs/proc/array.c), come before it.
const STATE_WITHIN: usize = 128;

/// How many forks lie between this process and the one that has first asked for a number.
static FORKS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of this thread, and the forks at that time. A thread has no number 0.
    static NUMBER: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Each call of a foreign thread into a runtime asks for the number, so the system is asked once.
/// The thread that is left in the child after a `fork` has a new number.
#[inline]
pub(super) fn current() -> u32 {
    let (number, forks) = NUMBER.get();
    if number != 0 && forks == FORKS.load(Relaxed) {
        return number;
    }
    ask()
}

#[cold]
fn ask() -> u32 {
    /// Runs in the child, on the thread that is left.
    extern "C" fn forked() {
        FORKS.fetch_add(1, Relaxed);
    }
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Two threads may both register it: a fork then counts twice. A lock instead could be held by a
    // thread that the child does not have.
    if !IS_REGISTERED.load(Relaxed) {
        // SAFETY: the function may be called at any time: it changes one atomic.
        let result = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        IS_REGISTERED.store(result == 0, Relaxed);
    }
    // SAFETY: the call has no arguments and cannot fail.
    let number = unsafe { libc::gettid() }.cast_unsigned();
    // Without memory for the function nothing is kept.
    if IS_REGISTERED.load(Relaxed) {
        NUMBER.set((number, FORKS.load(Relaxed)));
    }
    number
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

pub(super) fn stack_size() -> Option<usize> {
    // SAFETY: all zeroes is a value of it, and the next call fills it in.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: the calling thread, and a place for its attributes.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return None;
    }
    let mut size = 0;
    // SAFETY: they were filled in.
    let error = unsafe { libc::pthread_attr_getstacksize(&raw const attributes, &raw mut size) };
    // SAFETY: as above, and they are not used again.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    (error == 0).then_some(size)
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

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsRawFd};

    use super::*;

    /// The number that the system has for this thread, whatever is kept.
    fn by_the_system() -> u32 {
        // SAFETY: the call has no arguments and cannot fail.
        unsafe { libc::gettid() }.cast_unsigned()
    }

    #[test]
    fn each_thread_has_its_own_number() {
        for _ in 0..2 {
            assert_eq!(current(), by_the_system());
        }
        let other = std::thread::spawn(|| (current(), by_the_system()));
        let (kept, told) = other.join().unwrap();
        assert_eq!(kept, told);
        assert_ne!(kept, current());
    }

    // Fails if the number is kept whatever happens.
    #[test]
    fn the_child_of_a_fork_has_a_number_of_its_own() {
        let before = current();
        // SAFETY: the child makes system calls alone, and ends without the destructors of others.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", io::Error::last_os_error());
        if child == 0 {
            let is_new = current() == by_the_system() && current() != before;
            // SAFETY: it ends the child.
            unsafe { libc::_exit(if is_new { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and nobody else waits for it.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, libc::WEXITSTATUS(status)), (child, 7));
        assert_eq!(current(), before);
    }

    // A thread whose child has its memory, as after `vfork`, waits where no signal reaches it: in
    // the state D, as one that waits for a disk. Fails if only the state S counts as waiting.
    #[test]
    fn a_thread_waits_also_where_no_signal_reaches_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let (reader, writer) = io::pipe().unwrap();
        let thread = std::thread::spawn(move || {
            let reads = reader.as_raw_fd();
            tell.send(current()).unwrap();
            // SAFETY: the child has a copy of the memory, and makes system calls alone. This thread
            // goes on when it has ended.
            let child = unsafe {
                libc::syscall(
                    libc::SYS_clone,
                    libc::CLONE_VFORK | libc::SIGCHLD,
                    0,
                    0,
                    0,
                    0,
                )
            };
            if child == 0 {
                let mut byte = 0_u8;
                // SAFETY: the pointer is valid for a write of one byte, and the second call ends
                // the child.
                unsafe {
                    libc::read(reads, (&raw mut byte).cast(), 1);
                    libc::_exit(0);
                }
            }
            assert!(child > 0, "{}", io::Error::last_os_error());
            let child = libc::pid_t::try_from(child).unwrap();
            // SAFETY: the child is this process's, and nobody else waits for it. A null pointer
            // takes no status.
            let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            assert_eq!(ended, child);
        });
        let number = told.recv().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/self/task/{number}/stat")).unwrap();
        while !stat().contains(") D ") {
            std::thread::yield_now();
        }
        assert_eq!(is_waiting(number), Some(true));
        (&writer).write_all(b"x").unwrap();
        thread.join().unwrap();
    }
}
