//! Waits that end at once: for a word that has changed, and at a listener that closes.

use std::{
    fs, io,
    os::unix::net::{UnixListener, UnixStream},
    process,
    sync::atomic::AtomicU32,
};

use super::{compare, result, say};

#[test]
fn a_wait_for_a_word_that_differs_ends_at_once() {
    compare(|seen| {
        for expected in [2, 0, u32::MAX] {
            let word = AtomicU32::new(1);
            let time = libc::timespec {
                tv_sec: 3_600,
                tv_nsec: 0,
            };
            let call = libc::SYS_futex;
            let (word, time) = (&raw const word, &raw const time);
            // SAFETY: both live until it returns.
            let answer = unsafe { libc::syscall(call, word, libc::FUTEX_WAIT, expected, time) };
            say(seen, "differs", result(answer as isize));
        }
    });
}

#[test]
fn one_that_waits_for_a_listener_that_closes_is_reset() {
    compare(|seen| {
        let path = std::env::temp_dir().join(format!("ws-sim-closes-{}", process::id()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        drop(listener);
        for what in ["read", "again", "once more"] {
            let read = io::Read::read(&mut stream, &mut [0]);
            say(seen, what, read.map_err(|error| error.raw_os_error()));
        }
        fs::remove_file(&path).unwrap();
    });
}
