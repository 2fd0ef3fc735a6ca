//! What all sockets have in common, written once.
//!
//! - `by_reference!`: a type reads and writes as a reference to it does, since no operation changes
//!   anything but the kernel's side.
//! - `std_socket!`: the ways to and from std's type of the same name, and to the descriptor. The type
//!   has one field `fd`, an `AsyncFd` of std's.

macro_rules! by_reference {
    (impl[$($generics:tt)*] AsyncRead for $type:ty $(where { $($bounds:tt)* })?) => {
        impl<$($generics)*> futures::io::AsyncRead for $type
        $(where $($bounds)*)?
        {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_read(cx, buf)
            }

            fn poll_read_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_read_vectored(cx, bufs)
            }
        }
    };
    (impl[$($generics:tt)*] AsyncWrite for $type:ty $(where { $($bounds:tt)* })?) => {
        impl<$($generics)*> futures::io::AsyncWrite for $type
        $(where $($bounds)*)?
        {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut &*self).poll_write_vectored(cx, bufs)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut &*self).poll_flush(cx)
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut &*self).poll_close(cx)
            }
        }
    };
}

macro_rules! std_socket {
    ($name:ident, $std:ty, $std_name:literal, $what:literal, $interest:expr) => {
        impl $name {
            #[doc = concat!("Makes one of std's [`", $std_name, "`], which joins the current runtime.")]
            ///
            /// It is put into nonblocking mode, as are all its duplicates with it.
            ///
            /// # Errors
            ///
            /// What the system says, and an error of kind `Other` if the runtime was shut down.
            ///
            /// # Panics
            ///
            /// Panics outside of a runtime.
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                let netpoll = $crate::current::netpoll($what);
                socket.set_nonblocking(true)?;
                Self::join(&netpoll, socket)
            }

            #[doc = concat!("Gives back std's [`", $std_name, "`], which leaves the runtime.")]
            ///
            /// It is still in nonblocking mode.
            ///
            /// # Errors
            ///
            /// None so far. The `Result` is there for systems on which leaving can fail.
            pub fn into_std(self) -> std::io::Result<$std> {
                Ok(self.fd.into_inner())
            }

            /// Wraps a socket that is in nonblocking mode.
            pub(crate) fn join(
                netpoll: &std::sync::Arc<ws_reactor::Netpoll>,
                socket: $std,
            ) -> std::io::Result<Self> {
                let fd = $crate::async_fd::AsyncFd::on(netpoll, socket, $interest)?;
                Ok(Self { fd })
            }

            /// Returns the error that waits at the socket, if there is one, and takes it away.
            ///
            /// # Errors
            ///
            /// If the system cannot tell.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.fd.get_ref().take_error()
            }
        }

        impl TryFrom<$std> for $name {
            type Error = std::io::Error;

            /// As `from_std`, also in what it panics at.
            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.fd.get_ref().fmt(f)
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(self.fd.get_ref())
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(self.fd.get_ref())
            }
        }

        impl From<$name> for std::os::fd::OwnedFd {
            fn from(socket: $name) -> Self {
                socket.fd.into_inner().into()
            }
        }
    };
}

pub(crate) use {by_reference, std_socket};
