//! The stream of one client: when its end is told to hyper, and how long a write may wait.
//!
//! # A client that has sent all
//!
//! hyper drops a request whose client has ended its sending side, because that is how a client that
//! is gone looks at first. But some clients end it right behind their request, and read the answer.
//! hyper's `half_close` serves those, and has a price: hyper does not read any more while it works,
//! so a request whose client is gone stays in flight to its end.
//!
//! So hyper is told of the end later here: while a request is in flight, the end counts once
//! nothing has been written for the time of `--ended-time`. An answer that takes longer than that
//! is not given to a client that has ended its side. A reset is told at once. Nothing tells an end
//! from a client that is gone, before something is sent to it. So the time is a choice: it bounds
//! both the work for clients that are gone, and what slow answers may take.
//!
//! While an answer waits for room in the socket, nothing is read at all: hyper would close the
//! connection upon an end, with the rest of the answer in its buffer.
//!
//! # A client that does not read
//!
//! An answer that is not taken holds what hyper and the socket have buffered of it. So a write that
//! makes no progress for the time of `--write-time` is an error, which ends the connection. There
//! is progress when the socket has room again, and the system waits with that until a good part of
//! its buffer is free.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use ws::{
    hyper::Io,
    net::TcpStream,
    time::{Sleep, sleep},
};

use crate::metrics::Open;

pub(crate) struct Stream {
    io: Io<TcpStream>,
    open: Arc<Open>,
    write_time: Duration,
    /// How long a request in flight may write nothing after its client has ended its sending side.
    ended_time: Duration,
    /// Until when the client's end is not told; there if it has come.
    ended: Option<Sleep>,
    /// Until when the write that waits may wait.
    stuck: Option<Sleep>,
    /// A read was put off, and is due when nothing is stuck.
    put_off: bool,
}

impl Stream {
    pub(crate) fn new(
        socket: TcpStream,
        open: Arc<Open>,
        write_time: Duration,
        ended_time: Duration,
    ) -> Self {
        Self {
            io: Io::socket(socket),
            open,
            write_time,
            ended_time,
            ended: None,
            stuck: None,
            put_off: false,
        }
    }

    /// Ready when the end may be told, or there is something else to read.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.stuck.is_some() {
            self.put_off = true;
            return Poll::Pending;
        }
        if !self.open.is_answering() {
            return Poll::Ready(());
        }
        if self.ended.is_none()
            && matches!(ready!(self.io.get_ref().poll_peek(cx, &mut [0])), Ok(0))
        {
            self.ended = Some(sleep(self.ended_time));
        }
        match &mut self.ended {
            Some(ended) => Pin::new(ended).poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// Takes note of how a write went.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.stuck = None;
            if std::mem::take(&mut self.put_off) {
                cx.waker().wake_by_ref();
            }
            if let Some(ended) = &mut self.ended {
                *ended = sleep(self.ended_time);
            }
            return polled;
        }
        let stuck = self.stuck.get_or_insert_with(|| sleep(self.write_time));
        ready!(Pin::new(stuck).poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_readable(cx));
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.wrote(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
