//! Calls that make something of the machine, which the seed could not repeat.
//!
//! A host that makes one is told so (`refused.rs`), with the name of the call. It gets an error
//! that callers know from an older kernel, or from one that was built without it.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_char, c_int, c_long, c_uint, c_void, size_t, ssize_t};

use super::{
    fails, is_ours,
    refused::is_refused,
    system::{call, system},
};
use crate::world;

/// Whether a host asks, and so is told that it cannot.
pub(super) fn in_host(name: &str, instead: &str) -> bool {
    // Asked first, since some of these are called where nothing may be allocated.
    world::current_host().is_some() && is_refused(&format!("calls {name}"), instead)
}

const WATCH: &str = "read the file again after a time, since what changes on a host's disk is \
                     changed by the host itself";
const SIGNALS: &str = "use ws::signal, and Sim::signal in the test";
const TIMERS: &str = "use ws::time, or a timerfd";
const CLOCKS: &str = "use Sim::skew or Sim::jump in the test";
const NAME: &str = "give the host its name by Sim::host";
pub(super) const FILES: &str = "use files and folders of the host's disk, by std::fs or ws::fs";
const SHARED: &str = "use memory of the program, or sockets between hosts";
const OTHERS: &str = "use Sim::signal in the test";
const WHOLE: &str = "do it for the whole test, before the simulation begins";
const NUMBERS: &str = "keep a simulated descriptor under its own number";
pub(super) const PROCESSES: &str = "simulate what the process does by another host, or leave it \
                                    out";

/// A system call by its number that is refused: its name, and what to do instead.
pub(super) fn by_number(number: c_long) -> Option<(&'static str, &'static str)> {
    #[cfg(target_arch = "x86_64")]
    match number {
        libc::SYS_inotify_init => return Some(("inotify_init", WATCH)),
        libc::SYS_signalfd => return Some(("signalfd", SIGNALS)),
        libc::SYS_fork => return Some(("fork", PROCESSES)),
        libc::SYS_vfork => return Some(("vfork", PROCESSES)),
        libc::SYS_alarm => return Some(("alarm", TIMERS)),
        libc::SYS_pause => return Some(("pause", SIGNALS)),
        _ => {}
    }
    Some(match number {
        libc::SYS_io_uring_setup => ("io_uring_setup", "use calls of sockets and epoll"),
        libc::SYS_inotify_init1 => ("inotify_init1", WATCH),
        libc::SYS_fanotify_init => ("fanotify_init", WATCH),
        libc::SYS_signalfd4 => ("signalfd", SIGNALS),
        libc::SYS_rt_sigtimedwait => ("rt_sigtimedwait", SIGNALS),
        libc::SYS_rt_sigsuspend => ("rt_sigsuspend", SIGNALS),
        libc::SYS_clone => ("clone", PROCESSES),
        libc::SYS_clone3 => ("clone3", PROCESSES),
        libc::SYS_execve => ("execve", PROCESSES),
        libc::SYS_execveat => ("execveat", PROCESSES),
        libc::SYS_setitimer => ("setitimer", TIMERS),
        libc::SYS_timer_create => ("timer_create", TIMERS),
        libc::SYS_clock_settime => ("clock_settime", CLOCKS),
        libc::SYS_settimeofday => ("settimeofday", CLOCKS),
        libc::SYS_adjtimex => ("adjtimex", CLOCKS),
        libc::SYS_clock_adjtime => ("clock_adjtime", CLOCKS),
        libc::SYS_mount => ("mount", FILES),
        libc::SYS_umount2 => ("umount2", FILES),
        libc::SYS_move_mount => ("move_mount", FILES),
        libc::SYS_fsopen => ("fsopen", FILES),
        libc::SYS_fspick => ("fspick", FILES),
        libc::SYS_open_tree => ("open_tree", FILES),
        libc::SYS_open_by_handle_at => ("open_by_handle_at", FILES),
        libc::SYS_swapon => ("swapon", FILES),
        libc::SYS_swapoff => ("swapoff", FILES),
        libc::SYS_sethostname => ("sethostname", NAME),
        libc::SYS_setdomainname => ("setdomainname", NAME),
        libc::SYS_acct => ("acct", FILES),
        libc::SYS_quotactl => ("quotactl", FILES),
        libc::SYS_mq_open => ("mq_open", FILES),
        libc::SYS_mq_unlink => ("mq_unlink", FILES),
        libc::SYS_shmget => ("shmget", SHARED),
        libc::SYS_msgget => ("msgget", SHARED),
        libc::SYS_semget => ("semget", SHARED),
        libc::SYS_tkill => ("tkill", OTHERS),
        libc::SYS_tgkill => ("tgkill", OTHERS),
        libc::SYS_rt_sigqueueinfo => ("rt_sigqueueinfo", OTHERS),
        libc::SYS_rt_tgsigqueueinfo => ("rt_tgsigqueueinfo", OTHERS),
        libc::SYS_pidfd_send_signal => ("pidfd_send_signal", OTHERS),
        libc::SYS_unshare => ("unshare", WHOLE),
        libc::SYS_setns => ("setns", WHOLE),
        libc::SYS_reboot => ("reboot", WHOLE),
        libc::SYS_pivot_root => ("pivot_root", FILES),
        libc::SYS_perf_event_open => ("perf_event_open", "measure outside of the simulation"),
        _ => return None,
    })
}

