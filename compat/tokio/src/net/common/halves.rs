//! The two directions of a stream, taken apart.

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

pub(crate) use {half, halves, read_half};
