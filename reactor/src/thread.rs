//! What the system knows of a thread: whether it computes, waits, or is gone.
//!
//! A monitor that sees a thread make no progress wants to know why. The thread's CPU clock tells
//! whether it has run since the last look. If it has not, its state tells whether it waits for
//! something or only for a core: on a busy machine the clock of a runnable thread stands still in
//! many looks.
//!
//! Each system has its file in `thread/`: Linux, the systems of Apple, FreeBSD, Windows, and one
//! for all others. A file should answer both questions or none. With the clock alone, a monitor
//! takes a thread that waits for a thread that waits for a core. Without both it goes by the time
//! alone. Windows has the clock alone: there, a thread that blocks without a word keeps its permit
//! for a slice.
//!
//! Rejected: NetBSD and OpenBSD have the clock of a thread, and the time in their tables of threads
//! is brought up to date only when the thread leaves its core.

#[cfg_attr(target_os = "linux", path = "thread/linux.rs")]
#[cfg_attr(target_vendor = "apple", path = "thread/apple.rs")]
#[cfg_attr(target_os = "freebsd", path = "thread/freebsd.rs")]
#[cfg_attr(windows, path = "thread/windows.rs")]
#[cfg_attr(
    not(any(
        target_os = "linux",
        target_vendor = "apple",
        target_os = "freebsd",
        windows
    )),
    path = "thread/unknown.rs"
)]
mod system;

use std::{io, thread::JoinHandle};

use crate::refused::Facility;

/// Joins a thread that has ended, with its thread-locals, and waits for none.
///
/// # Errors
///
/// Gives the handle back if the thread has not ended yet, or if the system does not tell: Linux
/// alone does.
///
/// ```
/// let mut handle = std::thread::spawn(|| ());
/// while cfg!(target_os = "linux") {
///     match ws_reactor::try_join(handle) {
///         Ok(()) => break,
///         Err(back) => handle = back,
///     }
///     std::thread::yield_now();
/// }
/// ```
pub fn try_join(handle: JoinHandle<()>) -> Result<(), JoinHandle<()>> {
    #[cfg(target_os = "linux")]
    return system::try_join(handle);
    #[cfg(not(target_os = "linux"))]
    Err(handle)
}

/// The size of the calling thread's stack, in bytes. None: the system does not tell; Linux alone
/// does. For the main thread it reads a file, which takes some 100 us.
///
/// ```
/// let thread = std::thread::Builder::new().stack_size(1 << 20);
/// let size = thread.spawn(ws_reactor::stack_size).unwrap().join().unwrap();
/// assert!(size.is_none_or(|size| size >= 1 << 20));
/// ```
pub fn stack_size() -> Option<usize> {
    #[cfg(target_os = "linux")]
    return system::stack_size();
    #[cfg(not(target_os = "linux"))]
    None
}

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
        Self(system::current())
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
        system::cpu_time_ns(self.0)
    }

    /// Whether it waits for something other than a core. None if it is gone, or the system does not
    /// tell. Costs some microseconds: on Linux a file is read.
    pub fn is_waiting(self) -> Option<bool> {
        system::is_waiting(self.0)
    }
}

/// A file of `/proc` could not be opened. Notes it if the status of the calling thread cannot be
/// opened either: the files of a thread that is gone are not there, and a rule of the system may be
/// about one file alone.
///
/// ```
/// ws_reactor::note_of_proc(&std::io::ErrorKind::NotFound.into());
/// ```
pub fn note_of_proc(error: &io::Error) {
    #[cfg(target_os = "linux")]
    let error = &match std::fs::File::open("/proc/thread-self/stat") {
        Ok(_) => return,
        Err(all) if all.kind() == error.kind() => all,
        // No descriptor is left, for example.
        Err(_) => return,
    };
    Facility::Proc.note(error);
    #[cfg(target_os = "linux")]
    if error.kind() == io::ErrorKind::NotFound {
        Facility::Proc.note_number(libc::ENOENT);
    }
}

// Where the system tells.
#[cfg(all(
    test,
    any(target_os = "linux", target_vendor = "apple", target_os = "freebsd"),
    not(ws_loom)
))]
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
