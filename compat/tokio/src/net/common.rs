//! What sockets have in common, for types with a field `io`, which is a [`Socket`](super::socket).
//!
//! They are macros, because each type shows the methods as its own, and std has no trait for what
//! its sockets have in common.

/// The ways to and from std's type, and to the descriptor.
macro_rules! std_socket {
    ($name:ident, $std:ty, $interest:expr) => {
        impl $name {
            /// Makes one of std's, which has to be in nonblocking mode.
            ///
            /// # Errors
            ///
            /// What the system says.
            ///
            /// # Panics
            ///
            /// Outside of a runtime with I/O, and in a debug build for a socket that blocks.
            #[track_caller]
            pub fn from_std(socket: $std) -> std::io::Result<Self> {
                $crate::net::socket::expect_nonblocking(&socket)?;
                Self::new(socket)
            }

            /// Gives back std's, in nonblocking mode.
            ///
            /// # Errors
            ///
            /// None.
            pub fn into_std(self) -> std::io::Result<$std> {
                Ok(self.io.into_inner())
            }

            #[track_caller]
            pub(crate) fn new(socket: $std) -> std::io::Result<Self> {
                Ok(Self {
                    io: $crate::net::socket::Socket::new(socket, $interest)?,
                })
            }
        }

        impl TryFrom<$std> for $name {
            type Error = std::io::Error;

            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        $crate::net::common::descriptor!($name);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.io.fmt(f)
            }
        }
    };
}

/// The descriptor.
macro_rules! descriptor {
    ($name:ident) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.io.as_raw_fd()
            }
        }
    };
}

/// `take_error`, of all but pipes.
macro_rules! take_error {
    () => {
        /// The error that waits at the socket, which is taken away.
        ///
        /// # Errors
        ///
        /// If the system cannot tell.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            self.io.get().take_error()
        }
    };
}

/// `ready`, of all.
macro_rules! ready {
    () => {
        /// Waits until something of an interest is ready.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub async fn ready(
            &self,
            interest: $crate::io::Interest,
        ) -> std::io::Result<$crate::io::Ready> {
            self.io.ready(interest).await
        }
    };
}

/// Waits for one direction, as a future and by a poll function of this name.
macro_rules! waits {
    ($interest:ident, $wait:ident, $poll:ident) => {
        /// Waits until an operation of this direction is worth trying.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub async fn $wait(&self) -> std::io::Result<()> {
            let interest = $crate::io::Interest::$interest;
            $crate::net::socket::wait(self.io.registration(), interest)
                .await
                .map(drop)
        }

        /// Polls for readiness. Of all tasks that poll for a direction, the last one is woken.
        ///
        /// # Errors
        ///
        /// If the runtime ends.
        pub fn $poll(
            &self,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            self.io
                .poll_wait(cx, $crate::io::Interest::$interest)
                .map_ok(drop)
        }
    };
}

/// Operations of the user's.
macro_rules! operations {
    () => {
        /// Tries an operation, if something of the interest is ready.
        ///
        /// # Errors
        ///
        /// What `f` says, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.try_io(interest, f)
        }

        /// Does an operation, as often as it would block.
        ///
        /// # Errors
        ///
        /// What `f` says.
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnMut() -> std::io::Result<R>,
        ) -> std::io::Result<R> {
            self.io.async_io(interest, f).await
        }
    };
}

/// Reads of initialised memory, of streams and pipes.
macro_rules! try_reads {
    () => {
        /// Reads, if there is something to read.
        ///
        /// # Errors
        ///
        /// As a read, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::READABLE, || {
                std::io::Read::read(&mut self.io.get(), buf)
            })
        }

        /// Reads into several buffers, if there is something to read.
        ///
        /// # Errors
        ///
        /// As a read, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_read_vectored(
            &self,
            bufs: &mut [std::io::IoSliceMut<'_>],
        ) -> std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::READABLE, || {
                std::io::Read::read_vectored(&mut self.io.get(), bufs)
            })
        }
    };
}

/// Writes, of streams and pipes.
macro_rules! try_writes {
    () => {
        /// Writes, if there is room.
        ///
        /// # Errors
        ///
        /// As a write, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::WRITABLE, || {
                std::io::Write::write(&mut self.io.get(), buf)
            })
        }

        /// Writes several buffers, if there is room.
        ///
        /// # Errors
        ///
        /// As a write, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
        pub fn try_write_vectored(&self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::WRITABLE, || {
                std::io::Write::write_vectored(&mut self.io.get(), bufs)
            })
        }

        pub(crate) fn poll_send(
            &self,
            cx: &mut std::task::Context<'_>,
            buf: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            self.io.poll_write_short(cx, buf.len(), || {
                std::io::Write::write(&mut self.io.get(), buf)
            })
        }

        pub(crate) fn poll_send_vectored(
            &self,
            cx: &mut std::task::Context<'_>,
            bufs: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            let len = ws_net::vectored_len(bufs.iter().map(|buf| buf.len()));
            self.io.poll_write_short(cx, len, || {
                std::io::Write::write_vectored(&mut self.io.get(), bufs)
            })
        }
    };
}

