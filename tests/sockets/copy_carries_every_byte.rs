//! A copy hands on every byte, also to a writer that takes one at a time. It ends when all of it is
//! flushed, and a flush that has begun goes on until it is done.
//!
//! Each test names the change that makes it fail.

use crate::net_support;

use std::future::{Future, pending};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use net_support::{Limit, runtime};
use ws::io::{AsyncRead, AsyncWrite, BufReader};

/// Keeps what was written and what of it was flushed. It takes one byte a call, and a flush takes a
/// second call.
#[derive(Default)]
struct Slow {
    written: Vec<u8>,
    flushed: usize,
    flush_has_begun: bool,
}

impl AsyncWrite for Slow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.extend(bytes.first());
        Poll::Ready(Ok(bytes.len().min(1)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush_has_begun = !self.flush_has_begun;
        if self.flush_has_begun {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.flushed = self.written.len();
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

// Fails if a short write consumes all of the buffer, and if the end is not flushed.
#[test]
fn short_writes_lose_nothing_and_the_end_is_flushed() {
    let _limit = Limit::new(1);
    let sent = net_support::pattern(20_000, 3);
    let mut writer = Slow::default();
    let copied = runtime(1).block_on(ws::io::copy(&sent[..], &mut writer));
    assert_eq!(copied.unwrap(), sent.len() as u64);
    assert!(writer.written == sent);
    assert_eq!(writer.flushed, sent.len());
}

/// Gives some bytes, and then neither more nor an end.
struct Stalls(&'static [u8]);

impl AsyncRead for Stalls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.0.is_empty() {
            return pin!(pending()).poll(cx);
        }
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

// Fails if a copy begins as if its writer were flushed.
#[test]
fn a_copy_flushes_what_one_before_it_has_written() {
    let mut writer = Slow::default();
    let mut reader = BufReader::new(Stalls(b"ping"));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        let copy = pin!(ws::io::copy_buf(&mut reader, &mut writer));
        assert!(copy.poll(&mut cx).is_pending());
    }
    assert_eq!((&*writer.written, writer.flushed), (&b"ping"[..], 4));
}

// Fails if a flush that is pending counts as done.
#[test]
fn a_flush_goes_on_while_the_reader_has_nothing() {
    let mut writer = Slow::default();
    {
        let mut copy = pin!(ws::io::copy_buf(
            BufReader::new(Stalls(b"ping")),
            &mut writer
        ));
        for _ in 0..2 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(copy.as_mut().poll(&mut cx).is_pending());
        }
    }
    assert_eq!(writer.written, b"ping");
    assert_eq!(writer.flushed, 4);
}
