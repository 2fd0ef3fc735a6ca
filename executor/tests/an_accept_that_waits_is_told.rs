//! Where a listener waits because the system has no room for a connection, each wait is counted,
//! and it is reported once a second at most. Outside of a runtime nobody counts, and the listener
//! is told that it cannot wait.
//!
//! It fails with each wait reported, and with a count of reports in place of waits. That `accept`
//! says so is tested in `tests/accept_survives_a_full_epoll.rs`.

mod common;

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use ws_executor::netpoll::accept_waits;

const WAITS: u64 = 1_000;

static REPORTS: AtomicU64 = AtomicU64::new(0);

#[test]
fn waits_are_counted_and_seldom_reported() {
    common::subscribe(|event| {
        if common::line(event).contains("no room for a connection") {
            REPORTS.fetch_add(1, Relaxed);
        }
    });
    common::limited(|| {
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        assert!(!accept_waits(&error));
        let runtime = common::runtime(1);
        let began = Instant::now();
        {
            let _guard = runtime.enter();
            for _ in 0..WAITS {
                assert!(accept_waits(&error));
            }
        }
        assert_eq!(runtime.handle().metrics().accepts_delayed, WAITS);
        let (reports, took) = (REPORTS.load(Relaxed), began.elapsed());
        assert!(reports >= 1, "nobody said so");
        assert!(reports <= 1 + took.as_secs(), "{reports} in {took:?}");
    });
}
