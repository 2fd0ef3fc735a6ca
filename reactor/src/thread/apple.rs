//! Apple's systems: `thread_info` of Mach, which tells both at once.
//!
//! A thread's number is the name of its port in this process, as `pthread_mach_thread_np` gives it.
//! That takes no reference to the port. Once the thread is gone, the call fails; a later port may
//! have the same name, and the answer is then that of another thread. A monitor asks only about
//! threads that are there.
//!
//! Written by the headers `mach/thread_info.h` and `mach/thread_act.h`. Compiled, never run: see
//! `docs/platforms.md`.

#![expect(
    unsafe_code,
    reason = "a thread's port and what Mach knows of it have no face in std"
)]

pub(super) fn current() -> u32 {
    // SAFETY: the calling thread is there, and neither call fails for it.
    unsafe { libc::pthread_mach_thread_np(libc::pthread_self()) }
}

pub(super) fn cpu_time_ns(thread: u32) -> Option<u64> {
    let info = info(thread)?;
    let ns = |time: libc::time_value_t| {
        let seconds = u64::try_from(time.seconds).ok()?;
        let micros = u64::try_from(time.microseconds).ok()?;
        Some(seconds * 1_000_000_000 + micros * 1_000)
    };
    Some(ns(info.user_time)? + ns(info.system_time)?)
}

pub(super) fn is_waiting(thread: u32) -> Option<bool> {
    // A thread that is runnable and has no core counts as running.
    Some(info(thread)?.run_state != libc::TH_STATE_RUNNING)
}

fn info(thread: u32) -> Option<libc::thread_basic_info> {
    let mut count = libc::THREAD_BASIC_INFO_COUNT;
    // SAFETY: the structure is integers, for which all zeroes is a value.
    let mut info: libc::thread_basic_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for a write of as many integers as `count` says. A port that is no
    // thread's is an error.
    let result = unsafe {
        libc::thread_info(
            thread,
            libc::THREAD_BASIC_INFO.cast_unsigned(),
            (&raw mut info).cast(),
            &raw mut count,
        )
    };
    (result == libc::KERN_SUCCESS).then_some(info)
}
