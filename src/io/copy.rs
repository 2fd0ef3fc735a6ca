//! Copying from a reader to a writer.
//!
//! As `futures::io` has it, and two things more. It takes part in the budget: a round of reading
//! and writing costs a unit unless the reader or the writer takes one itself. So a copy between two
//! ends that are always ready, such as buffers in memory, gives way to other tasks and to a timeout
//! around it (F2, F7). And while the reader has nothing, what was written is flushed: otherwise the
//! other end of a buffered writer would wait for the rest of a message that has no rest.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader};
use pin_project_lite::pin_project;
use ws_executor::{budget, task::coop};

/// Copies everything from `reader` to `writer`, and returns how many bytes that were.
///
/// It ends when the reader is at its end and everything is written and flushed; it does not close
/// the writer. While the reader has nothing ready, what was written so far is flushed. It reads
/// through a buffer of 8 KiB; for another size, make a [`BufReader`] and call [`copy_buf`].
///
/// It gives way: when the [budget](crate::task::coop) of its task is spent, other tasks run first,
/// also if both ends are always ready.
///
/// # Errors
///
/// Returns the first error of either end, and [`WriteZero`](io::ErrorKind::WriteZero) if the writer
/// takes nothing more.
///
/// # Cancel safety
///
/// Not cancel safe: what was read and not yet written is lost when the future is dropped. To go on
/// later, keep the future, and await `&mut copy`.
///
/// ```
/// use ws::io::Cursor;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut writer = Cursor::new(vec![0; 5]);
/// assert_eq!(ws::io::copy(&b"hello"[..], &mut writer).await?, 5);
/// assert_eq!(writer.into_inner(), b"hello");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn copy<R, W>(reader: R, writer: &mut W) -> Copy<'_, R, W>
where
    R: AsyncRead,
    W: AsyncWrite + Unpin + ?Sized,
{
    Copy {
        inner: copy_buf(BufReader::new(reader), writer),
    }
}

/// Copies everything from a reader that has its own buffer, as [`copy`] does from others.
///
/// # Errors
///
/// As those of [`copy`].
///
/// # Cancel safety
///
/// Cancel safe if the reader lives on, as with `&mut reader`: what was read and not written stays
/// in its buffer. How many bytes were copied is lost.
///
/// ```
/// use ws::io::{BufReader, Cursor};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let reader = BufReader::with_capacity(64 * 1024, &b"hello"[..]);
/// let mut writer = Cursor::new(vec![0; 5]);
/// assert_eq!(ws::io::copy_buf(reader, &mut writer).await?, 5);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn copy_buf<R, W>(reader: R, writer: &mut W) -> CopyBuf<'_, R, W>
where
    R: AsyncBufRead,
    W: AsyncWrite + Unpin + ?Sized,
{
    CopyBuf {
        reader,
        writer,
        copied: 0,
        // One before this may have been dropped between its write and its flush.
        unflushed: true,
    }
}

pin_project! {
    /// The future of [`copy`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Copy<'a, R, W: ?Sized> {
        #[pin]
        inner: CopyBuf<'a, BufReader<R>, W>,
    }
}

pin_project! {
    /// The future of [`copy_buf`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct CopyBuf<'a, R, W: ?Sized> {
        #[pin]
        reader: R,
        writer: &'a mut W,
        copied: u64,
        unflushed: bool,
    }
}

impl<R: AsyncRead, W: AsyncWrite + Unpin + ?Sized> Future for Copy<'_, R, W> {
    type Output = io::Result<u64>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx)
    }
}

impl<R: AsyncBufRead, W: AsyncWrite + Unpin + ?Sized> Future for CopyBuf<'_, R, W> {
    type Output = io::Result<u64>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            // Given back at once: the ends may have a price of their own.
            drop(ready!(coop::poll_proceed(cx)));
            if let Some(copied) = ready!(budget::charged(|| self.as_mut().poll_round(cx)))? {
                return Poll::Ready(Ok(copied));
            }
        }
    }
}

impl<R: AsyncBufRead, W: AsyncWrite + Unpin + ?Sized> CopyBuf<'_, R, W> {
    /// Reads once if the buffer is empty, and writes once; at the end it flushes and says how much
    /// it was.
    fn poll_round(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        let mut this = self.project();
        let mut writer = Pin::new(&mut **this.writer);
        let Poll::Ready(buffer) = this.reader.as_mut().poll_fill_buf(cx)? else {
            if *this.unflushed {
                ready!(writer.poll_flush(cx))?;
                *this.unflushed = false;
            }
            return Poll::Pending;
        };
        if buffer.is_empty() {
            ready!(writer.poll_flush(cx))?;
            return Poll::Ready(Ok(Some(*this.copied)));
        }
        let written = ready!(writer.as_mut().poll_write(cx, buffer))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        *this.copied += written as u64;
        *this.unflushed = true;
        this.reader.as_mut().consume(written);
        Poll::Ready(Ok(None))
    }
}
