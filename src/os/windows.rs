//! Sockets are sockets. `unix.rs` is the counterpart.

use std::time::Duration;

/// std does not do it for what `accept` returns.
pub(crate) use ws_reactor::keep_from_children;

/// Whether a listener says `SO_REUSEADDR`. On Windows it would take the port of another process
/// that listens there.
pub(crate) const LISTENERS_REUSE_ADDRESSES: bool = false;

/// The socket of the system of one that has it in its field `fd`.
macro_rules! descriptor_of_socket {
    ($name:ident) => {
        impl std::os::windows::io::AsSocket for $name {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                std::os::windows::io::AsSocket::as_socket(self.fd.get_ref())
            }
        }

        impl std::os::windows::io::AsRawSocket for $name {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                std::os::windows::io::AsRawSocket::as_raw_socket(self.fd.get_ref())
            }
        }

        impl TryFrom<$name> for std::os::windows::io::OwnedSocket {
            type Error = std::io::Error;

            /// As `into_std`.
            fn try_from(socket: $name) -> std::io::Result<Self> {
                socket.into_std().map(Self::from)
            }
        }
    };
}
pub(crate) use descriptor_of_socket;

/// The socket of the system of a type that has a socket2's in its field `socket`.
macro_rules! descriptor_of_socket2 {
    ($name:ident) => {
        impl std::os::windows::io::AsSocket for $name {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                std::os::windows::io::AsSocket::as_socket(&self.socket)
            }
        }

        impl std::os::windows::io::AsRawSocket for $name {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                std::os::windows::io::AsRawSocket::as_raw_socket(&self.socket)
            }
        }

        impl From<$name> for std::os::windows::io::OwnedSocket {
            fn from(socket: $name) -> Self {
                socket.socket.into()
            }
        }
    };
}
pub(crate) use descriptor_of_socket2;

/// A file for this process alone, which goes when it is closed.
#[cfg(feature = "inspect")]
pub(crate) fn unnamed_file(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::windows::fs::OpenOptionsExt;

    /// `FILE_FLAG_DELETE_ON_CLOSE`.
    const DELETE_ON_CLOSE: u32 = 0x0400_0000;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.share_mode(0).custom_flags(DELETE_ON_CLOSE);
    options.open(path)
}

/// Reads a piece of a file that begins at `offset`.
#[cfg(feature = "inspect")]
pub(crate) fn read_exact_at(
    file: &std::fs::File,
    mut piece: &mut [u8],
    mut offset: u64,
) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;

    while !piece.is_empty() {
        let read = file.seek_read(piece, offset)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        piece = &mut piece[read..];
        offset += read as u64;
    }
    Ok(())
}

/// The most seconds of `SO_LINGER`. The field is 16 bits wide, and socket2 cuts off the others.
pub(crate) const LINGER_SECONDS_MAX: u64 = u16::MAX as u64;

/// What stands for a time of a keepalive that is not set, if the system takes both or none. Windows
/// has these by default (`SIO_KEEPALIVE_VALS`).
pub(crate) const KEEPALIVE_IDLE: Option<Duration> = Some(Duration::from_secs(7200));
pub(crate) const KEEPALIVE_INTERVAL: Option<Duration> = Some(Duration::from_secs(1));
