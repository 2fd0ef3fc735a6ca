//! System calls by their number.
//!
//! Some crates ask for random bytes by `syscall(SYS_getrandom, …)`: getrandom 0.2 does, and with it
//! ring and rand 0.8. Inside of a host such a call goes to the function of that name here. All
//! other numbers go to the system.
//!
//! *Invariant*: outside of a host nothing changes. So the locks of std, which wait by this
//! function, wait in the kernel.
//!
//! `syscall` takes a variable number of arguments. Here it takes six, the most that there are: see
//! the head of `kernel.rs`. Those that were not passed have no meaning, and no call looks at them.
#![allow(unsafe_code)]

use std::{mem, sync::OnceLock};

use libc::{c_long, c_uint, c_void, size_t};

use super::clock;
use crate::world;

type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The system's function.
pub(super) fn system_call() -> Syscall {
    static FUNCTION: OnceLock<Syscall> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        // SAFETY: the name ends with NUL, and the answer is null or the function of that name. It
        // takes up to seven arguments, which are passed as those of any other function.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr());
            assert!(!found.is_null(), "libc makes system calls");
            mem::transmute::<*mut c_void, Syscall>(found)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if number == libc::SYS_getrandom && world::current_host().is_some() {
        // SAFETY: the contract of that call is that of the function.
        return unsafe { clock::getrandom(a as *mut c_void, b as size_t, c as c_uint) as c_long };
    }
    // SAFETY: by the contract of libc.
    unsafe { system_call()(number, a, b, c, d, e, f) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[syscall as *const c_void];
