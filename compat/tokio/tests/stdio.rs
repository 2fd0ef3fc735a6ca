//! The standard streams of a process: this program again, with pipes.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{self, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::Command,
    time::timeout,
};

const CHILD: &str = "TOKIO_TEST_STDIO_CHILD";

fn child(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "in_the_child", "--nocapture"])
        .env(CHILD, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

// Not a test by itself.
#[test]
fn in_the_child() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var(CHILD).as_deref() {
        Ok("echo") => runtime.block_on(async {
            let mut lines = BufReader::new(io::stdin()).lines();
            let (mut stdout, mut stderr) = (io::stdout(), io::stderr());
            while let Some(line) = lines.next_line().await.unwrap() {
                stdout
                    .write_all(format!("{line}!\n").as_bytes())
                    .await
                    .unwrap();
                stdout.flush().await.unwrap();
                stderr.write_all(line.as_bytes()).await.unwrap();
                stderr.flush().await.unwrap();
            }
        }),
        // Nobody waits for this write.
        Ok("write") => runtime.block_on(async {
            io::stdout().write_all(&[b'x'; 100_000]).await.unwrap();
        }),
        Ok("pending") => {
            runtime.block_on(async {
                let mut byte = [0];
                let mut stdin = io::stdin();
                let read = timeout(Duration::from_millis(10), stdin.read(&mut byte));
                assert!(read.await.is_err());
            });
            runtime.shutdown_background();
        }
        _ => {}
    }
}

#[tokio::test]
async fn lines_come_and_go() {
    let mut child = child("echo").spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in ["one", "two", "three"] {
        stdin
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        while stdout.next_line().await.unwrap().unwrap() != format!("{line}!") {}
    }
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success());
    assert_eq!(output.stderr, b"onetwothree");
}

// Fails if the end of the runtime takes a write that was accepted.
#[tokio::test]
async fn a_write_that_nobody_waits_for_is_done() {
    let output = child("write").output().await.unwrap();
    let written = output.stdout.iter().filter(|&&byte| byte == b'x').count();
    assert!(written >= 100_000, "{written}");
}

#[tokio::test]
async fn a_read_that_is_under_way_does_not_hold_up_a_shutdown_in_the_background() {
    let mut child = child("pending").spawn().unwrap();
    let _stdin = child.stdin.take();
    let output = timeout(Duration::from_secs(60), child.wait_with_output());
    assert!(output.await.unwrap().unwrap().status.success());
}

// Fails if a pipe that is handed to another process is in nonblocking mode: that process would be
// told "would block".
#[test]
fn a_pipe_that_is_given_away_blocks() {
    const NONBLOCK: u32 = 0o4000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut child = child("nothing").spawn().unwrap();
        let pipe = child.stdout.take().unwrap().into_owned_fd().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&pipe);
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        assert_eq!(flags & NONBLOCK, 0);
        drop(pipe);
        child.wait().await.unwrap();
    });
}

// Fails (it hangs) if the child's input stays open while its end is awaited.
#[test]
fn a_child_that_is_awaited_gets_the_end_of_its_input() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let cat = || {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).stdout(Stdio::piped());
            cat
        };
        assert!(cat().spawn().unwrap().wait().await.unwrap().success());
        assert!(cat().status().await.unwrap().success());
        assert!(cat().output().await.unwrap().status.success());
    });
}
