//! F6: seccomp refuses one system call for each child, with EPERM and with ENOSYS, as the sandboxes
//! of containers, browsers and systemd do. The runtime does all of its work without the call, and
//! says once what it loses; or its build is an error that says what to allow.
//!
//! Seen to fail: with a refusal of `timerfd_settime` as an error of the wait, by a timer that never
//! fires; with those of `timerfd_create` and `eventfd2` as errors of the build; and with refusals
//! that are told at each look, or never (`sched/refusals.rs`). Also without the look at the netpoll
//! in the build, with EINVAL of `timerfd_settime` as an error, with a failure of the netpoll that
//! only `tracing` hears of, and without an advice for EINVAL. With an advice for refused threads
//! that names `clone` alone. With a child that is looked after at SIGCHLD alone. And with a line
//! that is told once although stderr has no room for it, or that needs `poll`.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    process::{Command, Stdio},
    time::Duration,
};

use futures::FutureExt;
use ws::{
    process::{self, Child},
    runtime::Builder,
    time::sleep,
};

use crate::support::{before_start, child, seccomp, work};

/// What is expected of a call that is refused.
enum Then {
    /// All goes on, and the line on stderr says that the first is refused, and has the second.
    Told(&'static str, &'static str),
    /// The same, if the runtime came to make the call: that depends on which thread slept where.
    ToldIfMade(&'static str, &'static str),
    /// All goes on, and nothing is said.
    Nothing,
    /// The build fails with words that have this.
    Fails(&'static str),
}
use Then::{Fails, Nothing, Told, ToldIfMade};

/// The calls that are made and that are not plainly needed. (If a filter refuses `rseq`, glibc
/// ends the process at its next thread.)
const CALLS: &[(&str, libc::c_long, Then)] = &[
    (
        "timerfd_create",
        libc::SYS_timerfd_create,
        Told("a timerfd", "whole millisecond"),
    ),
    (
        "timerfd_settime",
        libc::SYS_timerfd_settime,
        Told("a timerfd", "whole millisecond"),
    ),
    (
        "eventfd2",
        libc::SYS_eventfd2,
        Told("eventfd2", "a pipe wakes"),
    ),
    (
        "pidfd_open",
        libc::SYS_pidfd_open,
        Told("pidfd_open", "SIGCHLD"),
    ),
    (
        "sched_setaffinity",
        libc::SYS_sched_setaffinity,
        ToldIfMade("the set of CPUs of a thread", "CPU of its waker"),
    ),
    (
        "sched_getaffinity",
        libc::SYS_sched_getaffinity,
        Told("the set of CPUs of a thread", "CPU of its waker"),
    ),
    (
        "clock_gettime",
        libc::SYS_clock_gettime,
        ToldIfMade("clock_gettime of a thread", "how long it made no progress"),
    ),
    ("getpriority", libc::SYS_getpriority, Nothing),
    ("setpriority", libc::SYS_setpriority, Nothing),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask, Nothing),
    ("sigaltstack", libc::SYS_sigaltstack, Nothing),
    ("set_robust_list", libc::SYS_set_robust_list, Nothing),
    ("prctl", libc::SYS_prctl, Nothing),
    ("madvise", libc::SYS_madvise, Nothing),
    ("getrandom", libc::SYS_getrandom, Nothing),
    ("membarrier", libc::SYS_membarrier, Nothing),
    ("sched_yield", libc::SYS_sched_yield, Nothing),
    ("io_uring_setup", libc::SYS_io_uring_setup, Nothing),
    ("epoll_pwait2", libc::SYS_epoll_pwait2, Nothing),
    ("splice", libc::SYS_splice, Nothing),
    (
        "epoll_create1",
        libc::SYS_epoll_create1,
        Fails("must allow `epoll_create1`"),
    ),
];

const TEST: &str = "a_sandbox_refuses_calls::one_call_in_turn";

