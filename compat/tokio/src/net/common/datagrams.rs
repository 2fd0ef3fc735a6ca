//! What UDP sockets and Unix datagram sockets have in common.

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

pub(crate) use datagrams;