/// An answer of a call that a host does not have.
pub(super) trait Refusal: Sized {
    const FAILED: Self;

    /// Sets `errno`. A call that is not there at all, or is not allowed, gets a message.
    fn refuses(name: &str, error: c_int, instead: &str) -> Self {
        if matches!(error, libc::ENOSYS | libc::EPERM) {
            in_host(name, instead);
        }
        fails(error);
        Self::FAILED
    }
}

impl Refusal for c_int {
    const FAILED: Self = -1;
}

impl Refusal for ssize_t {
    const FAILED: Self = -1;
}

/// What `alarm` answers, which has no error.
impl Refusal for c_uint {
    const FAILED: Self = 0;
}

impl<T> Refusal for *mut T {
    const FAILED: Self = ptr::null_mut();
}

/// Functions that fail in a host, with a list of them and what to do instead. Outside of a host
/// they are the system's.
macro_rules! refused {
    (
        $list:ident, $instead:expr;
        $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $error:expr;)*
    ) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $answer {
                use $crate::kernel::{system::system, unsupported::Refusal};

                if $crate::world::current_host().is_some() {
                    return <$answer as Refusal>::refuses(stringify!($name), $error, $instead);
                }
                let system = system!($name: fn($($type),*) -> $answer);
                // SAFETY: by the contract of libc.
                unsafe { system($($argument),*) }
            }
        )*

        /// The functions that are refused.
        pub(super) const $list: &[*const c_void] = &[$($name as *const c_void),*];
    };
}
pub(super) use refused;

refused! {
    OF_SIGNALS, SIGNALS;
    signalfd(fd: c_int, mask: *const libc::sigset_t, flags: c_int) -> c_int = libc::ENOSYS;
    sigtimedwait(set: *const libc::sigset_t, out: *mut libc::siginfo_t,
        time: *const libc::timespec) -> c_int = libc::ENOSYS;
    sigwaitinfo(set: *const libc::sigset_t, out: *mut libc::siginfo_t) -> c_int = libc::ENOSYS;
    sigsuspend(set: *const libc::sigset_t) -> c_int = libc::ENOSYS;
    sigpause(set: c_int) -> c_int = libc::ENOSYS;
    pause() -> c_int = libc::ENOSYS;
}

/// It answers the error.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigwait(set: *const libc::sigset_t, out: *mut c_int) -> c_int {
    if in_host("sigwait", SIGNALS) {
        return libc::ENOSYS;
    }
    let system = system!(sigwait: fn(*const libc::sigset_t, *mut c_int) -> c_int);
    // SAFETY: by the contract of libc.
    unsafe { system(set, out) }
}

