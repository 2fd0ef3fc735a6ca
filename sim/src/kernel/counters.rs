//! The counts of eventfds, and those of timerfds: a read or a write is of 8 bytes.

use std::{io, ptr, slice};

use libc::{c_int, iovec};

use super::{files::Kind, sockets::or_deadlock};
use crate::{error::os, world};

/// Whether a descriptor has a count.
pub(super) fn is_one(fd: c_int) -> bool {
    let is_one = world::with(|world| {
        let file = world.files.get(fd);
        file.is_ok_and(|file| matches!(file.kind, Kind::Event { .. } | Kind::Timer(_)))
    });
    is_one == Some(true)
}

/// Reads a count into buffers. None if the descriptor has no reads of bytes that are told here.
///
/// # Safety
///
/// - Each buffer is valid for writes.
pub(super) unsafe fn read(fd: c_int, into: &[iovec]) -> Option<io::Result<usize>> {
    let room = into.iter().map(|one| one.iov_len).sum();
    let taken = take(fd, room)?;
    Some(taken.map(|count| {
        let count = count.to_ne_bytes();
        let mut left = &count[..];
        for one in into {
            let (here, rest) = left.split_at(one.iov_len.min(left.len()));
            // SAFETY: by contract there is room for as many bytes.
            unsafe { ptr::copy_nonoverlapping(here.as_ptr(), one.iov_base.cast(), here.len()) };
            left = rest;
        }
        count.len()
    }))
}

/// Adds the number of each buffer to the count of an eventfd. None if it is none.
///
/// # Safety
///
/// - Each buffer is valid for reads.
pub(super) unsafe fn write(fd: c_int, from: &[iovec]) -> Option<io::Result<usize>> {
    let is_event = world::with(|world| {
        let file = world.files.get(fd);
        file.is_ok_and(|file| matches!(file.kind, Kind::Event { .. }))
    });
    if is_event != Some(true) {
        return None;
    }
    let mut written = 0;
    for one in from {
        let added = if one.iov_len == 8 {
            // SAFETY: by contract there are 8 bytes.
            let bytes = unsafe { slice::from_raw_parts(one.iov_base.cast::<u8>(), 8) };
            let by = bytes.try_into().expect("they are 8");
            add(fd, u64::from_ne_bytes(by))
        } else {
            Err(os(libc::EINVAL))
        };
        match added {
            Ok(bytes) => written += bytes,
            Err(error) if written == 0 => return Some(Err(error)),
            Err(_) => break,
        }
    }
    Some(Ok(written))
}

/// The count of an eventfd, which is zero then. None if it is none.
fn take(fd: c_int, len: usize) -> Option<io::Result<u64>> {
    let taken = world::with(|world| {
        let key = world.files.of(fd).ok()?;
        let file = world.files.get(fd).ok()?;
        match &mut file.kind {
            Kind::Event { .. } | Kind::Timer(_) if len < 8 => Some(Err(os(libc::EINVAL))),
            Kind::Event { count: 0, .. } => {
                Some(or_deadlock(file.nonblocking, Err(os(libc::EAGAIN))))
            }
            Kind::Event {
                count,
                is_semaphore,
            } => {
                let taken = if *is_semaphore { 1 } else { *count };
                *count -= taken;
                // As on Linux, also if there was room before.
                world.edge(key, libc::EPOLLOUT as u32);
                Some(Ok(taken))
            }
            Kind::Timer(_) => Some(world.read_timer(fd)),
            Kind::Epoll(_) => Some(Err(os(libc::EINVAL))),
            _ => None,
        }
    });
    taken.flatten()
}

fn add(fd: c_int, by: u64) -> io::Result<usize> {
    let added = world::with(|world| {
        let key = world.files.of(fd)?;
        let file = world.files.get(fd)?;
        if by == u64::MAX {
            return Err(os(libc::EINVAL));
        }
        if let Kind::Event { count, .. } = &mut file.kind {
            match count.checked_add(by) {
                Some(sum) if sum < u64::MAX => *count = sum,
                _ => return or_deadlock(file.nonblocking, Err(os(libc::EAGAIN))),
            }
        }
        world.edge(key, libc::EPOLLIN as u32);
        Ok(8)
    });
    added.unwrap_or_else(|| Err(os(libc::EBADF)))
}