#[test]
fn one_call_in_turn() {
    if let Some(order) = child::order() {
        let mut numbers = order
            .split(' ')
            .map(|number| number.parse::<i32>().expect("a number"));
        let mut next = || numbers.next().expect("a call and an error");
        seccomp::refuse(&[next().into()], next()).expect("a filter can be set");
        work::all(&Builder::new().workers(2));
        return;
    }
    for (name, call, then) in CALLS {
        for error in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            if error == libc::EACCES && matches!(then, Nothing | Fails(_)) {
                // Not all of std and of the C library take it for a refusal.
                continue;
            }
            let said = child::run(TEST, &format!("{call} {error}"), |_| ());
            let why = io::Error::from_raw_os_error(error);
            let is_exact = |line: &String, what: &str, words: &str| {
                line.contains(&format!("{what} is refused ({why}), so")) && line.contains(words)
            };
            let told: Vec<_> = said
                .told
                .iter()
                .filter(|line| line.contains("refuse"))
                .collect();
            let context = format!("{name} with error {error}: {said:?}");
            match then {
                Told(what, words) => {
                    assert!(said.failed.is_empty(), "{context}");
                    assert_eq!(told.len(), 1, "once: {context}");
                    assert!(is_exact(told[0], what, words), "{context}");
                }
                ToldIfMade(what, words) => {
                    assert!(said.failed.is_empty() && told.len() <= 1, "{context}");
                    let mut told = told.iter();
                    assert!(told.all(|line| is_exact(line, what, words)), "{context}");
                }
                Nothing => assert!(said.failed.is_empty() && told.is_empty(), "{context}"),
                Fails(words) => {
                    assert_eq!(said.failed.len(), 1, "{context}");
                    assert!(said.failed[0].contains(words), "{context}");
                }
            }
        }
    }
}

/// A refusal with another error is one as well.
#[test]
fn a_timer_that_cannot_be_set() {
    const TEST: &str = "a_sandbox_refuses_calls::a_timer_that_cannot_be_set";
    if child::order().is_some() {
        let refused = seccomp::refuse(&[libc::SYS_timerfd_settime], libc::EINVAL);
        refused.expect("a filter can be set");
        work::all(&Builder::new().workers(2));
        return;
    }
    let said = child::run(TEST, "EINVAL", |_| ());
    assert!(said.failed.is_empty(), "{said:?}");
    assert_eq!(said.told.len(), 1, "once: {said:?}");
    assert!(said.told[0].contains("whole millisecond"), "{said:?}");
}

/// The calls by which a thread waits for sockets: the C library decides which one.
const WAITS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
];

#[test]
fn no_wait_for_sockets() {
    const TEST: &str = "a_sandbox_refuses_calls::no_wait_for_sockets";
    if let Some(order) = child::order() {
        let error = order.parse().expect("a number");
        seccomp::refuse(WAITS, error).expect("a filter can be set");
        work::all(&Builder::new().workers(2));
        return;
    }
    for error in [libc::EPERM, libc::ENOSYS] {
        let said = child::run(TEST, &error.to_string(), |_| ());
        assert_eq!(said.failed.len(), 1, "{said:?}");
        assert!(said.failed[0].contains("`epoll_pwait`"), "{said:?}");
    }
}

/// No thread of the process takes SIGCHLD, and no descriptor tells of a child: its end is seen all
/// the same. Also where the system does not tell which signals a thread blocks.
#[test]
fn a_child_without_a_descriptor_and_without_a_signal() {
    const TEST: &str = "a_sandbox_refuses_calls::a_child_without_a_descriptor_and_without_a_signal";
    if let Some(order) = child::order() {
        let calls = order.split(' ').map(|call| call.parse().expect("a number"));
        let calls: Vec<_> = calls.collect();
        seccomp::refuse(&calls, libc::EPERM).expect("a filter can be set");
        let runtime = Builder::new().workers(2).build();
        let ended = runtime.expect("neither is needed").block_on(async {
            let mut cat = Command::new("cat");
            let mut cat = process::spawn(cat.stdin(Stdio::piped()))?;
            let input = cat.stdin.take();
            let mut cat = Child::new(cat)?;
            assert!(cat.wait().now_or_never().is_none(), "it reads its input");
            drop(input);
            assert!(cat.wait().await?.success());
            Ok(())
        });
        work::row("child", ended);
        return;
    }
    let descriptor = libc::SYS_pidfd_open.to_string();
    let both = format!("{descriptor} {}", libc::SYS_rt_sigprocmask);
    for calls in [descriptor, both] {
        let said = child::run(TEST, &calls, |command| before_start(command, block_sigchld));
        assert!(said.went_well("child"), "{said:?}");
    }
}

