//! Named pipes: streams between processes, as Unix sockets are elsewhere.
//!
//! The names are those of tokio's module of this name, but for the traits, which are those of
//! `futures::io`.
//!
//! A server makes an end of the pipe for each client ([`ServerOptions::create`]) and waits until
//! one has opened the other ([`NamedPipeServer::connect`]). It makes the next end before it serves
//! the client: while no end waits, clients get an error (`ERROR_PIPE_BUSY`, 231).
//!
//! # Examples
//!
//! ```no_run
//! use ws::io::{AsyncReadExt, AsyncWriteExt};
//! use ws::net::windows::named_pipe::{ClientOptions, ServerOptions};
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! let name = r"\\.\pipe\ws-example";
//! let mut server = ServerOptions::new().first_pipe_instance(true).create(name)?;
//! let mut client = ClientOptions::new().open(name)?;
//! server.connect().await?;
//!
//! client.write_all(b"hello").await?;
//! let mut greeting = [0; 5];
//! server.read_exact(&mut greeting).await?;
//! assert_eq!(&greeting, b"hello");
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! Named pipes have no readiness. mio reads ahead into a buffer of its own, and writes from one. So
//! a write is answered before the system has the bytes, and its error is told by the next.
//!
//! # The end of a pipe
//!
//! A drop cancels what is under way but writes, and the system closes the pipe when mio has heard
//! of the last operation. A thread of the runtime hears of it, a moment after the drop. Until then
//! the name is taken, and a client may open the pipe. So a pipe that is dropped after its runtime,
//! or that still writes when its runtime ends, may stay open until the process ends.

use std::{
    ffi::OsStr,
    fmt,
    io::{self, Read, Write},
    os::windows::io::{AsRawHandle, RawHandle},
    pin::Pin,
    task::{Context, Poll},
};

use futures::io::{AsyncRead, AsyncWrite};
use ws_net::AsyncFd;
use ws_reactor::{Direction, Interest, NamedPipe, PipeServer, open_client};

pub use ws_reactor::PipeEnd;

/// The bytes that the system holds for each direction, unless the user says otherwise. As in tokio.
const BUFFER: u32 = 65_536;

/// `SECURITY_IDENTIFICATION`: a server may ask for the identity of a client, and not act in its
/// name. As in tokio.
const IDENTIFICATION: u32 = 1 << 16;

/// Whether a pipe keeps the limits of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeMode {
    /// A stream of bytes.
    Byte,
    /// Messages: each write is one, and a read gives at most one.
    Message,
}

/// What the system knows of a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipeInfo {
    /// Whether it has messages.
    pub mode: PipeMode,
    /// Which end this is.
    pub end: PipeEnd,
    /// How many servers of its name there may be; 255 for as many as the system has room for.
    pub max_instances: u32,
    /// Bytes that the system holds of what is to be sent.
    pub out_buffer_size: u32,
    /// Bytes that the system holds of what has arrived.
    pub in_buffer_size: u32,
}

/// How the server's end of a pipe is made.
///
/// By default it is a stream of bytes in both directions, for clients on this machine, and there
/// may be any number of servers of its name.
#[derive(Clone, Debug)]
#[must_use = "it makes nothing until `create`"]
pub struct ServerOptions(PipeServer);

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerOptions {
    /// The default, as above.
    pub fn new() -> Self {
        Self(PipeServer {
            inbound: true,
            outbound: true,
            is_first: false,
            rejects_remote: true,
            has_messages: false,
            max_instances: None,
            out_buffer_size: BUFFER,
            in_buffer_size: BUFFER,
        })
    }

    /// Whether it has messages.
    pub fn pipe_mode(&mut self, mode: PipeMode) -> &mut Self {
        self.0.has_messages = mode == PipeMode::Message;
        self
    }

    /// Whether the client may write.
    pub fn access_inbound(&mut self, allowed: bool) -> &mut Self {
        self.0.inbound = allowed;
        self
    }

    /// Whether the server may write.
    pub fn access_outbound(&mut self, allowed: bool) -> &mut Self {
        self.0.outbound = allowed;
        self
    }

    /// Whether it is an error if the name has a server already.
    pub fn first_pipe_instance(&mut self, first: bool) -> &mut Self {
        self.0.is_first = first;
        self
    }

    /// Whether clients on other machines are refused.
    pub fn reject_remote_clients(&mut self, reject: bool) -> &mut Self {
        self.0.rejects_remote = reject;
        self
    }

    /// How many servers of this name there may be.
    ///
    /// # Panics
    ///
    /// Panics if it is none, or more than 254.
    #[track_caller]
    pub fn max_instances(&mut self, instances: usize) -> &mut Self {
        let number = u8::try_from(instances).ok();
        let number = number.filter(|number| (1..255).contains(number));
        assert!(
            number.is_some(),
            "a pipe has 1 to 254 instances, and not {instances}"
        );
        self.0.max_instances = number;
        self
    }

    /// Bytes that the system holds of what is to be sent: 65,536 by default.
    pub fn out_buffer_size(&mut self, bytes: u32) -> &mut Self {
        self.0.out_buffer_size = bytes;
        self
    }

    /// Bytes that the system holds of what has arrived: 65,536 by default.
    pub fn in_buffer_size(&mut self, bytes: u32) -> &mut Self {
        self.0.in_buffer_size = bytes;
        self
    }

    /// Makes an end, which joins the current runtime.
    ///
    /// # Errors
    ///
    /// What the system says: [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the first
    /// instance was asked for and is another's, or if the name is. An error of kind `Other` if the
    /// runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<NamedPipeServer> {
        // Before the pipe is there, which a client might open at once.
        ws_net::current::netpoll("ws::net::windows::named_pipe").expects_completions();
        let pipe = self.0.create(name.as_ref())?;
        AsyncFd::from_source(pipe).map(NamedPipeServer)
    }
}

