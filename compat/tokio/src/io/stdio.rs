//! The standard streams of the process: those of `ws::io`.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use ws_net::{
    blocking_io::is_lost,
    futures::io::{AsyncBufRead as _, AsyncWrite as _},
    stdio as ws,
};

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::{
    runtime::{Handle, SHUTTING_DOWN},
    task::poll_unbudgeted,
};

/// Where reads and writes are run.
#[track_caller]
fn runtime() -> ws_executor::runtime::Handle {
    Handle::current().ws
}

/// Polls an operation of `ws`.
fn poll<T>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    poll_unbudgeted(cx, operation).map_err(|error| {
        if is_lost(&error) {
            io::Error::other(SHUTTING_DOWN)
        } else {
            error
        }
    })
}

macro_rules! streams {
    ($($(#[$meta:meta])* $type:ident, $function:ident = $on:ident;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $type(ws::$type);

        // As in tokio. A panic leaves nothing half done: each step ends before user code runs.
        impl std::panic::UnwindSafe for $type {}
        impl std::panic::RefUnwindSafe for $type {}

        /// The process's standard stream.
        pub fn $function() -> $type {
            $type(ws::$on(runtime))
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
    )+};
}

streams! {
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stdin.html).
    Stdin, stdin = stdin_on;
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stdout.html).
    Stdout, stdout = stdout_on;
    /// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stderr.html).
    Stderr, stderr = stderr_on;
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stdin = &mut self.get_mut().0;
        let bytes = ready!(poll(cx, |cx| stdin.poll_fill(cx, dst.remaining())))?;
        let len = bytes.len().min(dst.remaining());
        dst.put_slice(&bytes[..len]);
        Pin::new(stdin).consume(len);
        Poll::Ready(Ok(()))
    }
}

macro_rules! output {
    ($type:ident) => {
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                src: &[u8],
            ) -> Poll<io::Result<usize>> {
                poll(cx, |cx| Pin::new(&mut self.get_mut().0).poll_write(cx, src))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                poll(cx, |cx| Pin::new(&mut self.get_mut().0).poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
    };
}

output!(Stdout);
output!(Stderr);
