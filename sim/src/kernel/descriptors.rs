//! What any descriptor has: its end, its copies, its flags.
#![allow(unsafe_code)]

use std::{io, mem, ptr};

use libc::{c_char, c_int, c_long, c_uint, c_void};

use super::{
    FIRST, answer, fails,
    files::{File, Kind},
    is_ours, number,
    system::{call, system},
};
use crate::{
    disk::Range,
    error::os,
    world::{self, World},
};

/// The flags of `open` that a file keeps.
const STATUS: c_int = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_NOATIME
    | libc::O_NOFOLLOW
    | libc::O_PATH
    | libc::O_TMPFILE;

/// Asks a socket whether the next byte is after urgent data. It is this number on all systems that
/// this is compiled for.
const SIOCATMARK: libc::Ioctl = 0x8905;

/// `O_LARGEFILE` as the kernel has it: it is on for each file of a system with 64 bits.
const LARGE: c_int = match cfg!(target_arch = "aarch64") {
    true => 0o400_000,
    false => 0o100_000,
};

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_close, fd) as c_int };
    }
    let closed = world::with(|world| match world.files.has(fd) {
        true => world.close(fd),
        // One of an ended run is closed already, and its owner may close it.
        false => Ok(()),
    });
    answer(closed.unwrap_or(Ok(())))
}

/// In a host it closes the host's descriptors alone. The machine's are those of the test as well.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let known = (libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC) as c_int;
    let done = world::with_host(|world, host| {
        if flags & !known != 0 || first > last {
            return Err(os(libc::EINVAL));
        }
        for fd in world.files.numbers_of(host) {
            match (first..=last).contains(&fd.unsigned_abs()) {
                true if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 => {
                    *world.files.flags(fd)? = libc::FD_CLOEXEC;
                }
                true => world.close(fd)?,
                false => {}
            }
        }
        Ok(())
    });
    // SAFETY: it takes no pointers.
    done.map_or_else(
        || unsafe { call()(libc::SYS_close_range, first, last, flags) as c_int },
        answer,
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    if world::current_host().is_some() {
        // SAFETY: it takes no pointers. It fails for no such range.
        unsafe { close_range(first.max(0).unsigned_abs(), c_uint::MAX, 0) };
        return;
    }
    let system = system!(closefrom: fn(c_int) -> ());
    // SAFETY: it takes no pointers.
    unsafe { system(first) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_fcntl, fd, command, argument) as c_int };
    }
    if command == libc::F_GETFD && world::with(|world| world.files.has(fd)) != Some(true) {
        // Of an ended run, or of another thread's: see `files.rs`.
        return libc::FD_CLOEXEC;
    }
    let done = world::with(|world| {
        let flags = argument as c_int;
        let file = world.files.of(fd)?;
        let is_of_paths = matches!(
            command,
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_GETFD | libc::F_SETFD | libc::F_GETFL
        );
        if !is_of_paths {
            world.files.used(fd)?;
        }
        match command {
            // Simulated numbers are above all that a program may ask for.
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if !(0..FIRST).contains(&flags) => {
                Err(os(libc::EINVAL))
            }
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                world.files.have_room(1)?;
                let closes_on_exec = command == libc::F_DUPFD_CLOEXEC;
                Ok(world.files.number(file, closes_on_exec))
            }
            // No signal of input and output comes here.
            libc::F_GETOWN => Ok(0),
            libc::F_SETOWN => Ok(0),
            libc::F_GETFD => Ok(*world.files.flags(fd)?),
            libc::F_SETFD => {
                *world.files.flags(fd)? = flags & libc::FD_CLOEXEC;
                Ok(0)
            }
            libc::F_GETFL => {
                let File {
                    nonblocking, kind, ..
                } = world.files.get(fd)?;
                let flags = match kind {
                    Kind::File(open) if open.is_path() => open.flags & STATUS,
                    Kind::File(open) => open.flags & STATUS | LARGE,
                    Kind::Pipe(end) if end.writes => libc::O_WRONLY,
                    Kind::Pipe(_) => libc::O_RDONLY,
                    _ => libc::O_RDWR,
                };
                Ok(flags | if *nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                let file = world.files.get(fd)?;
                file.nonblocking = flags & libc::O_NONBLOCK != 0;
                if let Kind::File(open) = &mut file.kind {
                    const SET: c_int = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME;
                    open.flags = open.flags & !SET | flags & SET;
                }
                Ok(0)
            }
            libc::F_GETPIPE_SZ | libc::F_SETPIPE_SZ => {
                let Kind::Pipe(end) = world.files.get(fd)?.kind else {
                    return Err(os(libc::EBADF));
                };
                let capacity = match command {
                    libc::F_GETPIPE_SZ => world.pipes.capacity(end),
                    _ => world.pipes.set_capacity(end, flags)?,
                };
                Ok(capacity as c_int)
            }
            libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK => {
                let lock = ptr::with_exposed_provenance_mut::<libc::flock>(argument as usize);
                // SAFETY: by the contract of libc.
                unsafe { lock_range(world, fd, lock, command == libc::F_GETLK) }
            }
            _ => Err(os(libc::EINVAL)),
        }
    });
    match done.unwrap_or_else(|| Err(os(libc::EBADF))) {
        Ok(value) => value,
        Err(error) => fails(number(&error)),
    }
}

