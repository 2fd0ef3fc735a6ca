//! tokio's [`AsyncRead`] and [`AsyncWrite`] on the streams of [`net`](crate::net) (feature
//! `tokio-io`).
//!
//! Many libraries ask for a stream with the traits of tokio's `io` module, and for nothing else of
//! tokio: `tokio-postgres` by `connect_raw`, `tokio-rustls`, `h2`, everything on
//! `tokio_util::codec`. With this feature they take the streams of `ws` as they are. Of tokio's
//! crate only the traits are compiled; no feature of it is on, so there is no runtime in it that
//! could start.
//!
//! | type | reads | writes |
//! | --- | --- | --- |
//! | [`TcpStream`], [`UnixStream`] | yes | yes |
//! | [`ReadHalf`], [`OwnedReadHalf`] | yes | |
//! | [`WriteHalf`], [`OwnedWriteHalf`] | | yes |
//!
//! Other streams of `futures::io` go through `tokio_util::compat`, in both directions.
//!
//! ```
//! use std::future::poll_fn;
//! use std::pin::Pin;
//! use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
//! use ws::net::UnixStream;
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let (mut here, mut there) = UnixStream::pair()?;
//! poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut here), cx, b"hello")).await?;
//!
//! let mut bytes = [0; 8];
//! let mut buf = ReadBuf::new(&mut bytes);
//! poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut there), cx, &mut buf)).await?;
//! assert_eq!(buf.filled(), b"hello");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Ending the sending side
//!
//! A stream has a `shutdown(how)` of its own, as std's has, and Rust prefers it to that of tokio's
//! `AsyncWriteExt`. So `stream.shutdown().await` does not compile. Write
//! `AsyncWriteExt::shutdown(&mut stream).await`, or `stream.shutdown(Shutdown::Write)?`, which does
//! the same. Halves have no method of that name, and code that is generic over `AsyncWrite` sees
//! only tokio's.
//!
//! # Reading
//!
//! tokio's read buffer need not be initialised. Sockets are read straight into it, and nothing is
//! zeroed or copied; see `uninit.rs`.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(unix)]
use crate::net::UnixStream;
use crate::{
    net::{
        TcpStream,
        split::{Duplex, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf},
    },
    uninit::{Socket, read_into_tokio},
};

macro_rules! reads {
    ($(impl $type:ty;)*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                read_into_tokio(self, cx, buf)
            }
        }
    )*};
}

macro_rules! half_reads {
    (impl[$($generics:tt)*] $half:ty) => {
        impl<$($generics)*> AsyncRead for $half
        where
            for<'r> &'r S: Socket + Unpin,
        {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let mut stream: &S = (*self).as_ref();
                read_into_tokio(Pin::new(&mut stream), cx, buf)
            }
        }
    };
}

macro_rules! writes {
    ($(impl[$($generics:tt)*] for $type:ty $(where { $($bounds:tt)* })?;)*) => {$(
        impl<$($generics)*> AsyncWrite for $type
        $(where $($bounds)*)?
        {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                futures::io::AsyncWrite::poll_write(self, cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                futures::io::AsyncWrite::poll_write_vectored(self, cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                futures::io::AsyncWrite::poll_flush(self, cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                futures::io::AsyncWrite::poll_close(self, cx)
            }
        }
    )*};
}

reads! {
    impl TcpStream;
    impl &TcpStream;
}
#[cfg(unix)]
reads! {
    impl UnixStream;
    impl &UnixStream;
}

half_reads! { impl['a, S] ReadHalf<'a, S> }
half_reads! { impl[S] OwnedReadHalf<S> }

writes! {
    impl[] for TcpStream;
    impl[] for &TcpStream;
    impl[S] for WriteHalf<'_, S> where { for<'r> &'r S: futures::io::AsyncWrite + Unpin };
    impl[S: Duplex] for OwnedWriteHalf<S> where { for<'r> &'r S: futures::io::AsyncWrite + Unpin };
}
#[cfg(unix)]
writes! {
    impl[] for UnixStream;
    impl[] for &UnixStream;
}
