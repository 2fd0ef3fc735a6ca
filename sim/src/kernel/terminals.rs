//! Terminals: no simulated descriptor is one.
//!
//! libc asks the system by calls of its own, which do not know simulated descriptors.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_char, c_int, c_void, pid_t, size_t, termios};

use super::{descriptors::no_request, fails, is_ours, system::system};
use crate::world;

/// What a call for a terminal answers: that the file does not know it, or that there is none.
fn error(fd: c_int) -> c_int {
    let error = world::with(|world| Some(no_request(&world.files.get(fd).ok()?.kind)));
    error.flatten().unwrap_or(libc::EBADF)
}

/// Functions of a terminal, each with its answer if there is an error.
macro_rules! of_terminals {
    ($(
        $name:ident($($argument:ident: $type:ty),*) -> $answer:ty = |$error:ident| $failed:expr;
    )*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(fd: c_int $(, $argument: $type)*) -> $answer {
                if is_ours(fd) {
                    let $error = error(fd);
                    return $failed;
                }
                let system = system!($name: fn(c_int $(, $type)*) -> $answer);
                // SAFETY: by the contract of libc.
                unsafe { system(fd $(, $argument)*) }
            }
        )*

        /// The functions of this file, for [`is_linked`](super::is_linked).
        pub(super) const PART: &[*const c_void] = &[$($name as *const c_void),*];
    };
}

of_terminals! {
    isatty() -> c_int = |error| {
        fails(error);
        0
    };
    tcgetattr(out: *mut termios) -> c_int = |error| fails(error);
    tcsetattr(when: c_int, to: *const termios) -> c_int = |error| fails(error);
    tcsendbreak(time: c_int) -> c_int = |error| fails(error);
    tcdrain() -> c_int = |error| fails(error);
    tcflush(which: c_int) -> c_int = |error| fails(error);
    tcflow(what: c_int) -> c_int = |error| fails(error);
    tcgetpgrp() -> pid_t = |error| fails(error);
    tcsetpgrp(group: pid_t) -> c_int = |error| fails(error);
    tcgetsid() -> pid_t = |error| fails(error);
    ttyname() -> *mut c_char = |error| {
        fails(error);
        ptr::null_mut()
    };
    ttyname_r(out: *mut c_char, size: size_t) -> c_int = |error| error;
}
