//! A full table of file descriptors is an error that goes through, and costs no readiness: once
//! there is room again, the connection that could not be accepted is still there to be tried.
//!
//! Fails if an error other than "would block" clears readiness: there is no second edge for a
//! connection that is in the queue already.
//!
//! The limit belongs to a process, so the test runs itself in a second one, under a limit that is
//! small.

use crate::common;

use std::env;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::task::{Context, Poll, Waker};

use common::{Registered, TimeLimit, wait};
use ws_reactor::{Direction, Interest, Netpoll};

const INSIDE: &str = "WS_REACTOR_TEST_FD_LIMIT";

#[test]
fn a_full_table_is_an_error_and_no_edge_is_lost() {
    let _limit = TimeLimit::new();
    if env::var_os(INSIDE).is_some() {
        return with_few_descriptors();
    }
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args([
            "--exact",
            "fd_table_full::a_full_table_is_an_error_and_no_edge_is_lost",
        ])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn with_few_descriptors() {
    let netpoll = Netpoll::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Registered::new(&netpoll, listener, Interest::READABLE).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut accept = || {
        let accept = || listener.io.accept();
        listener
            .registration
            .poll_io(&mut cx, Direction::Read, accept)
    };
    assert!(accept().is_pending());
    let _client = TcpStream::connect(address).unwrap();
    wait(&netpoll);

    let mut filler = Vec::new();
    let full = loop {
        match File::open("/dev/null") {
            Ok(file) => filler.push(file),
            Err(error) => break error.raw_os_error(),
        }
    };
    let error = Netpoll::new().unwrap_err();
    assert_eq!(error.raw_os_error(), full);
    for _ in 0..3 {
        let Poll::Ready(Err(error)) = accept() else {
            panic!("a connection waits, and there is no descriptor for it");
        };
        assert_eq!(error.raw_os_error(), full);
    }
    filler.pop();
    assert!(matches!(accept(), Poll::Ready(Ok(_))));
}
