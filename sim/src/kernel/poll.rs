//! Waiting for many descriptors: epoll, poll, eventfd.
//!
//! A host's epoll descriptor is a simulated one. It watches simulated descriptors alone: a real one
//! would bring the system's time into the simulation, and answers `EPERM`, as a regular file does.
//!
//! An epoll file has a queue of watches for which something happened. As in the kernel,
//! `epoll_wait` takes each from the queue, and reports what its file is ready for *now*. A watch
//! without `EPOLLET` goes back to the end of the queue as long as its file is ready.
#![allow(unsafe_code)]

use std::{
    collections::{BTreeMap, VecDeque},
    io, ptr, slice,
};

use libc::{c_int, c_uint, c_void, epoll_event, nfds_t, pollfd, timespec};

use super::{
    answer, fails, files::Kind, is_of_system, is_ours, number, system::call, timers::nanoseconds,
    would_wait,
};
use crate::{
    error::os,
    world::{self, World},
};

/// Reported whether they were asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// What an exclusive watch may ask for.
const WITH_EXCLUSIVE: u32 = EXCLUSIVE
    | ALWAYS
    | (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET | libc::EPOLLWAKEUP) as u32;

/// Epoll files in each other at most: `EP_MAX_NESTS` of Linux.
const NESTS: usize = 4;

/// A number, and the file that it stood for when it was added.
type Key = (c_int, usize);

/// What an epoll file watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watched: BTreeMap<Key, Watch>,
    queue: VecDeque<Key>,
}

#[derive(Debug)]
struct Watch {
    events: u32,
    data: u64,
    is_queued: bool,
}

impl Watch {
    fn wants(&self) -> u32 {
        self.events & !((libc::EPOLLET | libc::EPOLLONESHOT) as u32 | EXCLUSIVE)
    }
}

impl Watches {
    /// Files for which something happened, and what is asked of each.
    pub(super) fn queued(&self) -> impl Iterator<Item = (usize, u32)> {
        let watches = self.queue.iter().map(|key| (key.1, &self.watched[key]));
        watches.map(|(file, watch)| (file, watch.wants()))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Key> {
        self.watched.keys().copied()
    }

    pub(super) fn forget(&mut self, key: Key) {
        if self
            .watched
            .remove(&key)
            .is_some_and(|watch| watch.is_queued)
        {
            self.queue.retain(|queued| *queued != key);
        }
    }

    /// Queues the watch if it wants to know. Tells whether it does.
    pub(super) fn note(&mut self, key: Key, ready: u32) -> bool {
        let Some(watch) = self.watched.get_mut(&key) else {
            return false;
        };
        let wants = watch.wants() & ready != 0;
        if wants && !watch.is_queued {
            watch.is_queued = true;
            self.queue.push_back(key);
        }
        wants
    }
}

impl World {
    fn watches(&mut self, epoll: c_int) -> io::Result<(usize, &mut Watches)> {
        let file = self.files.of(epoll)?;
        match &mut self.files.open[file].kind {
            Kind::Epoll(watches) => Ok((file, watches)),
            _ => Err(os(libc::EINVAL)),
        }
    }

