//! What any descriptor has: its end, its copies, its flags.
#![allow(unsafe_code)]

use std::ptr;

use libc::{c_char, c_int, c_long, c_ulong, c_void};

use super::{
    FIRST, answer, fails,
    files::{File, Kind},
    is_ours, number,
    sockets::os,
    system::call,
};
use crate::world;

/// The flags of `open` that a file keeps.
const STATUS: c_int = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_NOATIME
    | libc::O_NOFOLLOW
    | libc::O_PATH
    | libc::O_TMPFILE;

/// Whether the simulation of a descriptor is over, or has another thread: see `files.rs`.
fn is_of_an_ended_run(fd: c_int) -> bool {
    world::with(|world| !world.files.has(fd)).unwrap_or(true)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_close, fd) as c_int };
    }
    if is_of_an_ended_run(fd) {
        return 0;
    }
    let closed = world::with(|world| world.close(fd));
    answer(closed.unwrap_or_else(|| Err(os(libc::EBADF))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_fcntl, fd, command, argument) as c_int };
    }
    if command == libc::F_GETFD && is_of_an_ended_run(fd) {
        return libc::FD_CLOEXEC;
    }
    let done = world::with(|world| {
        let flags = argument as c_int;
        let file = world.files.of(fd)?;
        match command {
            // Simulated numbers are above all that a program may ask for.
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if !(0..FIRST).contains(&flags) => {
                Err(os(libc::EINVAL))
            }
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                world.files.have_room(1)?;
                Ok(world.files.number(file))
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
                    Kind::File(open) => open.flags & STATUS,
                    _ => libc::O_RDWR,
                };
                Ok(flags | if *nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                let file = world.files.get(fd)?;
                file.nonblocking = flags & libc::O_NONBLOCK != 0;
                if let Kind::File(open) = &mut file.kind {
                    open.flags = open.flags & !libc::O_APPEND | flags & libc::O_APPEND;
                }
                Ok(0)
            }
            // These locks are the process's, and each host is one: nobody else has them.
            libc::F_SETLK | libc::F_SETLKW => {
                world.files.file(fd)?;
                Ok(0)
            }
            libc::F_GETLK => {
                world.files.file(fd)?;
                let lock = ptr::with_exposed_provenance_mut::<libc::flock>(argument as usize);
                // SAFETY: by the contract of libc.
                unsafe { (*lock).l_type = libc::F_UNLCK as libc::c_short };
                Ok(0)
            }
            _ => Err(os(libc::EINVAL)),
        }
    });
    match done.unwrap_or_else(|| Err(os(libc::EBADF))) {
        Ok(value) => value,
        Err(error) => fails(number(&error)),
    }
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

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_char) -> c_int {
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
        } = world.files.get(fd)?;
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
                    _ => world.net.unread(kind.socket()?)? as c_int,
                };
                // SAFETY: as above.
                unsafe { ptr::write_unaligned(argument, waits) };
                Ok(())
            }
            libc::FIOCLEX => {
                *world.files.flags(fd)? = libc::FD_CLOEXEC;
                Ok(())
            }
            _ => Err(os(libc::ENOTTY)),
        }
    });
    answer(done.unwrap_or_else(|| Err(os(libc::EBADF))))
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[
    close as *const c_void,
    fcntl as *const c_void,
    fcntl64 as *const c_void,
    dup as *const c_void,
    ioctl as *const c_void,
];
