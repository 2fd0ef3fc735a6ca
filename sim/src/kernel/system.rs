//! The system's functions that the seam hides, and `syscall` itself.
//!
//! # The system's functions
//!
//! Most functions of the seam make a system call for what is not simulated. Some need libc's own
//! function: the clock without a system call, threads, the resolver, handlers of signals. These are
//! found by `dlsym` before `main` begins, since `dlsym` may allocate and lock, and these functions
//! are called in handlers of signals. What is called even earlier looks for itself.
//!
//! # `syscall`
//!
//! A call by number goes to the function of that name: see `by_number.rs`.
//!
//! std and parking_lot wait by `syscall(SYS_futex, ..)`. A simulated host has one thread, and what
//! it waits for is mostly a task of the same simulation, which cannot go on while it waits:
//!
//! | wait | in a host |
//! | --- | --- |
//! | with a time, such as `park_timeout` | sleeps in simulated time, and answers `ETIMEDOUT` |
//! | without one | waits for [`PATIENCE`] of real time; then the process ends with a message |
//!
//! The second waits at all since locks of the process, such as that of stdout, may be held for a
//! moment by a real thread. Rejected: a panic. It would unwind through functions of std that are
//! not made for it.
#![allow(unsafe_code)]

use std::{
    backtrace::Backtrace,
    cell::Cell,
    ffi::CStr,
    io::{self, Write},
    mem,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
    time::Duration,
};

use libc::{c_int, c_long, c_void, timespec};

use super::{by_number, clock, fails, identity, processes, users};
use crate::world;

/// Real time that a host may wait for a lock.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A function of libc, by its name.
pub(super) struct Function {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Function {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where it is. All that look find the same.
    pub(super) fn address(&self) -> NonNull<c_void> {
        // Ordering: Relaxed. The function was there before the program.
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name ends with NUL.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        NonNull::new(found).expect("libc has this function")
    }
}

/// The system's function of a name, found once.
macro_rules! system {
    ($name:ident: fn($($argument:ty),*) -> $answer:ty) => {{
        type Found = unsafe extern "C" fn($($argument),*) -> $answer;
        static FUNCTION: $crate::kernel::system::Function = {
            let name = concat!(stringify!($name), "\0");
            match std::ffi::CStr::from_bytes_with_nul(name.as_bytes()) {
                Ok(name) => $crate::kernel::system::Function::new(name),
                Err(_) => panic!("a name has no NUL"),
            }
        };
        let address = FUNCTION.address();
        // SAFETY: it is the function of that name, which has this type by libc's manual.
        unsafe { std::mem::transmute::<std::ptr::NonNull<libc::c_void>, Found>(address) }
    }};
}
pub(super) use system;

/// The loader calls this before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn look() {
        let some = [
            &SYSCALL,
            &clock::CLOCK_GETTIME,
            &processes::EXECVPE,
            &identity::PTHREAD_KILL,
        ];
        for function in some.into_iter().chain(users::FOUND.iter().copied()) {
            let _ = function.address();
        }
    }
    look
};

static SYSCALL: Function = Function::new(c"syscall");

type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if world::current_host().is_some() {
        match number {
            libc::SYS_futex => {
                // SAFETY: by the contract of futex, these are the types of its arguments.
                let answer = unsafe { futex(a as *const AtomicU32, b as c_int, c as u32, d) };
                if let Some(answer) = answer {
                    return answer;
                }
            }
            _ => {
                // SAFETY: by the contract of libc.
                if let Some(answer) = unsafe { by_number::call(number, [a, b, c, d, e, f]) } {
                    return answer;
                }
            }
        }
    }
    // SAFETY: by the contract of libc. What the caller did not give, the kernel does not look at.
    unsafe { call()(number, a, b, c, d, e, f) }
}

/// The system's `syscall`.
pub(super) fn call() -> Syscall {
    // SAFETY: it is the function of that name.
    unsafe { mem::transmute(SYSCALL.address()) }
}

/// A futex call in a host. None if it is not a wait.
///
/// # Safety
///
/// - That of the system call: for a wait, `word` is one, and `time` null or the address of a time.
unsafe fn futex(
    word: *const AtomicU32,
    operation: c_int,
    expected: u32,
    time: c_long,
) -> Option<c_long> {
    let command = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let is_absolute = match command {
        libc::FUTEX_WAIT => false,
        libc::FUTEX_WAIT_BITSET => true,
        _ => return None,
    };
    // SAFETY: by contract.
    if unsafe { &*word }.load(Ordering::SeqCst) != expected {
        return Some(fails(libc::EAGAIN).into());
    }
    // SAFETY: by contract.
    let Some(time) = (unsafe { (time as *const timespec).as_ref() }) else {
        // SAFETY: by contract.
        return Some(unsafe { wait_a_little(word, expected) });
    };
    let clock = match operation & libc::FUTEX_CLOCK_REALTIME {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    };
    Some(match super::threads::sleeps(clock, is_absolute, *time) {
        Some(0) => fails(libc::ETIMEDOUT).into(),
        Some(error) => fails(error).into(),
        None => return None,
    })
}

/// Waits in real time, for another thread of the process. If none comes, nothing ever goes on.
///
/// # Safety
///
/// - `word` is a futex.
unsafe fn wait_a_little(word: *const AtomicU32, expected: u32) -> c_long {
    let time = timespec {
        tv_sec: PATIENCE.as_secs() as super::Seconds,
        tv_nsec: 0,
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: by contract. The time lives until the call returns.
    let answer = unsafe { call()(libc::SYS_futex, word, operation, expected, &raw const time) };
    let error = io::Error::last_os_error().raw_os_error();
    if answer < 0 && error == Some(libc::ETIMEDOUT) {
        never_goes_on();
    }
    answer
}

thread_local! {
    /// Whether this thread reports already.
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

/// Ends the process: the one thread of the simulation waits for itself.
pub(super) fn never_goes_on() -> ! {
    let host = world::with_host(|world, host| world.name(host).to_owned());
    let seed = world::with(|world| world.seed);
    ends_process(&format!(
        "ws-sim: host {:?} blocks its thread for ever, with seed {}.\nAll hosts of a simulation \
         share one thread. A lock, a channel or a semaphore waits for a task that cannot run \
         meanwhile: use those of async code. It waits here:",
        host.unwrap_or_default(),
        seed.unwrap_or_default(),
    ))
}

/// Ends the process with a text and the stack.
pub(super) fn ends_process(text: &str) -> ! {
    if !REPORTS.replace(true) {
        // Outside of the host: the symbols are in a file of the machine.
        let text = world::outside(|| format!("{text}\n{}\n", Backtrace::force_capture()));
        // If stderr takes nothing, the abort has to be enough.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    // SAFETY: it takes nothing and does not return.
    unsafe { libc::abort() }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[syscall as *const c_void];
