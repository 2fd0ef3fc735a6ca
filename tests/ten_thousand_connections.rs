//! Ten thousand connections at once, from another process: each is served, none is mixed up with
//! another, and when they are gone nothing is left of them: no task, no descriptor, no registration
//! in the epoll, no memory that a second ten thousand would not use again (H5, and the table of
//! sources in the reactor).
//!
//! What one wave of connections forgets, each forgets. Threads that stand in for others on a busy
//! machine, and vectors that grow with them, come once. So there are waves until one has left no
//! more memory than the one before, and it fails if none of [`WAVES_MAX`] does. (Beside five copies
//! of itself, a runtime of two workers had up to 17 threads at once, and waves left up to 290 KB
//! for good, which was more than a limit for all of them.)
//!
//! It was seen to fail when `Table::remove` in `reactor/src/table.rs` keeps the entry: 253 bytes of
//! each connection were left.
//!
//! Server and client are programs of their own, which `sh` starts with as many descriptors as the
//! machine allows. If that is fewer than the connections need, they are as many as fit, and the
//! test says so.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "an allocator that counts")]

mod net_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use net_support::{Folder, Limit, skipped};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{UnixListener, UnixStream};
use ws::runtime::Builder;

const CONNECTIONS: usize = 10_000;
/// How often all of them come and go, at most.
const WAVES_MAX: usize = 8;
/// Questions on each connection. The second begins when all connections have had the answer to the
/// first.
const QUESTIONS: usize = 2;
const WORKERS: usize = 2;
/// Descriptors that are none of the connections'.
const OTHERS: usize = 64;
/// Bytes for each connection that a wave leaves if it forgets nothing; less than anything that
/// would be forgotten.
const LEFT_MAX: usize = 8;

/// Says to a child what it is, to both how many connections there are, and to the client where the
/// server listens.
const ROLE: &str = "WS_TEST_CONNECTIONS";
const PATH: &str = "WS_TEST_CONNECTIONS_PATH";

struct Counting;

/// Bytes that are allocated.
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size().cast_signed(), SeqCst);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed(), SeqCst);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Descriptors of this process, and registrations in its epolls.
fn held() -> (usize, usize) {
    let (mut descriptors, mut registrations) = (0, 0);
    for entry in fs::read_dir("/proc/self/fdinfo").expect("Linux has it") {
        let path = entry.expect("it can be read").path();
        // The listing's own is gone by now.
        let Ok(info) = fs::read_to_string(path) else {
            continue;
        };
        descriptors += 1;
        registrations += info.lines().filter(|line| line.starts_with("tfd:")).count();
    }
    (descriptors, registrations)
}

/// What is asked first by the connection of this number, and what is answered.
fn question(number: usize, round: usize) -> u64 {
    (number * QUESTIONS + round) as u64
}

fn answer(question: u64) -> u64 {
    question * 3 + 1
}

/// One connection. How many questions there were.
async fn serve(mut stream: UnixStream) -> io::Result<usize> {
    let mut bytes = [0; 8];
    for asked in 0.. {
        match stream.read_exact(&mut bytes).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(asked),
            Err(error) => return Err(error),
        }
        let answer = answer(u64::from_le_bytes(bytes));
        stream.write_all(&answer.to_le_bytes()).await?;
    }
    unreachable!("it returns from the loop")
}

