//! What the operating system says about this process: CPU time, context switches, memory, open
//! files.
//!
//! An island of `unsafe`: few system calls that have no safe face in std. What leaves it is plain
//! data.
#![expect(unsafe_code, reason = "getrusage and rlimits have no safe face in std")]

use std::fs;
use std::io;
use std::mem::MaybeUninit;

/// What this process, all its threads together, has used since it began. Its children count for
/// themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// Switches because a thread had to wait: parks, blocking system calls.
    pub(crate) voluntary: u64,
    /// Switches because the kernel took the core away.
    pub(crate) involuntary: u64,
}

/// Asks for what was used so far.
pub(crate) fn usage() -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to writable memory of a `rusage`'s size and alignment, which is all
    // that the call asks for.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
    assert_eq!(
        status, 0,
        "getrusage fails only for a bad pointer or an unknown `who`"
    );
    // SAFETY: the call succeeded, so it filled the whole structure.
    let raw = unsafe { raw.assume_init() };
    Usage {
        cpu_ns: nanos(raw.ru_utime) + nanos(raw.ru_stime),
        voluntary: unsigned(raw.ru_nvcsw),
        involuntary: unsigned(raw.ru_nivcsw),
    }
}

/// Lets this process, and what it starts, have as many open files as the machine allows.
pub(crate) fn raise_file_limit() -> io::Result<()> {
    let mut raw = MaybeUninit::<libc::rlimit>::uninit();
    // SAFETY: the pointer is to writable memory of an `rlimit`'s size and alignment, which is all
    // that the call asks for.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, raw.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled the whole structure.
    let mut limit = unsafe { raw.assume_init() };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to an initialized `rlimit`, which the call only reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn nanos(time: libc::timeval) -> u64 {
    unsigned(time.tv_sec) * 1_000_000_000 + unsigned(time.tv_usec) * 1_000
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).expect("a resource counter is never negative")
}

/// The most memory that was resident at a time since the program began, in KiB.
///
/// From `/proc`, since `ru_maxrss` survives `exec` and so would show the parent's.
pub(crate) fn peak_rss_kib() -> io::Result<u64> {
    status_kib("VmHWM:")
}

/// The memory that is resident now, in bytes.
pub(crate) fn rss_bytes() -> io::Result<u64> {
    Ok(status_kib("VmRSS:")? * 1024)
}

fn status_kib(field: &str) -> io::Result<u64> {
    fs::read_to_string("/proc/self/status")?
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("/proc/self/status has no {field}")))
}
