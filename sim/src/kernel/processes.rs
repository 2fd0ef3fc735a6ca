//! Child processes, which a simulated host has none of, and the end of the process.
//!
//! A child would be a real one: it runs beside the seed, and knows nothing of the host's files,
//! time and network. So a host that starts one is told so, and gets `ENOSYS`. So does one that
//! would put another program in the place of all hosts, by `exec`. A host that waits for a child
//! has none (`ECHILD`): the children of the process are the test's.
//!
//! std starts a process by `posix_spawnp`, and some by `fork`. Before that it says which of its
//! pipes the child gets. libc takes no number of a simulated one for that, and its error would
//! tell nothing: so in a host any number is taken.
//!
//! `exit` and its kin cannot return, and would end all tests of the program: with 0, those that
//! fail would count as passed. So they end the process as a failure, with the host, the seed and
//! the place.
#![allow(unsafe_code)]

use std::{mem, ptr};

use libc::{
    c_char, c_int, c_void, id_t, idtype_t, pid_t, posix_spawn_file_actions_t as Actions,
    posix_spawnattr_t as Attributes, rusage, siginfo_t,
};

use super::{
    fails,
    system::{Function, call, ends_process, system},
    unsupported::{PROCESSES, in_host, refused},
};
use crate::world;

type Texts = *const *const c_char;

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut Actions,
    from: c_int,
    to: c_int,
) -> c_int {
    if world::current_host().is_some() {
        return 0;
    }
    let system = system!(
        posix_spawn_file_actions_adddup2: fn(*mut Actions, c_int, c_int) -> c_int
    );
    // SAFETY: by the contract of libc.
    unsafe { system(actions, from, to) }
}

/// Functions that start a program, and answer the error.
macro_rules! spawns {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pid: *mut pid_t,
            path: *const c_char,
            actions: *const Actions,
            attributes: *const Attributes,
            arguments: Texts,
            environment: Texts,
        ) -> c_int {
            if in_host(stringify!($name), PROCESSES) {
                return libc::ENOSYS;
            }
            let system = system!($name: fn(
                *mut pid_t, *const c_char, *const Actions, *const Attributes, Texts, Texts
            ) -> c_int);
            // SAFETY: by the contract of libc.
            unsafe { system(pid, path, actions, attributes, arguments, environment) }
        }
    )*};
}

spawns! { posix_spawn posix_spawnp }

// `clone` takes the last three as variadic ones. The C ABIs of Linux pass those as they pass
// others.
refused! {
    STARTS, PROCESSES;
    fork() -> pid_t = libc::ENOSYS;
    _Fork() -> pid_t = libc::ENOSYS;
    forkpty(terminal: *mut c_int, name: *mut c_char, how: *const libc::termios,
        size: *const libc::winsize) -> pid_t = libc::ENOSYS;
    system(command: *const c_char) -> c_int = libc::ENOSYS;
    popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE = libc::ENOSYS;
    clone(run: *const c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent: *mut pid_t, locals: *mut c_void, child: *mut pid_t) -> c_int = libc::ENOSYS;
    daemon(stays: c_int, keeps: c_int) -> c_int = libc::ENOSYS;
}

/// Outside of a host it is `fork`, as POSIX allows. A wrapper of `vfork` itself is not possible:
/// the child must not return from the function that called it.
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    if in_host("vfork", PROCESSES) {
        return fails(libc::ENOSYS);
    }
    // SAFETY: by the contract of libc.
    unsafe { fork() }
}

// --- another program in the place of this one ---

// After a `fork` these are called where nothing may be allocated. So they make the system call, or
// call what was found before `main`.

unsafe extern "C" {
    static environ: Texts;
}

