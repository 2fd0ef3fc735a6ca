//! The standard streams carry every byte, whichever future is dropped, and the end of the runtime
//! takes no write. The streams are those of this program again, with pipes.

mod net_support;

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};

use futures::TryStreamExt;
use net_support::{Limit, poll_once, runtime};
use ws::io::{self, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

const CHILD: &str = "WS_TEST_STDIO_CHILD";

fn child(role: &str) -> Child {
    child_with(role, Stdio::piped(), Stdio::piped())
}

fn child_with(role: &str, stdin: Stdio, stdout: Stdio) -> Child {
    Command::new(std::env::current_exe().expect("it has a path"))
        .args(["--exact", "in_the_child", "--nocapture"])
        .env(CHILD, role)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child can be started")
}

// Not a test by itself.
#[test]
fn in_the_child() {
    let Ok(role) = std::env::var(CHILD) else {
        return;
    };
    let runtime = runtime(1);
    let done = runtime.block_on(async {
        match role.as_str() {
            "echo" => echo().await,
            // Nobody waits for this write.
            "write" => io::stdout().write_all(&[b'x'; 100_000]).await,
            "pending" => pending().await,
            "flush" => flush().await,
            "late" => late().await,
            "much" => much().await,
            _ => panic!("no role {role}"),
        }
    });
    done.expect("the streams are open");
}

async fn echo() -> std::io::Result<()> {
    let mut lines = io::stdin().lines();
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    while let Some(line) = lines.try_next().await? {
        stdout.write_all(format!("{line}!\n").as_bytes()).await?;
        stdout.flush().await?;
        // Without the end of a line: the flush counts.
        stderr.write_all(line.as_bytes()).await?;
        stderr.flush().await?;
    }
    Ok(())
}

/// Reads with futures that are dropped, and tells the parent after each.
async fn pending() -> std::io::Result<()> {
    let (mut stdin, mut stderr) = (io::stdin(), io::stderr());
    let mut text = Vec::new();
    while text.len() < 20 {
        let mut bytes = [0; 4];
        assert!(poll_once(&mut stdin.read(&mut bytes)).await.is_pending());
        stderr.write_all(b".").await?;
        stderr.flush().await?;
        let len = stdin.read(&mut bytes).await?;
        text.extend_from_slice(&bytes[..len]);
    }
    stderr.write_all(&text).await?;
    stderr.flush().await
}

/// Writes what is not a line, and is not at its end before the parent has seen it.
async fn flush() -> std::io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(b"#").await?;
    stdout.flush().await?;
    assert_eq!(io::stdin().read(&mut [0]).await?, 0);
    Ok(())
}

/// More than a pipe takes.
const MUCH: usize = 1_000_000;

/// Writes much, with ends of lines, and then what is not a line.
async fn much() -> std::io::Result<()> {
    let mut stdout = io::stdout();
    for _ in 0..MUCH / 100 {
        stdout.write_all(&[&[b'x'; 99][..], b"\n"].concat()).await?;
    }
    stdout.write_all(&vec![b'y'; MUCH]).await?;
    stdout.flush().await
}

/// Writes to a pipe that nobody reads, once the parent has closed it.
async fn late() -> std::io::Result<()> {
    let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
    stderr.write_all(b"go").await?;
    stderr.flush().await?;
    assert_eq!(io::stdin().read(&mut [0]).await?, 0);
    stdout.write_all(&[b'x'; 10_000]).await?;
    let told = loop {
        if let Err(error) = stdout.write_all(b"x\n").await {
            break error;
        }
        if let Err(error) = stdout.flush().await {
            break error;
        }
    };
    assert_eq!(told.kind(), ErrorKind::BrokenPipe);
    stderr.write_all(b"told").await?;
    stderr.flush().await
}

#[test]
fn lines_come_and_go() {
    let _limit = Limit::new(1);
    let mut child = child("echo");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin.write_all(b"one\ntwo\n\nthree").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(output.stderr, b"onetwothree");
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(text.contains("one!\ntwo!\n!\nthree!\n"), "{text}");
}

