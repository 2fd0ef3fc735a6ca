//! The user and the groups of the process, its limits, and its session.
//!
//! They are the test's, which is the process of all hosts. A host may ask for them, and set what is
//! so already. A change is refused with `EPERM` and a message.
//!
//! A child calls some of these between `fork` and `exec`, where nothing may be allocated. So
//! outside of a host they make the system call, or call what was found before `main`: glibc's
//! functions for users change all threads.
#![allow(unsafe_code)]

use std::{mem, ptr};

use libc::{c_char, c_int, c_uint, c_void, gid_t, pid_t, rlimit, size_t, uid_t};

use super::{
    fails, identity,
    system::{Function, call},
    unsupported::{in_host, refused},
};
use crate::world;

const OF_TEST: &str = "set it for the whole test, before the simulation begins";

/// What leaves a number as it is.
const SAME: c_uint = c_uint::MAX;

fn users() -> [uid_t; 2] {
    // SAFETY: they take nothing.
    unsafe { [libc::getuid(), libc::geteuid()] }
}

fn groups() -> [gid_t; 2] {
    // SAFETY: they take nothing.
    unsafe { [libc::getgid(), libc::getegid()] }
}

/// Refuses a change of what is `now`, if it is one.
fn set(name: &str, to: &[c_uint], now: [c_uint; 2]) -> c_int {
    if to.iter().all(|to| *to == SAME || now == [*to; 2]) {
        return 0;
    }
    in_host(name, OF_TEST);
    fails(libc::EPERM)
}

/// Functions that set users or groups.
macro_rules! owners {
    ($($place:ident = $text:literal, $name:ident($($to:ident),*) of $now:expr;)*) => {
        $(
            static $place: Function = Function::new($text);

            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($to: c_uint),*) -> c_int {
                type Found = unsafe extern "C" fn($(owners!(@ $to)),*) -> c_int;

                if world::current_host().is_some() {
                    return set(stringify!($name), &[$($to),*], $now());
                }
                // SAFETY: it is the function of that name, which has this type.
                let system: Found = unsafe { mem::transmute($place.address()) };
                // SAFETY: by the contract of libc.
                unsafe { system($($to),*) }
            }
        )*

        const OWNERS: &[*const c_void] = &[$($name as *const c_void),*];

        /// Functions that are looked for before `main`.
        pub(super) static FOUND: &[&Function] = &[$(&$place,)* &SETGROUPS];
    };
    (@ $to:ident) => { c_uint };
}

owners! {
    SETUID = c"setuid", setuid(user) of users;
    SETGID = c"setgid", setgid(group) of groups;
    SETEUID = c"seteuid", seteuid(user) of users;
    SETEGID = c"setegid", setegid(group) of groups;
    SETREUID = c"setreuid", setreuid(real, user) of users;
    SETREGID = c"setregid", setregid(real, group) of groups;
    SETRESUID = c"setresuid", setresuid(real, user, saved) of users;
    SETRESGID = c"setresgid", setresgid(real, group, saved) of groups;
}

static SETGROUPS: Function = Function::new(c"setgroups");

#[unsafe(no_mangle)]
unsafe extern "C" fn setgroups(count: size_t, groups: *const gid_t) -> c_int {
    type Found = unsafe extern "C" fn(size_t, *const gid_t) -> c_int;

    if in_host("setgroups", OF_TEST) {
        return fails(libc::EPERM);
    }
    // SAFETY: it is the function of that name, which has this type.
    let system: Found = unsafe { mem::transmute(SETGROUPS.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(count, groups) }
}

refused! {
    REFUSED, OF_TEST;
    initgroups(user: *const c_char, group: gid_t) -> c_int = libc::EPERM;
    unshare(flags: c_int) -> c_int = libc::EPERM;
    setns(fd: c_int, kind: c_int) -> c_int = libc::EPERM;
    reboot(how: c_int) -> c_int = libc::EPERM;
}

// --- sessions ---

#[unsafe(no_mangle)]
unsafe extern "C" fn setsid() -> pid_t {
    if in_host("setsid", OF_TEST) {
        return fails(libc::EPERM);
    }
    // SAFETY: it takes nothing.
    unsafe { call()(libc::SYS_setsid) as pid_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setpgid(process: pid_t, group: pid_t) -> c_int {
    if in_host("setpgid", OF_TEST) {
        return fails(libc::EPERM);
    }
    // SAFETY: it takes no pointers.
    unsafe { call()(libc::SYS_setpgid, process, group) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setpgrp() -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { setpgid(0, 0) }
}

// --- limits ---

// On 64 bit systems there is one type of a limit. The number of what is limited is an `int`, or an
// `unsigned int` in glibc: a caller passes them the same way.

/// # Safety
///
/// - As libc's `prlimit`.
unsafe fn limit(
    name: &str,
    process: pid_t,
    what: c_int,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    let system = |process: pid_t, new: *const rlimit, old: *mut rlimit| {
        // SAFETY: by contract.
        unsafe { call()(libc::SYS_prlimit64, process, what, new, old) as c_int }
    };
    let Some(own) = identity::process() else {
        return system(process, new, old);
    };
    if ![0, own].contains(&process) {
        return fails(libc::ESRCH);
    }
    // SAFETY: plain data.
    let mut now: rlimit = unsafe { mem::zeroed() };
    if system(0, ptr::null(), &raw mut now) != 0 {
        return -1;
    }
    // SAFETY: by contract it is null or valid.
    let changes = unsafe { new.as_ref() }
        .is_some_and(|new| (new.rlim_cur, new.rlim_max) != (now.rlim_cur, now.rlim_max));
    if changes {
        in_host(name, OF_TEST);
        return fails(libc::EPERM);
    }
    if !old.is_null() {
        // SAFETY: by contract.
        unsafe { ptr::write(old, now) };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit(what: c_int, new: *const rlimit) -> c_int {
    if new.is_null() {
        return fails(libc::EFAULT);
    }
    // SAFETY: by the contract of libc.
    unsafe { limit("setrlimit", 0, what, new, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setrlimit64(what: c_int, new: *const rlimit) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { setrlimit(what, new) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit(
    process: pid_t,
    what: c_int,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { limit("prlimit", process, what, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn prlimit64(
    process: pid_t,
    what: c_int,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { prlimit(process, what, new, old) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: [&[*const c_void]; 3] = [
    &[
        setgroups as *const c_void,
        setsid as *const c_void,
        setpgid as *const c_void,
        setpgrp as *const c_void,
        setrlimit as *const c_void,
        setrlimit64 as *const c_void,
        prlimit as *const c_void,
        prlimit64 as *const c_void,
    ],
    OWNERS,
    REFUSED,
];
