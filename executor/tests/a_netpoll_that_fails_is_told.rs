//! L3, F6: a netpoll that the system refuses to look at, because somebody closed its descriptor or
//! put another in its place, is said so, and once a second at most; what needs no socket goes on,
//! and no thread turns in circles meanwhile.
//!
//! Seen to fail with the pause left out of `wait_on` (32,000 looks in 76 ms), and with each failure
//! reported (54).
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "puts another file behind a descriptor")]

mod common;

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use common::limited;
use ws_executor::{runtime::Builder, spawn, time::sleep};

static REPORTS: AtomicU64 = AtomicU64::new(0);

/// Puts a file that is no epoll behind every descriptor of one.
fn break_every_epoll() {
    let other = File::open("/dev/null").expect("it is there");
    for entry in fs::read_dir("/proc/self/fd").expect("Linux shows them") {
        let path = entry.expect("it can be read").path();
        let Ok(what) = fs::read_link(&path) else {
            continue;
        };
        if what.as_os_str() == "anon_inode:[eventpoll]" {
            let name = path.file_name().and_then(|name| name.to_str());
            let fd = name.and_then(|name| name.parse().ok()).expect("a number");
            // SAFETY: a system call without pointers. The owner of the descriptor finds another
            // file there, which is what is tested, and closes that in the end.
            let result = unsafe { libc::dup2(other.as_raw_fd(), fd) };
            assert_eq!(result, fd);
        }
    }
}

#[test]
fn a_netpoll_that_fails_is_told_and_waited_for_in_no_circle() {
    common::subscribe(|event| {
        if common::line(event).contains("the netpoll failed") {
            REPORTS.fetch_add(1, Ordering::Relaxed);
        }
    });
    limited(|| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let looks = || {
            let metrics = runtime.handle().metrics();
            metrics
                .processors
                .iter()
                .map(|worker| worker.netpolls)
                .sum::<u64>()
        };
        let began = Instant::now();
        break_every_epoll();
        let before = looks();
        runtime.block_on(async {
            for _ in 0..50 {
                sleep(Duration::from_millis(1)).await;
                assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
            }
        });
        let (looked, took) = (looks() - before, began.elapsed());
        // Each of the threads, this one included, waits so often; and each time that it has
        // something to do.
        let waits = 3 * (u64::try_from(took.as_millis()).unwrap() + 1);
        assert!(looked <= waits + 1_000, "{looked} looks in {took:?}");
        drop(runtime);
        let (reports, took) = (REPORTS.load(Ordering::Relaxed), began.elapsed());
        assert!(reports >= 1, "nobody said so");
        assert!(reports <= 1 + took.as_secs(), "{reports} in {took:?}");
    });
}