// glibc does these by threads of its own.
refused! {
    OF_THREADS, "use ws::fs, or a pread in ws::spawn_blocking";
    aio_read(about: *mut c_void) -> c_int = libc::ENOSYS;
    aio_read64(about: *mut c_void) -> c_int = libc::ENOSYS;
    aio_write(about: *mut c_void) -> c_int = libc::ENOSYS;
    aio_write64(about: *mut c_void) -> c_int = libc::ENOSYS;
    aio_fsync(how: c_int, about: *mut c_void) -> c_int = libc::ENOSYS;
    aio_fsync64(how: c_int, about: *mut c_void) -> c_int = libc::ENOSYS;
    lio_listio(mode: c_int, list: *const *mut c_void, count: c_int,
        event: *mut c_void) -> c_int = libc::ENOSYS;
    lio_listio64(mode: c_int, list: *const *mut c_void, count: c_int,
        event: *mut c_void) -> c_int = libc::ENOSYS;
}

refused! {
    OF_FILES, WATCH;
    inotify_init() -> c_int = libc::ENOSYS;
    inotify_init1(flags: c_int) -> c_int = libc::ENOSYS;
    fanotify_init(flags: c_uint, of_files: c_uint) -> c_int = libc::ENOSYS;
}

refused! {
    OF_MEMORY, SHARED;
    shmget(key: libc::key_t, size: size_t, flags: c_int) -> c_int = libc::ENOSYS;
    msgget(key: libc::key_t, flags: c_int) -> c_int = libc::ENOSYS;
    semget(key: libc::key_t, count: c_int, flags: c_int) -> c_int = libc::ENOSYS;
}

refused! {
    OF_TIMERS, TIMERS;
    alarm(seconds: c_uint) -> c_uint = libc::ENOSYS;
    ualarm(first: c_uint, interval: c_uint) -> c_uint = libc::ENOSYS;
    setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int
        = libc::ENOSYS;
    timer_create(clock: libc::clockid_t, event: *mut libc::sigevent,
        out: *mut libc::timer_t) -> c_int = libc::ENOSYS;
}

refused! {
    OF_CLOCKS, CLOCKS;
    clock_settime(clock: libc::clockid_t, to: *const libc::timespec) -> c_int = libc::ENOSYS;
    settimeofday(to: *const libc::timeval, zone: *const c_void) -> c_int = libc::ENOSYS;
    adjtime(by: *const libc::timeval, left: *mut libc::timeval) -> c_int = libc::ENOSYS;
    adjtimex(change: *mut c_void) -> c_int = libc::ENOSYS;
    ntp_adjtime(change: *mut c_void) -> c_int = libc::ENOSYS;
    clock_adjtime(clock: libc::clockid_t, change: *mut c_void) -> c_int = libc::ENOSYS;
}

refused! {
    OF_NAMES, NAME;
    sethostname(name: *const c_char, len: size_t) -> c_int = libc::ENOSYS;
    setdomainname(name: *const c_char, len: size_t) -> c_int = libc::ENOSYS;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if !is_ours(from) && !is_ours(to) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_dup3, from, to, flags) as c_int };
    }
    if flags & !libc::O_CLOEXEC != 0 || from == to {
        return fails(libc::EINVAL);
    }
    in_host("dup3", NUMBERS);
    fails(libc::EBADF)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if from == to {
        // As `dup3` does not: it tells whether there is such a descriptor.
        // SAFETY: it takes no pointers.
        let known = unsafe { libc::fcntl(from, libc::F_GETFL) };
        return if known < 0 { -1 } else { to };
    }
    // SAFETY: it takes no pointers.
    unsafe { dup3(from, to, 0) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: &[&[*const c_void]] = &[
    &[
        dup3 as *const c_void,
        dup2 as *const c_void,
        sigwait as *const c_void,
    ],
    OF_SIGNALS,
    OF_THREADS,
    OF_FILES,
    OF_MEMORY,
    OF_TIMERS,
    OF_CLOCKS,
    OF_NAMES,
];
