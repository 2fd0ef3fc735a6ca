//! Loops that wait in one step of a host, and await nothing.
//!
//! No time passes in a step. So a loop that spins until the clock shows something would never end,
//! and one that waits for another task would not either.
//!
//! | a step | then |
//! | --- | --- |
//! | reads the clock more than [`PATIENCE`] times | each further read takes time of its host |
//! | takes more processor time than `Builder::poll_limit` | the process ends, with the place |
//!
//! The first follows from the seed. A read takes 1 us, and twice as much after each further
//! [`PATIENCE`] of them. So a loop is late by at most a hundred-thousandth of its time, or by 1 us,
//! and few reads reach any time.
//!
//! For the second a timer of the thread's processor time sends it [`SIGNAL`]. It counts nothing
//! while a debugger has stopped the process, or while other processes run. If the program has a
//! handler for that signal, there is no such limit.
//!
//! Rejected: a thread that watches. It would have no stack to show, and count time of others.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    io::{Cursor, Write},
    marker::PhantomData,
    mem, ptr,
    time::Duration,
};

use libc::{c_int, c_long};

use super::system;
use crate::world;

/// Reads of the clock in one step that take no time.
const PATIENCE: u32 = 100_000;

/// It has no other use in most programs: the timer that POSIX made it for is obsolete.
const SIGNAL: c_int = libc::SIGVTALRM;

/// Signals until a step has reached its limit.
const TICKS: u32 = 8;

/// Real time in which the report has to be written, in seconds: the step may hold a lock for it.
const REPORT_MAX: super::Seconds = 20;

thread_local! {
    /// Steps of hosts on this thread. This and the others have no destructor: a handler reads them.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// Reads of the clock in this step.
    static READS: Cell<u32> = const { Cell::new(0) };
    /// The step in which the last signals came, and their number.
    static SEEN: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// A step of a host begins on this thread.
pub(crate) fn step_begins() {
    STEPS.set(STEPS.get().wrapping_add(1));
    READS.set(0);
}

/// The host that runs reads the clock.
pub(super) fn clock_is_read() {
    let reads = READS.get().saturating_add(1);
    READS.set(reads);
    if reads > PATIENCE {
        let doubled = ((reads - PATIENCE) / PATIENCE).min(50);
        // None in the middle of a call of the seam, if an allocator reads the clock.
        world::with_host(|world, host| {
            let until = world.now(host).saturating_add(1_000 << doubled);
            world.sleeps(host, until);
        });
    }
}

/// Watches the steps of this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timer: c_int,
    /// The timer is this thread's.
    _thread: PhantomData<*const ()>,
}

impl Watchdog {
    /// Lets no step take more processor time than `limit`. None if it cannot be watched.
    pub(crate) fn start(limit: Duration) -> Option<Self> {
        takes_signal().then_some(())?;
        // SAFETY: plain data.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        // SAFETY: it takes nothing.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: c_int = 0;
        let (event, out) = (&raw const event, &raw mut timer);
        let clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: both are valid, and the kernel's number of a timer is an `int`.
        let made = unsafe { system::call()(libc::SYS_timer_create, clock, event, out) };
        if made != 0 {
            return None;
        }
        let watchdog = Self {
            timer,
            _thread: PhantomData,
        };
        let tick = (limit / TICKS).max(Duration::from_millis(1));
        let tick = libc::timespec {
            tv_sec: tick.as_secs() as super::Seconds,
            tv_nsec: tick.subsec_nanos() as c_long,
        };
        let times = libc::itimerspec {
            it_interval: tick,
            it_value: tick,
        };
        let no_old = ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the timer is there, and the times are valid.
        let set =
            unsafe { system::call()(libc::SYS_timer_settime, timer, 0, &raw const times, no_old) };
        (set == 0).then_some(watchdog)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // SAFETY: the timer is this one's. A signal that is on its way finds the handler.
        unsafe { system::call()(libc::SYS_timer_delete, self.timer) };
    }
}

/// Sets the handler, unless the program has one of its own.
fn takes_signal() -> bool {
    // SAFETY: plain data.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` is valid for writes.
    if unsafe { libc::sigaction(SIGNAL, ptr::null(), &raw mut action) } != 0 {
        return false;
    }
    let ours = tick as extern "C" fn(c_int) as libc::sighandler_t;
    if action.sa_sigaction != libc::SIG_DFL {
        return action.sa_sigaction == ours;
    }
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_RESTART; // on the stack of the step: the report needs much
    // SAFETY: the handler reads cells of its thread alone, and calls nothing unless it ends the
    // process.
    unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) == 0 }
}

/// The handler.
extern "C" fn tick(_: c_int) {
    let (step, ticks) = SEEN.get();
    let now = STEPS.get();
    if world::current_host().is_none() || step != now {
        SEEN.set((now, 1));
    } else if ticks < TICKS {
        SEEN.set((now, ticks + 1));
    } else {
        never_ends();
    }
}

/// Ends the process. What is said first allocates nothing: the step may be in an allocator.
fn never_ends() -> ! {
    // SAFETY: nothing of the program matters any more. A report that waits for a lock ends so.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        let mut times: libc::itimerval = mem::zeroed();
        times.it_value.tv_sec = REPORT_MAX;
        let no_old = ptr::null_mut::<libc::itimerval>();
        // A host's own alarm is refused.
        system::call()(
            libc::SYS_setitimer,
            libc::ITIMER_REAL,
            &raw const times,
            no_old,
        );
    }
    let mut text = Cursor::new([0; 1024]);
    let said = world::with_host(|world, host| {
        let (name, seed) = (world.name(host), world.seed);
        write!(
            text,
            "ws-sim: host {name:?} does not end a step, with seed {seed}"
        )
    });
    if said.is_none() {
        let _ = write!(text, "ws-sim: a host does not end a step");
    }
    let _ = write!(
        text,
        ".\nNo time passes in a step, and nothing else runs: a loop that waits has to await. A \
         computation that needs more processor time gets it by `Builder::poll_limit`.\n"
    );
    let len = text.position() as usize;
    let bytes = &text.get_ref()[..len];
    // SAFETY: the bytes are valid. If stderr takes nothing, the abort has to be enough.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), len) };
    system::ends_process("It is here:")
}
