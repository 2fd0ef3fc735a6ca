//! The parent's ends of a child's standard streams.

use std::{
    io::{self, IoSlice, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    pin::Pin,
    process::Stdio,
    task::{Context, Poll, ready},
};

use ws_net::AsyncFd;
use ws_reactor::{Interest, pipe};

use crate::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::socket,
    runtime::io_handle,
};

macro_rules! end {
    ($(#[$meta:meta])* $name:ident, $end:ty, $interest:expr) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name(AsyncFd<$end>);

        impl $name {
            /// A pipe of std.
            ///
            /// # Errors
            ///
            /// What the system says.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O.
            #[track_caller]
            pub fn from_std(inner: std::process::$name) -> io::Result<Self> {
                io_handle();
                let end = <$end>::from(inner);
                end.set_nonblocking(true)?;
                AsyncFd::with_interest(end, $interest).map(Self)
            }

            /// The descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let end = self.0.into_inner();
                end.set_nonblocking(false)?;
                Ok(end.into())
            }
        }

        impl TryFrom<$name> for Stdio {
            type Error = io::Error;

            fn try_from(end: $name) -> io::Result<Self> {
                end.into_owned_fd().map(Self::from)
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.get_ref().as_fd()
            }
        }
    };
}

end! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/struct.ChildStdin.html).
    ChildStdin, pipe::Sender, Interest::WRITABLE
}
end! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/struct.ChildStdout.html).
    ChildStdout, pipe::Receiver, Interest::READABLE
}
end! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/process/struct.ChildStderr.html).
    ChildStderr, pipe::Receiver, Interest::READABLE
}

impl AsyncWrite for ChildStdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0
            .poll_io(cx, Interest::WRITABLE, || self.0.get_ref().write(bytes))
            .map_err(socket::error)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.0.poll_io(cx, Interest::WRITABLE, || {
            self.0.get_ref().write_vectored(slices)
        });
        written.map_err(socket::error)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn poll_read(
    end: &AsyncFd<pipe::Receiver>,
    cx: &mut Context<'_>,
    dst: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let read = end.poll_io(cx, Interest::READABLE, || {
        end.get_ref().read(dst.initialize_unfilled())
    });
    let read = ready!(read).map_err(socket::error)?;
    dst.advance(read);
    Poll::Ready(Ok(()))
}

impl AsyncRead for ChildStdout {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read(&self.0, cx, dst)
    }
}

impl AsyncRead for ChildStderr {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read(&self.0, cx, dst)
    }
}
