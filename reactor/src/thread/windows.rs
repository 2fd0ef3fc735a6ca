//! What Windows knows of a thread. An island of `unsafe` code.
//!
//! A thread is asked for by its number, which opens it for the one question. The clock of a thread
//! counts ticks of the scheduler (15.6 ms), so it says little about one poll: see
//! `ThreadId::cpu_time_ns`.
//!
//! Rejected: `QueryThreadCycleTime`. It counts cycles of an unknown length.

#![expect(unsafe_code, reason = "a thread of another number has no face in std")]

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::{
    Foundation::FILETIME,
    System::Threading::{
        GetCurrentThreadId, GetThreadTimes, OpenThread, THREAD_QUERY_LIMITED_INFORMATION,
    },
};

/// Nanoseconds of a unit of a `FILETIME`.
const FILETIME_NS: u64 = 100;

pub(super) fn current() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { GetCurrentThreadId() }
}

fn open(thread: u32) -> Option<OwnedHandle> {
    // SAFETY: the call takes no pointers. A thread that is not there is a null.
    let handle = unsafe { OpenThread(THREAD_QUERY_LIMITED_INFORMATION, 0, thread) };
    // SAFETY: the system has just made this handle for us.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// The CPU time of a thread, in whole ticks of the scheduler.
pub(super) fn cpu_time_ns(thread: u32) -> Option<u64> {
    let handle = open(thread)?;
    let zero = FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    };
    let [mut created, mut exited, mut kernel, mut user] = [zero; 4];
    // SAFETY: the handle is open, and the pointers are valid for a write of one `FILETIME` each.
    let answer = unsafe {
        GetThreadTimes(
            handle.as_raw_handle(),
            &raw mut created,
            &raw mut exited,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let units =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    (answer != 0).then(|| (units(kernel) + units(user)) * FILETIME_NS)
}

/// No documented call tells it.
pub(super) fn is_waiting(_: u32) -> Option<bool> {
    None
}
