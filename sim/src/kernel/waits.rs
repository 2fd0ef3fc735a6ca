//! Waits of C with a time, and for a semaphore.
//!
//! libc waits by system calls of its own. They would last in real time, and nothing of the
//! simulation goes on meanwhile: so nothing can come in a wait.
//!
//! | wait | in a host |
//! | --- | --- |
//! | `select`, `pselect` with a time and no descriptors | sleeps in simulated time |
//! | the same without a time | `EDEADLK`, and a message |
//! | `sem_timedwait`, `mtx_timedlock`, `cnd_timedwait` and so on | tries, sleeps, and is too late |
//! | `sem_wait` | tries, waits for [`PATIENCE`] of real time, and ends the process |
//!
//! The last is as for the waits of std, see `system.rs`. A `select` of descriptors of the machine
//! is the machine's.
#![allow(unsafe_code)]

use std::{ffi::c_uchar, io, ptr, slice};

use libc::{c_int, c_void, clockid_t, fd_set, sem_t, sigset_t, timespec, timeval};

use super::{
    fails, number, poll,
    system::{PATIENCE, call, never_goes_on, system},
    threads::{ERROR, sleeps},
    timers::nanoseconds,
    would_wait,
};
use crate::world;

// --- for nothing ---

type Sets = [*mut fd_set; 3];

/// Whether no set has a descriptor.
///
/// # Safety
///
/// - Each set is null, or has at least so many bits.
unsafe fn are_empty(count: c_int, sets: Sets) -> bool {
    let count = usize::try_from(count).unwrap_or(0);
    sets.into_iter().filter(|set| !set.is_null()).all(|set| {
        // The words of a set have their lowest bit first, and so have its bytes: all systems that
        // this is compiled for have the lower bytes first.
        // SAFETY: by contract, and the set has whole words.
        let bytes = unsafe { slice::from_raw_parts(set.cast::<c_uchar>(), count.div_ceil(8)) };
        (0..count).all(|bit| bytes[bit / 8] & 1 << (bit % 8) == 0)
    })
}

/// Sleeps for a time. None: for ever.
fn sleeps_for(time: Option<u64>) -> c_int {
    match time {
        Some(ns) => {
            poll::sleeps_for(ns);
            0
        }
        None => would_wait(),
    }
}

/// The mask of signals as the system call takes it.
#[repr(C)]
struct Mask {
    set: *const sigset_t,
    len: usize,
}

