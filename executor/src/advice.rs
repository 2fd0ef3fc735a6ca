//! What to do where the system refuses something, as far as its error tells: for the error of a
//! build, and for the warnings of the same causes later on.
//!
//! Each advice holds for all causes of its error. Where a C library has one error for several
//! causes, the advice names all of them.

use std::{fmt, io};

/// What the system may refuse to a runtime.
pub(crate) const NETPOLL: &str = "the netpoll";
pub(crate) const THREAD: &str = "a thread";

/// The process has no descriptor left. The number is the same on all systems of Unix.
const EMFILE: i32 = 24;
/// The system has no descriptor left. The same.
const ENFILE: i32 = 23;

/// What to do about it, where the error tells.
pub(crate) fn advice(refused: &str, error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{InvalidInput, OutOfMemory, PermissionDenied, Unsupported, WouldBlock};

    if cfg!(windows) {
        return None;
    }
    match (refused, error.kind()) {
        _ if error.raw_os_error() == Some(EMFILE) => Some(
            "raise the limit of descriptors (`ulimit -n`, RLIMIT_NOFILE) or close some: a runtime \
             needs four or five for itself, and one for each socket",
        ),
        _ if error.raw_os_error() == Some(ENFILE) => {
            Some("the system has no descriptor left; on Linux see `fs.file-max`")
        }
        (THREAD, WouldBlock | OutOfMemory) => Some(
            "raise the limit of threads (`ulimit -u`, RLIMIT_NPROC; `pids.max` of the cgroup) or \
             of memory, or make stacks smaller (`Builder::stack_size`); with musl, a sandbox that \
             refuses `clone`, `mmap` or `mprotect` looks the same",
        ),
        (THREAD, PermissionDenied | Unsupported | InvalidInput) => Some(
            "a sandbox must allow `mmap`, `mprotect` and `clone`, and allow `clone3` or answer it \
             with ENOSYS",
        ),
        (NETPOLL, PermissionDenied | Unsupported | InvalidInput) => Some(
            "a sandbox must allow `epoll_create1`, `epoll_ctl`, `epoll_wait` (with musl, and on \
             AArch64, `epoll_pwait`) and `fcntl`, and `eventfd2` or `pipe2`",
        ),
        _ => None,
    }
}

/// An error, and what to do about it.
pub(crate) struct Advised<'a>(pub(crate) &'a io::Error, pub(crate) Option<&'a str>);

impl fmt::Display for Advised<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error, advice) = self;
        write!(f, "{error}")?;
        advice.map_or(Ok(()), |advice| write!(f, ": {advice}"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_with_what_to_do_if_that_is_known() {
        let shown = |refused, error: io::Error| {
            let advice = advice(refused, &error);
            Advised(&error, advice).to_string()
        };
        let no_thread = shown(THREAD, io::ErrorKind::WouldBlock.into());
        assert!(no_thread.contains(": raise the limit of threads (`ulimit -u`"));
        assert!(no_thread.contains("`pids.max`"));
        let no_memory = shown(THREAD, io::ErrorKind::OutOfMemory.into());
        assert!(no_memory.contains("make stacks smaller"), "{no_memory}");
        for refused in [NETPOLL, THREAD] {
            let no_file = shown(refused, io::Error::from_raw_os_error(ENFILE));
            assert!(no_file.contains("see `fs.file-max`"), "{no_file}");
        }
        for refused in [NETPOLL, THREAD, "a socket"] {
            let no_descriptor = shown(refused, io::Error::from_raw_os_error(EMFILE));
            assert!(no_descriptor.contains("(os error 24): raise the limit of descriptors"));
            let unknown = io::ErrorKind::BrokenPipe;
            assert_eq!(shown(refused, unknown.into()), unknown.to_string());
        }
    }
}
