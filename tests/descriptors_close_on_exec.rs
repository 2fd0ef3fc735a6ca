//! A program that is started by another gets none of the runtime's descriptors: every one of them
//! is closed by `exec`, those of the netpoll, of its timer, of sockets of every kind, accepted ones
//! included, and of signals. A process may fork and then exec, as `std::process::Command` does, at
//! any time and on any thread.
//!
//! It fails when a descriptor is made without `CLOEXEC`: `timerfd_create` in `reactor/src/sys.rs`,
//! say.
//!
//! A table of descriptors belongs to a process, so this is a file with one test.

#![cfg(target_os = "linux")]

mod net_support;

use std::{collections::BTreeSet, fs, io, process::Command};

use net_support::{Folder, Limit, WORKERS, poll_once, runtime, tcp_pair};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket, UnixDatagram, UnixListener, UnixStream},
    task,
};

/// What a program that is started now finds open.
fn inherited() -> BTreeSet<String> {
    let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output();
    let output = output.expect("ls can be run");
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .expect("paths are text")
        .lines()
        .filter_map(|line| line.split_once(" -> ").map(|(_, target)| target))
        // Its own: the folder that it lists, and the pipes for its output.
        .filter(|target| !target.starts_with("/proc/") && !target.starts_with("pipe:"))
        .map(str::to_owned)
        .collect()
}

/// The descriptors of this process that `exec` leaves open, beside those that it was started with.
fn left_open() -> Vec<String> {
    /// `O_CLOEXEC`, in the octal of `fdinfo`.
    const CLOEXEC: u32 = 0o2_000_000;
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").expect("Linux has it") {
        let number = entry.expect("it can be read").file_name();
        let number = number.to_str().expect("a number");
        // The one of this listing is gone again.
        let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.expect("it is there").trim(), 8).expect("octal");
        if flags & CLOEXEC == 0 {
            left.push(number.to_owned());
        }
    }
    left
}

async fn scenario(
    folder: &Folder,
    before: Vec<String>,
    listed: BTreeSet<String>,
) -> io::Result<()> {
    let mut open = Vec::<Box<dyn std::any::Any>>::new();
    let tcp = TcpListener::bind("127.0.0.1:0").await?;
    let (mut client, mut server) = tcp_pair().await?;
    client.write_all(b"x").await?;
    server.read_exact(&mut [0]).await?;
    let unix = UnixListener::bind(folder.path("socket"))?;
    let connected = UnixStream::connect(folder.path("socket")).await?;
    let accepted = unix.accept().await?;
    open.push(Box::new((tcp, client, server, unix, connected, accepted)));
    open.push(Box::new(UdpSocket::bind("127.0.0.1:0").await?));
    open.push(Box::new(UnixDatagram::pair()?));
    open.push(Box::new(UnixStream::pair()?));
    let mut signal = Box::pin(ws::signal::ctrl_c());
    assert!(poll_once(&mut signal).await.is_pending());
    open.push(Box::new(signal));
    // All workers have been there, and the monitor.
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            ws::spawn(async {
                ws::time::sleep(std::time::Duration::from_micros(50)).await;
                task::yield_now().await;
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends");
    }
    assert_eq!(left_open(), before);
    assert_eq!(inherited(), listed);
    // From jobs, while all goes on.
    let jobs: Vec<_> = (0..4).map(|_| ws::spawn_blocking(inherited)).collect();
    for job in jobs {
        assert_eq!(job.await.expect("it ends"), listed);
    }
    drop(open);
    Ok(())
}

#[test]
fn no_child_inherits_a_descriptor() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let folder = Folder::new();
        let (before, listed) = (left_open(), inherited());
        let answer = runtime(workers).run_local(scenario(&folder, before, listed));
        answer.unwrap_or_else(|error| panic!("with {workers} workers: {error}"));
    }
}
