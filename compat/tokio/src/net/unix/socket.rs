//! A Unix socket before it is a listener, a stream or one for datagrams.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd},
    path::Path,
};

use socket2::{Domain, SockAddr, Type};

use crate::net::{UnixDatagram, UnixListener, UnixStream};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/struct.UnixSocket.html).
#[derive(Debug)]
pub struct UnixSocket {
    io: socket2::Socket,
}

impl UnixSocket {
    /// A socket for datagrams.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_datagram() -> io::Result<Self> {
        Self::new(Type::DGRAM)
    }

    /// A socket for streams.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new_stream() -> io::Result<Self> {
        Self::new(Type::STREAM)
    }

    fn new(kind: Type) -> io::Result<Self> {
        let socket = socket2::Socket::new(Domain::UNIX, kind, None)?;
        socket.set_nonblocking(true)?;
        Ok(Self::of(socket))
    }

    pub(crate) fn of(io: socket2::Socket) -> Self {
        Self { io }
    }

    /// Sets the address of this side.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.bind(&SockAddr::unix(path)?)
    }

    /// Listens.
    ///
    /// # Errors
    ///
    /// What the system says, and for a socket for datagrams.
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.refuse(Type::DGRAM, "listen cannot be called on a datagram socket")?;
        self.io.listen(backlog.try_into().unwrap_or(i32::MAX))?;
        UnixListener::new(self.io.into())
    }

    /// Connects to the listener at a path.
    ///
    /// # Errors
    ///
    /// What the system says, and for a socket for datagrams.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        self.refuse(Type::DGRAM, "connect cannot be called on a datagram socket")?;
        UnixStream::connect_by(self.io, &SockAddr::unix(path)?).await
    }

    /// Makes it a socket for datagrams.
    ///
    /// # Errors
    ///
    /// What the system says, and for a socket for streams.
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.refuse(Type::STREAM, "datagram cannot be called on a stream socket")?;
        UnixDatagram::new(self.io.into())
    }

    fn refuse(&self, kind: Type, error: &'static str) -> io::Result<()> {
        if self.io.r#type()? == kind {
            return Err(io::Error::other(error));
        }
        Ok(())
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl AsRawFd for UnixSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

impl IntoRawFd for UnixSocket {
    fn into_raw_fd(self) -> RawFd {
        self.io.into_raw_fd()
    }
}
