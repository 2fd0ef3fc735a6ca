//! Sockets: TCP, UDP and Unix.
//!
//! | for | listen | talk |
//! | --- | --- | --- |
//! | TCP | [`TcpListener`] | [`TcpStream`]; [`TcpSocket`] sets options before either |
//! | UDP | | [`UdpSocket`] |
//! | Unix sockets | [`UnixListener`] | [`UnixStream`], [`UnixDatagram`] |
//!
//! Streams implement [`AsyncRead`](crate::io::AsyncRead) and [`AsyncWrite`](crate::io::AsyncWrite)
//! of the `futures` crate, both by value and by reference, so that one task may read while another
//! writes. [`TcpStream::split_mut`] and [`TcpStream::into_split`] give each its own half.
//!
//! # Examples
//!
//! A server that sends back what it gets, and a client:
//!
//! ```
//! use ws::io::{AsyncReadExt, AsyncWriteExt};
//! use ws::net::{TcpListener, TcpStream};
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let addr = listener.local_addr()?;
//! ws::spawn(async move {
//!     let (stream, _) = listener.accept().await?;
//!     ws::io::copy(&stream, &mut &stream).await
//! });
//!
//! let mut client = TcpStream::connect(addr).await?;
//! client.write_all(b"hello").await?;
//! let mut answer = [0; 5];
//! client.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"hello");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Sockets and runtimes
//!
//! A socket joins the runtime that is current where it is made, and any task or executor may use it
//! from then on. Making one outside of a runtime panics. Once its runtime was shut down, every
//! operation that may wait for the socket is an error. The others ask the system alone: `flush`,
//! `close` and `shutdown`, options and addresses.
//!
//! Several tasks may wait in `accept`, or in `recv` and `send` of datagrams: all are woken, and one
//! gets the data. For a listener with many tasks, a listener for each with
//! [`TcpSocket::set_reuse_port`] is better. One task at a time reads from a stream, and one writes
//! to it: the traits of I/O keep the waker of the last one that polled, as tokio's do, and others
//! that wait in the same direction may wait for ever.
//!
//! # Clones
//!
//! A clone of a socket is the same socket, by another count: it has the same descriptor, options
//! and place in the netpoll. What one clone ends, all have ended. The socket is closed when the
//! last clone is dropped; the halves of [`TcpStream::into_split`] are clones, too. Cloning costs an
//! atomic addition and cannot fail.
//!
//! Clones are meant for different directions, or for `async` methods, which any number of tasks may
//! await. If two clones poll one direction by the traits of I/O, the task that polled last is
//! woken, as above.
//!
//! # Cancel safety
//!
//! Dropping the future of any single operation in here loses nothing: it has either moved data and
//! is ready, or moved none. `read_exact`, `write_all` and the like are several operations, and
//! forget how far they came.
//!
//! # Processes
//!
//! Every descriptor is close-on-exec, and on Windows no child inherits one. After a fork without
//! exec, sockets, listeners for signals and runtime are the parent's.
//! [`Builder::build`](crate::runtime::Builder::build) says what the child may do.
//!
//! # The files
//!
//! Sockets are std's, in nonblocking mode, inside an [`AsyncFd`](crate::io::AsyncFd), which is
//! where they meet netpoll and budget. `socket2` sets what std has no name for. `addr` resolves
//! names, `connect` connects, `retry` is how `accept` survives where the system has no room,
//! `split` makes halves of streams.

pub mod split;
mod tcp_listener;
mod tcp_socket;
mod tcp_stream;
mod udp;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

pub use tcp_listener::{Incoming, TcpListener};
pub use tcp_socket::{Keepalive, TcpSocket};
pub use tcp_stream::TcpStream;
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
pub use ws_net::{ToSocketAddrs, lookup_host};

// As in tokio.
const _: () = {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    const fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<TcpListener>();
    check::<TcpSocket>();
    check::<TcpStream>();
    check::<UdpSocket>();
};
#[cfg(unix)]
const _: () = {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    const fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<UnixDatagram>();
    check::<UnixListener>();
    check::<UnixStream>();
};
