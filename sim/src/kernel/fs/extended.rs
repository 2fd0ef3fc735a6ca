//! Less common ways to read, write and lock a file.
//!
//! | call | in a host |
//! | --- | --- |
//! | `preadv2`, `pwritev2` | as `preadv` and `pwritev`, with the flags that a disk can have |
//! | `readahead` | has no effect |
//! | `lockf` | is a lock of a range, as by `fcntl` |
#![allow(unsafe_code)]

use std::{io, mem};

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::{
    super::{answer, fails, is_ours, system::call, transfer::entries, transferred},
    data::{fdatasync, place, read_file, write_file},
    is_file, on_file,
};
use crate::error::os;

/// Flags that have no effect on a file of a simulated disk.
const NONE: c_int = libc::RWF_HIPRI | libc::RWF_NOWAIT;

/// The file's position, or a place.
fn place_or_position(at: off_t) -> io::Result<Option<u64>> {
    if at == -1 { Ok(None) } else { place(at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc. The last but one is the upper half of the place.
        return unsafe { call()(libc::SYS_preadv2, fd, list, count, at, 0, flags) as ssize_t };
    }
    if flags & !NONE != 0 {
        return fails(libc::EOPNOTSUPP) as ssize_t;
    }
    if at == -1 && !is_file(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { libc::readv(fd, list, count) };
    }
    // SAFETY: by the contract of libc.
    transferred(
        place_or_position(at)
            .and_then(|at| unsafe { read_file(fd, entries(list, count as usize)?, at) }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    const SYNC: c_int = libc::RWF_DSYNC | libc::RWF_SYNC;

    if !is_ours(fd) {
        // SAFETY: by the contract of libc. The last but one is the upper half of the place.
        return unsafe { call()(libc::SYS_pwritev2, fd, list, count, at, 0, flags) as ssize_t };
    }
    let is_known = flags & !(NONE | SYNC | libc::RWF_APPEND) == 0;
    if at == -1 && is_known && !is_file(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { libc::writev(fd, list, count) };
    }
    let appends = flags & libc::RWF_APPEND != 0;
    let write = || {
        let at = place_or_position(at)?;
        let before = on_file(fd, libc::ESPIPE, |_, open| {
            if !open.writes() {
                return Err(os(libc::EBADF));
            }
            if !is_known {
                return Err(os(libc::EOPNOTSUPP));
            }
            let before = open.flags;
            open.flags |= if appends { libc::O_APPEND } else { 0 };
            Ok(before)
        })?;
        // SAFETY: by the contract of libc.
        let written =
            unsafe { entries(list, count as usize).and_then(|from| write_file(fd, from, at)) };
        on_file(fd, libc::ESPIPE, |_, open| {
            open.flags = before;
            Ok(())
        })?;
        written
    };
    let written = transferred(write());
    // SAFETY: it takes no pointers.
    if written > 0 && flags & SYNC != 0 && unsafe { fdatasync(fd) } < 0 {
        return -1;
    }
    written
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readahead(fd: c_int, at: i64, len: size_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_readahead, fd, at, len) as ssize_t };
    }
    let done = on_file(fd, libc::EINVAL, |disk, open| {
        disk.node_of(open)?;
        if open.reads() {
            Ok(())
        } else {
            Err(os(libc::EBADF))
        }
    });
    answer(done) as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
    if !is_ours(fd) {
        let system = super::system!(lockf: fn(c_int, c_int, off_t) -> c_int);
        // SAFETY: it takes no pointers.
        return unsafe { system(fd, command, len) };
    }
    let (command, kind) = match command {
        libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
        libc::F_TLOCK => (libc::F_SETLK, libc::F_WRLCK),
        libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
        libc::F_TEST => (libc::F_GETLK, libc::F_RDLCK),
        _ => return fails(libc::EINVAL),
    };
    // SAFETY: plain data.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_CUR as libc::c_short;
    lock.l_len = len;
    // SAFETY: the lock is valid for reads and writes.
    unsafe { libc::fcntl(fd, command, &raw mut lock) }
}

/// Names of the same functions for 64 bits.
macro_rules! same {
    ($($name:ident = $of:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $answer {
                // SAFETY: by the contract of libc.
                unsafe { $of($($argument),*) }
            }
        )*

        /// The functions of this file.
        pub(super) const PART: &[*const c_void] =
            &[readahead as *const c_void, $($name as *const c_void, $of as *const c_void),*];
    };
}

same! {
    preadv64v2 = preadv2(fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t;
    pwritev64v2 = pwritev2(fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t;
    lockf64 = lockf(fd: c_int, command: c_int, len: off_t) -> c_int;
}