// Fails if the end of the runtime takes a write that was accepted.
#[test]
fn a_write_that_nobody_waits_for_is_done() {
    let _limit = Limit::new(1);
    let output = child("write").wait_with_output().expect("it ends");
    let written = output.stdout.iter().filter(|&&byte| byte == b'x').count();
    assert!(written >= 100_000, "{written}");
}

// Fails if a flush leaves bytes in the buffer of std.
#[test]
fn a_flush_needs_no_end_of_a_line() {
    let _limit = Limit::new(1);
    let mut child = child("flush");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    // The harness of the child writes as well.
    let mut byte = [0];
    while byte != *b"#" {
        stdout.read_exact(&mut byte).expect("it writes");
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
}

// Fails if a read takes its bytes along when its future is dropped.
#[test]
fn a_read_that_is_dropped_loses_no_byte() {
    let _limit = Limit::new(1);
    let mut child = child("pending");
    let stdin = child.stdin.take().expect("it is a pipe");
    byte_by_byte(child, stdin);
}

/// The child reads each byte before the next one is written, and tells of all in the end.
fn byte_by_byte(mut child: Child, mut stdin: impl Write) {
    let mut stderr = child.stderr.take().expect("it is a pipe");
    let text: Vec<u8> = (b'a'..b'a' + 20).collect();
    for byte in &text {
        let mut dot = [0];
        stderr.read_exact(&mut dot).expect("it writes");
        assert_eq!(&dot, b".");
        stdin.write_all(&[*byte]).expect("it reads");
    }
    let mut told = Vec::new();
    stderr.read_to_end(&mut told).expect("it ends");
    assert_eq!(told, text);
    assert!(child.wait().expect("it ends").success());
}

// Fails if the error of a write is told by nobody.
#[test]
fn the_error_of_a_write_is_told() {
    let _limit = Limit::new(1);
    let mut child = child("late");
    let mut stderr = child.stderr.take().expect("it is a pipe");
    stderr.read_exact(&mut [0; 2]).expect("it writes");
    drop((child.stdout.take(), child.stdin.take()));
    let mut told = String::new();
    stderr.read_to_string(&mut told).expect("it ends");
    // The harness of the child may have lost a line as well.
    child.wait().expect("it ends");
    assert!(told.starts_with("told"), "{told}");
}

/// Our end, and that of the child, whose open file is in nonblocking mode.
#[cfg(unix)]
fn nonblocking() -> (std::os::unix::net::UnixStream, Stdio) {
    let (ours, its) = std::os::unix::net::UnixStream::pair().expect("there is room for two");
    its.set_nonblocking(true).expect("a socket has that mode");
    (ours, Stdio::from(std::os::fd::OwnedFd::from(its)))
}

// Fails if a write that would block is an error, and its bytes are lost.
#[cfg(unix)]
#[test]
fn an_output_in_nonblocking_mode_is_waited_for() {
    let _limit = Limit::new(1);
    let (mut ours, its) = nonblocking();
    let child = child_with("much", Stdio::null(), its);
    let mut bytes = Vec::new();
    ours.read_to_end(&mut bytes).expect("it writes");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let line = [&[b'x'; 99][..], b"\n"].concat();
    let first = bytes.windows(100).position(|bytes| bytes == line);
    let bytes = &bytes[first.expect("there are lines")..];
    let (lines, last) = bytes.split_at(MUCH);
    assert!(lines.chunks(100).all(|chunk| chunk == line));
    // The harness of the child writes as well.
    assert!(last[..MUCH].iter().all(|&byte| byte == b'y'));
}

// Fails if a read that would block is an error.
#[cfg(unix)]
#[test]
fn an_input_in_nonblocking_mode_is_waited_for() {
    let _limit = Limit::new(1);
    let (ours, its) = nonblocking();
    let child = child_with("pending", its, Stdio::null());
    byte_by_byte(child, ours);
}