/// What a TCP stream and a Unix stream do alike. `$ignored` are the errors that say that the stream
/// has ended anyway.
macro_rules! stream {
    ($name:ident, $halves:ident, $ignored:expr) => {
        impl $name {
            $crate::net::common::ready!();
            $crate::net::common::waits!(READABLE, readable, poll_read_ready);
            $crate::net::common::waits!(WRITABLE, writable, poll_write_ready);
            $crate::net::common::operations!();
            $crate::net::common::try_reads!();
            $crate::net::common::try_writes!();
            $crate::net::common::take_error!();

            /// Reads into a buffer that grows, if there is something to read.
            ///
            /// # Errors
            ///
            /// As a read, and [`WouldBlock`](std::io::ErrorKind::WouldBlock).
            pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.io.try_io($crate::io::Interest::READABLE, || {
                    $crate::net::island::recv_buf(self.io.get(), buf)
                })
            }

            /// Borrows the two directions apart.
            pub fn split(&mut self) -> ($halves::ReadHalf<'_>, $halves::WriteHalf<'_>) {
                $halves::split(self)
            }

            /// Takes the two directions apart. The drop of the write half ends the sending side.
            pub fn into_split(self) -> ($halves::OwnedReadHalf, $halves::OwnedWriteHalf) {
                $halves::split_owned(self)
            }

            pub(crate) fn end_sending(&self) -> std::io::Result<()> {
                let how = std::net::Shutdown::Write;
                let ended = self.io.get().shutdown(how);
                self.io.note_end(how);
                match ended {
                    Err(error) if $ignored.contains(&error.kind()) => Ok(()),
                    ended => ended,
                }
            }
        }

        $crate::net::common::reads!($name, |stream| stream);
        $crate::net::common::writes!($name, |stream| stream, |stream| stream.end_sending());

        impl AsRef<Self> for $name {
            fn as_ref(&self) -> &Self {
                self
            }
        }
    };
}

/// tokio's `AsyncRead` of a type that has a `poll_recv`, or has one that does.
macro_rules! reads {
    ($name:ty, |$self:ident| $stream:expr) => {
        impl tokio_real::io::AsyncRead for $name {
            #[inline]
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut tokio_real::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $self = self.get_mut();
                $stream.poll_recv(cx, buf)
            }
        }
    };
}

/// tokio's `AsyncWrite` of a type that has a `poll_send`, or has one that does.
macro_rules! writes {
    ($name:ty, |$self:ident| $stream:expr, |$ends:ident| $end:expr) => {
        impl tokio_real::io::AsyncWrite for $name {
            #[inline]
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $self = self.get_mut();
                $stream.poll_send(cx, buf)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bufs: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let $self = self.get_mut();
                $stream.poll_send_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let $ends = self.get_mut();
                std::task::Poll::Ready($end)
            }
        }
    };
}

