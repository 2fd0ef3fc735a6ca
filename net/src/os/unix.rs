//! Sockets are descriptors. `windows.rs` is the counterpart.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::Arc,
};

use ws_reactor::{Interest, Netpoll, Ready, Registration, SourceFd};

use crate::AsyncFd;

pub(crate) use std::os::fd::{AsFd as AsDescriptor, AsFd as AsSocket, AsRawFd as AsRaw};

pub(crate) fn register(
    netpoll: &Arc<Netpoll>,
    io: &impl AsRawFd,
    interest: Interest,
) -> io::Result<Registration> {
    let fd = io.as_raw_fd();
    let registration = Registration::new(netpoll, &mut SourceFd(&fd), interest)?;
    registration.note_descriptor(fd);
    Ok(registration)
}

pub(crate) fn leave(registration: &mut Registration, io: &mut impl AsRawFd) -> io::Result<()> {
    registration.leave(&mut SourceFd(&io.as_raw_fd()))
}

pub(crate) fn clear_ready(registration: &Registration, io: &impl AsRawFd, ready: Ready) {
    registration.clear_ready_of(ready, &mut SourceFd(&io.as_raw_fd()));
}

impl<T: AsSocket> AsSocket for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsRawFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}

/// Whether a connect goes on.
pub(crate) fn is_in_progress(number: i32) -> bool {
    matches!(number, libc::EINPROGRESS | libc::EINTR)
}

/// Whether it is about one connection, which is gone. Others have a kind that says so.
pub(crate) fn is_about_one_connection(number: i32) -> bool {
    matches!(number, libc::EPROTO | libc::ENOPROTOOPT)
}

/// Whether the system has no room for a connection now.
pub(crate) fn is_about_room(number: i32) -> bool {
    matches!(
        number,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC
    )
}

/// Waits until a read of what is in nonblocking mode can go on.
pub(crate) fn wait_readable(stream: &impl AsDescriptor) -> io::Result<()> {
    ws_reactor::wait_readable(stream)
}

/// The same for a write.
pub(crate) fn wait_writable(stream: &impl AsDescriptor) -> io::Result<()> {
    ws_reactor::wait_writable(stream)
}

/// The descriptor of a type that has one in its field `std`.
macro_rules! descriptor {
    ($type:ident) => {
        impl std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.std.as_raw_fd()
            }
        }

        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.std.as_fd()
            }
        }
    };
}
pub(crate) use descriptor;

/// From a descriptor that is owned.
macro_rules! from_descriptor {
    ($type:ident) => {
        impl From<std::os::fd::OwnedFd> for $type {
            fn from(fd: std::os::fd::OwnedFd) -> Self {
                Self::from_std(fd.into())
            }
        }
    };
}
pub(crate) use from_descriptor;
