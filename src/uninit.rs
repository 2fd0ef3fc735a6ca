//! Reads of sockets into memory that is not initialised (features `hyper` and `tokio-io`).
//!
//! An unsafe island, and the only one above the scheduler and the reactor. hyper and tokio hand out
//! the free part of a buffer as it came from the allocator, and want to be told how much of it is
//! filled. `futures::io` reads into initialised bytes only, so on that way the free part is zeroed
//! before each read, or the bytes are copied afterwards. Sockets go a way of their own here, from
//! the system call into the library's buffer.
//!
//! *Invariant*: a byte counts as filled if the system has written it. It holds because
//!
//! 1. `recv` of socket2 says how many bytes the system has written at the begin of the buffer that
//!    it was given, and writes nothing else to it ([`Socket`] is `unsafe` to implement, and all
//!    implementations are in this file);
//! 2. the buffer that it is given begins where the filled part ends, and just so many bytes are
//!    added to that;
//! 3. in between, no other code has the buffer.
//!
//! Rejected: zeroing, which is cheap only if the library remembers it. tokio's `ReadBuf` does, but
//! code that reads into a `BytesMut` makes a new one for each read, with all of the free capacity
//! in it; so does hyper.
//!
//! Checked by `hyper/tests.rs` and by the tests below.
#![expect(
    unsafe_code,
    reason = "the buffers of hyper and tokio are filled by unsafe methods only"
)]

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::io::AsyncRead;

use crate::net::TcpStream;
#[cfg(unix)]
use crate::net::UnixStream;

