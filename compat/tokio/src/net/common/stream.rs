//! What a TCP stream and a Unix stream have in common, and in part pipes.

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

pub(crate) use {reads, stream, try_reads, try_writes, writes};
