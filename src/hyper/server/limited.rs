//! A socket of a server, with its limits of time.
//!
//! # A client that has sent all
//!
//! hyper drops a request whose client has ended its sending side, because that is how a client that
//! is gone looks at first. But some clients end it right behind their request, and read the answer.
//! hyper's `half_close` serves those, and has a price: hyper does not read any more while it works,
//! so a request whose client is gone stays in flight to its end.
//!
//! So hyper is told of the end later here: while a request is in flight, the end counts once
//! nothing has been read or written for the time of `Server::ended_time`. While an answer waits for
//! room in the socket, the end is not told at all: hyper would close the connection, with the rest
//! of the answer in its buffer. That may be so after the answer's body is gone, when nothing is in
//! flight any more.
//!
//! hyper does not read while it has bytes that it does not want yet: of a next request, or of a
//! body that the service does not read. But whenever it is polled it flushes, also if there is
//! nothing to flush. So a flush looks for the end as well, and then is an error. The end is that of
//! the readiness, which is there before what lies in front of it was read. The wakers are those of
//! the connection's task, which reads and writes, so a flush may wait for a read.
//!
//! A reset is told at once if hyper reads, and as an end if it does not.
//!
//! # A client that does not read
//!
//! An answer that is not taken holds what hyper and the socket have buffered of it. So a write that
//! makes no progress for the time of `Server::write_time` is an error, which ends the connection.
//!
//! If a client of HTTP/2 opens no window, nothing is written. So while a request is in flight, a
//! read looks from time to time whether hyper has parts of answers, and whether it was given one or
//! has sent some of one since. The interval is that time as well, so it may take twice the time.
//! The looks do not begin with a part, since that would take a wake for each part.
//!
//! # A client that sends nothing
//!
//! The first read that has to wait while nothing is in flight starts a timer: at the begin of the
//! connection for a head, later for an idle connection. The first bytes of a next head start it
//! anew. A request in flight ends it. An upgraded connection has none: what it waits for, only the
//! service knows.
//!
//! A tunnel of HTTP/2 (`CONNECT`) is the service's as well, but its connection is not: other
//! streams may be beside it, and nothing tells when it ends. Its bytes and those of a head look the
//! same here. So from the first tunnel on, an idle connection has the time of an idle one from
//! whatever was read last.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::hyper::rt::{Read, ReadBufCursor, Write};
use futures::io::{AsyncRead, AsyncWrite};

use super::{Busy, Limits, Open, Transport};
use crate::{
    hyper::Io,
    time::{Sleep, sleep},
};

/// A socket of a [`Server`](super::Server), with its limits of time: what [`Server::tls`] does its
/// handshake on.
///
/// [`Server::tls`]: super::Server::tls
#[derive(Debug)]
pub struct Limited<T> {
    io: Io<T>,
    open: Arc<Open>,
    limits: Limits,
    waits: Waits,
    /// Until when the client's end is not told; there if the end has come.
    ended: Option<Sleep>,
    /// Until when the write that waits may wait. The connection is not idle in that time.
    stuck: Option<(Sleep, Busy)>,
    /// When to look whether the client takes its answers, and the steps of [`Open`] at the last
    /// look.
    look: Option<(Sleep, u64)>,
}

/// What a read waits for.
#[derive(Debug)]
enum Waits {
    /// For the rest of a head, or of a handshake.
    Head(Sleep),
    /// For a request.
    Idle(Sleep),
    /// Nothing has a limit: a request is in flight, or nobody has waited yet since it was.
    Freely,
}

impl<T: Transport> Limited<T> {
    pub(super) fn new(socket: T, open: Arc<Open>, limits: Limits) -> Self {
        Self {
            io: Io::socket(socket),
            open,
            limits,
            waits: Waits::Head(sleep(limits.head)),
            ended: None,
            stuck: None,
            look: None,
        }
    }

    /// Returns the socket.
    pub const fn get_ref(&self) -> &T {
        self.io.get_ref()
    }

    /// Reads by `read`, within the limits.
    fn poll_read_by<R>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Io<T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if self.open.is_upgraded() {
            return read(&mut self.io, cx);
        }
        if self.open.is_answering() {
            self.waits = Waits::Freely;
            if self.poll_untaken(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let may_read = self.poll_gone(cx).is_ready()
                || self.io.get_ref().poll_at_end(cx) == Poll::Ready(false);
            let polled = if may_read {
                read(&mut self.io, cx)
            } else {
                Poll::Pending
            };
            if polled.is_ready() {
                self.put_off_end();
            } else {
                // No bytes tell when the answer is sent, and a read has to begin anew then.
                self.open.wake_when_answered(cx.waker());
            }
            return polled;
        }
        let polled = read(&mut self.io, cx);
        if polled.is_ready() {
            if self.open.has_tunnels() {
                self.waits = Waits::Freely;
            } else if let Waits::Idle(_) = self.waits {
                self.waits = Waits::Head(sleep(self.limits.head));
            }
            return polled;
        }
        if let Waits::Freely = self.waits {
            self.waits = Waits::Idle(sleep(self.limits.idle));
        }
        match &mut self.waits {
            Waits::Head(until) | Waits::Idle(until) => {
                ready!(Pin::new(until).poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Waits::Freely => Poll::Pending,
        }
    }

    /// Ready when the client's end may be told.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = match &mut self.ended {
            Some(ended) => ended,
            None => {
                ready!(self.io.get_ref().poll_read_closed(cx));
                self.ended.insert(sleep(self.limits.ended))
            }
        };
        if self.stuck.is_some() {
            return Poll::Pending;
        }
        Pin::new(ended).poll(cx)
    }

    /// Ready when none of what hyper has of answers was sent between two looks.
    fn poll_untaken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (write, steps) = (self.limits.write, self.open.steps());
        let (until, before) = self.look.get_or_insert_with(|| (sleep(write), steps));
        ready!(Pin::new(&mut *until).poll(cx));
        if self.open.has_unsent() && *before == steps {
            return Poll::Ready(());
        }
        (*until, *before) = (sleep(write), steps);
        // It has to wake this task; a look at the same moment would find no steps.
        let _armed = Pin::new(until).poll(cx);
        Poll::Pending
    }

    /// Something was read or written.
    fn put_off_end(&mut self) {
        if let Some(ended) = &mut self.ended {
            *ended = sleep(self.limits.ended);
        }
    }

    /// Takes note of how a write went.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            // A read may wait for this, to tell the end that was put off.
            if self.stuck.take().is_some() {
                cx.waker().wake_by_ref();
            }
            self.put_off_end();
            return polled;
        }
        let (open, write) = (&self.open, self.limits.write);
        let stuck = self
            .stuck
            .get_or_insert_with(|| (sleep(write), Busy::new(open.clone())));
        ready!(Pin::new(&mut stuck.0).poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: Transport> Read for Limited<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_by(cx, |io, cx| Pin::new(io).poll_read(cx, buf))
    }
}

impl<T: Transport> AsyncRead for Limited<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_by(cx, |io, cx| Pin::new(io.get_mut()).poll_read(cx, buf))
    }
}

impl<T: Transport> AsyncWrite for Limited<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(self.io.get_mut()).poll_write(cx, buf);
        self.wrote(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(self.io.get_mut()).poll_write_vectored(cx, bufs);
        self.wrote(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_limited = self.open.is_answering() && !self.open.is_upgraded();
        if is_limited && self.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(self.io.get_mut()).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io.get_mut()).poll_close(cx)
    }
}

impl<T: Transport> Write for Limited<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self, cx, buf)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(self, cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_close(self, cx)
    }
}
