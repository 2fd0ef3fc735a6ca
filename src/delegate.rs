//! What all sockets have in common, written once.
//!
//! - `std_socket!`: the ways to and from std's type of the same name, and to the descriptor.
//! - `waits!`: `readable` and `writable`.
//! - `stream_socket!`: what a TCP stream and a Unix stream do alike, which is all but their reads,
//!   their addresses and the options of TCP.
//! - `listening_socket!`: how connections are taken, one by one and as a stream.
//!
//! They are for a type with a field `fd`, an `AsyncFd` of std's in an `Arc`, which its
//! clones share; and, of a listener, a field `held`. They are macros, and not a generic type
//! inside, because std has no trait for what its sockets have in common, and because the methods
//! have to stand in the documentation of each type.

macro_rules! std_socket {
    (
        $name:ident, $std:ty, $std_name:literal, $what:literal, $interest:expr
        $(, $field:ident: $value:expr)?
    ) => {
        impl $name {
            #[doc = concat!("Makes one of std's [`", $std_name, "`], which joins the current runtime.")]
            ///
            /// It is put into nonblocking mode, as are all its duplicates with it.
            ///
            /// # Errors
            ///
            /// What the system says, and an error of kind `Other` if the runtime was shut down.
            ///
            /// # Panics
            ///
            /// Panics outside of a runtime.
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                let netpoll = ws_net::current::netpoll($what);
                socket.set_nonblocking(true)?;
                Self::join(&netpoll, socket)
            }

            #[doc = concat!("Gives back std's [`", $std_name, "`], which leaves the runtime.")]
            ///
            /// It is still in nonblocking mode. If there are clones of it, they keep the socket,
            /// and this gives a duplicate of its descriptor.
            ///
            /// # Errors
            ///
            /// What the system says, if there are clones and no room for a duplicate.
            pub fn into_std(self) -> std::io::Result<$std> {
                match std::sync::Arc::try_unwrap(self.fd) {
                    Ok(fd) => Ok(fd.into_inner()),
                    Err(shared) => shared.get_ref().try_clone(),
                }
            }

            /// Wraps a socket that is in nonblocking mode.
            pub(crate) fn join(
                netpoll: &std::sync::Arc<ws_reactor::Netpoll>,
                socket: $std,
            ) -> std::io::Result<Self> {
                Self::try_join(netpoll, socket).map_err(|(_, error)| error)
            }

            /// The same, and gives the socket back if the netpoll does not take it.
            pub(crate) fn try_join(
                netpoll: &std::sync::Arc<ws_reactor::Netpoll>,
                socket: $std,
            ) -> Result<Self, ($std, std::io::Error)> {
                let fd = ws_net::AsyncFd::try_on(netpoll, socket, $interest)?;
                Ok(Self {
                    fd: std::sync::Arc::new(fd),
                    $($field: $value,)?
                })
            }

            /// Returns the error that waits at the socket, if there is one, and takes it away.
            ///
            /// # Errors
            ///
            /// If the system cannot tell.
            pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
                self.fd.get_ref().take_error()
            }
        }

        impl TryFrom<$std> for $name {
            type Error = std::io::Error;

            /// As `from_std`, also in what it panics at.
            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.fd.get_ref().fmt(f)
            }
        }

        crate::os::descriptor_of_socket!($name);
    };
}

macro_rules! waits {
    ($name:ident, $read:literal, $write:literal) => {
        impl $name {
            #[doc = concat!("Waits until ", $read)]
            ///
            /// # Errors
            ///
            /// If the runtime of the socket was shut down.
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost when the future is dropped.
            pub async fn readable(&self) -> std::io::Result<()> {
                self.fd.ready(ws_reactor::Direction::Read).await.map(drop)
            }

            #[doc = concat!("Waits until ", $write)]
            ///
            /// # Errors
            ///
            /// If the runtime of the socket was shut down.
            ///
            /// # Cancel safety
            ///
            /// Nothing is lost when the future is dropped.
            pub async fn writable(&self) -> std::io::Result<()> {
                self.fd.ready(ws_reactor::Direction::Write).await.map(drop)
            }
        }
    };
}