    fn watch(&mut self, epoll: c_int, call: c_int, fd: c_int, to: (u32, u64)) -> io::Result<()> {
        self.files.used(epoll)?;
        if !is_ours(fd) {
            return Err(os(match is_of_system(fd) {
                true => libc::EPERM,
                false => libc::EBADF,
            }));
        }
        if let Kind::File(_) = self.files.used(fd)?.kind {
            return Err(os(libc::EPERM));
        }
        let watched = self.files.of(fd)?;
        let (file, _) = self.watches(epoll)?;
        if file == watched {
            return Err(os(libc::EINVAL));
        }
        if to.0 & EXCLUSIVE != 0 {
            let is_epoll = matches!(self.files.open[watched].kind, Kind::Epoll(_));
            match call {
                libc::EPOLL_CTL_ADD if is_epoll || to.0 & !WITH_EXCLUSIVE != 0 => {
                    return Err(os(libc::EINVAL));
                }
                libc::EPOLL_CTL_MOD => return Err(os(libc::EINVAL)),
                _ => {}
            }
        }
        if call == libc::EPOLL_CTL_ADD && self.nests(watched, file).is_none_or(|n| n >= NESTS) {
            return Err(os(libc::ELOOP));
        }
        let (_, watches) = self.watches(epoll)?;
        let key = (fd, watched);
        let known = watches.watched.get_mut(&key);
        let (events, data) = (to.0 | ALWAYS, to.1);
        match (call, known) {
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(os(libc::EEXIST)),
            (libc::EPOLL_CTL_ADD, None) => {
                let is_queued = false;
                let watch = Watch {
                    events,
                    data,
                    is_queued,
                };
                watches.watched.insert(key, watch);
                self.files.open[watched].watchers.push((file, fd));
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(os(libc::ENOENT)),
            (libc::EPOLL_CTL_MOD, Some(watch)) if watch.events & EXCLUSIVE == 0 => {
                (watch.events, watch.data) = (events, data);
            }
            (libc::EPOLL_CTL_DEL, Some(_)) => {
                watches.forget(key);
                let watchers = &mut self.files.open[watched].watchers;
                watchers.retain(|watcher| *watcher != (file, fd));
                return Ok(());
            }
            _ => return Err(os(libc::EINVAL)),
        }
        // What it is ready for at this moment is reported.
        let ready = self.readiness(watched);
        let (_, watches) = self.watches(epoll)?;
        if watches.note(key, ready) {
            let host = self.files.open[file].host;
            self.hosts[host].edges += 1;
            self.edge(file, libc::EPOLLIN as u32);
        }
        Ok(())
    }

    /// How deep the epoll files are that one watches. None if `outer` is among them.
    fn nests(&self, file: usize, outer: usize) -> Option<usize> {
        if file == outer {
            return None;
        }
        let Kind::Epoll(watches) = &self.files.open[file].kind else {
            return Some(0);
        };
        let mut inner = watches.all().map(|(_, file)| self.nests(file, outer));
        inner.try_fold(0, |most, one| Some(most.max(one? + 1)))
    }

    fn report(&mut self, epoll: c_int, out: &mut [epoll_event]) -> io::Result<usize> {
        self.spread_news();
        let (_, watches) = self.watches(epoll)?;
        let mut reported = 0;
        for _ in 0..watches.queue.len() {
            if reported == out.len() {
                break;
            }
            let (_, watches) = self.watches(epoll)?;
            let key = watches.queue.pop_front().expect("it is as long as it was");
            let ready = self.readiness(key.1);
            let (_, watches) = self.watches(epoll)?;
            let watch = watches
                .watched
                .get_mut(&key)
                .expect("what is queued is watched");
            watch.is_queued = false;
            let events = ready & watch.wants();
            if events == 0 {
                continue;
            }
            out[reported] = epoll_event {
                events,
                u64: watch.data,
            };
            reported += 1;
            if watch.events & libc::EPOLLONESHOT as u32 != 0 {
                // After its one report it has no events, not even those that come always.
                watch.events &= (libc::EPOLLET | libc::EPOLLONESHOT) as u32;
            } else if watch.events & libc::EPOLLET as u32 == 0 {
                watch.is_queued = true;
                watches.queue.push_back(key);
            }
        }
        Ok(reported)
    }
}

/// The number of a new file of the current host, or -1.
pub(super) fn open(flags: c_int, kind: impl FnOnce() -> io::Result<Kind>) -> Option<c_int> {
    let opened = world::with_host(|world, host| {
        let kind = kind()?;
        world.files.have_room(1)?;
        Ok(world.files.open(host, kind, flags))
    });
    opened.map(|opened: io::Result<c_int>| opened.unwrap_or_else(|error| fails(number(&error))))
}

/// The answer of a call that gives a number.
fn counted(result: io::Result<usize>) -> c_int {
    match result {
        Ok(count) => count as c_int,
        Err(error) => fails(number(&error)),
    }
}

pub(super) fn in_world<R>(f: impl FnOnce(&mut World) -> io::Result<R>) -> io::Result<R> {
    world::with(f).unwrap_or_else(|| Err(os(libc::EBADF)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    let made = open(flags, || match flags & !libc::EPOLL_CLOEXEC {
        0 => Ok(Kind::Epoll(Watches::default())),
        _ => Err(os(libc::EINVAL)),
    });
    made
        // SAFETY: it takes no pointers.
        .unwrap_or_else(|| unsafe { call()(libc::SYS_epoll_create1, flags) as c_int })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        return fails(libc::EINVAL);
    }
    // SAFETY: it takes no pointers.
    unsafe { epoll_create1(0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if !is_ours(epoll) {
        // A simulated descriptor is none of the system's, which answers EBADF.
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_epoll_ctl, epoll, operation, fd, event) as c_int };
    }
    let to = if operation == libc::EPOLL_CTL_DEL {
        (0, 0)
    } else if event.is_null() {
        return fails(libc::EFAULT);
    } else {
        // SAFETY: by the contract of libc.
        let event = unsafe { ptr::read_unaligned(event) };
        (event.events, event.u64)
    };
    answer(in_world(|world| world.watch(epoll, operation, fd, to)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
) -> c_int {
    if !is_ours(epoll) {
        let none = ptr::null::<libc::sigset_t>();
        // SAFETY: by the contract of libc. Without a mask it is `epoll_wait`.
        return unsafe {
            call()(
                libc::SYS_epoll_pwait,
                epoll,
                events,
                max,
                timeout,
                none,
                8_usize,
            ) as c_int
        };
    }
    if max <= 0 || events.is_null() {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc. It is written to, and not read.
    let out = unsafe { slice::from_raw_parts_mut(events, max as usize) };
    match in_world(|world| world.report(epoll, out)) {
        Ok(0) if timeout != 0 => would_wait(),
        result => counted(result),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    if is_ours(epoll) {
        // SAFETY: by the contract of libc.
        return unsafe { epoll_wait(epoll, events, max, timeout) };
    }
    // SAFETY: by the contract of libc.
    unsafe {
        call()(
            libc::SYS_epoll_pwait,
            epoll,
            events,
            max,
            timeout,
            mask,
            8_usize,
        ) as c_int
    }
}

/// Sleeps in the host that runs.
pub(super) fn sleeps_for(ns: u64) {
    world::with_host(|world, host| {
        let until = world.time_after(host, ns);
        world.sleeps(host, until);
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if c_int::try_from(count).is_err() {
        // More than a process may have open.
        return fails(libc::EINVAL);
    }
    let fds = if count == 0 {
        &mut [][..]
    } else {
        // SAFETY: by the contract of libc.
        unsafe { slice::from_raw_parts_mut(fds, count as usize) }
    };
    if fds.is_empty() && world::current_host().is_some() {
        if timeout < 0 {
            return would_wait();
        }
        sleeps_for(u64::from(timeout.unsigned_abs()) * 1_000_000);
        return 0;
    }
    if !fds.iter().any(|one| is_ours(one.fd)) {
        // SAFETY: by the contract of libc.
        return unsafe { system_poll(fds, timeout) };
    }
    let mut ready = 0;
    for one in fds.iter_mut() {
        if !is_ours(one.fd) {
            // SAFETY: it is one valid entry.
            unsafe { system_poll(slice::from_mut(one), 0) };
        } else {
            let bits = world::with(|world| {
                world.files.used(one.fd).ok()?;
                let file = world.files.of(one.fd).ok()?;
                Some(world.readiness(file) as i16)
            });
            one.revents = match bits.flatten() {
                Some(bits) => bits & (one.events | ALWAYS as i16),
                None => libc::POLLNVAL,
            };
        }
        ready += c_int::from(one.revents != 0);
    }
    if ready == 0 && timeout != 0 {
        return would_wait();
    }
    ready
}

/// A time to wait as `poll` has it: rounded up, and -1 without a time.
///
/// # Safety
///
/// - `time` is null, or valid for reads.
unsafe fn milliseconds(time: *const timespec) -> io::Result<c_int> {
    if time.is_null() {
        return Ok(-1);
    }
    // SAFETY: by contract.
    let ns = nanoseconds(unsafe { ptr::read_unaligned(time) })?;
    Ok(c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    if world::current_host().is_some() {
        // SAFETY: by the contract of libc.
        return unsafe {
            match milliseconds(time) {
                Ok(time) => poll(fds, count, time),
                Err(error) => fails(number(&error)),
            }
        };
    }
    // SAFETY: by the contract of libc. It is null or valid.
    let mut left = unsafe { time.as_ref() }.copied();
    let copy = left.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: by the contract of libc. The kernel changes the copy of the time alone.
    unsafe { call()(libc::SYS_ppoll, fds, count, copy, mask, 8_usize) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    max: c_int,
    time: *const timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    if is_ours(epoll) {
        // SAFETY: by the contract of libc.
        return unsafe {
            match milliseconds(time) {
                Ok(time) => epoll_wait(epoll, events, max, time),
                Err(error) => fails(number(&error)),
            }
        };
    }
    // SAFETY: by the contract of libc.
    unsafe {
        call()(
            libc::SYS_epoll_pwait2,
            epoll,
            events,
            max,
            time,
            mask,
            8_usize,
        ) as c_int
    }
}

/// # Safety
///
/// - As libc's `poll`.
unsafe fn system_poll(fds: &mut [pollfd], timeout: c_int) -> c_int {
    let mut time = timespec {
        tv_sec: (timeout / 1000).into(),
        tv_nsec: (timeout % 1000 * 1_000_000).into(),
    };
    let time = if timeout < 0 {
        ptr::null_mut()
    } else {
        &raw mut time
    };
    let none = ptr::null::<libc::sigset_t>();
    // SAFETY: by contract. The time, which the kernel changes, lives until the call returns.
    unsafe {
        call()(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            time,
            none,
            8_usize,
        ) as c_int
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd(count: c_uint, flags: c_int) -> c_int {
    let is_semaphore = flags & libc::EFD_SEMAPHORE != 0;
    let count = count.into();
    let kind = Kind::Event {
        count,
        is_semaphore,
    };
    let known = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE;
    let made = open(flags, || match flags & !known {
        0 => Ok(kind),
        _ => Err(os(libc::EINVAL)),
    });
    made
        // SAFETY: it takes no pointers.
        .unwrap_or_else(|| unsafe { call()(libc::SYS_eventfd2, count, flags) as c_int })
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    epoll_create1 as *const c_void,
    epoll_create as *const c_void,
    epoll_ctl as *const c_void,
    epoll_wait as *const c_void,
    epoll_pwait as *const c_void,
    poll as *const c_void,
    ppoll as *const c_void,
    epoll_pwait2 as *const c_void,
    eventfd as *const c_void,
];
