//! Pipes of simulated hosts.
//!
//! A pipe is a queue of bytes with two ends, on one host. What happens at one end is there at the
//! other at once. What became ready waits in [`Pipes::take_news`], as for Unix sockets.
//!
//! *Invariant*: a write of up to [`ATOMIC`] bytes is whole or not at all, and a pipe that is
//! writable takes one. Linux counts pages, so of many small writes fewer fit there.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
};

use crate::{error::os, network::Ready};

/// Bytes that fit at first: 16 pages.
const CAPACITY: usize = 65_536;
/// What a program may ask for: `/proc/sys/fs/pipe-max-size`.
const LARGEST: usize = 1 << 20;
/// `PIPE_BUF`, and the size of a page.
const ATOMIC: usize = 4_096;

pub(crate) type PipeId = u64;

/// An end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) pipe: PipeId,
    pub(crate) writes: bool,
}

#[derive(Debug)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// Bytes that fit.
    capacity: usize,
    /// The end that was closed.
    reader_gone: bool,
    writer_gone: bool,
}

impl Pipe {
    fn room(&self) -> usize {
        self.capacity - self.bytes.len()
    }
}

/// The pipes of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    all: BTreeMap<PipeId, Pipe>,
    made: PipeId,
    news: Vec<(End, Ready)>,
}

impl Pipes {
    /// Makes a pipe. Its ends are the one to read and the one to write.
    pub(crate) fn make(&mut self) -> (End, End) {
        self.made += 1;
        let pipe = Pipe {
            bytes: VecDeque::new(),
            capacity: CAPACITY,
            reader_gone: false,
            writer_gone: false,
        };
        self.all.insert(self.made, pipe);
        let end = |writes| End {
            pipe: self.made,
            writes,
        };
        (end(false), end(true))
    }

    /// The pipe of an end that may do so: `EBADF` if it may not.
    fn get(&mut self, end: End, writes: bool) -> io::Result<&mut Pipe> {
        let pipe = self.all.get_mut(&end.pipe).filter(|_| end.writes == writes);
        pipe.ok_or_else(|| os(libc::EBADF))
    }

    /// The bytes that a read would give. None are left at the end of a pipe without a writer.
    pub(crate) fn peek(&mut self, end: End, most: usize) -> io::Result<Vec<u8>> {
        let pipe = self.get(end, false)?;
        if pipe.bytes.is_empty() && !pipe.writer_gone && most > 0 {
            return Err(os(libc::EAGAIN));
        }
        Ok(pipe.bytes.iter().take(most).copied().collect())
    }

    /// Takes as many bytes away, which were seen by [`peek`](Self::peek).
    pub(crate) fn take(&mut self, end: End, len: usize) -> io::Result<()> {
        let pipe = self.get(end, false)?;
        let was_full = pipe.room() < ATOMIC;
        pipe.bytes.drain(..len);
        if was_full && pipe.room() >= ATOMIC {
            self.tell(end.pipe, true, Ready::WRITABLE);
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, end: End, most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.peek(end, most)?;
        self.take(end, bytes.len())?;
        Ok(bytes)
    }

    /// Bytes that a write of any length has room for: `EAGAIN` if there is none.
    pub(crate) fn room(&mut self, end: End) -> io::Result<usize> {
        let pipe = self.get(end, true)?;
        match pipe.room() {
            _ if pipe.reader_gone => Err(os(libc::EPIPE)),
            0 => Err(os(libc::EAGAIN)),
            room => Ok(room),
        }
    }

    pub(crate) fn write(&mut self, end: End, bytes: &[u8]) -> io::Result<usize> {
        let pipe = self.get(end, true)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        if pipe.reader_gone {
            return Err(os(libc::EPIPE));
        }
        let room = pipe.room();
        if room == 0 || (bytes.len() <= ATOMIC && room < bytes.len()) {
            return Err(os(libc::EAGAIN));
        }
        let len = room.min(bytes.len());
        pipe.bytes.extend(&bytes[..len]);
        self.tell(end.pipe, false, Ready::READABLE);
        Ok(len)
    }

    /// Bytes that wait, at either end.
    pub(crate) fn unread(&self, end: End) -> usize {
        self.all.get(&end.pipe).map_or(0, |pipe| pipe.bytes.len())
    }

    /// Bytes that fit, at either end.
    pub(crate) fn capacity(&self, end: End) -> usize {
        self.all.get(&end.pipe).map_or(0, |pipe| pipe.capacity)
    }

    /// Gives a pipe room for so many bytes at least, and tells for how many.
    pub(crate) fn set_capacity(&mut self, end: End, least: i32) -> io::Result<usize> {
        let least = usize::try_from(least).map_err(|_| os(libc::EINVAL))?;
        let capacity = least.max(ATOMIC).next_power_of_two();
        if capacity > LARGEST {
            return Err(os(libc::EPERM));
        }
        let pipe = self.all.get_mut(&end.pipe).ok_or_else(|| os(libc::EBADF))?;
        if pipe.bytes.len() > capacity {
            return Err(os(libc::EBUSY));
        }
        let was_full = pipe.room() < ATOMIC;
        pipe.capacity = capacity;
        if was_full && pipe.room() >= ATOMIC {
            self.tell(end.pipe, true, Ready::WRITABLE);
        }
        Ok(capacity)
    }

    /// As `pipe_poll`.
    pub(crate) fn ready(&self, end: End) -> Ready {
        let mut ready = Ready::NONE;
        let Some(pipe) = self.all.get(&end.pipe) else {
            return ready;
        };
        if end.writes {
            ready.set_if(pipe.room() >= ATOMIC, Ready::WRITABLE);
            ready.set_if(pipe.reader_gone, Ready::ERROR);
        } else {
            ready.set_if(!pipe.bytes.is_empty(), Ready::READABLE);
            ready.set_if(pipe.writer_gone, Ready::WRITE_CLOSED);
        }
        ready
    }

    /// The last descriptor of an end is closed.
    pub(crate) fn close(&mut self, end: End) {
        let Some(pipe) = self.all.get_mut(&end.pipe) else {
            return;
        };
        if end.writes {
            pipe.writer_gone = true;
        } else {
            pipe.reader_gone = true;
        }
        if pipe.writer_gone && pipe.reader_gone {
            self.all.remove(&end.pipe);
        } else if end.writes {
            self.tell(end.pipe, false, Ready::WRITE_CLOSED);
        } else {
            self.tell(end.pipe, true, Ready::ERROR | Ready::WRITABLE);
        }
    }

    fn tell(&mut self, pipe: PipeId, writes: bool, ready: Ready) {
        self.news.push((End { pipe, writes }, ready));
    }

    /// What ends became ready for since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<(End, Ready)> {
        std::mem::take(&mut self.news)
    }
}
