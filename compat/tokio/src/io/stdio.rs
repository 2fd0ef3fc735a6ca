//! The standard streams of the process.
//!
//! Each read or write is a closure on a thread for blocking code: the streams may be files, and
//! they are shared with processes that do not expect them to be in nonblocking mode. As in tokio, a
//! write is accepted once its bytes are in the buffer, and a read that is under way holds up the
//! end of its runtime.

use std::{
    future::Future,
    io::{self, IoSlice, Read, Write},
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{
    AsyncRead, AsyncWrite, ReadBuf,
    buf::{Buf, DEFAULT_MAX_BUF_SIZE},
};
use crate::{
    runtime::{Handle, SHUTTING_DOWN},
    task::{JoinHandle, spawn_blocking},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stdin.html).
#[derive(Debug)]
pub struct Stdin {
    std: io::Stdin,
    stream: Stream,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stdout.html).
#[derive(Debug)]
pub struct Stdout {
    std: io::Stdout,
    stream: Stream,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Stderr.html).
#[derive(Debug)]
pub struct Stderr {
    std: io::Stderr,
    stream: Stream,
}

/// The process's standard input.
pub fn stdin() -> Stdin {
    Stdin {
        std: io::stdin(),
        stream: Stream::default(),
    }
}

/// The process's standard output.
pub fn stdout() -> Stdout {
    Stdout {
        std: io::stdout(),
        stream: Stream::default(),
    }
}

/// The process's standard error.
pub fn stderr() -> Stderr {
    Stderr {
        std: io::stderr(),
        stream: Stream::default(),
    }
}

#[derive(Debug, Default)]
struct Stream {
    state: State,
    /// What was written has to be flushed.
    is_dirty: bool,
}

#[derive(Debug)]
enum State {
    Idle(Buf),
    Busy(JoinHandle<(io::Result<()>, Buf)>),
}

impl Default for State {
    fn default() -> Self {
        Self::Idle(Buf::default())
    }
}

impl Stream {
    /// The buffer, once nothing is under way; or the error of what was.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut Buf>> {
        if let State::Busy(handle) = &mut self.state {
            let ended = ready!(Pin::new(handle).poll(cx));
            self.state = State::default();
            let (result, buf) = ended?;
            self.state = State::Idle(buf);
            result?;
        }
        match &mut self.state {
            State::Idle(buf) => Poll::Ready(Ok(buf)),
            State::Busy(_) => unreachable!("it has ended"),
        }
    }

    /// Nothing may be under way.
    fn start(
        &mut self,
        f: impl FnOnce(&mut Buf) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        if Handle::current().ws.is_ending() {
            return Err(io::Error::other(SHUTTING_DOWN));
        }
        let State::Idle(mut buf) = mem::take(&mut self.state) else {
            unreachable!("the caller waited for it");
        };
        self.state = State::Busy(spawn_blocking(move || {
            let result = f(&mut buf);
            (result, buf)
        }));
        Ok(())
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
        mut from: impl Read + Send + 'static,
    ) -> Poll<io::Result<()>> {
        let was_busy = matches!(self.state, State::Busy(_));
        let buf = ready!(self.poll_idle(cx))?;
        // An empty buffer after a read is the end.
        if !was_busy && buf.is_empty() {
            let max = dst.remaining().min(DEFAULT_MAX_BUF_SIZE);
            self.start(move |buf| buf.read_from(&mut from, max))?;
        }
        ready!(self.poll_idle(cx))?.copy_to(dst);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        src: &[u8],
        mut to: impl Write + Send + 'static,
    ) -> Poll<io::Result<usize>> {
        let buf = ready!(self.poll_idle(cx))?;
        let len = buf.copy_from(&[IoSlice::new(src)], DEFAULT_MAX_BUF_SIZE);
        self.start(move |buf| buf.write_to(&mut to))?;
        self.is_dirty = true;
        Poll::Ready(Ok(len))
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        mut to: impl Write + Send + 'static,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx))?;
        if mem::take(&mut self.is_dirty) {
            self.start(move |_| to.flush())?;
            ready!(self.poll_idle(cx))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_read(cx, dst, io::stdin())
    }
}

macro_rules! output {
    ($type:ident, $std:path) => {
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                src: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.get_mut().stream.poll_write(cx, src, $std())
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.get_mut().stream.poll_flush(cx, $std())
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
    };
}

output!(Stdout, io::stdout);
output!(Stderr, io::stderr);

macro_rules! descriptor {
    ($type:ident) => {
        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.std.as_raw_fd()
            }
        }

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.std.as_fd()
            }
        }
    };
}

descriptor!(Stdin);
descriptor!(Stdout);
descriptor!(Stderr);