/// The streams of [`ws::net`](crate::net) that can be read into memory which is not initialised.
///
/// # Safety
///
/// After `poll_recv` has given `n`, the first `n` bytes of `buf` are initialised, and `n` is at
/// most its length. No byte of it was made uninitialised.
pub unsafe trait Socket: AsyncRead {
    /// Reads as [`AsyncRead::poll_read`] does.
    ///
    /// # Errors
    ///
    /// As a read.
    fn poll_recv(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>>;
}

macro_rules! sockets {
    ($($type:ty),*) => {$(
        // SAFETY: `poll_recv` of the type gives what socket2's `recv` said of the same buffer, or
        // an error.
        unsafe impl Socket for $type {
            #[inline]
            fn poll_recv(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [MaybeUninit<u8>],
            ) -> Poll<io::Result<usize>> {
                (*self).poll_recv(cx, buf)
            }
        }
    )*};
}

sockets! { TcpStream, &TcpStream }
#[cfg(unix)]
sockets! { UnixStream, &UnixStream }

/// Reads into the free part of a buffer of hyper's.
#[cfg(feature = "hyper")]
pub(crate) fn read_into_hyper<T: Socket>(
    socket: Pin<&mut T>,
    cx: &mut Context<'_>,
    mut buf: ::hyper::rt::ReadBufCursor<'_>,
) -> Poll<io::Result<()>> {
    // SAFETY: `Socket` makes no byte uninitialised.
    let free = unsafe { buf.as_mut() };
    let read = ready!(socket.poll_recv(cx, free))?;
    // SAFETY: the first `read` bytes of the free part are initialised, by the contract of `Socket`.
    unsafe { buf.advance(read) };
    Poll::Ready(Ok(()))
}

/// Reads into the free part of a buffer of tokio's.
#[cfg(feature = "tokio-io")]
pub(crate) fn read_into_tokio<T: Socket>(
    socket: Pin<&mut T>,
    cx: &mut Context<'_>,
    buf: &mut tokio::io::ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    // SAFETY: `Socket` makes no byte uninitialised.
    let free = unsafe { buf.unfilled_mut() };
    let read = ready!(socket.poll_recv(cx, free))?;
    // SAFETY: the first `read` bytes of the free part are initialised, by the contract of `Socket`.
    unsafe { buf.assume_init(read) };
    buf.advance(read);
    Poll::Ready(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::AsyncWriteExt;

    use super::*;
    use crate::net::TcpListener;

    /// Calls `read` on a stream to which `sent` was sent, until there is no more.
    async fn tcp(sent: &'static [u8]) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        peer.write_all(sent).await.unwrap();
        peer.close().await.unwrap();
        stream
    }

    #[cfg(unix)]
    async fn unix(sent: &'static [u8]) -> UnixStream {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(sent).await.unwrap();
        peer.close().await.unwrap();
        stream
    }

    /// All of a stream, through buffers of 4 bytes.
    async fn in_portions<S: Socket + Unpin>(mut socket: S) -> Vec<Vec<u8>> {
        let mut portions = Vec::new();
        loop {
            let mut buf = [MaybeUninit::new(b'?'); 4];
            let read = poll_fn(|cx| Pin::new(&mut socket).poll_recv(cx, &mut buf))
                .await
                .unwrap();
            // SAFETY: all of it was initialised.
            let all = buf.map(|byte| unsafe { byte.assume_init() });
            assert!(all[read..].iter().all(|byte| *byte == b'?'), "{all:?}");
            if read == 0 {
                return portions;
            }
            portions.push(all[..read].to_vec());
        }
    }

    #[test]
    fn a_socket_is_read_to_its_end() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let (one, two) = (b"abcd".to_vec(), b"ef".to_vec());
            assert_eq!(
                in_portions(tcp(b"abcdef").await).await,
                [one.clone(), two.clone()]
            );
            assert_eq!(in_portions(&tcp(b"abcdef").await).await, [one, two]);
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_is_read_to_its_end() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let portions = [b"abcd".to_vec(), b"ef".to_vec()];
            assert_eq!(in_portions(unix(b"abcdef").await).await, portions);
            assert_eq!(in_portions(&unix(b"abcdef").await).await, portions);
        });
    }

    // Fails if a read that has filled its buffer counts as short: what is left would wait for an
    // edge that never comes.
    #[test]
    fn what_a_full_read_leaves_is_read() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let mut peer = TcpStream::connect(addr).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            peer.write_all(b"abcdef").await.unwrap();
            // What the system reports first is over then: it would make the stream ready once more.
            stream.readable().await.unwrap();
            // On a busy machine the bytes are under way for a while.
            let socket = socket2::SockRef::from(&stream);
            while socket.peek(&mut [MaybeUninit::uninit(); 8]).ok() != Some(6) {
                std::thread::yield_now();
            }
            for expected in [4, 2] {
                let mut buf = [MaybeUninit::new(b'?'); 4];
                let read = poll_fn(|cx| Poll::Ready(stream.poll_recv(cx, &mut buf))).await;
                assert!(
                    matches!(read, Poll::Ready(Ok(n)) if n == expected),
                    "{read:?}"
                );
            }
        });
    }

    #[cfg(feature = "tokio-io")]
    #[test]
    fn tokios_buffer_is_filled_behind_what_it_has() {
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let mut bytes = [MaybeUninit::uninit(); 16];
            let mut buf = tokio::io::ReadBuf::uninit(&mut bytes);
            buf.put_slice(b"head");
            let mut stream = tcp(b"body").await;
            poll_fn(|cx| read_into_tokio(Pin::new(&mut stream), cx, &mut buf))
                .await
                .unwrap();
            assert_eq!(buf.filled(), b"headbody");
            assert_eq!(buf.initialized().len(), 8, "nothing was zeroed");
            poll_fn(|cx| read_into_tokio(Pin::new(&mut stream), cx, &mut buf))
                .await
                .unwrap();
            assert_eq!(buf.filled(), b"headbody", "the end adds nothing");
        });
    }

    #[cfg(all(feature = "hyper", unix))]
    #[test]
    fn hypers_buffer_is_filled_behind_what_it_has() {
        const LARGE: &[u8] = &[b'x'; 3 * 8192];
        crate::runtime::Runtime::new().unwrap().block_on(async {
            let mut bytes = vec![MaybeUninit::uninit(); 4 * 8192];
            let mut buf = ::hyper::rt::ReadBuf::uninit(&mut bytes);
            buf.unfilled().put_slice(b"head");
            let mut stream = unix(LARGE).await;
            poll_fn(|cx| read_into_hyper(Pin::new(&mut stream), cx, buf.unfilled()))
                .await
                .unwrap();
            assert_eq!(buf.filled()[..4], *b"head");
            assert_eq!(buf.filled()[4..], *LARGE, "in one read, however large");
            poll_fn(|cx| read_into_hyper(Pin::new(&mut stream), cx, buf.unfilled()))
                .await
                .unwrap();
            assert_eq!(buf.filled().len(), 4 + LARGE.len(), "the end adds nothing");
        });
    }
}