macro_rules! stream_socket {
    ($name:ident) => {
        $crate::delegate::waits!(
            $name,
            "a read is worth trying. See [`try_read`](Self::try_read).",
            "a write is worth trying. See [`try_write`](Self::try_write)."
        );

        impl $name {
            /// Reads if there is something to read.
            ///
            /// With [`readable`](Self::readable), a task can wait without a buffer in its hands.
            ///
            /// # Errors
            ///
            /// As a read, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.fd.try_io(ws_reactor::Interest::READABLE, || {
                    std::io::Read::read(&mut self.fd.get_ref(), buf)
                })
            }

            /// Writes if there is room.
            ///
            /// # Errors
            ///
            /// As a write, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.fd.try_io(ws_reactor::Interest::WRITABLE, || {
                    std::io::Write::write(&mut self.fd.get_ref(), buf)
                })
            }

            /// Ends the sending side, the receiving side, or both.
            ///
            /// # Errors
            ///
            /// What the system says, such as [`NotConnected`](std::io::ErrorKind::NotConnected)
            /// after a reset.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.fd.get_ref().shutdown(how)?;
                self.fd.note_end(how);
                Ok(())
            }

            /// Borrows the two directions apart, for two futures of one task.
            ///
            /// (`split` is the name that [`AsyncReadExt`](crate::io::AsyncReadExt) has for halves
            /// with a lock between them, which no socket needs.)
            pub fn split_mut(
                &mut self,
            ) -> (
                $crate::net::split::ReadHalf<'_, Self>,
                $crate::net::split::WriteHalf<'_, Self>,
            ) {
                $crate::net::split::borrowed(self)
            }

            /// Whether both are the same socket.
            pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
                std::sync::Arc::ptr_eq(&self.fd, &other.fd)
            }

            /// Takes the two directions apart, for two tasks.
            ///
            /// When the write half is dropped, the sending side is ended, and the peer reads the
            /// end of the stream. This ends that of clones, too, since they are one socket.
            pub fn into_split(
                self,
            ) -> (
                $crate::net::split::OwnedReadHalf<Self>,
                $crate::net::split::OwnedWriteHalf<Self>,
            ) {
                $crate::net::split::owned(self)
            }
        }

        impl futures::io::AsyncWrite for &$name {
            #[inline]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.fd.poll_write_short(cx, buf.len(), || {
                    std::io::Write::write(&mut self.fd.get_ref(), buf)
                })
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let len = ws_net::vectored_len(bufs.iter().map(|buf| buf.len()));
                self.fd.poll_write_short(cx, len, || {
                    std::io::Write::write_vectored(&mut self.fd.get_ref(), bufs)
                })
            }

            #[inline]
            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                // What was written is the system's to send.
                ws_net::poll_at_once(cx, || Ok(()))
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                ws_net::poll_at_once(cx, || {
                    $crate::net::split::end_sending(self.shutdown(std::net::Shutdown::Write))
                })
            }
        }

        ws_net::by_reference! { impl[] AsyncRead for $name }
        ws_net::by_reference! { impl[] AsyncWrite for $name }
    };
}

macro_rules! listening_socket {
    (
        $listener:ident, $listener_name:literal, $std_listener:ty;
        $stream:ident, $std_stream:ty, $addr:ty;
        $(#[$accept:meta])* accept;
        $(#[$poll_accept:meta])* poll_accept;
        $(#[$incoming:meta])* incoming;
    ) => {
        impl $listener {
            $(#[$accept])*
            pub async fn accept(&self) -> std::io::Result<($stream, $addr)> {
                let mut accepting = self.accepting();
                std::future::poll_fn(|cx| self.poll_accept_with_retries(cx, &mut accepting)).await
            }

            $(#[$poll_accept])*
            pub fn poll_accept(
                &self,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<($stream, $addr)>> {
                let readable = ws_reactor::Interest::READABLE;
                let poll = || self.fd.poll_io(cx, readable, || self.accept_now());
                let accepted = std::task::ready!(self.held.poll_next(poll));
                std::task::Poll::Ready(accepted.and_then(|accepted| {
                    self.held.join(&self.fd, accepted, |stream| self.adopt(stream))
                }))
            }

            $(#[$incoming])*
            pub fn incoming(&self) -> Incoming<'_> {
                Incoming {
                    listener: self,
                    accepting: self.accepting(),
                }
            }

            fn accepting(
                &self,
            ) -> ws_net::retry::Accepting<'_, $std_listener, $std_stream, $addr> {
                ws_net::retry::Accepting::new(&self.fd, &self.held)
            }

            fn poll_accept_with_retries(
                &self,
                cx: &mut std::task::Context<'_>,
                accepting: &mut ws_net::retry::Accepting<
                    '_,
                    $std_listener,
                    $std_stream,
                    $addr,
                >,
            ) -> std::task::Poll<std::io::Result<($stream, $addr)>> {
                accepting.poll_accept(cx, || self.accept_now(), |stream| self.adopt(stream))
            }

            /// Takes a connection from the system.
            fn accept_now(&self) -> std::io::Result<($std_stream, $addr)> {
                let (stream, peer) = self.fd.get_ref().accept()?;
                stream.set_nonblocking(true)?;
                crate::os::keep_from_children(&stream)?;
                Ok((stream, peer))
            }

            /// Has an accepted connection join the listener's runtime, or gives it back.
            fn adopt(
                &self,
                stream: $std_stream,
            ) -> Result<$stream, ($std_stream, std::io::Error)> {
                $stream::try_join(self.fd.netpoll(), stream)
            }
        }

        #[doc = concat!(
            "The connections of a [`", $listener_name, "`] as a stream; from [`", $listener_name, "::incoming`]."
        )]
        pub struct Incoming<'a> {
            listener: &'a $listener,
            accepting: ws_net::retry::Accepting<
                'a,
                $std_listener,
                $std_stream,
                $addr,
            >,
        }

        impl futures::stream::Stream for Incoming<'_> {
            type Item = std::io::Result<$stream>;

            fn poll_next(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Self::Item>> {
                let this = &mut *self;
                let accepted = this.listener.poll_accept_with_retries(cx, &mut this.accepting);
                accepted.map(|accepted| Some(accepted.map(|(stream, _)| stream)))
            }
        }

        impl futures::stream::FusedStream for Incoming<'_> {
            fn is_terminated(&self) -> bool {
                false
            }
        }

        impl std::fmt::Debug for Incoming<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple("Incoming").field(self.listener).finish()
            }
        }
    };
}

pub(crate) use {listening_socket, std_socket, stream_socket, waits};
