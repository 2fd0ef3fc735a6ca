//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/pipe/).

use std::{
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
    task::{Context, Poll},
};

use bytes::BufMut;
use tokio_real::io::ReadBuf;

use crate::{
    io::Interest,
    net::{
        common::{descriptor, reads, ready, try_reads, try_writes, waits, writes},
        island::{flags, read_buf, set_flags},
        socket::Socket,
    },
};

/// Makes a pipe.
///
/// # Errors
///
/// What the system says.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = ws_reactor::pipe::new()?;
    Ok((
        Sender::from_owned_fd_unchecked(sender.into())?,
        Receiver::from_owned_fd_unchecked(receiver.into())?,
    ))
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/pipe/struct.OpenOptions.html).
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// Options that open one end, and check that it is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens for both, so that there is always another end.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn read_write(&mut self, value: bool) -> &mut Self {
        self.read_write = value;
        self
    }

    /// Does not check that it is a pipe.
    pub fn unchecked(&mut self, value: bool) -> &mut Self {
        self.unchecked = value;
        self
    }

    /// Opens a FIFO for reading.
    ///
    /// # Errors
    ///
    /// What the system says, and if it is no FIFO.
    pub fn open_receiver<P: AsRef<Path>>(&self, path: P) -> io::Result<Receiver> {
        let options = fs::OpenOptions::new().read(true).to_owned();
        Receiver::from_file_unchecked(self.open(options, path.as_ref())?)
    }

    /// Opens a FIFO for writing.
    ///
    /// # Errors
    ///
    /// What the system says, such as `ENXIO` if no reader has it open, and if it is no FIFO.
    pub fn open_sender<P: AsRef<Path>>(&self, path: P) -> io::Result<Sender> {
        let options = fs::OpenOptions::new().write(true).to_owned();
        Sender::from_file_unchecked(self.open(options, path.as_ref())?)
    }

    fn open(&self, mut options: fs::OpenOptions, path: &Path) -> io::Result<File> {
        options.custom_flags(libc::O_NONBLOCK);
        if self.read_write {
            options.read(true).write(true);
        }
        let file = options.open(path)?;
        if !self.unchecked {
            expect_pipe(&file)?;
        }
        Ok(file)
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/pipe/struct.Sender.html).
#[derive(Debug)]
pub struct Sender {
    io: Socket<File>,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/pipe/struct.Receiver.html).
#[derive(Debug)]
pub struct Receiver {
    io: Socket<File>,
}

macro_rules! end {
    ($name:ident, $interest:ident, $mode:ident, $refusal:literal) => {
        impl $name {
            /// Makes one of a file, which has to be such an end of a pipe.
            ///
            /// # Errors
            ///
            /// What the system says, and if it is none.
            pub fn from_file(file: File) -> io::Result<Self> {
                expect_pipe(&file)?;
                let flags = flags(file.as_fd())?;
                if ![libc::$mode, libc::O_RDWR].contains(&(flags & libc::O_ACCMODE)) {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, $refusal));
                }
                if flags & libc::O_NONBLOCK == 0 {
                    set_flags(file.as_fd(), flags | libc::O_NONBLOCK)?;
                }
                Self::from_file_unchecked(file)
            }

            /// Makes one of a descriptor, which has to be such an end of a pipe.
            ///
            /// # Errors
            ///
            /// What the system says, and if it is none.
            pub fn from_owned_fd(owned_fd: OwnedFd) -> io::Result<Self> {
                Self::from_file(owned_fd.into())
            }

            /// Makes one of a file, which has to be in nonblocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn from_file_unchecked(file: File) -> io::Result<Self> {
                let io = Socket::new(file, ws_reactor::Interest::$interest)?.expect_report();
                Ok(Self { io })
            }

            /// Makes one of a descriptor, which has to be in nonblocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn from_owned_fd_unchecked(owned_fd: OwnedFd) -> io::Result<Self> {
                Self::from_file_unchecked(owned_fd.into())
            }

            /// Gives back the descriptor, in blocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                set_flags(fd.as_fd(), flags(fd.as_fd())? & !libc::O_NONBLOCK)?;
                Ok(fd)
            }

            /// Gives back the descriptor, in nonblocking mode.
            ///
            /// # Errors
            ///
            /// None.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                Ok(self.io.into_inner().into())
            }

            /// Tries an operation, if the pipe is ready for it.
            ///
            /// # Errors
            ///
            /// What `f` says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_io<R>(&self, f: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
                self.io.try_io(Interest::$interest, f)
            }

            ready!();
        }

        descriptor!($name);
    };
}

end!(
    Sender,
    WRITABLE,
    O_WRONLY,
    "not in O_WRONLY or O_RDWR access mode"
);
end!(
    Receiver,
    READABLE,
    O_RDONLY,
    "not in O_RDONLY or O_RDWR access mode"
);

impl Sender {
    waits!(WRITABLE, writable, poll_write_ready);
    try_writes!();
}

impl Receiver {
    waits!(READABLE, readable, poll_read_ready);
    try_reads!();

    /// Reads into a buffer that grows, if there is something to read.
    ///
    /// # Errors
    ///
    /// As a read, and [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io.try_io(Interest::READABLE, || {
            read_buf(buf, |free| self.io.get().read(free))
        })
    }

    fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // What was zeroed once stays so, and no pipe holds more than this by itself.
        let len = buf.remaining().min(64 * 1024);
        let free = buf.initialize_unfilled_to(len);
        let read = self
            .io
            .poll_read_short(cx, len, || self.io.get().read(free));
        read.map_ok(|read| buf.advance(read))
    }
}

reads!(Receiver, |receiver| receiver);
writes!(Sender, |sender| sender, |_sender| Ok(()));

fn expect_pipe(file: &File) -> io::Result<()> {
    if file.metadata()?.file_type().is_fifo() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a pipe"))
}
