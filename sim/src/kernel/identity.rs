//! The name of a host, and the number of its process.
//!
//! A host's name is that which the test gave it. Each start of its program has a new number of a
//! process, which is larger than any of the machine's: so what asks the machine for the process of
//! that number finds none, and signals reach nobody outside.
#![allow(unsafe_code)]

use std::{mem, ptr};

use libc::{c_char, c_int, c_void, pid_t, pthread_t, sigval, size_t, utsname};

use super::{
    fails,
    system::{Function, call, system},
    unsupported::in_host,
};
use crate::world;

/// The host's name. None outside of a host.
fn name() -> Option<String> {
    world::with_host(|world, host| world.name(host).to_owned()).filter(|name| !name.is_empty())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn uname(out: *mut utsname) -> c_int {
    // SAFETY: by the contract of libc.
    let done = unsafe { call()(libc::SYS_uname, out) } as c_int;
    if done == 0
        && let Some(name) = name()
    {
        // SAFETY: the system has written to it, so it is valid for writes. Any bytes are a value.
        let node = unsafe { &mut (*out).nodename };
        node.fill(0);
        // A name has no more than 64 bytes, so a NUL is left.
        for (to, from) in node.iter_mut().zip(name.bytes()) {
            *to = from as c_char;
        }
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(out: *mut c_char, len: size_t) -> c_int {
    // SAFETY: it is plain data, and zero is a value of each field.
    let mut all: utsname = unsafe { mem::zeroed() };
    // SAFETY: it is valid for writes.
    if unsafe { uname(&raw mut all) } != 0 {
        return -1;
    }
    let end = all.nodename.iter().position(|&byte| byte == 0);
    let needs = end.map_or(all.nodename.len(), |end| end + 1);
    // SAFETY: by the contract of libc; no more is copied than there is, and than there is room for.
    unsafe { ptr::copy_nonoverlapping(all.nodename.as_ptr(), out, needs.min(len)) };
    if needs > len {
        return fails(libc::ENAMETOOLONG);
    }
    0
}

/// The number of the process of the host that runs. None outside of a host.
pub(super) fn process() -> Option<pid_t> {
    world::with_host(|world, host| world.hosts.get(host).map(|host| host.process)).flatten()
}

#[unsafe(no_mangle)]
extern "C" fn getpid() -> pid_t {
    // SAFETY: it takes no pointers.
    process().unwrap_or_else(|| unsafe { call()(libc::SYS_getpid) } as pid_t)
}

/// What to do instead of a signal.
const INSTEAD: &str = "use Sim::signal in the test";

/// What a signal of the host that runs to a process answers. None outside of a host.
fn sent(name: &str, process: pid_t, signal: c_int) -> Option<c_int> {
    let own = self::process()?;
    let own = [own, -own, 0, -1].contains(&process);
    Some(match (own, signal) {
        (false, _) => fails(libc::ESRCH),
        (true, 0) => 0,
        (true, ..0 | 65..) => fails(libc::EINVAL),
        (true, _) => {
            in_host(name, INSTEAD);
            fails(libc::ENOSYS)
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn kill(process: pid_t, signal: c_int) -> c_int {
    // SAFETY: it takes no pointers.
    sent("kill", process, signal)
        .unwrap_or_else(|| unsafe { call()(libc::SYS_kill, process, signal) as c_int })
}

/// It passes its value on as it is: one word, in the register of a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigqueue(process: pid_t, signal: c_int, value: sigval) -> c_int {
    sent("sigqueue", process, signal).unwrap_or_else(|| {
        let system = system!(sigqueue: fn(pid_t, c_int, sigval) -> c_int);
        // SAFETY: by the contract of libc.
        unsafe { system(process, signal, value) }
    })
}

// All hosts have one thread, which is the test's. So a signal to it is none of a host, and one to
// another thread is of the machine.

/// A handler of a signal may call it, so it is found before `main`.
pub(super) static PTHREAD_KILL: Function = Function::new(c"pthread_kill");

/// It answers the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    type Found = unsafe extern "C" fn(pthread_t, c_int) -> c_int;

    if signal != 0 && in_host("pthread_kill", INSTEAD) {
        return libc::ENOSYS;
    }
    // SAFETY: it is the function of that name, which has this type.
    let system: Found = unsafe { mem::transmute(PTHREAD_KILL.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(thread, signal) }
}

/// The same.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int {
    if signal != 0 && in_host("pthread_sigqueue", INSTEAD) {
        return libc::ENOSYS;
    }
    let system = system!(pthread_sigqueue: fn(pthread_t, c_int, sigval) -> c_int);
    // SAFETY: by the contract of libc.
    unsafe { system(thread, signal, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int {
    if in_host("tgkill", INSTEAD) {
        return fails(libc::ENOSYS);
    }
    // SAFETY: it takes no pointers.
    unsafe { call()(libc::SYS_tgkill, process, thread, signal) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn killpg(group: pid_t, signal: c_int) -> c_int {
    match group {
        ..0 => fails(libc::EINVAL),
        group => kill(-group, signal),
    }
}

#[unsafe(no_mangle)]
extern "C" fn raise(signal: c_int) -> c_int {
    if let Some(own) = process() {
        return kill(own, signal);
    }
    // SAFETY: they take no pointers.
    unsafe {
        let (process, thread) = (call()(libc::SYS_getpid), call()(libc::SYS_gettid));
        call()(libc::SYS_tgkill, process, thread, signal) as c_int
    }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    uname as *const c_void,
    gethostname as *const c_void,
    getpid as *const c_void,
    kill as *const c_void,
    killpg as *const c_void,
    raise as *const c_void,
    sigqueue as *const c_void,
    pthread_kill as *const c_void,
    pthread_sigqueue as *const c_void,
    tgkill as *const c_void,
];