pub(super) static EXECVPE: Function = Function::new(c"execvpe");

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    if in_host("exec", PROCESSES) {
        return fails(libc::ENOSYS);
    }
    type Execvpe = unsafe extern "C" fn(*const c_char, Texts, Texts) -> c_int;
    // SAFETY: it is the function of that name.
    let system: Execvpe = unsafe { mem::transmute(EXECVPE.address()) };
    // SAFETY: by the contract of libc.
    unsafe { system(file, arguments, environment) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { execvpe(file, arguments, environ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    if in_host("exec", PROCESSES) {
        return fails(libc::ENOSYS);
    }
    // SAFETY: by the contract of libc.
    unsafe { call()(libc::SYS_execve, path, arguments, environment) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { execve(path, arguments, environ) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    dir: c_int,
    path: *const c_char,
    arguments: Texts,
    environment: Texts,
    flags: c_int,
) -> c_int {
    if in_host("exec", PROCESSES) {
        return fails(libc::ENOSYS);
    }
    let number = libc::SYS_execveat;
    // SAFETY: by the contract of libc.
    unsafe { call()(number, dir, path, arguments, environment, flags) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int {
    let of_fd = libc::AT_EMPTY_PATH;
    // SAFETY: by the contract of libc.
    unsafe { execveat(fd, c"".as_ptr(), arguments, environment, of_fd) }
}

// --- the end of a child ---

/// Options of a wait that Linux alone has.
const OF_LINUX: c_int = libc::__WNOTHREAD | libc::__WALL | libc::__WCLONE;

#[unsafe(no_mangle)]
unsafe extern "C" fn wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    if world::current_host().is_some() {
        const KNOWN: c_int = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED | OF_LINUX;

        return fails(match pid {
            _ if options & !KNOWN != 0 => libc::EINVAL,
            pid_t::MIN => libc::ESRCH,
            _ => libc::ECHILD,
        });
    }
    // SAFETY: by the contract of libc.
    unsafe { call()(libc::SYS_wait4, pid, status, options, usage) as pid_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: by the contract of libc.
    unsafe { wait4(pid, status, options, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: by the contract of libc.
    unsafe { waitpid(-1, status, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitid(
    kind: idtype_t,
    id: id_t,
    out: *mut siginfo_t,
    options: c_int,
) -> c_int {
    if world::current_host().is_some() {
        const ENDS: c_int = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        const KNOWN: c_int = ENDS | libc::WNOHANG | libc::WNOWAIT | OF_LINUX;

        let id = id.cast_signed();
        let is_wrong = options & !KNOWN != 0 || options & ENDS == 0;
        return fails(match kind {
            _ if is_wrong => libc::EINVAL,
            libc::P_PID if id <= 0 => libc::EINVAL,
            libc::P_PGID | libc::P_PIDFD if id < 0 => libc::EINVAL,
            // No descriptor of a host is a process.
            libc::P_PIDFD => libc::EBADF,
            libc::P_ALL | libc::P_PID | libc::P_PGID => libc::ECHILD,
            _ => libc::EINVAL,
        });
    }
    let no_usage = ptr::null_mut::<rusage>();
    // SAFETY: by the contract of libc.
    unsafe { call()(libc::SYS_waitid, kind, id, out, options, no_usage) as c_int }
}

// --- the end of the process ---

/// Tells of a host that ends the process. Nothing if no host does.
fn no_host_exits(status: c_int) {
    if world::current_host().is_none() {
        return;
    }
    let host = world::with_host(|world, host| world.name(host).to_owned());
    let seed = world::with(|world| world.seed);
    ends_process(&format!(
        "ws-sim: host {:?} ends the process with status {status}, with seed {}.\nThat would end all \
         hosts and all tests: let its program return an error, or panic. It exits here:",
        host.unwrap_or_default(),
        seed.unwrap_or_default(),
    ))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exit(status: c_int) -> ! {
    no_host_exits(status);
    let system = system!(exit: fn(c_int) -> !);
    // SAFETY: by the contract of libc.
    unsafe { system(status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    no_host_exits(status);
    loop {
        // SAFETY: by the contract of libc. The call does not return.
        unsafe { call()(libc::SYS_exit_group, status) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: by the contract of libc.
    unsafe { _exit(status) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn quick_exit(status: c_int) -> ! {
    no_host_exits(status);
    let system = system!(quick_exit: fn(c_int) -> !);
    // SAFETY: by the contract of libc.
    unsafe { system(status) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: [&[*const c_void]; 2] = [
    &[
        posix_spawn as *const c_void,
        posix_spawnp as *const c_void,
        posix_spawn_file_actions_adddup2 as *const c_void,
        vfork as *const c_void,
        execvpe as *const c_void,
        execvp as *const c_void,
        execve as *const c_void,
        execv as *const c_void,
        execveat as *const c_void,
        fexecve as *const c_void,
        wait4 as *const c_void,
        waitpid as *const c_void,
        wait as *const c_void,
        waitid as *const c_void,
        exit as *const c_void,
        _exit as *const c_void,
        _Exit as *const c_void,
        quick_exit as *const c_void,
    ],
    STARTS,
];
