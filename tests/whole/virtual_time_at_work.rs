//! `#[ws::test(paused)]` as a user meets it: programs with sockets and long waits, and the seed
//! that a failing test prints.
//!
//! It was seen to fail when the netpoll is not looked at before the clock jumps, and when a failure
//! prints nothing. Also when a seed that cannot be printed is a panic.

#[cfg(unix)]
mod unix;

use crate::net_support;

use std::env;
use std::io;
use std::process::{Command, Output, Stdio};
use std::rc::Rc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use net_support::Limit;
use ws::io::AsyncReadExt;
use ws::net::{TcpListener, TcpStream};
use ws::time::{Instant, interval, sleep, timeout};

const HOUR: Duration = Duration::from_secs(3600);
/// Names the test that a child process is to fail, and how.
const FAIL: &str = "WS_VIRTUAL_TIME_FAIL";

/// A client that tries again, each time after twice as long.
async fn retries(mut attempts_to_fail: u32) -> (u32, Duration) {
    let start = Instant::now();
    let mut pause = Duration::from_secs(1);
    let mut attempts = 1;
    while attempts_to_fail > 0 {
        attempts_to_fail -= 1;
        sleep(pause).await;
        pause *= 2;
        attempts += 1;
    }
    (attempts, start.elapsed())
}

#[ws::test(paused)]
async fn backing_off_for_a_day_takes_no_time() {
    let (attempts, took) = retries(16).await;
    assert_eq!((attempts, took.as_secs()), (17, (1 << 16) - 1));
}

#[ws::test(paused, seed = 7)]
async fn it_need_not_be_send() -> io::Result<()> {
    let kept = Rc::new(Instant::now());
    sleep(HOUR).await;
    assert_eq!(kept.elapsed(), HOUR);
    Ok(())
}

#[ws::test(paused)]
async fn a_producer_and_a_slow_consumer() {
    let (mut send, receive) = mpsc::channel(4);
    let start = Instant::now();
    let producer = ws::spawn(async move {
        let mut ticks = interval(HOUR);
        for n in 0..100 {
            ticks.tick().await;
            send.send(n).await.unwrap();
        }
    });
    let got: Vec<u32> = receive
        .then(|n| async move {
            sleep(HOUR / 2).await;
            n
        })
        .collect()
        .await;
    producer.await.unwrap();
    assert_eq!(got, (0..100).collect::<Vec<_>>());
    assert_eq!(start.elapsed(), 99 * HOUR + HOUR / 2);
}

/// What the kernel has ready comes before the next timer.
/// A socket that keeps silent does not hold the clock.
#[ws::test(paused)]
async fn a_timeout_beside_a_silent_socket() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let hold = ws::time::hold();
    let (mut client, accepted) =
        futures::try_join!(TcpStream::connect(addr), async { listener.accept().await })?;
    drop(hold);
    let start = Instant::now();
    let mut byte = [0];
    assert!(timeout(HOUR, client.read_exact(&mut byte)).await.is_err());
    assert_eq!(start.elapsed(), HOUR);
    drop(accepted);
    Ok(())
}

/// The order in which eight tasks run, as a text.
async fn order() -> String {
    let (send, receive) = mpsc::unbounded();
    for n in 0..8 {
        let send = send.clone();
        ws::spawn(async move { send.unbounded_send(n.to_string()).unwrap() });
    }
    drop(send);
    receive.collect::<Vec<_>>().await.join(" ")
}

#[ws::test(paused)]
async fn fails_by_a_panic_if_it_is_told_to() {
    let order = order().await;
    assert_ne!(env::var(FAIL).as_deref(), Ok("panic"), "order: {order}.");
}

#[ws::test(paused)]
async fn fails_by_an_error_if_it_is_told_to() -> Result<(), String> {
    let order = order().await;
    if env::var(FAIL).as_deref() == Ok("error") {
        return Err(format!("order: {order}."));
    }
    Ok(())
}

/// Runs one test of this file in a process of its own.
fn run(test: &str, variables: &[(&str, &str)]) -> Output {
    run_with(test, variables, Stdio::piped())
}

fn run_with(test: &str, variables: &[(&str, &str)], stderr: Stdio) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([
        "--exact",
        &format!("virtual_time_at_work::{test}"),
        "--nocapture",
    ]);
    command.env_remove("WS_TEST_SEED");
    command.envs(variables.iter().copied()).stderr(stderr);
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"));
    output
}

/// What stands between two words of a process's output.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text
        .split_once(before)
        .unwrap_or_else(|| panic!("no {before:?} in {text}"));
    rest.split_once(after).expect("the end of it").0
}

#[test]
fn a_failing_test_prints_its_seed_and_the_seed_repeats_it() {
    let _limit = Limit::new(1);
    for (kind, test) in [
        ("panic", "fails_by_a_panic_if_it_is_told_to"),
        ("error", "fails_by_an_error_if_it_is_told_to"),
    ] {
        assert!(run(test, &[]).status.success());
        let failed = run(test, &[(FAIL, kind)]);
        assert!(!failed.status.success());
        let text = String::from_utf8(failed.stderr).unwrap();
        let seed = between(&text, "WS_TEST_SEED=", ",");
        let order = between(&text, "order: ", ".");
        for _ in 0..3 {
            let again = run(test, &[(FAIL, kind), ("WS_TEST_SEED", seed)]);
            let text = String::from_utf8(again.stderr).unwrap();
            assert_eq!(between(&text, "WS_TEST_SEED=", ","), seed);
            assert_eq!(between(&text, "order: ", "."), order);
        }
    }
}

/// Each write to that stderr is an error. The tests of this process after the one that fails go on.
#[cfg(target_os = "linux")]
#[test]
fn a_failing_test_does_not_end_its_process_if_stderr_takes_nothing() {
    let _limit = Limit::new(1);
    for (kind, test) in [
        ("panic", "fails_by_a_panic_if_it_is_told_to"),
        ("error", "fails_by_an_error_if_it_is_told_to"),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let failed = run_with(test, &[(FAIL, kind)], full.unwrap().into());
        let text = String::from_utf8(failed.stdout).unwrap();
        assert!(text.contains("1 failed"), "{}: {text}", failed.status);
    }
}

#[test]
fn a_seed_that_is_no_number_is_refused() {
    let _limit = Limit::new(1);
    let test = "fails_by_a_panic_if_it_is_told_to";
    let refused = run(test, &[("WS_TEST_SEED", "seven")]);
    assert!(!refused.status.success());
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("WS_TEST_SEED: must be a number"), "{text}");
    // A test with a seed of its own does not ask.
    let own = run("it_need_not_be_send", &[("WS_TEST_SEED", "seven")]);
    assert!(own.status.success());
}
