//! A descriptor that is readable once a process has ended. An island of `unsafe` code.
//!
//! Only Linux has it, since 5.3. Elsewhere the answer is `ErrorKind::Unsupported`, and the caller
//! waits for SIGCHLD.
//!
//! Rejected: `EVFILT_PROC` of kqueue, which may tell of an end before the child can be reaped. A
//! look that comes too early finds nothing, and no second event follows.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "`pidfd_open` has no stable face in std")
)]

use std::{io, os::fd::OwnedFd};

#[cfg(target_os = "linux")]
use crate::refused::Facility;

/// Opens a descriptor of a process. It is readable once the process has ended, and never read.
///
/// The caller's child keeps its number until it is waited for. Any other process may end, and
/// another get its number.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// let pidfd = ws_reactor::pidfd_open(std::process::id());
/// assert!(pidfd.is_ok() || pidfd.is_err_and(|error| error.raw_os_error().is_some()));
/// # }
/// ```
///
/// # Errors
///
/// What the system says: an old kernel has no such call, and a sandbox may refuse it.
pub fn pidfd_open(process: u32) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::{FromRawFd, RawFd};

        // SAFETY: the call takes no pointers. The kernel checks both numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        match RawFd::try_from(fd) {
            // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => {
                let error = io::Error::last_os_error();
                Facility::ProcessDescriptor.note(&error);
                Err(error)
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _no_call_takes_it = process;
        Err(io::ErrorKind::Unsupported.into())
    }
}
