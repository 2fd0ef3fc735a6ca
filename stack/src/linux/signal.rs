//! Interrupts a thread, whose handler copies its stack.
//!
//! The signal is chosen at the first use: the first one from `SIGRTMIN + 7` on that has the default
//! action. It keeps our handler for good, also when nobody asks any more: a signal that is still on
//! its way would end the process otherwise. Each request looks first whether the handler is ours
//! still. If a program has put its own there, another signal is chosen.
//!
//! The handler has `SA_RESTART`, so that most system calls go on, and `SA_ONSTACK`, so that a
//! thread with little room left on its stack has room for it (`alternate.rs`). All signals are
//! blocked meanwhile.
#![expect(unsafe_code, reason = "signals, clocks and futexes")]

use std::{
    ffi::{c_int, c_void},
    fs::File,
    io, mem,
    os::fd::AsRawFd,
    ptr,
    sync::{
        Mutex,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{COPIED_MAX, Raw, proc, registers::Registers};
use crate::{
    no_stack::Why,
    slot::{Answer, Slot},
};

/// The first signal that is tried. Those before it are often taken: by libc, and by programs that
/// count from `SIGRTMIN`.
const FIRST: c_int = 7;
/// Time between two looks whether another capture has ended, or a thread takes signals again.
const BUSY_LOOKS: Duration = Duration::from_micros(200);

struct Copy {
    registers: Registers,
    /// Kept open as long as a handler may read it.
    memory: Option<File>,
    bytes: Vec<u8>,
    /// How many bytes were read, or the error's number, negative.
    length: isize,
}

static SLOT: Slot<Copy> = Slot::new(Copy {
    registers: Registers::unknown(),
    memory: None,
    bytes: Vec::new(),
    length: 0,
});

/// Held by the asker, which also chooses the signal.
static ASKER: Mutex<()> = Mutex::new(());

/// The signal that has our handler; 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The number of the calling thread.
pub(super) fn own_thread() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// The CPU time of a thread in nanoseconds, if it exists.
pub(super) fn cpu_time(thread: u32) -> Option<i64> {
    /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`, as in `reactor/src/thread.rs`.
    const THREAD_CLOCK: libc::clockid_t = 0b110;
    let clock = (!thread.cast_signed() << 3) | THREAD_CLOCK;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write of one `timespec`; a clock that does not exist is an
    // error.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// The signal that has our handler. It is installed if need be. The caller is the asker.
fn number() -> Result<c_int, Why> {
    let signal = SIGNAL.load(Relaxed);
    if signal != 0 && is_ours(signal) {
        return Ok(signal);
    }
    let free = (libc::SIGRTMIN() + FIRST..=libc::SIGRTMAX()).find(|&signal| install(signal));
    SIGNAL.store(free.unwrap_or(0), Relaxed);
    free.ok_or(Why::NoSignal)
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn ours() -> usize {
    handle as Handler as usize
}

fn action(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: all zeros is a `sigaction`: the default one.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both pointers are valid or null. The handler does what a handler may do: see the
    // head of `lib.rs`.
    let result = unsafe { libc::sigaction(signal, new, &raw mut old) };
    (result == 0).then_some(old)
}

fn is_ours(signal: c_int) -> bool {
    action(signal, None).is_some_and(|action| action.sa_sigaction == ours())
}

/// Whether the signal was free, and has our handler now.
fn install(signal: c_int) -> bool {
    match action(signal, None) {
        Some(old) if old.sa_sigaction == ours() => return true,
        Some(old) if old.sa_sigaction == libc::SIG_DFL => {}
        _ => return false,
    }
    // SAFETY: all zeros is a `sigaction`.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = ours();
    new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the mask is valid for a write.
    unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    match action(signal, Some(&new)) {
        // Another thread of the program came first.
        Some(old) if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != ours() => {
            action(signal, Some(&old));
            false
        }
        installed => installed.is_some(),
    }
}

/// Has a thread copy its own stack. The caller knows that the thread exists.
pub(super) fn ask(thread: u32, memory: File, until: Instant) -> Result<Raw, Why> {
    // Not by a wait for the lock: after a `fork` nobody may be there to release it.
    let asker = loop {
        match ASKER.try_lock() {
            Ok(asker) => break asker,
            Err(_) if Instant::now() >= until => return Err(Why::Busy),
            Err(_) => thread::sleep(BUSY_LOOKS),
        }
    };
    let signal = number()?;
    // All are blocked in a handler, and for a moment where a thread starts another one.
    while proc::blocks(thread, signal) {
        if Instant::now() >= until {
            return Err(Why::SignalBlocked);
        }
        thread::sleep(BUSY_LOOKS);
    }
    let prepare = |copy: &mut Copy| {
        copy.memory = Some(memory);
        copy.bytes.resize(COPIED_MAX, 0);
        copy.length = 0;
    };
    // SAFETY: this thread has the lock of the asker.
    if !unsafe { SLOT.ask(thread, prepare) } {
        return Err(Why::Busy);
    }
    let sent = send(thread, signal);
    let done = wait(if sent.is_ok() { until } else { Instant::now() });
    sent.map_err(|error| Why::NotSent(error.to_string()))?;
    if !done {
        return Err(Why::NotInTime);
    }
    // SAFETY: this thread is the asker, and the answer is there.
    let raw = unsafe { SLOT.take(|copy| copy.take()) };
    drop(asker);
    raw
}

impl Copy {
    fn take(&mut self) -> Result<Raw, Why> {
        self.memory = None;
        let length = usize::try_from(self.length).map_err(|_| {
            let error = io::Error::from_raw_os_error(-self.length as i32);
            Why::Memory(error.to_string())
        })?;
        Ok(Raw {
            registers: self.registers,
            bytes: self.bytes[..length].to_vec(),
        })
    }
}

fn send(thread: u32, signal: c_int) -> io::Result<()> {
    let process = std::process::id();
    // SAFETY: the call takes numbers only. The signal has our handler, so it ends nobody.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether the answer is there. If not, a handler that comes later finds no request.
fn wait(until: Instant) -> bool {
    loop {
        let (word, begun) = match SLOT.answer() {
            Answer::Done => return true,
            Answer::None(word) => (word, false),
            Answer::Begun(word) => (word, true),
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // If it has begun, the slot is busy until it is through.
            if begun || SLOT.give_up(word) {
                return false;
            }
            continue;
        }
        let time = libc::timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is a static, and the time is valid for a read. Each of the reasons to
        // come back leads to another look.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                SLOT.word().as_ptr(),
                operation,
                word,
                &raw const time,
            )
        };
    }
}

/// On the thread that is asked. Nothing in here takes a lock, allocates or panics.
extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own `errno`, which the code that was interrupted may look at.
    let errno = unsafe { *libc::__errno_location() };
    let served = SLOT.serve(own_thread(), |copy| {
        // SAFETY: with `SA_SIGINFO` the system passes an `ucontext_t`.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        copy.registers = Registers::of(&context.uc_mcontext);
        let (Some(memory), Some(sp)) = (&copy.memory, copy.registers.sp()) else {
            return;
        };
        // SAFETY: the buffer is valid for writes of its length. The call and not the function of
        // libc, which is a cancellation point, and which sanitizers replace.
        let length = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                memory.as_raw_fd(),
                copy.bytes.as_mut_ptr(),
                copy.bytes.len(),
                sp,
            )
        };
        copy.length = if length < 0 {
            // SAFETY: as above.
            -unsafe { *libc::__errno_location() } as isize
        } else {
            length as isize
        };
    });
    if served {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is a static.
        unsafe { libc::syscall(libc::SYS_futex, SLOT.word().as_ptr(), operation, 1) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