/// The halves of a stream.
macro_rules! halves {
    ($stream:ident, $addr:ty, $page:literal) => {
        #[doc = concat!("See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/", $page, "/struct.ReadHalf.html).")]
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        #[doc = concat!("See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/", $page, "/struct.WriteHalf.html).")]
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        #[doc = concat!("See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/", $page, "/struct.OwnedReadHalf.html).")]
        #[derive(Debug)]
        pub struct OwnedReadHalf(std::sync::Arc<$stream>);

        #[doc = concat!("See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/", $page, "/struct.OwnedWriteHalf.html).")]
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: std::sync::Arc<$stream>,
            ends_on_drop: bool,
        }

        #[doc = concat!("See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/", $page, "/struct.ReuniteError.html).")]
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl std::fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl std::error::Error for ReuniteError {}

        pub(crate) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        pub(crate) fn split_owned(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = std::sync::Arc::new(stream);
            let write = OwnedWriteHalf {
                stream: stream.clone(),
                ends_on_drop: true,
            };
            (OwnedReadHalf(stream), write)
        }

        impl AsRef<$stream> for ReadHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        impl AsRef<$stream> for WriteHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        impl AsRef<$stream> for OwnedReadHalf {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }

        impl AsRef<$stream> for OwnedWriteHalf {
            fn as_ref(&self) -> &$stream {
                &self.stream
            }
        }

        impl OwnedReadHalf {
            /// Puts the halves together again.
            ///
            /// # Errors
            ///
            /// If they are of two streams.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !std::sync::Arc::ptr_eq(&self.0, &other.stream) {
                    return Err(ReuniteError(self, other));
                }
                other.forget();
                Ok(std::sync::Arc::try_unwrap(self.0).expect("the halves were the only two"))
            }
        }

        impl OwnedWriteHalf {
            /// Puts the halves together again.
            ///
            /// # Errors
            ///
            /// If they are of two streams.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                other.reunite(self)
            }

            /// Drops the half, and leaves the sending side open.
            pub fn forget(mut self) {
                self.ends_on_drop = false;
            }

            fn end_sending(&mut self) -> std::io::Result<()> {
                let ended = self.stream.end_sending();
                if ended.is_ok() {
                    self.ends_on_drop = false;
                }
                ended
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.ends_on_drop {
                    // An error says that it has ended already.
                    let _ended = self.stream.end_sending();
                }
            }
        }

        $crate::net::common::half!(ReadHalf<'_>, $stream, $addr, [
            async readable() -> ();
            try_read(buf: &mut [u8]) -> usize;
            try_read_vectored(bufs: &mut [std::io::IoSliceMut<'_>]) -> usize;
        ]);
        $crate::net::common::half!(OwnedReadHalf, $stream, $addr, [
            async readable() -> ();
            try_read(buf: &mut [u8]) -> usize;
            try_read_vectored(bufs: &mut [std::io::IoSliceMut<'_>]) -> usize;
        ]);
        $crate::net::common::half!(WriteHalf<'_>, $stream, $addr, [
            async writable() -> ();
            try_write(buf: &[u8]) -> usize;
            try_write_vectored(bufs: &[std::io::IoSlice<'_>]) -> usize;
        ]);
        $crate::net::common::half!(OwnedWriteHalf, $stream, $addr, [
            async writable() -> ();
            try_write(buf: &[u8]) -> usize;
            try_write_vectored(bufs: &[std::io::IoSlice<'_>]) -> usize;
        ]);

        $crate::net::common::read_half!(ReadHalf<'_>);
        $crate::net::common::read_half!(OwnedReadHalf);
        $crate::net::common::reads!(ReadHalf<'_>, |half| half.0);
        $crate::net::common::reads!(OwnedReadHalf, |half| half.0);
        $crate::net::common::writes!(
            WriteHalf<'_>,
            |half| half.0,
            |half| half.0.end_sending()
        );
        $crate::net::common::writes!(
            OwnedWriteHalf,
            |half| half.stream,
            |half| half.end_sending()
        );
    };
}

/// The methods of a half that are those of the stream.
macro_rules! half {
    ($name:ty, $stream:ident, $addr:ty, [
        async $wait:ident() -> ();
        $($method:ident($arg:ident: $type:ty) -> usize;)*
    ]) => {
        impl $name {
            /// Waits until something of an interest is ready.
            ///
            /// # Errors
            ///
            /// As the stream's.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> std::io::Result<$crate::io::Ready> {
                self.as_ref().ready(interest).await
            }

            /// As the stream's.
            ///
            /// # Errors
            ///
            /// As the stream's.
            pub async fn $wait(&self) -> std::io::Result<()> {
                self.as_ref().$wait().await
            }

            $(
                /// As the stream's.
                ///
                /// # Errors
                ///
                /// As the stream's.
                pub fn $method(&self, $arg: $type) -> std::io::Result<usize> {
                    self.as_ref().$method($arg)
                }
            )*

            /// The address of the other side.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn peer_addr(&self) -> std::io::Result<$addr> {
                self.as_ref().peer_addr()
            }

            /// The address of this side.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn local_addr(&self) -> std::io::Result<$addr> {
                self.as_ref().local_addr()
            }
        }
    };
}

/// What a half that reads has besides.
macro_rules! read_half {
    ($name:ty) => {
        impl $name {
            /// As the stream's.
            ///
            /// # Errors
            ///
            /// As the stream's.
            pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> std::io::Result<usize> {
                self.as_ref().try_read_buf(buf)
            }
        }
    };
}

/// What UDP sockets and Unix datagram sockets do alike. `$named` makes an address of std's, and
/// `$received` one of socket2's.
macro_rules! datagrams {
    ($name:ident, $addr:ty, $named:path, $received:path) => {
        impl $name {
            $crate::net::common::ready!();
            $crate::net::common::waits!(READABLE, readable, poll_recv_ready);
            $crate::net::common::waits!(WRITABLE, writable, poll_send_ready);
            $crate::net::common::operations!();
            $crate::net::common::take_error!();

            $crate::net::common::options! {
                /// The address of this side.
                local_addr() -> $addr = |io| io.get().local_addr().map($named);
                /// The address that it is connected to.
                peer_addr() -> $addr = |io| io.get().peer_addr().map($named);
            }

            /// Sends to the address that it is connected to.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
                self.io
                    .io(Direction::Write, || self.io.get().send(buf))
                    .await
            }

            /// Sends, if there is room.
            ///
            /// # Errors
            ///
            /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
                self.io
                    .try_io(Interest::WRITABLE, || self.io.get().send(buf))
            }

            /// Polls [`send`](Self::send).
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.io
                    .poll(cx, Direction::Write, || self.io.get().send(buf))
            }

            /// Receives a datagram.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                let recv = || self.recv_or_end(|| self.io.get().recv(buf));
                self.io.io(Direction::Read, recv).await
            }

            /// Receives a datagram, if there is one.
            ///
            /// # Errors
            ///
            /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.io
                    .try_io(Interest::READABLE, || self.io.get().recv(buf))
            }

            /// Polls [`recv`](Self::recv).
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn poll_recv(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let recv = || self.recv_or_end(|| recv_read_buf(self.io.get(), Recv::Take, buf));
                self.io.poll(cx, Direction::Read, recv).map_ok(drop)
            }

            /// Receives a datagram into a buffer that grows.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                let recv = || self.recv_or_end(|| recv_buf(self.io.get(), buf));
                self.io.io(Direction::Read, recv).await
            }

            /// Receives a datagram into a buffer that grows, if there is one.
            ///
            /// # Errors
            ///
            /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.io
                    .try_io(Interest::READABLE, || recv_buf(self.io.get(), buf))
            }

            /// Receives a datagram, and says which address has sent it.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, $addr)> {
                let recv = || self.io.get().recv_from(buf);
                let (len, addr) = self.io.io(Direction::Read, recv).await?;
                Ok((len, $named(addr)))
            }

            /// Receives a datagram with its sender, if there is one.
            ///
            /// # Errors
            ///
            /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, $addr)> {
                let recv = || self.io.get().recv_from(buf);
                let (len, addr) = self.io.try_io(Interest::READABLE, recv)?;
                Ok((len, $named(addr)))
            }

            /// Polls [`recv_from`](Self::recv_from).
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn poll_recv_from(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<$addr>> {
                let recv = || recv_from_read_buf(self.io.get(), Recv::Take, buf);
                self.io
                    .poll(cx, Direction::Read, recv)
                    .map(|addr| $received(&addr?))
            }

            /// Receives a datagram with its sender into a buffer that grows.
            ///
            /// # Errors
            ///
            /// What the system says.
            pub async fn recv_buf_from<B: BufMut>(
                &self,
                buf: &mut B,
            ) -> io::Result<(usize, $addr)> {
                let recv = || recv_buf_from(self.io.get(), buf);
                let (len, addr) = self.io.io(Direction::Read, recv).await?;
                Ok((len, $received(&addr)?))
            }

            /// Receives a datagram with its sender into a buffer that grows, if there is one.
            ///
            /// # Errors
            ///
            /// What the system says, and [`WouldBlock`](io::ErrorKind::WouldBlock).
            pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, $addr)> {
                let recv = || recv_buf_from(self.io.get(), buf);
                let (len, addr) = self.io.try_io(Interest::READABLE, recv)?;
                Ok((len, $received(&addr)?))
            }

            /// Behind its end a socket says "would block" for ever.
            fn recv_or_end(&self, recv: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
                self.io.recv_or_end(recv, || Ok(0))
            }
        }
    };
}

/// Methods that are those of what is inside.
macro_rules! options {
    ($($(#[$attr:meta])* $name:ident($($arg:ident: $type:ty),*) -> $ret:ty = |$io:ident| $value:expr;)*) => {
        $(
            $(#[$attr])*
            ///
            /// # Errors
            ///
            /// What the system says.
            pub fn $name(&self, $($arg: $type),*) -> std::io::Result<$ret> {
                let $io = &self.io;
                $value
            }
        )*
    };
}

pub(crate) use {
    datagrams, descriptor, half, halves, operations, options, read_half, reads, ready, std_socket,
    stream, take_error, try_reads, try_writes, waits, writes,
};
