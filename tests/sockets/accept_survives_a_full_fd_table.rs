//! A listener survives a full table of descriptors: it waits, does not spin, and serves the clients
//! that came meanwhile once there is room.
//!
//! A mutant that returns `EMFILE` fails, one that tries again at once spins for ever, and one that
//! clears the readiness of the listener never wakes up: the connections were reported already.
//!
//! The limit is the process's, and other runtimes open and close descriptors as well, so the
//! scenario runs in a child of its own for each number of workers, under `ulimit -n`.

use crate::net_support;

use std::env;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::process::Command;
use std::task::Poll;
use std::time::{Duration, Instant};

use net_support::{Folder, Limit, WORKERS};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use ws::runtime::{Builder, Sysmon};

/// Says to the child that it is one, and with how many workers.
const CHILD: &str = "WS_TEST_FULL_FD_TABLE";

const EMFILE: i32 = libc::EMFILE;

/// How often it has to find the table full before there is room.
const POLLS: usize = 5;

/// Runs the scenario in children. This process may be one of them.
fn in_children<S, F>(test: &str, scenario: S)
where
    S: Fn() -> F,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    if let Ok(workers) = env::var(CHILD) {
        let workers = workers.parse().expect("the parent says a number");
        let _limit = Limit::new(workers);
        // Without the monitor, which now and then opens a file for a moment and would find or leave
        // no room.
        let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
        return builder
            .build()
            .expect("a runtime can be built")
            .run(scenario())
            .expect("the scenario succeeds");
    }
    for workers in WORKERS {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
            .arg(env::current_exe().expect("the test is a program"))
            .args([
                "--exact",
                &format!("accept_survives_a_full_fd_table::{test}"),
                "--nocapture",
            ])
            .env(CHILD, workers.to_string())
            .output()
            .expect("sh can be run");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{workers} workers: {said}"
        );
    }
}

/// Opens files until the table is full.
fn fill_the_table() -> Vec<File> {
    let mut hoard = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => hoard.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(EMFILE), "{error}");
                return hoard;
            }
        }
    }
}

/// Polls `accept` while the table is full, makes room, and returns what is accepted then.
async fn accept_once_there_is_room<T>(
    accept: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut accept = pin!(accept);
    let mut hoard = fill_the_table();
    let begin = Instant::now();
    let mut polls = 0;
    let accepted = poll_fn(|cx| {
        polls += 1;
        if polls == POLLS {
            // Each poll but the first came after a wait of 1, 2, 4 ms and so on, and timers are
            // never early. Whoever wakes himself is here at once.
            assert!(begin.elapsed() >= Duration::from_millis(7));
            hoard.clear();
        }
        let poll = accept.as_mut().poll(cx);
        assert_eq!(poll.is_pending(), polls < POLLS);
        poll
    })
    .await;
    assert_eq!(polls, POLLS);
    accepted
}

#[test]
fn tcp() {
    in_children("tcp", async || {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(listener.local_addr()?).await?);
        }
        // The plain poll tells what there is.
        {
            let _hoard = fill_the_table();
            let polled = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await;
            let Poll::Ready(Err(error)) = polled else {
                panic!("{polled:?}")
            };
            assert_eq!(error.raw_os_error(), Some(EMFILE));
        }
        for mut client in clients {
            let (mut server, peer) = accept_once_there_is_room(listener.accept()).await?;
            assert_eq!(peer, client.local_addr()?);
            server.write_all(b"x").await?;
            client.read_exact(&mut [0]).await?;
        }
        Ok(())
    });
}

#[test]
fn unix() {
    in_children("unix", async || {
        let folder = Folder::new();
        let path = folder.path("socket");
        let listener = UnixListener::bind(&path)?;
        let mut client = UnixStream::connect(&path).await?;
        let (server, _) = accept_once_there_is_room(listener.accept()).await?;
        drop(server);
        assert_eq!(client.read(&mut [0]).await?, 0);
        Ok(())
    });
}
