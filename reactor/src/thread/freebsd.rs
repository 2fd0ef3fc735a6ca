//! FreeBSD: the thread's CPU clock, and its row in the kernel's table of threads.
//!
//! The table has a row for each thread of the process, and is copied as a whole. A monitor asks it
//! only about a thread whose clock stands still.
//!
//! Written by the pages clock_getcpuclockid2(3) and sysctl(3), and `sys/user.h`. Compiled, never
//! run: see `docs/platforms.md`.

#![expect(
    unsafe_code,
    reason = "a thread's id, its CPU clock and its state have no face in std"
)]

use std::ptr;

/// Rows more than the kernel asked room for: threads that are started between the two calls.
const SPARE_ROWS: usize = 8;

pub(super) fn current() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    let id = unsafe { libc::pthread_getthreadid_np() };
    id.cast_unsigned()
}

pub(super) fn cpu_time_ns(thread: u32) -> Option<u64> {
    // To the kernel, 0 is the calling thread.
    if thread == 0 {
        return None;
    }
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for a write. A thread that does not exist is an error.
    let result = unsafe {
        libc::clock_getcpuclockid2(thread.into(), libc::CPUCLOCK_WHICH_TID, &raw mut clock)
    };
    if result != 0 {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write of one `timespec`; a clock that does not exist is an
    // error.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0)
        .then(|| time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

pub(super) fn is_waiting(thread: u32) -> Option<bool> {
    let rows = threads()?;
    let row = rows
        .iter()
        .find(|row| row.ki_tid.cast_unsigned() == thread)?;
    // A thread that is runnable and has no core is in this state as well.
    Some(row.ki_stat != libc::SRUN)
}

/// The rows of this process's threads.
fn threads() -> Option<Vec<libc::kinfo_proc>> {
    let mut size = 0;
    table(ptr::null_mut(), &mut size)?;
    let mut rows: Vec<libc::kinfo_proc> =
        Vec::with_capacity(size / size_of::<libc::kinfo_proc>() + SPARE_ROWS);
    size = rows.capacity() * size_of::<libc::kinfo_proc>();
    table(rows.as_mut_ptr(), &mut size)?;
    // SAFETY: the kernel has written this many bytes, at most as many as there was room for, and a
    // row is integers and addresses, for which each value is one.
    unsafe { rows.set_len(size / size_of::<libc::kinfo_proc>()) };
    // A kernel whose rows have another length than the library's is not understood.
    let length = rows.first()?.ki_structsize;
    (usize::try_from(length) == Ok(size_of::<libc::kinfo_proc>())).then_some(rows)
}

/// Copies the table to `rows`, where there is room for `size` bytes, and sets `size` to what was
/// copied; without `rows`, to the room that it takes.
fn table(rows: *mut libc::kinfo_proc, size: &mut usize) -> Option<()> {
    let name = [
        libc::CTL_KERN,
        libc::KERN_PROC,
        libc::KERN_PROC_PID | libc::KERN_PROC_INC_THREAD,
        std::process::id().cast_signed(),
    ];
    // SAFETY: `name` is valid for a read of its four numbers. `rows` is null or valid for a write
    // of `size` bytes, by the callers above. Nothing is written to the kernel.
    let result = unsafe {
        libc::sysctl(
            name.as_ptr(),
            name.len() as libc::c_uint,
            rows.cast(),
            size,
            ptr::null(),
            0,
        )
    };
    (result == 0).then_some(())
}
