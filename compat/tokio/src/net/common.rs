//! What sockets have in common, for types with a field `io`, which is a [`Socket`](super::socket).
//!
//! They are macros, because each type shows the methods as its own, and std has no trait for what
//! its sockets have in common.

mod datagrams;
mod halves;
mod stream;

/// The ways to and from std's type, and to the descriptor.
macro_rules! std_socket {
    ($name:ident, $std:ty, $interest:expr) => {
        impl $name {
            /// Makes one of std's, which has to be in nonblocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O, and in a debug build for a socket that blocks.
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                $crate::net::socket::expect_nonblocking(&socket)?;
                Self::new(socket)
            }

            /// Gives back std's, in nonblocking mode.
            ///
            /// # Errors
            ///
            /// None.
            pub fn into_std(self) -> std::io::Result<$std> {
                Ok(self.io.into_inner())
            }

            #[track_caller]
            pub(crate) fn new(socket: $std) -> std::io::Result<Self> {
                Ok(Self {
                    io: $crate::net::socket::Socket::new(socket, $interest)?,
                })
            }
        }

        impl TryFrom<$std> for $name {
            type Error = std::io::Error;

            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        $crate::net::common::descriptor!($name);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.io.fmt(f)
            }
        }
    };
}

/// The descriptor.
macro_rules! descriptor {
    ($name:ident) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.io.as_raw_fd()
            }
        }
    };
}

/// `take_error`, of all but pipes.
macro_rules! take_error {
    () => {
        /// The error that waits at the socket, which is taken away.
        ///
        /// # Errors
        ///
        /// If the system cannot tell.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            self.io.get().take_error()
        }
    };
}

/// `ready`, of all.
macro_rules! ready {
    () => {
        /// Waits until something of an interest is ready.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub async fn ready(
            &self,
            interest: $crate::io::Interest,
        ) -> std::io::Result<$crate::io::Ready> {
            self.io.ready(interest).await
        }
    };
}

/// Waits for one direction, as a future and by a poll function of this name.
macro_rules! waits {
    ($interest:ident, $wait:ident, $poll:ident) => {
        /// Waits until an operation of this direction is worth trying.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub async fn $wait(&self) -> std::io::Result<()> {
            let interest = $crate::io::Interest::$interest;
            $crate::net::socket::wait(self.io.registration(), interest)
                .await
                .map(drop)
        }

        /// Polls for readiness. Of all tasks that poll for a direction, the last one is woken.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub fn $poll(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io
                .poll_wait(cx, $crate::io::Interest::$interest)
                .map_ok(drop)
        }
    };
}

/// Operations of the user's.
macro_rules! operations {
    () => {
        /// Tries an operation, if something of the interest is ready.
        ///
        /// # Errors
        ///
        /// What `f` says, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.try_io(interest, f)
        }

        /// Does an operation, as often as it would block.
        ///
        /// # Errors
        ///
        /// What `f` says.
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnMut() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.async_io(interest, f).await
        }
    };
}

/// Methods that are those of what is inside.
macro_rules! options {
    ($($(#[$attr:meta])* $name:ident($($arg:ident: $type:ty),*) -> $ret:ty = |$io:ident| $value:expr;)*) => {
        $(
            $(#[$attr])*
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn $name(&self, $($arg: $type),*) -> std::io::Result<$ret> {
                let $io = &self.io;
                $value
            }
        )*
    };
}

pub(crate) use self::{
    datagrams::datagrams,
    halves::{half, halves, read_half},
    stream::{reads, stream, try_reads, try_writes, writes},
};
pub(crate) use {descriptor, operations, options, ready, std_socket, take_error, waits};
