//! A child process is waited for without a thread, in whichever runtime, and is reaped if nobody
//! waits for it. `tests/windows.rs` has the like for Windows.

#![cfg(unix)]

mod net_support;

use std::io::{self, Write};
use std::process::{ChildStdin, Command, Stdio};
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

#[cfg(target_os = "linux")]
fn until(mut f: impl FnMut() -> bool) {
    while !f() {
        thread::sleep(Duration::from_millis(1));
    }
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
    // The children of the other tests may have reaped it already.
    until(|| state(id).is_none_or(|state| state == 'Z'));
    runtime(1).block_on(async {
        // The waker that was woken by the end of the first runtime may still be under way.
        while state(id).is_some() {
            assert!(sh("exit 0").unwrap().wait().await.unwrap().success());
        }
    });
}
