//! Short transfers: what a read or a write tells that moved fewer bytes than it was given room for.
//!
//! # What it is for
//!
//! A task that has read all there is learns so from `EAGAIN`, by a second system call which moves
//! nothing. For a server that answers requests that is one call in three. But if the first read was
//! given room for 8192 bytes and brought 300, the socket was empty at that moment, and readiness
//! can be cleared without the second call.
//!
//! # Why no edge is lost
//!
//! A short read of a byte stream means: at some moment during the call the queue was empty.
//! Whatever arrives after that moment is an edge of its own, and sets the ready bit again under a
//! newer tick, which the clear respects. The same goes for a short write, a full queue and the room
//! that is made later. The kernel marks the socket as out of room before it returns the short
//! count, so the edge is certain.
//!
//! End of file, hang-up and errors are edges too, and the last ones. They may lie behind the data
//! that a short read has brought, so it matters when they were reported:
//!
//! - before the snapshot: then its closed or error bit is set, and a short transfer clears nothing;
//! - between snapshot and clear: the tick differs, and nothing is cleared;
//! - later: the event is still to come, and sets the bit.
//!
//! For a source registered just now, which is tried without an event, the third case holds: epoll
//! reports what it finds at registration as a first event.
//!
//! # Where it would be wrong
//!
//! All this holds for a queue of bytes, where a read takes as much as fits. It was tried out, and
//! does not hold in these cases, where data stays behind a short read and no edge follows:
//!
//! - **TCP with urgent data**: a read stops at the mark. epoll reports urgent data only if the
//!   interest includes it ([`STREAM_INTEREST`] does), so the shortcut is taken only then, and only
//!   if none was reported.
//! - **Unix streams**: a read stops where a message with file descriptors (or other credentials)
//!   begins or ends, whatever process sends them, and nothing tells. Use [`Registration::poll_io`]
//!   for reading.
//! - **Peeking** leaves the data where it is. **Datagrams**, packet pipes, terminals and devices
//!   have boundaries of their own. [`Registration::poll_io`] for all of these.
//!
//! - **More than one system call takes**: 1,024 slices, or 2 GiB. `len` is what one call is given
//!   at most, and a transfer near 2 GiB clears nothing.
//!
//! So the functions here are for reading TCP streams and plain pipes, and for writing those and
//! Unix streams. Elsewhere than on Linux they are `poll_io` and `async_io`: other kernels were not
//! examined.
//!
//! Checked by `tests/netpoll/short_transfers.rs`.

use std::io;
use std::task::{Context, Poll};

use mio::Interest;

use crate::readiness::{Direction, Ready, Why};
use crate::registration::Registration;

/// What a byte stream is registered for: reading, writing, and on Linux urgent data, without which
/// [`Registration::poll_read_with`] and [`Registration::async_read_with`] can not take their
/// shortcut.
#[cfg(target_os = "linux")]
pub const STREAM_INTEREST: Interest = Interest::READABLE
    .add(Interest::WRITABLE)
    .add(Interest::PRIORITY);

/// What a byte stream is registered for: reading and writing.
#[cfg(not(target_os = "linux"))]
pub const STREAM_INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Most bytes that one system call moves (`MAX_RW_COUNT` of Linux, with pages of 64 KiB).
/// Such a transfer was cut off by the kernel, and says nothing about the queue.
const MOVED_MAX: usize = 0x7fff_0000;

impl Registration {
    /// Polls a read of up to `len` bytes from a TCP stream or a pipe, and knows from a short one
    /// that the next would block.
    ///
    /// `f` says how many bytes it has read. It must not peek, and it must not be about a Unix
    /// stream, a datagram socket or a device: their reads may be short while there is more. For
    /// those, see [`Registration::poll_io`], which this is otherwise.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_io`].
    #[inline]
    pub fn poll_read_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        mut f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_attempts(cx, Direction::Read, |seen| {
            f().inspect(|&moved| self.note_transfer(seen, moved, len))
        })
    }

    /// Polls a write of up to `len` bytes to a byte stream, and knows from a short one that the
    /// next would block.
    ///
    /// `f` says how many bytes it has written. For anything but streams and pipes, see
    /// [`Registration::poll_io`], which this is otherwise.
    ///
    /// # Errors
    ///
    /// As [`Registration::poll_io`].
    #[inline]
    pub fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        mut f: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_attempts(cx, Direction::Write, |seen| {
            f().inspect(|&moved| self.note_transfer(seen, moved, len))
        })
    }

    /// Reads up to `len` bytes from a TCP stream or a pipe: [`Registration::poll_read_with`] as a
    /// future.
    ///
    /// # Errors
    ///
    /// As [`Registration::async_io`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, `f` has not succeeded.
    pub async fn async_read_with(
        &self,
        len: usize,
        mut f: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.attempts(Direction::Read, |seen| {
            f().inspect(|&moved| self.note_transfer(seen, moved, len))
        })
        .await
    }

    /// Writes up to `len` bytes to a byte stream: [`Registration::poll_write_with`] as a future.
    ///
    /// # Errors
    ///
    /// As [`Registration::async_io`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it is ready, `f` has not succeeded.
    pub async fn async_write_with(
        &self,
        len: usize,
        mut f: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.attempts(Direction::Write, |seen| {
            f().inspect(|&moved| self.note_transfer(seen, moved, len))
        })
        .await
    }

    /// Clears readiness after a short transfer. None at all is the end of the stream, not a short
    /// one.
    #[inline]
    fn note_transfer(&self, seen: Ready, moved: usize, len: usize) {
        if 0 < moved && moved < len && moved < MOVED_MAX && self.short_is_drained(seen.direction())
        {
            self.source().readiness.clear(seen, Why::Short);
        }
    }

    /// Whether a short transfer shows that the queue is empty, or full.
    #[cfg(target_os = "linux")]
    #[inline]
    fn short_is_drained(&self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.source().interest.is_priority(),
            Direction::Write => true,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn short_is_drained(&self, _: Direction) -> bool {
        false
    }
}
