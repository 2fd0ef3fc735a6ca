//! More calls that a host may not make, by what they reach: processes and threads, names, memory
//! of the machine, who the process is, and signals.

use std::{mem, ptr};

use libc::{c_char, c_int, c_void};

use super::Refused;

unsafe extern "C" {
    fn _Fork() -> libc::pid_t;
    fn thrd_create(
        out: *mut libc::pthread_t,
        run: extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
}

extern "C" fn runs(_: *mut c_void) -> c_int {
    0
}

fn failed(answer: impl Into<i64>) -> Option<i32> {
    let error = std::io::Error::last_os_error().raw_os_error();
    (answer.into() == -1).then_some(error).flatten()
}

/// What starts a process or a thread.
pub(super) fn of_processes() -> Vec<Refused> {
    // SAFETY: they are refused. Outside of a host none is called.
    unsafe {
        vec![
            ("_Fork", || failed(_Fork())),
            ("forkpty", || {
                let (mut fd, no) = (0, ptr::null_mut());
                failed(libc::forkpty(&raw mut fd, no, ptr::null(), ptr::null()))
            }),
            ("thrd_create", || {
                const ERROR: c_int = 2;
                let mut out = mem::zeroed();
                let made = thrd_create(&raw mut out, runs, ptr::null_mut());
                (made == ERROR).then_some(libc::ENOSYS)
            }),
        ]
    }
}
