//! One descriptor that no netpoll has, asked by `poll(2)`.
//!
//! The call needs no descriptor of its own. So a report that no descriptor is left can be written.
//! It takes files as well, which are always ready.
//!
//! *Invariant*: the mode of the descriptor stays as it is. It belongs to the open file, which other
//! processes share.
//!
//! Rejected: an epoll for the question. It needs two descriptors, when there may be none.
#![expect(unsafe_code, reason = "`poll` has no face in std or mio")]

use std::{
    fs::File,
    io,
    mem::ManuallyDrop,
    os::fd::{AsFd, AsRawFd, FromRawFd},
};

use crate::refused::is_refusal;

/// The standard error of this process. None if a short write (up to `PIPE_BUF` bytes, 4,096 on
/// Linux) would wait now, or if its reader is gone: SIGPIPE may end the process at such a write.
/// The descriptor stays open when the file is dropped.
///
/// If a sandbox refuses `poll`, the system does not tell. Then it is the file: a write that may
/// wait is better than reports that nobody ever sees.
///
/// A write to the file goes round the lock and the buffer of [`std::io::Stderr`].
///
/// ```
/// use std::io::Write;
///
/// if let Some(mut stderr) = ws_reactor::stderr_now() {
///     stderr.write_all(b"hello\n")?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn stderr_now() -> Option<ManuallyDrop<File>> {
    let stderr = io::stderr();
    let may_write = match ask(&stderr, libc::POLLOUT, AT_ONCE) {
        Ok(events) => events & libc::POLLOUT != 0 && events & GONE == 0,
        Err(error) => error.raw_os_error().is_some_and(is_refusal),
    };
    may_write.then(|| {
        // SAFETY: nobody owns the descriptor of the standard error, and this file does not close
        // it.
        ManuallyDrop::new(unsafe { File::from_raw_fd(stderr.as_raw_fd()) })
    })
}

/// Waits on this thread until a read would not wait, or would say what is wrong.
///
/// # Errors
///
/// What the system says; being interrupted by a signal is not an error.
///
/// ```
/// let (reader, writer) = std::io::pipe()?;
/// drop(writer);
/// ws_reactor::wait_readable(&reader)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_readable(descriptor: &impl AsFd) -> io::Result<()> {
    ask(descriptor, libc::POLLIN, FOR_EVER).map(|_| ())
}

/// Waits on this thread until a write would not wait, or would say what is wrong.
///
/// # Errors
///
/// What the system says; being interrupted by a signal is not an error.
///
/// ```
/// let (_reader, writer) = std::io::pipe()?;
/// ws_reactor::wait_writable(&writer)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_writable(descriptor: &impl AsFd) -> io::Result<()> {
    ask(descriptor, libc::POLLOUT, FOR_EVER).map(|_| ())
}

/// What `poll` says, unasked, of a descriptor that nobody reads from any more.
const GONE: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// Timeouts of `poll`, in milliseconds.
const AT_ONCE: libc::c_int = 0;
const FOR_EVER: libc::c_int = -1;

/// What the system says of it. None of the bits is set if the time is over.
fn ask(
    descriptor: &impl AsFd,
    events: libc::c_short,
    timeout: libc::c_int,
) -> io::Result<libc::c_short> {
    let mut question = libc::pollfd {
        fd: descriptor.as_fd().as_raw_fd(),
        events,
        revents: 0,
    };
    loop {
        // SAFETY: the pointer is valid for one `pollfd` during the call.
        if unsafe { libc::poll(&raw mut question, 1, timeout) } >= 0 {
            return Ok(question.revents);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
