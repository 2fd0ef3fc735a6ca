//! A capture names the function in which a thread is, and the system call in which it is blocked.
//!
//! In debug and in release builds. Fails if `frame_pointer::find` answers none: std's functions
//! keep a frame pointer, and a blocked thread's is not known.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "unwind"))]
#![expect(unsafe_code, reason = "a call of libc, as of a library in C")]

mod support;

use std::{
    hint::black_box,
    io::{self, Read},
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use support::{Stop, Subject, captured};
use ws_stack::Stack;

/// The stack of a thread once it is in that call, whole, with this function in it.
fn assert_blocked(
    call: &str,
    function: &str,
    run: impl FnOnce(&AtomicBool) + Send,
    end: impl FnOnce(&AtomicBool),
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let subject = Subject::start(scope, || run(&stop));
        let stack = subject.when_blocked_in(call);
        end(&stop);
        assert_has(&stack, function);
    });
}

fn assert_has(stack: &Stack, function: &str) {
    let names = stack.frames().iter().filter_map(|frame| frame.function());
    let found = names.clone().any(|name| name.contains(function));
    assert!(found, "no {function} in\n{stack}");
    assert_eq!(stack.cut(), None, "{stack}");
    let file = file!();
    // An instruction that the compiler made up, as in a loop, has line 0: no line of the source.
    let is_there = stack.frames().iter().any(|frame| {
        let is_here = frame.file().is_some_and(|path| path.ends_with(file));
        is_here && frame.line() > Some(0)
    });
    assert!(is_there, "no line of {file} in\n{stack}");
}

#[inline(never)]
fn deep_in_a_lock(lock: &Mutex<()>) {
    let _held = black_box(lock.lock().unwrap());
}

#[test]
fn a_lock() {
    let lock = Mutex::new(());
    let held = lock.lock().unwrap();
    assert_blocked(
        "futex",
        "deep_in_a_lock",
        |_| deep_in_a_lock(&lock),
        |_| drop(held),
    );
}

#[inline(never)]
fn deep_in_a_wait(over: &(Mutex<bool>, Condvar)) {
    let mut is_over = over.0.lock().unwrap();
    while !*is_over {
        is_over = over
            .1
            .wait_timeout(is_over, Duration::from_secs(600))
            .unwrap()
            .0;
    }
}

#[test]
fn a_wait_with_a_timeout() {
    let over = (Mutex::new(false), Condvar::new());
    let end = |_: &AtomicBool| {
        *over.0.lock().unwrap() = true;
        over.1.notify_all();
    };
    assert_blocked("futex", "deep_in_a_wait", |_| deep_in_a_wait(&over), end);
}

#[inline(never)]
fn deep_in_a_read(mut from: &UnixStream) {
    let mut byte = [0];
    assert_eq!(from.read(&mut byte).unwrap(), 0);
    black_box(byte);
}

#[test]
fn a_read() {
    let (here, there) = UnixStream::pair().unwrap();
    assert_blocked(
        "recvfrom",
        "deep_in_a_read",
        |_| deep_in_a_read(&here),
        |_| drop(there),
    );
}

#[inline(never)]
fn deep_in_a_poll(descriptor: i32) -> i32 {
    let mut descriptor = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one descriptor is there.
        let result = unsafe { libc::poll(&raw mut descriptor, 1, -1) };
        // It fell asleep just when it was asked: see *What a program can notice* in `lib.rs`.
        let is_interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if result != -1 || !is_interrupted {
            return black_box(result);
        }
    }
}

#[test]
fn a_call_of_libc() {
    let (here, there) = UnixStream::pair().unwrap();
    let run = |_: &AtomicBool| assert_eq!(deep_in_a_poll(here.as_raw_fd()), 1);
    assert_blocked("poll", "deep_in_a_poll", run, |_| drop(there));
}

#[inline(never)]
fn deep_in_a_sum(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Relaxed) {
        sum = black_box(sum.wrapping_mul(3) + 1);
    }
    black_box(sum)
}

#[test]
fn a_computation() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Stop(&stop);
        let subject = Subject::start(scope, || _ = deep_in_a_sum(&stop));
        // It may still be on its way.
        let stack = support::eventually(|| {
            let stack = captured(subject.thread)?;
            let mut names = stack.frames().iter().filter_map(|frame| frame.function());
            names
                .any(|name| name.contains("deep_in_a_sum"))
                .then_some(stack)
        });
        drop(end);
        assert_has(&stack, "deep_in_a_sum");
    });
}

/// Asks the kernel's page for the time, mostly: that has no file.
#[test]
fn the_kernels_code() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Stop(&stop);
        let subject = Subject::start(scope, || {
            while !stop.load(Relaxed) {
                black_box(std::time::Instant::now());
            }
        });
        let stack = support::eventually(|| {
            let stack = captured(subject.thread)?;
            let is_there = stack.frames()[0].module() == Some("[vdso]");
            is_there.then_some(stack)
        });
        drop(end);
        assert_has(&stack, "the_kernels_code");
    });
}