/// The system's `pselect`, which changes the time.
///
/// # Safety
///
/// - As libc's `pselect`.
unsafe fn system_select(
    count: c_int,
    [read, write, except]: Sets,
    time: *mut timespec,
    set: *const sigset_t,
) -> c_int {
    let mask = Mask { set, len: 8 };
    let (number, mask) = (libc::SYS_pselect6, &raw const mask);
    // SAFETY: by contract. The mask lives until the call returns.
    unsafe { call()(number, count, read, write, except, time, mask) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    const MICROS: i64 = 1_000_000;

    // SAFETY: by the contract of libc it is null or valid.
    let given = unsafe { time.as_ref() };
    if given.is_some_and(|given| given.tv_sec < 0 || given.tv_usec < 0) {
        return fails(libc::EINVAL);
    }
    let mut wanted = given.map(|given| timespec {
        tv_sec: given.tv_sec.saturating_add(given.tv_usec / MICROS),
        tv_nsec: given.tv_usec % MICROS * 1_000,
    });
    let sets = [read, write, except];
    // SAFETY: by the contract of libc.
    let is_sleep =
        world::current_host().is_some() && unsafe { count >= 0 && are_empty(count, sets) };
    let answer = if is_sleep {
        let ns = wanted.map(|wanted| nanoseconds(wanted).unwrap_or(u64::MAX));
        wanted = wanted.map(|_| timespec {
            tv_sec: 0,
            tv_nsec: 0,
        });
        sleeps_for(ns)
    } else {
        let wanted = wanted.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: by the contract of libc. The kernel writes to this time what is left.
        unsafe { system_select(count, sets, wanted, ptr::null()) }
    };
    if let Some(left) = wanted {
        let left = timeval {
            tv_sec: left.tv_sec,
            tv_usec: left.tv_nsec / 1_000,
        };
        // SAFETY: by the contract of libc. As in Linux, it is what is left.
        unsafe { ptr::write(time, left) };
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    time: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [read, write, except];
    // SAFETY: by the contract of libc it is null or valid.
    let mut wanted = unsafe { time.as_ref() }.copied();
    // SAFETY: by the contract of libc.
    if world::current_host().is_some() && unsafe { count >= 0 && are_empty(count, sets) } {
        return match wanted.map(nanoseconds).transpose() {
            Ok(ns) => sleeps_for(ns),
            Err(error) => fails(number(&error)),
        };
    }
    let wanted = wanted.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: by the contract of libc. The kernel changes the copy of the time alone.
    unsafe { system_select(count, sets, wanted, mask) }
}

// --- for semaphores ---

/// Takes a semaphore at once. None: it has to wait.
///
/// # Safety
///
/// - As libc's `sem_trywait`.
unsafe fn try_semaphore(semaphore: *mut sem_t) -> Option<c_int> {
    // SAFETY: by contract.
    match unsafe { libc::sem_trywait(semaphore) } {
        -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) => None,
        answer => Some(answer),
    }
}

/// What a wait for a semaphore until a time answers. None outside of a host.
///
/// # Safety
///
/// - As libc's `sem_clockwait`.
unsafe fn semaphore_until(
    semaphore: *mut sem_t,
    clock: clockid_t,
    until: *const timespec,
) -> Option<c_int> {
    world::current_host()?;
    // SAFETY: by contract.
    unsafe {
        if let Some(answer) = try_semaphore(semaphore) {
            return Some(answer);
        }
        Some(fails(match sleeps(clock, true, *until)? {
            0 => libc::ETIMEDOUT,
            error => error,
        }))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    // SAFETY: by the contract of libc.
    let answer = unsafe { semaphore_until(semaphore, libc::CLOCK_REALTIME, until) };
    answer.unwrap_or_else(|| {
        let system = system!(sem_timedwait: fn(*mut sem_t, *const timespec) -> c_int);
        // SAFETY: by the contract of libc.
        unsafe { system(semaphore, until) }
    })
}

/// musl has none.
#[cfg(target_env = "gnu")]
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    if !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC) {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    let answer = unsafe { semaphore_until(semaphore, clock, until) };
    answer.unwrap_or_else(|| {
        let system = system!(sem_clockwait: fn(*mut sem_t, clockid_t, *const timespec) -> c_int);
        // SAFETY: by the contract of libc.
        unsafe { system(semaphore, clock, until) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    if world::current_host().is_none() {
        let system = system!(sem_wait: fn(*mut sem_t) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(semaphore) };
    }
    // SAFETY: by the contract of libc.
    if let Some(answer) = unsafe { try_semaphore(semaphore) } {
        return answer;
    }
    let mut until = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let system = system!(sem_timedwait: fn(*mut sem_t, *const timespec) -> c_int);
    // SAFETY: by the contract of libc, and there is room for a time.
    let answer = unsafe {
        call()(
            libc::SYS_clock_gettime,
            libc::CLOCK_REALTIME,
            &raw mut until,
        );
        until.tv_sec += PATIENCE.as_secs() as super::Seconds;
        system(semaphore, &raw const until)
    };
    if answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) {
        never_goes_on();
    }
    answer
}

// --- for the locks and conditions of `threads.h` ---

/// What these functions answer.
const BUSY: c_int = 1;
const TIMED_OUT: c_int = 4;

/// Sleeps until the calendar shows a time. None outside of a host.
///
/// # Safety
///
/// - The time is valid.
unsafe fn too_late(until: *const timespec) -> Option<c_int> {
    // SAFETY: by contract.
    let slept = sleeps(libc::CLOCK_REALTIME, true, unsafe { ptr::read(until) });
    slept.map(|error| if error == 0 { TIMED_OUT } else { ERROR })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_timedlock(mutex: *mut c_void, until: *const timespec) -> c_int {
    if world::current_host().is_some() {
        let tries = system!(mtx_trylock: fn(*mut c_void) -> c_int);
        // SAFETY: by the contract of libc.
        match unsafe { tries(mutex) } {
            // SAFETY: by the contract of libc.
            BUSY => return unsafe { too_late(until) }.unwrap_or(ERROR),
            answer => return answer,
        }
    }
    let system = system!(mtx_timedlock: fn(*mut c_void, *const timespec) -> c_int);
    // SAFETY: by the contract of libc.
    unsafe { system(mutex, until) }
}

/// In a host it lets nobody else have the lock meanwhile.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_timedwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { too_late(until) }.unwrap_or_else(|| {
        let system = system!(
            cnd_timedwait: fn(*mut c_void, *mut c_void, *const timespec) -> c_int
        );
        // SAFETY: by the contract of libc.
        unsafe { system(condition, mutex, until) }
    })
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    select as *const c_void,
    pselect as *const c_void,
    sem_timedwait as *const c_void,
    #[cfg(target_env = "gnu")]
    {
        sem_clockwait as *const c_void
    },
    sem_wait as *const c_void,
    mtx_timedlock as *const c_void,
    cnd_timedwait as *const c_void,
];
