//! The standard streams of the process.
//!
//! Each is a `BlockingIo` over the stream of std. That one has a lock and a buffer for the whole
//! process, so `println!` and these may be mixed: what one call has written is not torn by another.
//!
//! Another process may have put the open file into nonblocking mode. The thread that reads or
//! writes waits by `poll(2)` then, and goes on with the rest (`Patient`). It keeps the lock of
//! std meanwhile, as a call that blocks does.
//!
//! Rejected: descriptors in the netpoll. Nonblocking mode belongs to the open file, which a shell
//! and other processes share; a file that is redirected cannot be in an epoll.

use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::io::{AsyncBufRead, AsyncRead, AsyncWrite};

use crate::{
    blocking_io::{BlockingIo, DEFAULT_MAX_BUF_SIZE, FindRuntime, current_runtime},
    os::{AsDescriptor, descriptor, wait_readable, wait_writable},
};

/// Bytes that a read for [`AsyncBufRead`] asks for. As std's buffer.
const FILL_BYTES: usize = 8 * 1024;

/// The standard input of the process.
///
/// A thread for blocking code reads, since nothing else works with whatever the input is. By
/// [`AsyncBufRead`] it has lines.
///
/// Use one of them in a program. What one has read ahead is in its own buffer, and another does not
/// see it.
///
/// # Examples
///
/// ```
/// use futures::TryStreamExt;
/// use ws::io::{self, AsyncBufReadExt, AsyncWriteExt};
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut lines = io::stdin().lines();
/// let mut stdout = io::stdout();
/// while let Some(line) = lines.try_next().await? {
///     stdout.write_all(format!("> {line}\n").as_bytes()).await?;
///     stdout.flush().await?;
/// }
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cancel safety
///
/// A read that has begun cannot be stopped. If its future is dropped it goes on, and what it reads
/// is for the next read. It also holds up the end of its runtime, for at most
/// `runtime::Builder::shutdown_grace`, and its thread is there until a byte comes.
///
/// # Panics
///
/// A read panics outside of a runtime.
#[derive(Debug)]
pub struct Stdin {
    std: io::Stdin,
    io: BlockingIo,
}

macro_rules! outputs {
    ($($(#[$meta:meta])* $name:ident, $std:path, $on:ident, $function:ident;)+) => {$(
        $(#[$meta])*
        ///
        /// A write is answered once its bytes are in the buffer of this value, and a thread begins
        /// to write them at once, to the stream of `std`. That one keeps what follows the last
        /// newline on the standard output. A flush waits until the system has all of it; so flush
        /// before the program ends. The error of a write is told by the next write or flush.
        ///
        /// # Examples
        ///
        /// ```
        /// use ws::io::{self, AsyncWriteExt};
        ///
        /// # ws::runtime::Runtime::new()?.block_on(async {
        #[doc = concat!("let mut stream = io::", stringify!($function), "();")]
        /// stream.write_all(b"hello\n").await?;
        /// stream.flush().await
        /// # })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Cancel safety
        ///
        /// What was accepted is written to the stream of `std`, also if the future of a flush or the
        /// value itself is dropped. If the runtime ends, it is written if
        /// `runtime::Builder::shutdown_grace` is long enough.
        ///
        /// # Errors
        ///
        /// What the system says, and an error of kind `Other` if the runtime has begun to end.
        ///
        /// # Panics
        ///
        /// A write panics outside of a runtime.
        #[derive(Debug)]
        pub struct $name {
            std: $std,
            io: BlockingIo,
            /// What was written has to be flushed.
            is_dirty: bool,
        }

        #[doc = concat!("Returns a handle of the process's stream: see [`", stringify!($name), "`].")]
        #[must_use]
        pub fn $function() -> $name {
            $on(current_runtime)
        }

        #[doc(hidden)]
        pub fn $on(find_runtime: FindRuntime) -> $name {
            $name {
                std: io::$function(),
                io: BlockingIo::new(find_runtime),
                is_dirty: false,
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let stream = self.get_mut();
                let slices = [IoSlice::new(buf)];
                let len = stream.io.poll_write(cx, &slices, DEFAULT_MAX_BUF_SIZE, |buf, _| {
                    buf.write_to(&mut Patient(io::$function().lock()))
                });
                let len = ready!(len)?;
                stream.is_dirty = true;
                Poll::Ready(Ok(len))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let stream = self.get_mut();
                loop {
                    if let Err(error) = ready!(stream.io.poll_flush(cx)) {
                        // The flush may be what was lost.
                        stream.is_dirty = true;
                        return Poll::Ready(Err(error));
                    }
                    if !stream.is_dirty {
                        return Poll::Ready(Ok(()));
                    }
                    stream.io.start_write(|| Patient(io::$function().lock()).flush())?;
                    stream.is_dirty = false;
                }
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }

        descriptor!($name);
    )+};
}

/// A stream of std, under its lock, that waits where the system says that it would block. See the
/// module's head.
struct Patient<S>(S);

impl<S: Read + AsDescriptor> Read for Patient<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        patiently(&mut self.0, |stream| stream.read(buf), wait_readable)
    }
}

impl<S: Write + AsDescriptor> Write for Patient<S> {
    /// An error of std's streams means that they have taken nothing of `buf`.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        patiently(&mut self.0, |stream| stream.write(buf), wait_writable)
    }

    fn flush(&mut self) -> io::Result<()> {
        patiently(&mut self.0, Write::flush, wait_writable)
    }
}

/// The input, with a lock for each read: a lock does not go from thread to thread.
struct Input;

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Patient(io::stdin().lock()).read(buf)
    }
}

/// Waits before each new try.
fn patiently<S, T>(
    stream: &mut S,
    mut try_it: impl FnMut(&mut S) -> io::Result<T>,
    wait: impl Fn(&S) -> io::Result<()>,
) -> io::Result<T> {
    loop {
        match try_it(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(stream)?,
            answer => return answer,
        }
    }
}

outputs! {
    /// The standard output of the process.
    Stdout, io::Stdout, stdout_on, stdout;
    /// The standard error of the process.
    Stderr, io::Stderr, stderr_on, stderr;
}

descriptor!(Stdin);

/// Returns a handle of the process's input: see [`Stdin`].
#[must_use]
pub fn stdin() -> Stdin {
    stdin_on(current_runtime)
}

#[doc(hidden)]
pub fn stdin_on(find_runtime: FindRuntime) -> Stdin {
    Stdin {
        std: io::stdin(),
        io: BlockingIo::new(find_runtime),
    }
}

impl Stdin {
    /// The bytes that were read and not taken; if there are none, at most `max` are read first.
    #[doc(hidden)]
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<&[u8]>> {
        self.io
            .poll_fill(cx, max.min(DEFAULT_MAX_BUF_SIZE), || Input)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .io
            .poll_read(cx, buf, DEFAULT_MAX_BUF_SIZE, || Input)
    }
}

impl AsyncBufRead for Stdin {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().io.poll_fill(cx, FILL_BYTES, || Input)
    }

    fn consume(self: Pin<&mut Self>, len: usize) {
        self.get_mut().io.consume(len);
    }
}
