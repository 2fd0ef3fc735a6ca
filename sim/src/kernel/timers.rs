//! timerfd: descriptors that are readable from a time on.
//!
//! A timer is due when the monotonic clock of its host shows `next`. Whether it is, and how often
//! it has been, follows from the clock. So nothing has to happen when it becomes due but to tell
//! those that watch it. For that an alarm is in the network's queue of events, which the time moves
//! along. A clock that jumps or drifts sets the alarms of its host anew.
//!
//! A timer of the calendar is the same: its time is that of the monotonic clock at which the
//! calendar will show it. A calendar that is set later does not move it.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{c_int, c_void, itimerspec, timespec};

use super::{
    answer,
    clock::{BOOT, CALENDAR, SECOND},
    files::Kind,
    is_ours,
    poll::{in_world, open},
    sockets::or_deadlock,
    system::call,
};
use crate::{
    error::os,
    network::EventKey,
    world::{Host, World},
};

/// The longest time that Linux waits: `KTIME_MAX`, in nanoseconds.
const LONGEST: u64 = i64::MAX as u64;

#[derive(Debug)]
pub(crate) struct Timer {
    is_calendar: bool,
    /// When it is due next, as the monotonic clock shows it. None: it is disarmed.
    next: Option<u64>,
    /// Zero: it is due once.
    interval: u64,
    pub(super) alarm: Option<EventKey>,
}

impl Timer {
    /// How often it is due now and was not read.
    fn count(&self, shown: u64) -> u64 {
        match self.next.and_then(|next| shown.checked_sub(next)) {
            None => 0,
            Some(_) if self.interval == 0 => 1,
            Some(late) => 1 + late / self.interval,
        }
    }

    /// The first of its times after those that are [counted](Self::count).
    fn following(&self, next: u64, shown: u64) -> u64 {
        next.saturating_add(self.count(shown).saturating_mul(self.interval))
    }

    pub(super) fn is_due(&self, shown: u64) -> bool {
        self.count(shown) > 0
    }

    /// Takes the count of a read, at which the next time is in the future.
    pub(super) fn take(&mut self, shown: u64) -> u64 {
        let count = self.count(shown);
        if count > 0 {
            self.next = match self.interval {
                0 => None,
                _ => self.next.map(|next| self.following(next, shown)),
            };
        }
        count
    }

    /// What is left to the next time, and the interval.
    fn setting(&self, shown: u64) -> itimerspec {
        let left = self.next.map_or(0, |next| match next.checked_sub(shown) {
            Some(left) if left > 0 => left,
            // It is due already. The next time is what counts.
            _ if self.interval == 0 => 0,
            _ => self.following(next, shown) - shown,
        });
        itimerspec {
            it_interval: spec(self.interval),
            it_value: spec(left),
        }
    }
}

fn spec(ns: u64) -> timespec {
    timespec {
        tv_sec: (ns / SECOND) as super::Seconds,
        tv_nsec: (ns % SECOND) as libc::c_long,
    }
}

/// `EINVAL` if it is no time.
pub(super) fn nanoseconds(time: timespec) -> io::Result<u64> {
    let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    match (seconds, rest) {
        (Ok(seconds), Ok(rest)) if rest < SECOND => Ok(match seconds >= LONGEST / SECOND {
            true => LONGEST,
            false => seconds * SECOND + rest,
        }),
        _ => Err(os(libc::EINVAL)),
    }
}

impl World {
    fn timer(&mut self, fd: c_int) -> io::Result<&mut Timer> {
        match &mut self.files.get(fd)?.kind {
            Kind::Timer(timer) => Ok(timer),
            _ => Err(os(libc::EINVAL)),
        }
    }

    /// The count of a read: `EAGAIN` if it is not due.
    pub(super) fn read_timer(&mut self, fd: c_int) -> io::Result<u64> {
        let file = self.files.get(fd)?;
        let (host, nonblocking) = (file.host, file.nonblocking);
        let shown = self.shown(host);
        match self.timer(fd)?.take(shown) {
            0 => or_deadlock(nonblocking, Err(os(libc::EAGAIN))),
            count => Ok(count),
        }
    }

    fn set_timer(&mut self, fd: c_int, new: itimerspec, is_absolute: bool) -> io::Result<()> {
        let (value, interval) = (nanoseconds(new.it_value)?, nanoseconds(new.it_interval)?);
        let (file, host) = (self.files.of(fd)?, self.files.get(fd)?.host);
        let (shown, skew) = (self.shown(host), self.hosts[host].skew);
        let timer = self.timer(fd)?;
        let at = match (is_absolute, timer.is_calendar) {
            (false, _) => shown.saturating_add(value),
            (true, false) => value.saturating_sub(BOOT),
            (true, true) => {
                let at = i128::from(value) - i128::from(CALENDAR) - i128::from(skew);
                at.clamp(0, u64::MAX.into()) as u64
            }
        };
        timer.next = (value > 0).then_some(at);
        timer.interval = interval;
        self.look_at(file, host);
        Ok(())
    }

