//! Sockets are sockets, and files are handles. `unix.rs` is the counterpart.

use std::{
    io,
    os::windows::io::{AsRawSocket, BorrowedSocket, RawSocket},
    sync::Arc,
};

use windows_sys::Win32::Networking::WinSock::{
    WSA_NOT_ENOUGH_MEMORY, WSAEINPROGRESS, WSAEINTR, WSAEMFILE, WSAENOBUFS, WSAEWOULDBLOCK,
};
use ws_reactor::{Interest, Netpoll, Ready, Registration};

use crate::AsyncFd;

pub(crate) use std::os::windows::io::{AsHandle as AsDescriptor, AsRawSocket as AsRaw, AsSocket};

pub(crate) fn register(
    netpoll: &Arc<Netpoll>,
    io: &impl AsRawSocket,
    interest: Interest,
) -> io::Result<Registration> {
    Registration::of_socket(netpoll, io, interest)
}

pub(crate) fn leave(registration: &mut Registration, _: &mut impl AsRawSocket) -> io::Result<()> {
    registration.leave_socket()
}

pub(crate) fn clear_ready(registration: &Registration, _: &impl AsRawSocket, ready: Ready) {
    registration.clear_ready(ready);
}

impl<T: AsSocket> AsSocket for AsyncFd<T> {
    fn as_socket(&self) -> BorrowedSocket<'_> {
        self.get_ref().as_socket()
    }
}

impl<T: AsRawSocket> AsRawSocket for AsyncFd<T> {
    fn as_raw_socket(&self) -> RawSocket {
        self.get_ref().as_raw_socket()
    }
}

/// Whether a connect goes on.
pub(crate) fn is_in_progress(number: i32) -> bool {
    matches!(number, WSAEWOULDBLOCK | WSAEINPROGRESS | WSAEINTR)
}

/// Whether it is about one connection, which is gone. Others have a kind that says so.
pub(crate) fn is_about_one_connection(_: i32) -> bool {
    false
}

/// Whether the system has no room for a connection now.
pub(crate) fn is_about_room(number: i32) -> bool {
    matches!(number, WSAEMFILE | WSAENOBUFS | WSA_NOT_ENOUGH_MEMORY)
}

/// A standard stream has no nonblocking mode here: the error stays one.
pub(crate) fn wait_readable(_: &impl AsDescriptor) -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// The same for a write.
pub(crate) fn wait_writable(_: &impl AsDescriptor) -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// The handle of a type that has one in its field `std`.
macro_rules! descriptor {
    ($type:ident) => {
        impl std::os::windows::io::AsRawHandle for $type {
            fn as_raw_handle(&self) -> std::os::windows::io::RawHandle {
                self.std.as_raw_handle()
            }
        }

        impl std::os::windows::io::AsHandle for $type {
            fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
                self.std.as_handle()
            }
        }
    };
}
pub(crate) use descriptor;

/// From a handle that is owned.
macro_rules! from_descriptor {
    ($type:ident) => {
        impl From<std::os::windows::io::OwnedHandle> for $type {
            fn from(handle: std::os::windows::io::OwnedHandle) -> Self {
                Self::from_std(handle.into())
            }
        }
    };
}
pub(crate) use from_descriptor;
