//! More calls that a host may not make. They reach processes and threads, names, the memory of the
//! machine, the user of the process, and signals.

use std::{mem, ptr};

use libc::{c_int, c_void};

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

/// What asks the machine's resolver.
#[cfg(target_env = "gnu")]
pub(super) fn of_names() -> Vec<Refused> {
    use libc::{c_char, hostent, size_t, socklen_t};

    unsafe extern "C" {
        fn gethostbyname(name: *const c_char) -> *mut hostent;
        fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent;
        fn gethostbyname_r(
            name: *const c_char,
            out: *mut hostent,
            room: *mut c_char,
            len: size_t,
            found: *mut *mut hostent,
            error: *mut c_int,
        ) -> c_int;
        fn gethostbyname2_r(
            name: *const c_char,
            family: c_int,
            out: *mut hostent,
            room: *mut c_char,
            len: size_t,
            found: *mut *mut hostent,
            error: *mut c_int,
        ) -> c_int;
        fn gethostbyaddr_r(
            at: *const c_void,
            at_len: socklen_t,
            family: c_int,
            out: *mut hostent,
            room: *mut c_char,
            len: size_t,
            found: *mut *mut hostent,
            error: *mut c_int,
        ) -> c_int;
        fn res_query(
            name: *const c_char,
            class: c_int,
            kind: c_int,
            out: *mut u8,
            len: c_int,
        ) -> c_int;
        fn res_search(
            name: *const c_char,
            class: c_int,
            kind: c_int,
            out: *mut u8,
            len: c_int,
        ) -> c_int;
    }

    /// What a call answers, which is given the place for what it finds, and for its own error.
    fn found(call: impl FnOnce(*mut *mut hostent, *mut c_int) -> c_int) -> Option<i32> {
        const NO_RECOVERY: c_int = 3;
        let (mut found, mut error) = (ptr::dangling_mut(), 0);
        let answer = call(&raw mut found, &raw mut error);
        (found.is_null() && error == NO_RECOVERY).then_some(answer)
    }
    const NAME: *const c_char = c"localhost".as_ptr();
    // SAFETY: there is room for what is said.
    unsafe {
        vec![
            ("gethostbyname", || {
                failed(i64::from(gethostbyname(NAME).is_null()) - 2)
            }),
            ("gethostbyname2", || {
                failed(i64::from(gethostbyname2(NAME, libc::AF_INET).is_null()) - 2)
            }),
            ("gethostbyname_r", || {
                let (mut out, mut room) = (mem::zeroed(), [0; 512]);
                let place = room.as_mut_ptr();
                found(|found, error| gethostbyname_r(NAME, &mut out, place, 512, found, error))
            }),
            ("gethostbyname2_r", || {
                let (mut out, mut room) = (mem::zeroed(), [0; 512]);
                let place = room.as_mut_ptr();
                found(|found, error| {
                    gethostbyname2_r(NAME, libc::AF_INET, &mut out, place, 512, found, error)
                })
            }),
            ("gethostbyaddr_r", || {
                let (mut out, mut room) = (mem::zeroed(), [0; 512]);
                let (place, at) = (room.as_mut_ptr(), [127_u8, 0, 0, 1]);
                let (at, family) = (at.as_ptr().cast(), libc::AF_INET);
                found(|found, error| {
                    gethostbyaddr_r(at, 4, family, &mut out, place, 512, found, error)
                })
            }),
            ("res_query", || {
                let mut out = [0; 512];
                failed(res_query(NAME, 1, 1, out.as_mut_ptr(), 512))
            }),
            ("res_search", || {
                let mut out = [0; 512];
                failed(res_search(NAME, 1, 1, out.as_mut_ptr(), 512))
            }),
        ]
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn of_names() -> Vec<Refused> {
    Vec::new()
}

/// What is shared with other processes of the machine.
pub(super) fn of_memory() -> Vec<Refused> {
    // SAFETY: they take no pointers.
    unsafe {
        vec![
            ("shmget", || {
                failed(libc::shmget(libc::IPC_PRIVATE, 4096, 0o600))
            }),
            ("msgget", || failed(libc::msgget(libc::IPC_PRIVATE, 0o600))),
            ("semget", || {
                failed(libc::semget(libc::IPC_PRIVATE, 1, 0o600))
            }),
            ("shmget", || {
                failed(libc::syscall(libc::SYS_shmget, 0, 4096, 0o600))
            }),
        ]
    }
}

/// As for a call that is not there, if it is not allowed.
fn denied(answer: impl Into<i64>) -> Option<i32> {
    (failed(answer) == Some(libc::EPERM)).then_some(libc::ENOSYS)
}

/// Calls that change the user of the process, or its rights.
pub(super) fn of_owners() -> Vec<Refused> {
    const OTHER: libc::uid_t = 12_345;
    const NONE: libc::uid_t = libc::uid_t::MAX;
    const LIMIT: libc::rlimit = libc::rlimit {
        rlim_cur: 77,
        rlim_max: 77,
    };
    // SAFETY: the limits are valid.
    unsafe {
        vec![
            ("setuid", || denied(libc::setuid(OTHER))),
            ("setgid", || denied(libc::setgid(OTHER))),
            ("seteuid", || denied(libc::seteuid(OTHER))),
            ("setegid", || denied(libc::setegid(OTHER))),
            ("setreuid", || denied(libc::setreuid(OTHER, NONE))),
            ("setregid", || denied(libc::setregid(NONE, OTHER))),
            ("setresuid", || denied(libc::setresuid(NONE, OTHER, NONE))),
            ("setresgid", || denied(libc::setresgid(OTHER, NONE, NONE))),
            ("setgroups", || denied(libc::setgroups(1, &OTHER))),
            ("setuid", || {
                denied(libc::syscall(libc::SYS_setuid, OTHER) as c_int)
            }),
            ("setrlimit", || {
                denied(libc::setrlimit(libc::RLIMIT_NOFILE, &LIMIT))
            }),
            ("prlimit", || {
                let old = ptr::null_mut();
                denied(libc::prlimit(0, libc::RLIMIT_NOFILE, &LIMIT, old))
            }),
            ("prlimit", || {
                let (call, resource) = (libc::SYS_prlimit64, libc::RLIMIT_NOFILE);
                denied(libc::syscall(call, 0, resource, &LIMIT, 0) as c_int)
            }),
            ("setsid", || denied(libc::setsid())),
            ("setpgid", || denied(libc::setpgid(0, 0))),
        ]
    }
}

/// Signals to the process and its threads, and waits for them.
pub(super) fn of_signals() -> Vec<Refused> {
    // SAFETY: they take no pointers but a thread that is there.
    unsafe {
        vec![
            ("sigqueue", || {
                let value = libc::sigval {
                    sival_ptr: ptr::null_mut(),
                };
                failed(libc::sigqueue(libc::getpid(), libc::SIGCONT, value))
            }),
            ("pthread_kill", || {
                Some(libc::pthread_kill(libc::pthread_self(), libc::SIGCONT))
            }),
            ("tgkill", || {
                let (call, process, thread) = (libc::SYS_tgkill, libc::getpid(), libc::gettid());
                failed(libc::syscall(call, process, thread, libc::SIGCONT) as c_int)
            }),
            ("sigtimedwait", || {
                let (set, no) = (mem::zeroed(), ptr::null_mut());
                let second = libc::timespec {
                    tv_sec: 1,
                    tv_nsec: 0,
                };
                failed(libc::sigtimedwait(&raw const set, no, &second))
            }),
            ("sigwaitinfo", || {
                let set = mem::zeroed();
                failed(libc::sigwaitinfo(&raw const set, ptr::null_mut()))
            }),
            ("sigwait", || {
                let (set, mut out) = (mem::zeroed(), 0);
                Some(libc::sigwait(&raw const set, &raw mut out))
            }),
            ("pause", || failed(libc::pause())),
            ("sigsuspend", || {
                let set = mem::zeroed();
                failed(libc::sigsuspend(&raw const set))
            }),
            ("rt_sigtimedwait", || {
                let call = libc::SYS_rt_sigtimedwait;
                failed(libc::syscall(call, 0, 0, 0, 8) as c_int)
            }),
        ]
    }
}

#[test]
fn outside_of_a_host_they_are_as_ever() {
    unsafe extern "C" {
        fn thrd_join(thread: libc::pthread_t, out: *mut c_int) -> c_int;
        fn _Exit(status: c_int) -> !;
    }
    extern "C" fn seven(_: *mut c_void) -> c_int {
        7
    }
    // SAFETY: places and limits are valid, and the thread is joined. The child calls nothing that
    // allocates.
    unsafe {
        let (mut thread, mut got) = (mem::zeroed(), 0);
        assert_eq!(thrd_create(&raw mut thread, seven, ptr::null_mut()), 0);
        assert_eq!((thrd_join(thread, &raw mut got), got), (0, 7));
        let child = _Fork();
        if child == 0 {
            let is_session = libc::setsid() == libc::getpid();
            let is_user = libc::setuid(libc::getuid()) == 0 && libc::setgid(libc::getgid()) == 0;
            let mut limit = mem::zeroed();
            libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit);
            limit.rlim_cur = 0;
            let is_set = libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) == 0;
            _Exit(if is_session && is_user && is_set {
                9
            } else {
                1
            });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 9 << 8);
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        let (process, thread) = (libc::getpid(), libc::pthread_self());
        assert_eq!(libc::sigqueue(process, libc::SIGCONT, value), 0);
        assert_eq!(libc::pthread_kill(thread, libc::SIGCONT), 0);
        let (set, no) = (mem::zeroed(), ptr::null_mut());
        let none = mem::zeroed();
        let waited = libc::sigtimedwait(&raw const set, no, &raw const none);
        assert_eq!(failed(waited), Some(libc::EAGAIN));
    }
}
