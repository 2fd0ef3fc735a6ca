//! `pipe`: both ends are simulated descriptors.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{c_int, c_void, iovec};

use super::{
    fails,
    files::Kind,
    number,
    sockets::or_deadlock,
    system::call,
    transfer::{bytes_of, scatter},
};
use crate::{error::os, pipe::End, world};

/// The end of a pipe that a descriptor is, and whether calls on it may not wait.
pub(super) fn of(fd: c_int) -> Option<(End, bool)> {
    world::with(|world| {
        let file = world.files.get(fd).ok()?;
        match file.kind {
            Kind::Pipe(end) => Some((end, file.nonblocking)),
            _ => None,
        }
    })
    .flatten()
}

/// # Safety
///
/// - Each buffer of `into` is valid for writes.
pub(super) unsafe fn read((end, nonblocking): (End, bool), into: &[iovec]) -> io::Result<usize> {
    let lens = into.iter().map(|one| one.iov_len);
    let room = lens.fold(0_usize, usize::saturating_add);
    let bytes = world::with(|world| world.pipes.read(end, room));
    let bytes = bytes.unwrap_or_else(|| Err(os(libc::EBADF)));
    let bytes = or_deadlock(nonblocking, bytes)?;
    // SAFETY: by contract.
    unsafe { scatter(&bytes, into) };
    Ok(bytes.len())
}

/// # Safety
///
/// - Each buffer of `from` is valid for reads.
pub(super) unsafe fn write((end, nonblocking): (End, bool), from: &[iovec]) -> io::Result<usize> {
    // SAFETY: by contract.
    let bytes = &*unsafe { bytes_of(from) };
    let written = world::with(|world| world.pipes.write(end, bytes));
    or_deadlock(nonblocking, written.unwrap_or_else(|| Err(os(libc::EBADF))))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pipe2(out: *mut c_int, flags: c_int) -> c_int {
    let made = world::with_host(|world, host| {
        // There is no mode of packets (`O_DIRECT`).
        let known = libc::O_NONBLOCK | libc::O_CLOEXEC;
        if flags & !known != 0 {
            return Err(os(libc::EINVAL));
        }
        world.files.have_room(2)?;
        let (reader, writer) = world.pipes.make();
        Ok([reader, writer].map(|end| world.files.open(host, Kind::Pipe(end), flags)))
    });
    match made {
        // SAFETY: by the contract of libc.
        None => unsafe { call()(libc::SYS_pipe2, out, flags) as c_int },
        Some(Ok(both)) => {
            // SAFETY: by the contract of libc there is room for two.
            unsafe { ptr::write(out.cast::<[c_int; 2]>(), both) };
            0
        }
        Some(Err(error)) => fails(number(&error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pipe(out: *mut c_int) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { pipe2(out, 0) }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] = &[pipe2 as *const c_void, pipe as *const c_void];