    /// Tells of a timer at once if it is due, and else at its time.
    fn look_at(&mut self, file: usize, host: usize) {
        if self.is_due(file, host) {
            self.rings(file);
        } else {
            self.set_alarm(file);
        }
    }

    /// Plans when those that watch a timer are told.
    fn set_alarm(&mut self, file: usize) {
        let host = self.files.open[file].host;
        let shown = self.shown(host);
        let Host { clock, id, up, .. } = self.hosts[host];
        let Kind::Timer(timer) = &mut self.files.open[file].kind else {
            return;
        };
        if let Some(alarm) = timer.alarm.take() {
            self.net.cancel_alarm(alarm);
        }
        let Some(next) = timer.next.filter(|_| up) else {
            return;
        };
        // One that is due already has its next time in the future, or none.
        let next = timer.following(next, shown);
        let at = clock.time_of(next).max(self.net.now());
        timer.alarm = Some(self.net.set_alarm(id, file, at));
    }

    /// An alarm has come.
    pub(super) fn rings(&mut self, file: usize) {
        let Some(open) = self.files.open.get_mut(file) else {
            return;
        };
        let host = open.host;
        let Kind::Timer(timer) = &mut open.kind else {
            return;
        };
        if let Some(alarm) = timer.alarm.take() {
            self.net.cancel_alarm(alarm);
        }
        let repeats = timer.interval > 0;
        let is_due = self.is_due(file, host);
        if is_due {
            self.edge(file, libc::EPOLLIN as u32);
        }
        if repeats || !is_due {
            self.set_alarm(file);
        }
    }

    fn is_due(&self, file: usize, host: usize) -> bool {
        let shown = self.shown(host);
        matches!(&self.files.open[file].kind, Kind::Timer(timer) if timer.is_due(shown))
    }

    /// The program of a host is over: its timers ring no more.
    pub(crate) fn disarm(&mut self, host: usize) {
        let files = self.files.open.iter_mut();
        for (_, file) in files.filter(|(_, file)| file.host == host) {
            if let Kind::Timer(timer) = &mut file.kind {
                timer.next = None;
                if let Some(alarm) = timer.alarm.take() {
                    self.net.cancel_alarm(alarm);
                }
            }
        }
    }

    /// The clock of a host was set: what it shows at which time is another now.
    pub(crate) fn clock_is_set(&mut self, host: usize) {
        let files = self.files.open.iter();
        let its = files.filter(|(_, file)| {
            file.host == host && matches!(&file.kind, Kind::Timer(timer) if timer.alarm.is_some())
        });
        let its: Vec<usize> = its.map(|(key, _)| key).collect();
        for file in its {
            self.look_at(file, host);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    let is_calendar = [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_ALARM].contains(&clock);
    let is_monotonic = [
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_BOOTTIME_ALARM,
    ]
    .contains(&clock);
    let is_known =
        (is_calendar || is_monotonic) && flags & !(libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) == 0;
    let timer = Timer {
        is_calendar,
        next: None,
        interval: 0,
        alarm: None,
    };
    let made = open(flags, || match is_known {
        true => Ok(Kind::Timer(timer)),
        false => Err(os(libc::EINVAL)),
    });
    // SAFETY: it takes no pointers.
    made.unwrap_or_else(|| unsafe { call()(libc::SYS_timerfd_create, clock, flags) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_timerfd_settime, fd, flags, new, old) as c_int };
    }
    let known = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
    if new.is_null() {
        return super::fails(libc::EFAULT);
    }
    // SAFETY: by the contract of libc.
    let new = unsafe { ptr::read_unaligned(new) };
    answer(in_world(|world| {
        let host = world.files.get(fd)?.host;
        let before = world.shown(host);
        let before = world.timer(fd)?.setting(before);
        if flags & !known != 0 {
            return Err(os(libc::EINVAL));
        }
        world.set_timer(fd, new, flags & libc::TFD_TIMER_ABSTIME != 0)?;
        if !old.is_null() {
            // SAFETY: by the contract of libc.
            unsafe { ptr::write_unaligned(old, before) };
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_gettime(fd: c_int, out: *mut itimerspec) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_timerfd_gettime, fd, out) as c_int };
    }
    answer(in_world(|world| {
        let host = world.files.get(fd)?.host;
        let shown = world.shown(host);
        let setting = world.timer(fd)?.setting(shown);
        // SAFETY: by the contract of libc.
        unsafe { ptr::write_unaligned(out, setting) };
        Ok(())
    }))
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    timerfd_create as *const c_void,
    timerfd_settime as *const c_void,
    timerfd_gettime as *const c_void,
];
