//! epoll, as far as the client and a server need it.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

pub(crate) const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: the call takes no pointer.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn add(&self, source: &impl AsRawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        let (epoll, source) = (self.0.as_raw_fd(), source.as_raw_fd());
        // SAFETY: `event` lives during the call, which does not keep the pointer.
        checked(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, source, &raw mut event) })?;
        Ok(())
    }

    /// Waits until there is an event, and says how many there are.
    pub(crate) fn wait(&self, events: &mut [libc::epoll_event]) -> io::Result<usize> {
        let room = i32::try_from(events.len()).map_err(io::Error::other)?;
        // SAFETY: the pointer is good for `room` events, and the call writes no more.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, -1) };
        Ok(checked(found)? as usize)
    }
}

/// The error of a call that answers with -1.
pub(crate) fn checked(answer: i32) -> io::Result<i32> {
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}
