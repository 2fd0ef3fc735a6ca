//! What mio does not offer: a timer inside the poll that counts nanoseconds. An island of `unsafe`
//! code.
//!
//! mio's own timeout is that of `epoll_wait`, in whole milliseconds, and it is an argument of the
//! wait: no thread can bring it forward without waking the waiting one. A timerfd is an ordinary
//! source in the same epoll, is set by any thread, and expires when the kernel's high-resolution
//! clock says so, without the 50 us of slack that the kernel adds to timeouts of waiting threads.
//! (`epoll_pwait2` counts nanoseconds too, but it has the slack, needs Linux 5.11, and mio does not
//! call it.)
//!
//! # The safe interface
//!
//! [`Timer::set`] takes nanoseconds since [`Timer::origin`], an `Instant`, and sets the timer to
//! that absolute time; a time that has passed expires at once. `Instant` does not tell its value,
//! so [`Timer::new`] reads the origin first and the kernel's clock afterwards: the difference
//! between the two reads makes the timer late by that much, and never early. The closest of a few
//! such pairs is taken, in case the thread was preempted between the two reads.
//!
//! The descriptor is never read. It is registered for edges, and setting it again both discards an
//! expiration that was not fetched and makes the next one an edge. So the read would be a system
//! call without a use.
//!
//! On other systems [`Timer`] is an empty structure, [`Timer::keeps_time`] is false, and the poller
//! hands its deadline to mio. So it is on Linux if a sandbox refuses `timerfd_create`, or one day
//! `timerfd_settime` (`refused.rs`). A process without a descriptor or memory for it gets an error
//! instead: a lesser runtime should not follow from a moment of want.
//!
//! kqueue's timeout counts nanoseconds. Rejected: a timer of kqueue's (`EVFILT_TIMER`). One system
//! call brings it forward, and one wakes the poller instead. Its units and its absolute times
//! differ from system to system.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "timerfd and the clock it counts by have no face in std or mio"
    )
)]

use std::io;
use std::time::Instant;

use mio::{Registry, Token};

#[cfg(target_os = "linux")]
use crate::refused::Facility;
#[cfg(target_os = "linux")]
use std::sync::atomic::Ordering::Relaxed;

/// The step of the timeout that mio gives to the system, in nanoseconds.
pub(crate) const TIMEOUT_STEP_NS: u64 = if cfg!(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd"
)) {
    1
} else {
    1_000_000
};

#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Timer {
    /// None: a sandbox refuses it.
    fd: Option<std::os::fd::OwnedFd>,
    /// Whether it can be set. Once false, it stays so.
    keeps_time: std::sync::atomic::AtomicBool,
    origin: Instant,
    /// What `CLOCK_MONOTONIC` said at the origin or a little later, in nanoseconds.
    clock_at_origin: u64,
}

#[cfg(target_os = "linux")]
impl Timer {
    /// Whether the timer wakes the poller. Otherwise the poller needs a timeout.
    pub(crate) fn keeps_time(&self) -> bool {
        self.keeps_time.load(Relaxed)
    }

    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let (origin, clock_at_origin) = origin()?;
        let fd = match Self::open(registry, token) {
            Ok(fd) => Some(fd),
            Err(error) if Facility::Timer.note(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            keeps_time: fd.is_some().into(),
            fd,
            origin,
            clock_at_origin,
        })
    }

    fn open(registry: &Registry, token: Token) -> io::Result<std::os::fd::OwnedFd> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

        // SAFETY: the call takes no pointers, and both flags are ones it knows.
        let fd = unsafe {
            libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        registry.register(
            &mut mio::unix::SourceFd(&fd.as_raw_fd()),
            token,
            mio::Interest::READABLE,
        )?;
        Ok(fd)
    }

    /// The moment that times are counted from.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Sets the timer to this many nanoseconds after the origin, in place of what it was set to.
    /// Does nothing if it does not keep time, also from now on.
    pub(crate) fn set(&self, at_ns: u64) -> io::Result<()> {
        use std::os::fd::AsRawFd;

        let Some(fd) = self.fd.as_ref().filter(|_| self.keeps_time()) else {
            return Ok(());
        };
        let setting = libc::itimerspec {
            it_interval: timespec(0),
            it_value: timespec(self.clock_at_origin.saturating_add(at_ns)),
        };
        // SAFETY: `fd` is a timerfd that lives as long as `self`; `setting` is read during the call
        // only, its nanoseconds are below a second (see `timespec`), and a null pointer says that
        // the old setting is not wanted.
        let answer = unsafe {
            libc::timerfd_settime(
                fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        };
        if answer == 0 {
            return Ok(());
        }
        // Whatever the system says, the timeout of the wait does it as well.
        let number = io::Error::last_os_error().raw_os_error();
        Facility::Timer.note_number(number.unwrap_or_default());
        self.keeps_time.store(false, Relaxed);
        Ok(())
    }
}

/// An instant, and the clock's value at that instant or later, but as little later as can be had.
#[cfg(target_os = "linux")]
fn origin() -> io::Result<(Instant, u64)> {
    /// Guessed: a preemption in each of so many pairs of reads is hardly possible.
    const TRIES: u32 = 8;

    let mut best: Option<(std::time::Duration, Instant, u64)> = None;
    for _ in 0..TRIES {
        let before = Instant::now();
        let clock = monotonic_ns()?;
        let gap = before.elapsed();
        if best.is_none_or(|(best_gap, ..)| gap < best_gap) {
            best = Some((gap, before, clock));
        }
    }
    let (_, origin, clock) = best.expect("there is at least one try");
    Ok((origin, clock))
}

/// The clock that `Instant` reads on Linux, and that the timer counts by.
#[cfg(target_os = "linux")]
fn monotonic_ns() -> io::Result<u64> {
    let mut now = timespec(0);
    // SAFETY: `now` is a timespec of ours, valid for the write.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(now.tv_sec).map_err(io::Error::other)?;
    let nanos = u64::try_from(now.tv_nsec).map_err(io::Error::other)?;
    Ok(seconds
        .saturating_mul(NANOS_PER_SECOND)
        .saturating_add(nanos))
}

#[cfg(target_os = "linux")]
const NANOS_PER_SECOND: u64 = 1_000_000_000;

#[cfg(target_os = "linux")]
fn timespec(ns: u64) -> libc::timespec {
    // SAFETY: a timespec is integers, and in some layouts padding; zeroes are valid for both.
    let mut spec: libc::timespec = unsafe { std::mem::zeroed() };
    // The types of the fields differ between architectures. All have room for 68 years. A longer
    // wait ends by then, and begins anew.
    spec.tv_sec = (ns / NANOS_PER_SECOND)
        .min(i32::MAX as u64)
        .try_into()
        .expect("68 years fit in any type of the field");
    spec.tv_nsec = (ns % NANOS_PER_SECOND)
        .try_into()
        .expect("less than a second of nanoseconds fits in any type of the field");
    spec
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Timer {
    origin: Instant,
}

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(crate) fn keeps_time(&self) -> bool {
        false
    }

    pub(crate) fn new(_: &Registry, _: Token) -> io::Result<Self> {
        Ok(Self {
            origin: Instant::now(),
        })
    }

    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    pub(crate) fn set(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
