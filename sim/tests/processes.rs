//! What a seed does to its process: how it ends it, and what it prints.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "processes/more.rs"]
mod more;

use std::{
    process::{Command, Output},
    ptr,
    sync::Mutex,
};

use ws::time::sleep;
use ws_sim::{FaultKind, Plan, Sim, millis, secs};

/// This program once more, with one test that does so only if it is told to.
fn this_program(test: &str) -> (String, Output) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args([test, "--exact", "--nocapture"]);
    let command = command.env("WS_SIM_CHILD", "1").env("RUST_BACKTRACE", "0");
    let output = command.output().unwrap();
    let text = [&*output.stdout, &*output.stderr].concat();
    (String::from_utf8(text).unwrap(), output)
}

fn is_child() -> bool {
    std::env::var_os("WS_SIM_CHILD").is_some()
}

#[test]
fn a_host_that_exits_is_a_failure_with_its_place() {
    for (test, status) in [
        ("exits_if_it_is_told_to", 0),
        ("exits_at_once_if_it_is_told_to", 3),
        ("exits_at_once_as_c_does_if_it_is_told_to", 0),
        ("exits_quickly_if_it_is_told_to", 0),
    ] {
        let (text, output) = this_program(test);
        assert!(!output.status.success(), "{text}");
        let says = format!("host \"server\" ends the process with status {status}, with seed 8.");
        assert!(text.contains(&says), "{text}");
        assert!(text.contains("the_place_that_exits"), "{text}");
    }
}

fn in_server(exit: impl FnOnce() + 'static) {
    #[inline(never)]
    fn the_place_that_exits(exit: impl FnOnce()) {
        exit();
    }
    let sim = Sim::new(8);
    sim.client("server", async { the_place_that_exits(exit) });
    sim.try_run().unwrap();
}

#[test]
fn exits_if_it_is_told_to() {
    if is_child() {
        in_server(|| std::process::exit(0));
    }
}

#[test]
fn exits_at_once_if_it_is_told_to() {
    if is_child() {
        // SAFETY: it has no contract.
        in_server(|| unsafe { libc::_exit(3) });
    }
}

unsafe extern "C" {
    fn _Exit(status: libc::c_int) -> !;
    fn quick_exit(status: libc::c_int) -> !;
}

#[test]
fn exits_at_once_as_c_does_if_it_is_told_to() {
    if is_child() {
        // SAFETY: it has no contract.
        in_server(|| unsafe { _Exit(0) });
    }
}

#[test]
fn exits_quickly_if_it_is_told_to() {
    if is_child() {
        // SAFETY: nothing is registered for it.
        in_server(|| unsafe { quick_exit(0) });
    }
}

#[test]
fn a_process_without_a_host_exits_as_ever() {
    for (test, status) in [
        ("ends_with_5", 5),
        ("ends_at_once_with_6", 6),
        ("ends_quickly_with_7", 7),
    ] {
        let (text, output) = this_program(test);
        assert_eq!(output.status.code(), Some(status), "{text}");
    }
}

#[test]
fn ends_with_5() {
    if is_child() {
        std::process::exit(5);
    }
}

#[test]
fn ends_at_once_with_6() {
    if is_child() {
        // SAFETY: it has no contract.
        unsafe { libc::_exit(6) };
    }
}

#[test]
fn ends_quickly_with_7() {
    if is_child() {
        // SAFETY: nothing is registered for it.
        unsafe { quick_exit(7) };
    }
}