/// How the client's end of a pipe is opened.
///
/// By default for both directions, as a stream of bytes.
#[derive(Clone, Debug)]
#[must_use = "it opens nothing until `open`"]
pub struct ClientOptions {
    reads: bool,
    writes: bool,
    mode: PipeMode,
    security: u32,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientOptions {
    /// The default, as above.
    pub fn new() -> Self {
        Self {
            reads: true,
            writes: true,
            mode: PipeMode::Byte,
            security: IDENTIFICATION,
        }
    }

    /// Whether this end reads.
    pub fn read(&mut self, allowed: bool) -> &mut Self {
        self.reads = allowed;
        self
    }

    /// Whether this end writes.
    pub fn write(&mut self, allowed: bool) -> &mut Self {
        self.writes = allowed;
        self
    }

    /// Whether it reads messages. The server has to have them, too.
    pub fn pipe_mode(&mut self, mode: PipeMode) -> &mut Self {
        self.mode = mode;
        self
    }

    /// What the server may do in the name of this process, as Windows' `SECURITY_IMPERSONATION` and
    /// its like say. By default it may ask for its identity.
    pub fn security_qos_flags(&mut self, flags: u32) -> &mut Self {
        self.security = flags;
        self
    }

    /// Opens an end, which joins the current runtime.
    ///
    /// # Errors
    ///
    /// What the system says: [`NotFound`](io::ErrorKind::NotFound) if there is no server, and
    /// `ERROR_PIPE_BUSY` (231) if each has a client: try again later. An error of kind `Other` if
    /// the runtime was shut down.
    ///
    /// # Panics
    ///
    /// Panics outside of a runtime.
    #[track_caller]
    pub fn open(&self, name: impl AsRef<OsStr>) -> io::Result<NamedPipeClient> {
        ws_net::current::netpoll("ws::net::windows::named_pipe").expects_completions();
        let has_messages = self.mode == PipeMode::Message;
        let pipe = open_client(
            name.as_ref(),
            self.reads,
            self.writes,
            has_messages,
            self.security,
        )?;
        AsyncFd::from_source(pipe).map(NamedPipeClient)
    }
}

/// The server's end of a pipe; from [`ServerOptions::create`].
pub struct NamedPipeServer(AsyncFd<NamedPipe>);

/// The client's end of a pipe; from [`ClientOptions::open`].
pub struct NamedPipeClient(AsyncFd<NamedPipe>);

impl NamedPipeServer {
    /// Waits until a client has opened the pipe. One that did so before counts.
    ///
    /// # Errors
    ///
    /// What the system says, and an error of kind `Other` if the runtime was shut down.
    ///
    /// # Cancel safety
    ///
    /// No client is lost when the future is dropped.
    pub async fn connect(&self) -> io::Result<()> {
        self.0
            .io(Interest::WRITABLE, || self.0.get_ref().connect())
            .await
    }

    /// Ends the connection to the client. What the client has not read is lost.
    ///
    /// The next client wants an end of its own. This one may still tell the error of the read ahead
    /// that this call has ended.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn disconnect(&self) -> io::Result<()> {
        self.0.get_ref().disconnect()
    }
}

macro_rules! ends {
    ($($name:ident)*) => {$(
        impl $name {
            /// What the system knows of the pipe.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn info(&self) -> io::Result<PipeInfo> {
                let info = ws_reactor::PipeInfo::of(self.0.get_ref())?;
                let mode = if info.has_messages { PipeMode::Message } else { PipeMode::Byte };
                Ok(PipeInfo {
                    mode,
                    end: info.end,
                    max_instances: info.max_instances,
                    out_buffer_size: info.out_buffer_size,
                    in_buffer_size: info.in_buffer_size,
                })
            }

            /// Waits until a read is worth trying.
            ///
            /// # Errors
            ///
            /// If the runtime was shut down.
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost when the future is dropped.
            pub async fn readable(&self) -> io::Result<()> {
                self.0.ready(Direction::Read).await.map(drop)
            }

            /// Waits until a write is worth trying.
            ///
            /// # Errors
            ///
            /// If the runtime was shut down.
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost when the future is dropped.
            pub async fn writable(&self) -> io::Result<()> {
                self.0.ready(Direction::Write).await.map(drop)
            }

            /// Reads if there is something to read.
            ///
            /// # Errors
            ///
            /// As a read, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.try_io(Interest::READABLE, || self.0.get_ref().read(buf))
            }

            /// Writes if there is room.
            ///
            /// # Errors
            ///
            /// As a write, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.0.try_io(Interest::WRITABLE, || self.0.get_ref().write(buf))
            }
        }

        impl AsyncRead for &$name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_io(cx, Interest::READABLE, || self.0.get_ref().read(buf))
            }
        }

        /// Closing flushes nothing and closes nothing: what closes a pipe is its drop, a moment
        /// later (*The end of a pipe*).
        impl AsyncWrite for &$name {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_io(cx, Interest::WRITABLE, || self.0.get_ref().write(buf))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                ws_net::poll_at_once(cx, || Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }

        ws_net::by_reference! { impl[] AsyncRead for $name }
        ws_net::by_reference! { impl[] AsyncWrite for $name }

        impl AsRawHandle for $name {
            fn as_raw_handle(&self) -> RawHandle {
                self.0.get_ref().as_raw_handle()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.get_ref().fmt(f)
            }
        }
    )*};
}

ends! { NamedPipeServer NamedPipeClient }
