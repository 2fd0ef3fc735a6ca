//! Sockets are descriptors. `windows.rs` is the counterpart.

use std::{io, time::Duration};

/// Whether a listener says `SO_REUSEADDR`, so that a server can be started again at once.
pub(crate) const LISTENERS_REUSE_ADDRESSES: bool = true;

/// The descriptor of a socket that has one in its field `fd`.
macro_rules! descriptor_of_socket {
    ($name:ident) => {
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

        impl TryFrom<$name> for std::os::fd::OwnedFd {
            type Error = std::io::Error;

            /// As `into_std`.
            fn try_from(socket: $name) -> std::io::Result<Self> {
                socket.into_std().map(Self::from)
            }
        }
    };
}
pub(crate) use descriptor_of_socket;

/// The descriptor of a type that has a socket2's in its field `socket`.
macro_rules! descriptor_of_socket2 {
    ($name:ident) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.socket)
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&self.socket)
            }
        }

        impl From<$name> for std::os::fd::OwnedFd {
            fn from(socket: $name) -> Self {
                socket.socket.into()
            }
        }
    };
}
pub(crate) use descriptor_of_socket2;

/// A file for this user alone, which goes when it is closed.
#[cfg(feature = "inspect")]
pub(crate) fn unnamed_file(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;

    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Reads a piece of a file that begins at `offset`.
#[cfg(feature = "inspect")]
pub(crate) fn read_exact_at(
    file: &std::fs::File,
    piece: &mut [u8],
    offset: u64,
) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, piece, offset)
}

/// The most seconds of `SO_LINGER`. The field is an `int`.
pub(crate) const LINGER_SECONDS_MAX: u64 = i32::MAX as u64;

/// What stands for a time of a keepalive that is not set, if the system takes both or none.
pub(crate) const KEEPALIVE_IDLE: Option<Duration> = None;
pub(crate) const KEEPALIVE_INTERVAL: Option<Duration> = None;

/// Keeps an accepted socket from the programs that this one starts. std has done it.
pub(crate) fn keep_from_children<T>(_: &T) -> io::Result<()> {
    Ok(())
}
