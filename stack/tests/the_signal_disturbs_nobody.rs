//! What a program can notice of the signal: its calls are not ended, its handlers stay, `errno` is
//! kept, and a thread that blocks the signal costs a capture and no more.
//!
//! Fails if blocked threads are signalled, if `number` does not ask whether the handler is ours
//! still, or if the handler does not put `errno` back.
#![cfg(all(target_os = "linux", target_arch = "x86_64", feature = "unwind"))]
#![expect(
    unsafe_code,
    reason = "signals and calls of libc, as of a library in C"
)]

mod support;

use std::{
    ffi::c_void,
    hint::black_box,
    io, mem, ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use support::{LIMIT, Stop, Subject, captured, eventually};
use ws_stack::capture;

/// Held by a test that changes handlers, relies on them, or must not wait for another capture.
static HANDLERS: Mutex<()> = Mutex::new(());

/// The limit of a capture that does not come to a stack.
const SHORT: Duration = Duration::from_millis(5);

/// Reports of a thread that is in one call.
const REPORTS: usize = 200;

fn computes_until(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        black_box(stop);
    }
}

/// The signals that have a handler.
fn handled() -> Vec<i32> {
    let signals = libc::SIGRTMIN()..=libc::SIGRTMAX();
    signals
        .filter(|&signal| {
            // SAFETY: all zeros is a `sigaction`.
            let mut action: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: the pointer is valid for a write.
            let result = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
            result == 0 && action.sa_sigaction != libc::SIG_DFL
        })
        .collect()
}

/// The calls that a handler ends, whatever its flags.
#[test]
fn a_blocked_call_is_not_ended() {
    type Call = fn() -> i32;
    const CALLS: [(i64, &str, Call); 3] = [
        (libc::SYS_poll, "poll", || {
            // SAFETY: there are no descriptors.
            unsafe { libc::poll(ptr::null_mut(), 0, 600_000) }
        }),
        (libc::SYS_clock_nanosleep, "clock_nanosleep", || {
            let time = libc::timespec {
                tv_sec: 600,
                tv_nsec: 0,
            };
            // SAFETY: the time is valid for a read.
            unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) }
        }),
        (libc::SYS_pause, "pause", || {
            // SAFETY: no arguments.
            unsafe { libc::pause() }
        }),
    ];
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    // That of the end of the calls.
    extern "C" fn ends(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, ends as extern "C" fn(i32) as usize) };
    for (number, name, call) in CALLS {
        let ended = &AtomicBool::new(false);
        thread::scope(|scope| {
            let subject = Subject::start(scope, move || {
                let result = call();
                ended.store(true, Relaxed);
                result
            });
            subject.wait_until_blocked_in(number);
            for _ in 0..REPORTS {
                let look = capture(subject.thread, LIMIT);
                let call = look.system_call.and_then(|call| call.name());
                assert_eq!(call, Some(name));
                assert!(look.stack.is_ok());
            }
            assert!(!ended.load(Relaxed), "{name} was ended");
            // Ended by a signal of the program's own.
            while !ended.load(Relaxed) {
                let process = std::process::id();
                // SAFETY: numbers only.
                unsafe { libc::syscall(libc::SYS_tgkill, process, subject.thread, libc::SIGUSR2) };
                thread::yield_now();
            }
            assert_eq!(subject.handle.join().unwrap(), -1);
        });
    }
    drop(handlers);
}

#[test]
fn a_thread_that_blocks_the_signal_has_no_stack() {
    // One capture at a time: this one is not to wait for another one.
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let _end = Stop(&stop);
        let subject = Subject::start(scope, || {
            // SAFETY: the set is valid, and is this thread's mask.
            unsafe {
                let mut all: libc::sigset_t = mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
            }
            tell.send(()).unwrap();
            computes_until(&stop);
        });
        told.recv().unwrap();
        let error = capture(subject.thread, SHORT).stack.unwrap_err();
        let why = "the thread computes, and has blocked the signal for this";
        assert_eq!(error.to_string(), why);
    });
    drop(handlers);
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn of_the_program(_: i32) {
    CALLED.fetch_add(1, Relaxed);
}

/// A program may put its handler where ours is, and then it keeps that one.
#[test]
fn a_handler_of_the_program_is_left_alone() {
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = Stop(&stop);
        let subject = Subject::start(scope, || computes_until(&stop));
        let is_computing = || Some(captured(subject.thread)?.frames()[0].clone());
        eventually(is_computing);
        let before = handled();
        let ours = before[0];
        let handler = of_the_program as extern "C" fn(i32) as usize;
        // SAFETY: the handler counts.
        unsafe { libc::signal(ours, handler) };
        // And the next one, before it is ours.
        // SAFETY: as above.
        unsafe { libc::signal(ours + 1, handler) };
        eventually(is_computing);
        assert_eq!(handled(), [ours, ours + 1, ours + 2]);
        assert_eq!(CALLED.load(Relaxed), 0);
        // SAFETY: numbers only.
        unsafe { libc::raise(ours) };
        assert_eq!(CALLED.load(Relaxed), 1);
    });
    drop(handlers);
}

/// A call of the thread has failed, and it has not looked yet why.
#[test]
fn the_last_error_is_kept() {
    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = Stop(&stop);
        let subject = Subject::start(scope, || {
            while !stop.load(Relaxed) {
                // SAFETY: no such descriptor.
                unsafe { libc::close(-1) };
                for _ in 0..1_000 {
                    black_box(&stop);
                }
                let error = io::Error::last_os_error();
                assert_eq!(error.raw_os_error(), Some(libc::EBADF));
            }
        });
        for _ in 0..REPORTS {
            let look = capture(subject.thread, Duration::from_secs(1));
            drop(look.stack.unwrap());
        }
        drop(end);
        subject.handle.join().unwrap();
    });
    drop(handlers);
}

/// A thread that std has not started has no alternate stack of its own, and this one has less room
/// left than the frame of a signal needs. Without `AlternateStack` the process ends here.
#[test]
fn a_thread_without_room_has_room_for_the_handler() {
    static THREAD: AtomicU32 = AtomicU32::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    /// Bytes that are left: enough for a loop, and not for a signal.
    const LEFT: usize = 1_200;

    #[inline(never)]
    fn descends(end: usize, thread: u32) {
        let local = black_box(0u64);
        if (&raw const local).addr() > end + LEFT {
            descends(end, thread);
        } else {
            THREAD.store(thread, Relaxed);
            while !STOP.load(Relaxed) {
                std::hint::spin_loop();
            }
        }
        black_box(local);
    }

    extern "C" fn run(_: *mut c_void) -> *mut c_void {
        let thread = ws_stack::register_thread();
        let (mut start, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the attributes are those of this thread, and are given back.
        unsafe {
            let mut attributes = mem::zeroed();
            libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
            libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        descends(start.addr(), thread);
        ptr::null_mut()
    }

    let handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the attributes are valid until the thread has begun, and it is joined.
    let thread = unsafe {
        let mut attributes = mem::zeroed();
        let mut thread = mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, 128 * 1024);
        let result =
            libc::pthread_create(&raw mut thread, &raw const attributes, run, ptr::null_mut());
        assert_eq!(result, 0);
        thread
    };
    let end = Stop(&STOP);
    let number = eventually(|| Some(THREAD.load(Relaxed)).filter(|thread| *thread != 0));
    for _ in 0..REPORTS {
        drop(capture(number, LIMIT).stack.unwrap());
    }
    drop(end);
    // SAFETY: it was not joined before.
    unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    drop(handlers);
}