/// In the thread that starts the program, and so in all of them.
fn block_sigchld() -> io::Result<()> {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for a write of one set.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: the pointers are valid for a read of one set, and null.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// The calls by which a thread asks what a write to stderr would do: the C library decides which.
const ASKS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
];

/// A report is written without that question.
#[test]
fn no_question_about_stderr() {
    const TEST: &str = "a_sandbox_refuses_calls::no_question_about_stderr";
    if let Some(order) = child::order() {
        let error = order.parse().expect("a number");
        let calls = [ASKS, &[libc::SYS_timerfd_create]].concat();
        seccomp::refuse(&calls, error).expect("a filter can be set");
        let builder = Builder::new().workers(1);
        drop(builder.build().expect("neither is needed"));
        work::row("build", Ok(()));
        return;
    }
    for error in [libc::EPERM, libc::ENOSYS] {
        let said = child::run(TEST, &error.to_string(), |_| ());
        assert_eq!(said.told.len(), 1, "{said:?}");
        assert!(said.told[0].contains("whole millisecond"), "{said:?}");
    }
}

/// The stderr of this process is a pipe from now on, and it is full. Gives back the other end, and
/// how many bytes are in there. A read of that end does not wait.
fn full_stderr() -> io::Result<(File, usize)> {
    let (reader, writer) = io::pipe()?;
    // SAFETY: the call has no pointers. Both are open, and nobody owns the descriptor of stderr.
    if unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has no pointers.
    let room = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_GETPIPE_SZ) };
    let room = usize::try_from(room).map_err(|_| io::Error::last_os_error())?;
    io::stderr().write_all(&vec![b'x'; room])?;
    // SAFETY: the call has no pointers. No other process has this end of the pipe.
    if unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((File::from(OwnedFd::from(reader)), room))
}

/// What is told once in a process is not lost where stderr has no room at that moment.
#[test]
fn it_is_told_when_stderr_has_room() {
    const TEST: &str = "a_sandbox_refuses_calls::it_is_told_when_stderr_has_room";
    if child::order().is_some() {
        let (mut reader, bytes) = full_stderr().expect("a pipe can be had");
        seccomp::refuse(&[libc::SYS_timerfd_create], libc::EPERM).expect("a filter can be set");
        let runtime = Builder::new().workers(1).build().expect("it is not needed");
        let mut text = vec![0; bytes];
        reader.read_exact(&mut text).expect("the pipe was full");
        assert!(text.iter().all(|&byte| byte == b'x'), "it was told before");
        text.clear();
        let handle = runtime.handle().clone();
        // The monitor looks as long as something runs.
        let looks = runtime.spawn(async move {
            let until = handle.metrics().monitor_looks + 100;
            while handle.metrics().monitor_looks < until {
                std::thread::yield_now();
            }
        });
        runtime.block_on(looks).expect("it runs");
        let end = reader.read_to_end(&mut text).map_err(|error| error.kind());
        assert_eq!(end, Err(io::ErrorKind::WouldBlock));
        let text = String::from_utf8(text).expect("a line");
        let told = text.matches("ws: the system refuses ").count();
        work::row(&format!("told {told}"), Ok(()));
        return;
    }
    let said = child::run(TEST, "full", |_| ());
    assert!(said.went_well("told 1"), "{said:?}");
}

/// What is refused after the build is said on stderr.
#[test]
fn no_wait_for_sockets_later_on() {
    const TEST: &str = "a_sandbox_refuses_calls::no_wait_for_sockets_later_on";
    if child::order().is_some() {
        let runtime = Builder::new().workers(2).build().expect("all is allowed");
        seccomp::refuse(WAITS, libc::EPERM).expect("a filter can be set");
        runtime.block_on(async {
            ws::spawn(sleep(Duration::from_millis(2)))
                .await
                .expect("a timer needs no socket");
        });
        work::row("timer", Ok(()));
        return;
    }
    let said = child::run(TEST, "EPERM", |_| ());
    assert!(said.went_well("timer"), "{said:?}");
    let is_told = |line: &String| line.contains("the netpoll failed: no socket is heard of: ");
    assert!(said.told.iter().any(is_told), "{said:?}");
}

