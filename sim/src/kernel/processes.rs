//! Child processes, which a simulated host has none of.
//!
//! A child would be a real one: it runs beside the seed, and knows nothing of the host's files,
//! time and network. So a host that starts one is told so, and gets `ENOSYS`.
//!
//! std starts a process by `posix_spawnp`, and some by `fork`.
#![allow(unsafe_code)]

use std::{
    io::{self, Write},
    mem,
};

use libc::{
    c_char, c_int, c_void, pid_t, posix_spawn_file_actions_t as Actions,
    posix_spawnattr_t as Attributes,
};

use super::{fails, system::Function};
use crate::world;

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const Actions,
    *const Attributes,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;
type Fork = unsafe extern "C" fn() -> pid_t;

static POSIX_SPAWN: Function = Function::new(c"posix_spawn");
static POSIX_SPAWNP: Function = Function::new(c"posix_spawnp");
static FORK: Function = Function::new(c"fork");

/// Whether a host asks, which is told that it cannot.
fn is_refused() -> bool {
    let refused = world::current_host().is_some();
    if refused {
        // If stderr takes nothing, the error number has to be enough.
        let _ = io::stderr().write_all(
            b"ws-sim: a simulated host starts a process, which the seed could not repeat: \
              simulate what it does by another host, or leave it out\n",
        );
    }
    refused
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const Actions,
    attributes: *const Attributes,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    if is_refused() {
        return libc::ENOSYS;
    }
    // SAFETY: it is the function of that name.
    let system: Spawn = unsafe { mem::transmute(POSIX_SPAWN.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(pid, path, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const Actions,
    attributes: *const Attributes,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    if is_refused() {
        return libc::ENOSYS;
    }
    // SAFETY: it is the function of that name.
    let system: Spawn = unsafe { mem::transmute(POSIX_SPAWNP.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(pid, file, actions, attributes, arguments, environment) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> pid_t {
    if is_refused() {
        return fails(libc::ENOSYS);
    }
    // SAFETY: it is the function of that name.
    let system: Fork = unsafe { mem::transmute(FORK.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system() }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    posix_spawn as *const c_void,
    posix_spawnp as *const c_void,
    fork as *const c_void,
];
