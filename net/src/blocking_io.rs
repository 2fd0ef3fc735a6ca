//! The mechanism of files and of the standard streams: an operation blocks, so a thread for
//! blocking code does it.
//!
//! The system has no readiness for files: a read of one is always "ready", and waits for the disk.
//! The standard streams may be files, and other processes share them and do not expect them in
//! nonblocking mode. So each operation is a closure of
//! [`spawn_blocking`](ws_executor::spawn_blocking), on a thread of the runtime that is current
//! where the operation begins.
//!
//! | state | the buffer is | next |
//! | --- | --- | --- |
//! | idle | here; it may hold bytes that were read and not taken | an operation takes it along: busy |
//! | busy | with the closure | the closure brings it back with its answer: idle. Or the runtime ends before it has begun: idle, with an empty buffer and an error |
//!
//! *Invariant*: at most one operation of a `BlockingIo` is under way, and they happen in the
//! order of their begin. So the system's position in a file is that of the task, plus what is in
//! the buffer. Whatever depends on the position is told how many bytes that are, and goes back by
//! them. If it fails, the position and the buffer stay. A file without a position, such as a pipe,
//! keeps what was read for the next read.
//!
//! *Cancel safety*: an operation goes on when the future that began it is dropped, since the state
//! is here and not in the future. The next operation waits for it. What it has read is for the next
//! read. If it was a write, its error is for the next write or flush.
//!
//! *Writes* are answered once their bytes are in the buffer, so a write costs its task no wait
//! unless another is under way. A flush waits until the system has the bytes.
//!
//! *The end of a runtime*: a write is refused if the runtime has begun to end. What was accepted
//! before is written if [`shutdown_grace`](ws_executor::runtime::Builder::shutdown_grace) is long
//! enough. What is lost is an error of the next operation.
//!
//! Rejected: io_uring, which is refused in most containers, and needs a second path wherever it is;
//! a closure that borrows the caller's buffer, which would have to outlive a dropped future; writes
//! that wait for the system, which cost two switches of threads for each small piece.
//!
//! Checked by `tests/files_keep_their_order.rs` and `tests/standard_streams_carry_every_byte.rs`.

mod buf;

