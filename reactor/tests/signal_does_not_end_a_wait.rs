//! A signal in the middle of a wait is neither an error nor a reason to return. On Linux even a
//! stop and a continue interrupt `epoll_wait`, without any handler, and that is what is used here.
//!
//! Fails if the poll is not started again after `ErrorKind::Interrupted`.
//!
//! It stops its whole process for a moment, so it is alone in its file.

#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::process::{self, Command};
use std::sync::mpsc;
use std::thread;

use common::{TimeLimit, wait_until};
use ws_reactor::Netpoll;

#[test]
fn a_wait_goes_on_after_a_signal() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            tell.send(fs::read_link("/proc/thread-self").unwrap())
                .unwrap();
            wait_until(&netpoll, None)
        });
        let waiter = told.recv().unwrap();
        for _ in 0..3 {
            // Asleep in the kernel: it has nowhere to sleep but in the poll.
            let stat = format!("/proc/{}/stat", waiter.display());
            while !fs::read_to_string(&stat).unwrap().contains(") S ") {
                thread::yield_now();
            }
            let signals = format!("kill -STOP {0}; kill -CONT {0}", process::id());
            let status = Command::new("sh").args(["-c", &signals]).status().unwrap();
            assert!(status.success());
        }
        netpoll.interrupt();
        let (result, _) = waiting.join().unwrap();
        assert!(result.interrupted);
    });
}
