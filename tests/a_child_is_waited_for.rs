//! A child process is waited for without a thread, in whichever runtime, and is reaped if nobody
//! waits for it. `tests/windows.rs` has the like for Windows.

#![cfg(unix)]

mod net_support;

#[cfg(target_os = "linux")]
use std::fs;
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures::{FutureExt, future::join_all};
use net_support::{Limit, runtime, with_workers};
use ws::process::{self, Child};

fn sh(script: &str) -> io::Result<Child> {
    Child::new(process::spawn(Command::new("sh").args(["-c", script]))?)
}

/// A child that runs as long as its input is open.
fn cat() -> io::Result<(Child, ChildStdin)> {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let stdin = child.stdin.take().expect("it was asked for");
    Ok((Child::new(child)?, stdin))
}

#[test]
fn its_status_is_told_and_stays() {
    with_workers(async || {
        let mut child = sh("exit 7")?;
        assert_eq!(child.wait().await?.code(), Some(7));
        assert_eq!(child.wait().await?.code(), Some(7));
        assert_eq!(child.try_wait()?.and_then(|status| status.code()), Some(7));
        Ok(())
    });
}

// Fails if one event stands for several children, or if a wait that is dropped takes it along.
#[test]
fn many_end_at_once() {
    with_workers(async || {
        let children: Vec<_> = (0..40).map(|code| sh(&format!("exit {code}"))).collect();
        let waits = children.into_iter().map(async |child| {
            let mut child = child?;
            let _ = child.wait().now_or_never();
            ws::spawn(async move { child.wait().await }).await?
        });
        for (code, status) in join_all(waits).await.into_iter().enumerate() {
            assert_eq!(status?.code(), i32::try_from(code).ok());
        }
        Ok(())
    });
}

#[test]
fn a_wait_closes_the_childs_input() {
    with_workers(async || {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let mut stdin = child.stdin.take().expect("it was asked for");
        stdin.write_all(b"a line\n")?;
        child.stdin = Some(stdin);
        let mut child = Child::new(child)?;
        assert!(child.try_wait()?.is_none());
        assert!(child.wait().await?.success());
        Ok(())
    });
}

#[test]
fn a_child_that_is_killed_has_ended() {
    with_workers(async || {
        let (mut child, _stdin) = cat()?;
        assert!(child.wait().now_or_never().is_none());
        child.get_mut().kill()?;
        assert!(!child.wait().await?.success());
        Ok(())
    });
}

#[test]
fn another_runtime_waits_for_it_as_well() {
    let _limit = Limit::new(1);
    let (mut child, stdin) = runtime(1).block_on(async { cat().unwrap() });
    // Its runtime has ended.
    runtime(1).block_on(async {
        assert!(child.wait().now_or_never().is_none());
        drop(stdin);
        assert!(child.wait().await.unwrap().success());
    });
}

/// What Linux says of a process, `Z` for a zombie. None: it was reaped.
#[cfg(target_os = "linux")]
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether it has ended, reaped or not.
#[cfg(target_os = "linux")]
fn has_ended(id: u32) -> bool {
    state(id).is_none_or(|state| state == 'Z')
}