use std::{
    any::Any,
    fmt,
    future::{Future, poll_fn},
    io::{self, IoSlice, Read, SeekFrom},
    mem, panic,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ws_executor::{
    budget::unbudgeted,
    runtime::Handle,
    task::{JoinError, JoinHandle, coop::poll_proceed},
};

pub(crate) use self::buf::Buf;
use crate::current::in_runtime;

/// Most bytes of one read or write. As in tokio.
pub(crate) const DEFAULT_MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

/// Finds the runtime that runs an operation.
///
/// # Panics
///
/// Outside of a runtime, in the words of the crate that users name.
pub type FindRuntime = fn() -> Handle;

/// The current runtime, or a panic in the words of `ws`.
pub(crate) fn current_runtime() -> Handle {
    match Handle::try_current() {
        Ok(handle) => handle,
        Err(_) => panic!(
            "a file or a standard stream was used outside of a ws runtime: use it in a task, in \
             `block_on`, or after `Handle::enter`"
        ),
    }
}

/// What is between a task and the closures that read and write for it. See the module's head.
pub(crate) struct BlockingIo {
    find_runtime: FindRuntime,
    state: State,
    /// Of a write that ended in an operation that does not tell of it.
    write_error: Option<io::Error>,
    /// The seek that is under way.
    seeking: Option<SeekFrom>,
    /// Where the last seek has led.
    position: u64,
}

enum State {
    Idle(Buf),
    Busy(JoinHandle<(Done, Buf)>),
}

/// What an operation says.
enum Done {
    Read(io::Result<()>),
    Write(io::Result<()>),
    Seek(io::Result<u64>),
    /// For the future that waits for it, and forgotten without that.
    Other(Box<dyn Any + Send>),
}

impl BlockingIo {
    pub(crate) fn new(find_runtime: FindRuntime) -> Self {
        Self {
            find_runtime,
            state: State::Idle(Buf::default()),
            write_error: None,
            seeking: None,
            position: 0,
        }
    }

    /// The buffer. Nothing may be under way.
    fn buf(&mut self) -> &mut Buf {
        match &mut self.state {
            State::Idle(buf) => buf,
            State::Busy(_) => unreachable!("the caller waited for it"),
        }
    }

    fn start(&mut self, f: impl FnOnce(&mut Buf) -> Done + Send + 'static) {
        let runtime = (self.find_runtime)();
        self.start_on(&runtime, f);
    }

    fn start_on(&mut self, runtime: &Handle, f: impl FnOnce(&mut Buf) -> Done + Send + 'static) {
        let mut buf = mem::take(self.buf());
        self.state = State::Busy(runtime.spawn_blocking(move || {
            let done = f(&mut buf);
            (done, buf)
        }));
    }

    /// Waits for the operation that is under way, and says what it said. If it was lost, so is what
    /// was in the buffer. The caller takes the unit of the budget: one that holds a unit while the
    /// handle takes another is refused for ever where its share of a poll is one unit.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        let State::Busy(handle) = &mut self.state else {
            return Poll::Ready(Ok(None));
        };
        let ended = ready!(unbudgeted(|| Pin::new(handle).poll(cx)));
        self.state = State::Idle(Buf::default());
        self.seeking = None;
        let (done, buf) = ended.map_err(lost)?;
        self.state = State::Idle(buf);
        if let Done::Seek(Ok(position)) = done {
            self.position = position;
        }
        Poll::Ready(Ok(Some(done)))
    }

    /// Waits for the operation that is under way. The error of a write is kept.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        Poll::Ready(Ok(match ready!(self.poll_done(cx))? {
            Some(Done::Write(Err(error))) => {
                self.write_error = Some(error);
                None
            }
            done => done,
        }))
    }

    /// The bytes that were read and not taken. Without any, at most `max` are read first. None are
    /// the end, if `max` is not 0.
    pub(crate) fn poll_fill<R: Read + Send + 'static>(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        from: impl Fn() -> R,
    ) -> Poll<io::Result<&[u8]>> {
        let unit = ready!(poll_proceed(cx));
        loop {
            let done = ready!(self.poll_settled(cx))?;
            let has_read = matches!(done, Some(Done::Read(_)));
            if let Some(Done::Read(Err(error))) = done {
                unit.made_progress();
                return Poll::Ready(Err(error));
            }
            if has_read || max == 0 || !self.buf().is_empty() {
                break;
            }
            let mut from = from();
            self.start(move |buf| Done::Read(buf.read_from(&mut from, max)));
        }
        unit.made_progress();
        Poll::Ready(Ok(self.buf().bytes()))
    }

    /// Takes bytes that [`poll_fill`](Self::poll_fill) has shown.
    pub(crate) fn consume(&mut self, len: usize) {
        if let State::Idle(buf) = &mut self.state {
            buf.consume(len);
        }
    }

    /// Copies into `dst` what [`poll_fill`](Self::poll_fill) shows.
    pub(crate) fn poll_read<R: Read + Send + 'static>(
        &mut self,
        cx: &mut Context<'_>,
        dst: &mut [u8],
        max: usize,
        from: impl Fn() -> R,
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(self.poll_fill(cx, dst.len().min(max), from))?;
        let len = dst.len().min(bytes.len());
        dst[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Poll::Ready(Ok(len))
    }

    /// Takes at most `max` bytes, once nothing is under way, and begins to write them. `write` is
    /// given what was read and not taken, and puts it back unless it goes back by that.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        max: usize,
        write: impl FnOnce(&mut Buf, Vec<u8>) -> io::Result<()> + Send + 'static,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let runtime = self.open_runtime()?;
        let buf = self.buf();
        let unread = buf.take();
        let len = buf.copy_from(slices, max);
        self.start_on(&runtime, move |buf| Done::Write(write(buf, unread)));
        Poll::Ready(Ok(len))
    }

    /// Begins something whose error is told as that of a write. Nothing may be under way.
    ///
    /// # Errors
    ///
    /// If the runtime has begun to end.
    pub(crate) fn start_write(
        &mut self,
        f: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let runtime = self.open_runtime()?;
        self.start_on(&runtime, move |_| Done::Write(f()));
        Ok(())
    }

    /// The runtime, unless it has begun to end.
    fn open_runtime(&self) -> io::Result<Handle> {
        let runtime = (self.find_runtime)();
        if runtime.is_ending() {
            return Err(io::Error::other(Lost));
        }
        Ok(runtime)
    }

    /// Waits until the system has all bytes, and tells of the error of a write.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let unit = ready!(poll_proceed(cx));
        if let Some(error) = self.write_error.take() {
            unit.made_progress();
            return Poll::Ready(Err(error));
        }
        let done = ready!(self.poll_done(cx));
        unit.made_progress();
        match done? {
            Some(Done::Write(result)) => Poll::Ready(result),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Begins a seek. `seek` is told how many bytes were read and not taken.
    ///
    /// # Errors
    ///
    /// If an operation is under way.
    pub(crate) fn start_seek(
        &mut self,
        to: SeekFrom,
        seek: impl FnOnce(usize) -> io::Result<u64> + Send + 'static,
    ) -> io::Result<()> {
        let State::Idle(_) = &self.state else {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        };
        self.start(move |buf| Done::Seek(buf.forget_if_ok(seek)));
        self.seeking = Some(to);
        Ok(())
    }

    /// Waits for the operation that is under way. The position after the last seek.
    pub(crate) fn poll_complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let unit = ready!(poll_proceed(cx));
        let settled = ready!(self.poll_settled(cx));
        unit.made_progress();
        Poll::Ready(match settled? {
            Some(Done::Seek(result)) => result,
            _ => Ok(self.position),
        })
    }

    /// Seeks, or goes on with the same seek.
    pub(crate) fn poll_seek(
        &mut self,
        cx: &mut Context<'_>,
        to: SeekFrom,
        seek: impl Fn(usize) -> io::Result<u64> + Clone + Send + 'static,
    ) -> Poll<io::Result<u64>> {
        let unit = ready!(poll_proceed(cx));
        loop {
            let is_same = self.seeking == Some(to);
            match ready!(self.poll_settled(cx))? {
                Some(Done::Seek(result)) if is_same => {
                    unit.made_progress();
                    return Poll::Ready(result);
                }
                _ => self.start_seek(to, seek.clone())?,
            }
        }
    }

    /// Runs `f` after the operation that is under way. It is told how many bytes were read and not
    /// taken, if it wants them forgotten; they stay if it fails.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        unread: Unread,
        f: impl FnOnce(usize) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.settle().await;
        self.start(move |buf| {
            Done::Other(Box::new(match unread {
                Unread::Keep => f(0),
                Unread::Forget => buf.forget_if_ok(f),
            }))
        });
        match poll_fn(|cx| self.poll_done(cx)).await? {
            Some(Done::Other(result)) => *result
                .downcast::<io::Result<T>>()
                .expect("it is that of this operation: no other could begin"),
            _ => unreachable!("it was started here, and nothing else is under way"),
        }
    }

    /// Waits for the operation that is under way. The next write or flush tells of its error.
    pub(crate) async fn settle(&mut self) {
        let settled = poll_fn(|cx| {
            let unit = ready!(poll_proceed(cx));
            let settled = ready!(self.poll_settled(cx));
            unit.made_progress();
            Poll::Ready(settled)
        });
        if let Err(error) = settled.await {
            self.write_error = Some(error);
        }
    }
}

/// What becomes of bytes that were read and not taken.
#[derive(Clone, Copy)]
pub(crate) enum Unread {
    Keep,
    Forget,
}

impl fmt::Debug for BlockingIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingIo")
            .field("busy", &matches!(self.state, State::Busy(_)))
            .finish_non_exhaustive()
    }
}

/// Runs a closure that blocks, in the current runtime.
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub(crate) fn call<T: Send + 'static>(
    what: &'static str,
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> impl Future<Output = io::Result<T>> + Send {
    in_runtime(what, move |_| async move {
        let called = ws_executor::spawn_blocking(f).await;
        called.unwrap_or_else(|error| Err(lost(error)))
    })
}

/// The error of an operation that was not run, since its runtime has ended.
#[derive(Debug)]
struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the operation was lost: its runtime was shut down")
    }
}

impl std::error::Error for Lost {}

pub(crate) fn lost(error: JoinError) -> io::Error {
    match error.try_into_panic() {
        Ok(payload) => panic::resume_unwind(payload),
        Err(_) => io::Error::other(Lost),
    }
}

/// Whether an operation was not run, since its runtime has ended.
pub fn is_lost(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Lost>())
}
