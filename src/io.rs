//! Reading and writing: the traits that the sockets speak, and a way to any other descriptor.
//!
//! The traits are those of [`futures::io`], with their extensions, so that everything that is
//! written for them works on the sockets of [`net`](crate::net):
//!
//! ```
//! use ws::io::{AsyncReadExt, AsyncWriteExt};
//! use ws::net::UnixStream;
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let (mut here, mut there) = UnixStream::pair()?;
//! here.write_all(b"hello").await?;
//! let mut buffer = [0; 5];
//! there.read_exact(&mut buffer).await?;
//! assert_eq!(&buffer, b"hello");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`stdin`], [`stdout`] and [`stderr`] are the standard streams of the process.
//!
//! [`AsyncFd`] makes any other descriptor awaitable: pipes, eventfds, sockets of other libraries.

mod copy;

pub use futures::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite,
    AsyncWriteExt, BufReader, BufWriter, Cursor, SeekFrom,
};
pub use ws_reactor::{Direction, Interest, Ready, Source};

pub use self::copy::{Copy, CopyBuf, copy, copy_buf};
#[cfg(unix)]
pub use ws_net::AsyncFd;
pub use ws_net::stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
