//! The two directions of a stream, apart.
//!
//! | from | halves | for |
//! | --- | --- | --- |
//! | `split_mut` | [`ReadHalf`], [`WriteHalf`] | two futures of one task; borrowed, free of cost |
//! | `into_split` | [`OwnedReadHalf`], [`OwnedWriteHalf`] | two tasks; each has a clone |
//!
//! Neither has a lock: the socket is one to the kernel anyway, and reading and writing wait apart.
//! The dropped [`OwnedWriteHalf`] ends the sending side, as the drop of a whole stream would. A
//! clone of a stream does not: the last one ends both sides.
//!
//! # Examples
//!
//! ```
//! use ws::io::{AsyncReadExt, AsyncWriteExt};
//! use ws::net::{TcpListener, TcpStream};
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let client = TcpStream::connect(listener.local_addr()?).await?;
//! let (server, _) = listener.accept().await?;
//!
//! let (mut read, mut write) = client.into_split();
//! let writer = ws::spawn(async move { write.write_all(b"ping").await });
//! ws::io::copy(&server, &mut &server).await?;
//! writer.await.expect("the writer does not panic")?;
//!
//! drop(server);
//! let mut text = String::new();
//! read.read_to_string(&mut text).await?;
//! assert_eq!(text, "ping");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::io::{AsyncRead, AsyncWrite};

use super::TcpStream;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A stream that has two halves: [`TcpStream`], and `UnixStream` on Unix.
pub trait Duplex: sealed::Sealed + Clone {
    /// Ends a direction, or both, as the method of the same name does.
    #[doc(hidden)]
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;

    /// Whether both are the same socket.
    #[doc(hidden)]
    fn is_clone_of(&self, other: &Self) -> bool;
}

impl sealed::Sealed for TcpStream {}

impl Duplex for TcpStream {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        TcpStream::shutdown(self, how)
    }

    fn is_clone_of(&self, other: &Self) -> bool {
        TcpStream::is_clone_of(self, other)
    }
}

/// What the end of the sending side comes to: after a reset there is none, and nothing to end.
pub(crate) fn end_sending(answer: io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        answer => answer,
    }
}

pub(crate) fn borrowed<S>(stream: &mut S) -> (ReadHalf<'_, S>, WriteHalf<'_, S>) {
    (ReadHalf(stream), WriteHalf(stream))
}

pub(crate) fn owned<S: Duplex>(stream: S) -> (OwnedReadHalf<S>, OwnedWriteHalf<S>) {
    let write = OwnedWriteHalf {
        stream: Some(stream.clone()),
        end: End::OnDrop,
    };
    (OwnedReadHalf(stream), write)
}

/// The receiving side of a stream, borrowed; from `split_mut`.
#[derive(Debug)]
pub struct ReadHalf<'a, S>(&'a S);

/// The sending side of a stream, borrowed; from `split_mut`.
#[derive(Debug)]
pub struct WriteHalf<'a, S>(&'a S);

/// The receiving side of a stream; from `into_split`.
#[derive(Debug)]
pub struct OwnedReadHalf<S>(S);

/// The sending side of a stream; from `into_split`. Its drop ends that side.
pub struct OwnedWriteHalf<S: Duplex> {
    /// Present until [`OwnedReadHalf::reunite`].
    stream: Option<S>,
    end: End,
}

/// Whether the sending side has an end before the stream has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    OnDrop,
    WithTheStream,
}

impl<S> AsRef<S> for ReadHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S> AsRef<S> for WriteHalf<'_, S> {
    fn as_ref(&self) -> &S {
        self.0
    }
}

impl<S> AsRef<S> for OwnedReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.0
    }
}

impl<S: Duplex> AsRef<S> for OwnedWriteHalf<S> {
    fn as_ref(&self) -> &S {
        self.stream.as_ref().expect("only `reunite` takes it")
    }
}

impl<S: Duplex> OwnedReadHalf<S> {
    /// Puts the two halves of a stream together again.
    ///
    /// # Errors
    ///
    /// Gives both back if they are halves of different streams.
    pub fn reunite(self, mut write: OwnedWriteHalf<S>) -> Result<S, ReuniteError<S>> {
        match write.stream.take() {
            Some(stream) if stream.is_clone_of(&self.0) => Ok(stream),
            other => {
                write.stream = other;
                Err(ReuniteError { read: self, write })
            }
        }
    }
}

impl<S: Duplex> OwnedWriteHalf<S> {
    /// Drops this half and leaves the sending side open until the read half is dropped too.
    pub fn forget(mut self) {
        self.end = End::WithTheStream;
    }
}

impl<S: Duplex> Drop for OwnedWriteHalf<S> {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream
            && self.end == End::OnDrop
        {
            // An error says that the connection is gone, and then its sending side is too.
            let _gone_already = stream.shutdown(Shutdown::Write);
        }
    }
}

impl<S: Duplex + fmt::Debug> fmt::Debug for OwnedWriteHalf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedWriteHalf")
            .field(self.as_ref())
            .finish()
    }
}

/// Two halves that are not of the same stream; from [`OwnedReadHalf::reunite`].
pub struct ReuniteError<S: Duplex> {
    /// The read half that was given.
    pub read: OwnedReadHalf<S>,
    /// The write half that was given.
    pub write: OwnedWriteHalf<S>,
}

impl<S: Duplex> fmt::Debug for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReuniteError").finish_non_exhaustive()
    }
}

impl<S: Duplex> fmt::Display for ReuniteError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are of different streams")
    }
}

impl<S: Duplex> Error for ReuniteError<S> {}

macro_rules! half_reads {
    (impl[$($generics:tt)*] $half:ty) => {
        impl<$($generics)*> AsyncRead for $half
        where
            for<'r> &'r S: AsyncRead + Unpin,
        {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_read(cx, buf)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_read_vectored(cx, bufs)
            }
        }
    };
}

macro_rules! half_writes {
    (impl[$($generics:tt)*] $half:ty) => {
        /// Closing ends the sending side.
        impl<$($generics)*> AsyncWrite for $half
        where
            for<'r> &'r S: AsyncWrite + Unpin,
        {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_write_vectored(cx, bufs)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_flush(cx)
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let mut stream: &S = (*self).as_ref();
                Pin::new(&mut stream).poll_close(cx)
            }
        }
    };
}

half_reads! { impl['a, S] ReadHalf<'a, S> }
half_reads! { impl[S] OwnedReadHalf<S> }
half_writes! { impl['a, S] WriteHalf<'a, S> }
half_writes! { impl[S: Duplex] OwnedWriteHalf<S> }