/// What a call answers in a host, which is told so.
type Refused = (&'static str, fn() -> Option<i32>);

fn refused() -> Vec<Refused> {
    fn failed(answer: impl Into<i64>) -> Option<i32> {
        let error = std::io::Error::last_os_error().raw_os_error();
        (answer.into() == -1).then_some(error).flatten()
    }
    const NONE: *const libc::c_char = ptr::null();
    const TEXTS: *const *const libc::c_char = ptr::null();
    // SAFETY: nothing is read, since all are refused. Outside of a host none is called.
    let first: Vec<Refused> = unsafe {
        vec![
            ("fork", || failed(libc::fork())),
            ("vfork", || failed(vfork())),
            ("exec", || failed(libc::execv(NONE, TEXTS))),
            ("exec", || failed(libc::execve(NONE, TEXTS, TEXTS))),
            ("exec", || failed(libc::execvp(NONE, TEXTS))),
            ("exec", || failed(libc::execvpe(NONE, TEXTS, TEXTS))),
            ("exec", || failed(libc::fexecve(0, TEXTS, TEXTS))),
            ("execve", || {
                failed(libc::syscall(libc::SYS_execve, 0, 0, 0))
            }),
            ("clone3", || failed(libc::syscall(libc::SYS_clone3, 0, 0))),
            ("system", || failed(libc::system(c"exit 7".as_ptr()))),
            ("popen", || {
                failed(i64::from(libc::popen(NONE, NONE).is_null()) - 2)
            }),
            ("daemon", || failed(libc::daemon(0, 0))),
            ("posix_spawn", || {
                let no = (ptr::null(), ptr::null(), ptr::null(), ptr::null());
                Some(libc::posix_spawn(
                    ptr::null_mut(),
                    NONE,
                    no.0,
                    no.1,
                    no.2,
                    no.3,
                ))
            }),
            ("setitimer", || {
                failed(libc::setitimer(
                    libc::ITIMER_REAL,
                    ptr::null(),
                    ptr::null_mut(),
                ))
            }),
            ("timer_create", || {
                failed(libc::timer_create(0, ptr::null_mut(), ptr::null_mut()))
            }),
            ("alarm", || {
                assert_eq!(libc::alarm(1), 0);
                Some(libc::ENOSYS)
            }),
            ("clock_settime", || {
                failed(libc::clock_settime(0, ptr::null()))
            }),
            ("sethostname", || {
                failed(libc::sethostname(c"x".as_ptr(), 1))
            }),
            ("raise", || {
                assert_eq!(libc::raise(libc::SIGTERM), -1);
                Some(libc::ENOSYS)
            }),
            ("mount", || {
                failed(libc::syscall(libc::SYS_mount, 0, 0, 0, 0, 0))
            }),
        ]
    };
    let more = [
        more::of_processes(),
        more::of_names(),
        more::of_memory(),
        more::of_owners(),
        more::of_signals(),
    ];
    [first, more.concat()].concat()
}

unsafe extern "C" {
    fn vfork() -> libc::pid_t;
}

#[test]
fn what_a_host_may_not_do_is_told_with_its_place() {
    let (text, output) = this_program("does_what_it_may_not_if_it_is_told_to");
    assert!(output.status.success(), "{text}");
    let mut messages = text.split("ws-sim: host \"server\" ").skip(1);
    for (name, _) in refused() {
        let message = messages
            .next()
            .unwrap_or_else(|| panic!("{name} is not told: {text}"));
        let does = match name {
            "raise" => "calls kill".to_owned(),
            "thrd_create" => "starts a thread".to_owned(),
            name => format!("calls {name}"),
        };
        let says = format!("{does}, which seed 8 could not repeat: ");
        assert!(message.starts_with(&says), "{name}: {message}");
        assert!(
            message.contains("at ./tests/processes"),
            "{name}: {message}"
        );
    }
}

#[test]
fn does_what_it_may_not_if_it_is_told_to() {
    if !is_child() {
        return;
    }
    let sim = Sim::new(8);
    sim.client("server", async {
        for (name, call) in refused() {
            assert_eq!(call(), Some(libc::ENOSYS), "{name}");
        }
        // SAFETY: they take no pointers, or null.
        let waited = unsafe {
            [
                libc::wait(ptr::null_mut()),
                libc::waitpid(-1, ptr::null_mut(), 0),
            ]
        };
        assert_eq!(waited, [-1, -1]);
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!(error, Some(libc::ECHILD));
    });
    sim.try_run().unwrap();
}

#[test]
fn outside_of_a_host_programs_start_and_end_as_ever() {
    // SAFETY: the command ends with NUL.
    assert_eq!(unsafe { libc::system(c"exit 7".as_ptr()) }, 7 << 8);
    // SAFETY: as above. The child calls nothing that allocates.
    unsafe {
        type Exec = unsafe extern "C" fn(*const libc::c_char, *const *const libc::c_char) -> i32;
        const EXEC: (Exec, Exec) = (libc::execvp, libc::execv);
        let arguments = [
            c"sh".as_ptr(),
            c"-c".as_ptr(),
            c"exit 9".as_ptr(),
            ptr::null(),
        ];
        for (call, file) in [(EXEC.0, c"sh"), (EXEC.1, c"/bin/sh")] {
            let child = vfork();
            if child == 0 {
                call(file.as_ptr(), arguments.as_ptr());
                libc::_exit(1);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 9 << 8);
        }
        assert_eq!(libc::raise(libc::SIGCONT), 0);
    }
}

#[test]
fn a_seed_that_runs_again_prints_no_second_panic() {
    let (text, output) = this_program("fails_after_a_pause_if_it_is_told_to");
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("planned faults 1 made it fail (found in "),
        "{text}"
    );
    // One by the run that failed, and none by those that look for the smallest plan.
    let of_seeds = text
        .lines()
        .filter(|line| line.starts_with("thread 'seed "))
        .count();
    assert_eq!(of_seeds, 1, "{text}");
}

#[test]
fn fails_after_a_pause_if_it_is_told_to() {
    if is_child() {
        ws_sim::check(0..1, |sim| {
            sim.client("client", async {
                let mut last = std::time::Instant::now();
                for _ in 0..4_000 {
                    sleep(millis(10)).await;
                    assert!(last.elapsed() < millis(50), "it was away");
                    last = std::time::Instant::now();
                }
            });
            let plan = Plan::new().only([FaultKind::Pause]).hosts(["client"]);
            sim.faults(plan.every(millis(500)));
        });
    }
}

#[test]
fn a_limit_of_steps_is_not_made_smaller() {
    let runs = Mutex::new(0);
    let failed = std::panic::catch_unwind(|| {
        Sim::builder().moment_limit(1_000).check(0..1, |sim| {
            *runs.lock().unwrap() += 1;
            sim.host("server", std::future::pending::<()>);
            sim.client("client", async {
                sleep(secs(20)).await;
                while std::hint::black_box(true) {
                    ws::task::yield_now().await;
                }
            });
            sim.faults(Plan::new());
        });
    });
    let text = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(text.starts_with("no time passes: 1000 steps"), "{text}");
    assert_eq!(
        *runs.lock().unwrap(),
        2,
        "the run, and the one that is recorded"
    );
}

#[test]
fn a_tokio_of_others_is_told() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let text = "there is no reactor running, must be called from the context of a Tokio 1.x";
        assert!(std::hint::black_box(false), "{text}");
    });
    let text = sim.try_run().unwrap_err().to_string();
    assert!(
        text.contains("This tokio is not that of this ws-sim"),
        "{text}"
    );
    assert!(text.contains("cargo tree -i ws-executor"), "{text}");
}
