//! A stack for the handler, on threads that have none.
//!
//! A thread in deep recursion may have less room left on its stack than the frame of a signal
//! needs. The kernel then ends the process. So the handler runs on the alternate signal stack.
//! std gives one to the main thread and to those that it starts, if `main` is Rust's. Other threads
//! get one here, for as long as they are registered.
#![expect(unsafe_code, reason = "sigaltstack and mmap have no face in std")]

use std::{ffi::c_void, mem, ptr};

/// Bytes of it. The frame of a signal has up to 12 KiB (AMX); the handler needs 1 KiB.
const SIZE: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct AlternateStack(*mut c_void);

impl AlternateStack {
    /// Sets one up if this thread has none. None also if the system refuses it.
    pub(super) fn if_there_is_none() -> Option<Self> {
        if current()?.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping, which nobody else knows.
        let start = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let stack = Self(start);
        set(start, 0).then_some(stack)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // Other code that has set up its own meanwhile may put this one back. Then it stays.
        let is_current = current().is_some_and(|current| current.ss_sp == self.0);
        if is_current && set(ptr::null_mut(), libc::SS_DISABLE) {
            // SAFETY: the mapping is this one's, and no handler runs on it: this thread is here.
            unsafe { libc::munmap(self.0, SIZE) };
        }
    }
}

fn current() -> Option<libc::stack_t> {
    // SAFETY: all zeros is a `stack_t`.
    let mut current: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: `current` is valid for a write.
    let result = unsafe { libc::sigaltstack(ptr::null(), &raw mut current) };
    (result == 0).then_some(current)
}

fn set(start: *mut c_void, flags: i32) -> bool {
    let stack = libc::stack_t {
        ss_sp: start,
        ss_flags: flags,
        ss_size: SIZE,
    };
    // SAFETY: the memory is mapped until this is undone, or `flags` say that there is none.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) == 0 }
}