/// Takes a lock of a range if no other program has one. If it `asks`, it says so and takes none.
///
/// # Safety
///
/// - The lock is valid for reads and writes.
unsafe fn lock_range(
    world: &mut World,
    fd: c_int,
    lock: *mut libc::flock,
    asks: bool,
) -> io::Result<c_int> {
    let World { files, hosts, .. } = world;
    let host = files.get(fd)?.host;
    let open = files.file(fd)?;
    // SAFETY: by contract.
    let lock = unsafe { &mut *lock };
    let range = Range {
        kind: lock.l_type.into(),
        from: lock.l_whence.into(),
        start: lock.l_start,
        len: lock.l_len,
    };
    hosts[host].disk.lock_range(open, range, asks)?;
    if asks {
        lock.l_type = libc::F_UNLCK as libc::c_short;
    }
    Ok(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fcntl(fd, command, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_dup, fd) as c_int };
    }
    // SAFETY: the command takes no pointer.
    unsafe { fcntl(fd, libc::F_DUPFD, 0) }
}

/// The error of a request that a file does not know.
pub(super) fn no_request(kind: &Kind) -> c_int {
    match kind {
        Kind::Epoll(_) | Kind::Random => libc::EINVAL,
        _ => libc::ENOTTY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: libc::Ioctl, argument: *mut c_char) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_ioctl, fd, request, argument) as c_int };
    }
    let argument = argument.cast::<c_int>();
    let done = world::with(|world| {
        let File {
            host,
            nonblocking,
            kind,
            ..
        } = world.files.used(fd)?;
        match request {
            libc::FIONBIO => {
                // SAFETY: this request has a pointer to a number.
                *nonblocking = unsafe { ptr::read_unaligned(argument) } != 0;
                Ok(())
            }
            libc::FIONREAD => {
                let waits = match kind {
                    Kind::Unix(id) => world.unix.unread(*id)? as c_int,
                    Kind::File(open) => world.hosts[*host].disk.unread(open)? as c_int,
                    Kind::Pipe(end) => world.pipes.unread(*end) as c_int,
                    _ => match kind.socket() {
                        Ok(socket) => world.net.unread(socket)? as c_int,
                        Err(_) => return Err(os(no_request(kind))),
                    },
                };
                // SAFETY: as above.
                unsafe { ptr::write_unaligned(argument, waits) };
                Ok(())
            }
            libc::TIOCOUTQ if matches!(kind, Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_)) => {
                let waits = match kind {
                    Kind::Unix(id) => world.unix.unread_by_others(*id)? as c_int,
                    _ => world.net.unacknowledged(kind.socket()?)? as c_int,
                };
                // SAFETY: as above.
                unsafe { ptr::write_unaligned(argument, waits) };
                Ok(())
            }
            SIOCATMARK if matches!(kind, Kind::Tcp(_) | Kind::Unix(_)) => {
                // No urgent data ever comes.
                // SAFETY: as above.
                unsafe { ptr::write_unaligned(argument, 0) };
                Ok(())
            }
            libc::FIOCLEX | libc::FIONCLEX => {
                let closes = request == libc::FIOCLEX;
                *world.files.flags(fd)? = if closes { libc::FD_CLOEXEC } else { 0 };
                Ok(())
            }
            _ => Err(os(no_request(kind))),
        }
    });
    answer(done.unwrap_or_else(|| Err(os(libc::EBADF))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sockatmark(fd: c_int) -> c_int {
    let mut is_at = 0;
    // SAFETY: the number is valid for writes.
    match unsafe { ioctl(fd, SIOCATMARK, (&raw mut is_at).cast()) } {
        0 => is_at,
        failed => failed,
    }
}

/// Whether a descriptor is of a kind, as `stat` has it.
#[unsafe(no_mangle)]
unsafe extern "C" fn isfdtype(fd: c_int, kind: c_int) -> c_int {
    // SAFETY: plain data.
    let mut about: libc::stat64 = unsafe { mem::zeroed() };
    // SAFETY: there is room for it.
    match unsafe { libc::fstat64(fd, &raw mut about) } {
        0 => (about.st_mode & libc::S_IFMT == kind.unsigned_abs()).into(),
        failed => failed,
    }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    close as *const c_void,
    close_range as *const c_void,
    closefrom as *const c_void,
    fcntl as *const c_void,
    fcntl64 as *const c_void,
    dup as *const c_void,
    ioctl as *const c_void,
    isfdtype as *const c_void,
    sockatmark as *const c_void,
];
