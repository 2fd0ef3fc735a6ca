//! The halves of a TCP stream.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
};

use tokio_real::io::ReadBuf;

use crate::net::{TcpStream, common::halves};

halves!(TcpStream, SocketAddr, "tcp");

macro_rules! peeks {
    ($($name:ty),*) => {$(
        impl $name {
            /// As the stream's.
            ///
            /// # Errors
            ///
            /// As the stream's.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.as_ref().peek(buf).await
            }

            /// As the stream's.
            ///
            /// # Errors
            ///
            /// As the stream's.
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.as_ref().poll_peek(cx, buf)
            }
        }
    )*};
}

peeks! { ReadHalf<'_>, OwnedReadHalf }