#[cfg(target_os = "linux")]
fn until(mut f: impl FnMut() -> bool) {
    while !f() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for its end, and until a child that comes later has reaped it.
#[cfg(target_os = "linux")]
fn is_reaped_by_the_next(id: u32) {
    // The children of the other tests may have reaped it already.
    until(|| has_ended(id));
    runtime(1).block_on(async {
        // The waker that was woken by the end of a runtime may still be under way.
        while state(id).is_some() {
            assert!(sh("exit 0").unwrap().wait().await.unwrap().success());
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn an_orphan_is_reaped_when_it_ends() {
    with_workers(async || {
        let (mut child, stdin) = cat()?;
        let id = child.get_ref().id();
        let _ = child.wait().now_or_never();
        drop(child);
        assert!(state(id).is_some());
        drop(stdin);
        ws::spawn_blocking(move || until(|| state(id).is_none())).await?;
        Ok(())
    });
}

#[cfg(target_os = "linux")]
#[test]
fn an_orphan_of_a_runtime_that_has_ended_is_reaped_by_the_next_child() {
    let _limit = Limit::new(1);
    let first = runtime(1);
    let (id, stdin) = first.block_on(async {
        let (child, stdin) = cat().unwrap();
        (child.get_ref().id(), stdin)
    });
    drop(first);
    drop(stdin);
    is_reaped_by_the_next(id);
}

// Fails if the child that is dropped after the end of its runtime is forgotten.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_dropped_after_its_runtime_is_reaped_by_the_next() {
    let _limit = Limit::new(1);
    let (child, stdin) = runtime(1).block_on(async { cat().unwrap() });
    let id = child.get_ref().id();
    // Its runtime has ended.
    drop(child);
    drop(stdin);
    is_reaped_by_the_next(id);
}

// Fails if the drop of a child does not reap those before it. Each test reaps what is left, so this
// one has a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn programs_that_only_drop_children_reap_them() {
    const ALONE: &str = "WS_TEST_ALONE";
    let _limit = Limit::new(1);
    if std::env::var_os(ALONE).is_none() {
        let test = "programs_that_only_drop_children_reap_them";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let alone = alone.args([test, "--exact"]).env(ALONE, "1").output();
        let said = alone.unwrap();
        assert!(said.status.success(), "{said:?}");
        return;
    }
    let ((first, stdin), (second, _stdin)) =
        runtime(1).block_on(async { (cat().unwrap(), cat().unwrap()) });
    // Their runtime has ended.
    let id = first.get_ref().id();
    drop(first);
    drop(stdin);
    until(|| has_ended(id));
    drop(second);
    assert_eq!(state(id), None);
}

// Fails if a drop leaves the child's ends of pipes open.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_dropped_reads_the_end_of_its_input() {
    with_workers(async || {
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let child = Child::new(child)?;
        let id = child.get_ref().id();
        drop(child);
        ws::spawn_blocking(move || until(|| state(id).is_none())).await?;
        Ok(())
    });
}

#[test]
fn its_status_is_told_without_a_runtime() {
    let _limit = Limit::new(1);
    let mut child = runtime(1).block_on(async { sh("exit 7").unwrap() });
    // Its runtime has ended, and it may still run.
    let mut cx = Context::from_waker(Waker::noop());
    let status = loop {
        match child.poll_wait(&mut cx) {
            Poll::Ready(Ok(status)) => break status,
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::Other),
            Poll::Pending => unreachable!("there is no runtime to wait in"),
        }
    };
    assert_eq!(status.code(), Some(7));
}

/// The descriptor of this process that tells of the end of a process.
#[cfg(target_os = "linux")]
fn pidfd_of(id: u32) -> Option<PathBuf> {
    let pid = format!("Pid:\t{id}\n");
    let infos = fs::read_dir("/proc/self/fdinfo").unwrap();
    let mut infos = infos.map(|info| info.unwrap().path());
    infos.find(|info| fs::read_to_string(info).is_ok_and(|text| text.contains(&pid)))
}

// Fails if the descriptor of a child that has ended is kept as long as its value.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_has_ended_has_no_descriptor() {
    let _limit = Limit::new(1);
    for is_awaited in [true, false] {
        runtime(1).block_on(async {
            let (mut child, stdin) = cat().unwrap();
            let Some(info) = pidfd_of(child.get_ref().id()) else {
                return net_support::skipped("descriptors of processes: the system has none");
            };
            drop(stdin);
            if is_awaited {
                child.wait().await.unwrap();
            } else {
                until(|| child.try_wait().unwrap().is_some());
            }
            // A child of another test may have the number for a while.
            until(|| !fs::read_to_string(&info).is_ok_and(|text| text.contains("Pid:\t-1\n")));
        });
    }
}