/// A thread needs `clone3`, or `clone` if the system has none: glibc tries the second after ENOSYS
/// alone.
#[test]
fn clone3_is_answered_with_enosys() {
    const TEST: &str = "a_sandbox_refuses_calls::clone3_is_answered_with_enosys";
    if let Some(order) = child::order() {
        let error = order.parse().expect("a number");
        seccomp::refuse(&[libc::SYS_clone3], error).expect("a filter can be set");
        work::all(&Builder::new().workers(2));
        return;
    }
    let said = child::run(TEST, &libc::ENOSYS.to_string(), |_| ());
    assert!(said.failed.is_empty(), "{said:?}");
    if cfg!(target_env = "gnu") {
        let said = child::run(TEST, &libc::EPERM.to_string(), |_| ());
        assert!(
            said.failed[0].contains("allow `clone3` or answer it with ENOSYS"),
            "{said:?}"
        );
    }
}

/// Other errors than those of `one_call_in_turn`: the error of the build still says what to do.
#[test]
fn an_advice_for_each_error() {
    const TEST: &str = "a_sandbox_refuses_calls::an_advice_for_each_error";
    if let Some(order) = child::order() {
        let (call, error) = order.split_once(' ').expect("a call and an error");
        let call = call.parse().expect("a number");
        let refused = seccomp::refuse(&[call], error.parse().expect("a number"));
        refused.expect("a filter can be set");
        work::all(&Builder::new().workers(2));
        return;
    }
    let refused: &[(libc::c_long, libc::c_int, &str)] = &[
        (
            libc::SYS_epoll_create1,
            libc::EINVAL,
            "must allow `epoll_create1`",
        ),
        (libc::SYS_eventfd2, libc::EINVAL, "and `eventfd2`"),
        (libc::SYS_clone3, libc::EINVAL, "answer it with ENOSYS"),
        (
            libc::SYS_clone3,
            libc::EAGAIN,
            "with musl, a sandbox that refuses `clone`",
        ),
        (libc::SYS_mmap, libc::EPERM, "must allow `mmap`, `mprotect`"),
        (
            libc::SYS_mprotect,
            libc::EPERM,
            "must allow `mmap`, `mprotect`",
        ),
    ];
    let of_threads = [libc::SYS_clone3, libc::SYS_mmap, libc::SYS_mprotect];
    for &(call, error, words) in refused {
        if of_threads.contains(&call) && !cfg!(target_env = "gnu") {
            // musl does not call `clone3`, and has one error for all that a thread needs.
            continue;
        }
        let said = child::run(TEST, &format!("{call} {error}"), |_| ());
        assert_eq!(said.failed.len(), 1, "{call}, {error}: {said:?}");
        assert!(said.failed[0].contains(words), "{said:?}");
    }
}

/// All that is not needed is refused at once, and after the runtime was built.
#[test]
fn a_program_locks_itself_up_after_its_start() {
    const TEST: &str = "a_sandbox_refuses_calls::a_program_locks_itself_up_after_its_start";
    if child::order().is_some() {
        let refuse = || {
            let told_or_not = CALLS.iter().filter(|(.., then)| !matches!(then, Fails(_)));
            let calls: Vec<_> = told_or_not.map(|&(_, call, _)| call).collect();
            seccomp::refuse(&calls, libc::EPERM).expect("a filter can be set");
        };
        let builder = Builder::new().workers(2);
        let runtime = builder.build().expect("nothing is refused yet");
        // Its timer was set before, and a task waits for it.
        let wait = async { sleep(Duration::from_millis(2)).await };
        runtime.block_on(async { ws::spawn(wait).await.expect("it waits") });
        let waits = runtime.spawn(async { sleep(Duration::from_secs(3600)).await });
        refuse();
        work::in_runtime(runtime);
        drop(waits);
        work::all(&Builder::new().workers(2));
        return;
    }
    let said = child::run(TEST, "all", |_| ());
    assert!(said.failed.is_empty(), "{said:?}");
    let told: Vec<_> = said
        .told
        .iter()
        .filter(|line| line.contains("refuse"))
        .collect();
    let count = |words: &str| told.iter().filter(|line| line.contains(words)).count();
    for words in ["whole millisecond", "SIGCHLD", "a pipe wakes"] {
        assert_eq!(count(words), 1, "{words}: {said:?}");
    }
}