async fn server(connections: usize) -> io::Result<()> {
    let folder = Folder::new();
    let path = folder.path("socket");
    let listener = UnixListener::bind(&path)?;
    let mut client = Command::new(env::current_exe()?)
        .args(["--exact", "ten_thousand_connections", "--nocapture"])
        .env(ROLE, format!("client {connections}"))
        .env(PATH, &path)
        .spawn()?;
    // Says that a wave may begin, and ends when there are enough.
    let (mut begin, _) = listener.accept().await?;
    let mut live = Vec::new();
    let before = held();
    for wave in 0.. {
        begin.write_all(&[0]).await?;
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::with_capacity(connections);
        for _ in 0..connections {
            let (stream, _) = listener.accept().await?;
            let (open, most) = (Arc::clone(&open), Arc::clone(&most));
            tasks.push(ws::spawn(async move {
                most.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
                let asked = serve(stream).await;
                open.fetch_sub(1, SeqCst);
                asked
            }));
        }
        let mut asked = 0;
        for task in tasks {
            asked += task.await.expect("it does not panic")?;
        }
        assert_eq!(asked, QUESTIONS * connections, "in wave {wave}");
        assert_eq!(
            most.load(SeqCst),
            connections,
            "all at once, in wave {wave}"
        );
        let after = held();
        // The monitor may be about to read how a thread does.
        assert!(
            after.0 < before.0 + OTHERS,
            "{} descriptors after wave {wave}",
            after.0
        );
        assert_eq!(after.1, before.1, "registrations after wave {wave}");
        // A cell goes with its last reference, which a thread may be about to drop.
        while ws::runtime::Handle::current().metrics().live_tasks > 1 {
            ws::task::yield_now().await;
        }
        let now = LIVE.load(SeqCst);
        if let Some(last) = live.last()
            && now - last < (LEFT_MAX * connections).cast_signed()
        {
            break;
        }
        live.push(now);
        assert!(live.len() < WAVES_MAX, "bytes after each wave: {live:?}");
    }
    drop(begin);
    assert!(client.wait()?.success(), "the client says what went wrong");
    Ok(())
}

async fn client(connections: usize, path: String) -> io::Result<()> {
    let mut begin = UnixStream::connect(&path).await?;
    while begin.read(&mut [0]).await? == 1 {
        let mut streams = Vec::with_capacity(connections);
        for _ in 0..connections {
            streams.push(UnixStream::connect(&path).await?);
        }
        for round in 0..QUESTIONS {
            for (number, mut stream) in streams.iter().enumerate() {
                stream
                    .write_all(&question(number, round).to_le_bytes())
                    .await?;
            }
            for (number, mut stream) in streams.iter().enumerate() {
                let mut bytes = [0; 8];
                stream.read_exact(&mut bytes).await?;
                let expected = answer(question(number, round));
                assert_eq!(
                    u64::from_le_bytes(bytes),
                    expected,
                    "on connection {number}"
                );
            }
        }
    }
    Ok(())
}

/// How many descriptors a process may have, at most.
fn limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").expect("Linux has it");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(4));
    let hard = hard.expect("soft and hard limit");
    hard.parse().unwrap_or(usize::MAX)
}

#[test]
fn ten_thousand_connections() {
    if let Ok(role) = env::var(ROLE) {
        let (role, connections) = role.split_once(' ').expect("a role and a number");
        let connections = connections.parse().expect("the parent says a number");
        let _limit = Limit::new(WORKERS);
        // Without a recorder, whose memory comes with what it records, and stays.
        let runtime = Builder::new().workers(WORKERS).recorder(0).build();
        let runtime = runtime.expect("the system has a netpoll");
        let result = match role {
            "server" => runtime.run(server(connections)),
            _ => runtime.run(client(
                connections,
                env::var(PATH).expect("where it listens"),
            )),
        };
        return result.unwrap_or_else(|error| panic!("the {role}: {error}"));
    }
    let connections = CONNECTIONS.min(limit().saturating_sub(OTHERS));
    if connections < CONNECTIONS {
        skipped(format!(
            "in part: the hard limit is {} open files (ulimit -Hn), so there are {connections} connections and \
             not {CONNECTIONS}",
            limit()
        ));
    }
    let status = Command::new("sh")
        .args(["-c", "ulimit -n \"$(ulimit -Hn)\" && exec \"$0\" \"$@\""])
        .arg(env::current_exe().expect("the test is a program"))
        .args(["--exact", "ten_thousand_connections", "--nocapture"])
        .env(ROLE, format!("server {connections}"))
        .status()
        .expect("sh can be run");
    assert!(status.success(), "the server: {status}");
}
