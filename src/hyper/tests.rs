//! The adapters against streams made by hand: what passes through, and in what portions.

use super::*;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use ::hyper::rt::Timer as _;
use futures::io::Cursor;

use crate::runtime::{Builder, Runtime};

/// Keeps the size of every read it was asked for and every slice it was given.
#[derive(Default)]
struct Log {
    reads: Vec<usize>,
    slices: Vec<usize>,
    closed: bool,
}

/// Reads any number of `x`, writes into nothing.
struct Endless(Arc<Mutex<Log>>);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().reads.push(buf.len());
        buf.fill(b'x');
        Poll::Ready(Ok(buf.len()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().slices.push(buf.len());
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let lens = bufs.iter().map(|buf| buf.len());
        self.0.lock().unwrap().slices.extend(lens.clone());
        Poll::Ready(Ok(lens.sum()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().unwrap().closed = true;
        Poll::Ready(Ok(()))
    }
}

fn runtime() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn read_into(io: &mut (impl Read + Unpin), bytes: &mut [u8]) -> usize {
    let mut buf = ReadBuf::new(bytes);
    let poll = Pin::new(io).poll_read(&mut context(), buf.unfilled());
    assert!(matches!(poll, Poll::Ready(Ok(()))));
    buf.filled().len()
}

#[test]
fn a_read_takes_what_is_there_and_the_end_is_an_empty_one() {
    let mut io = Io::new(Cursor::new(*b"abc"));
    let mut bytes = [0; 8];
    assert_eq!(read_into(&mut io, &mut bytes), 3);
    assert_eq!(&bytes[..3], b"abc");
    assert_eq!(read_into(&mut io, &mut bytes), 0);
}

#[test]
fn a_read_asks_for_no_more_than_fits() {
    let log = Arc::new(Mutex::new(Log::default()));
    let mut io = Io::new(Endless(log.clone()));
    assert_eq!(read_into(&mut io, &mut [0; 5]), 5);
    assert_eq!(
        read_into(&mut io, &mut [0; 3 * READ_BYTES_MAX]),
        READ_BYTES_MAX
    );
    assert_eq!(log.lock().unwrap().reads, [5, READ_BYTES_MAX]);
}

#[test]
fn writes_and_the_close_are_passed_on_in_both_directions() {
    let log = Arc::new(Mutex::new(Log::default()));
    let mut io = Io::vectored(Endless(log.clone()));
    let cx = &mut context();
    let slices = [IoSlice::new(b"head"), IoSlice::new(b"body!")];

    assert!(io.is_write_vectored() && !Io::new(()).vectored);
    let wrote = Write::poll_write_vectored(Pin::new(&mut io), cx, &slices);
    assert!(matches!(wrote, Poll::Ready(Ok(9))));

    let mut back = Io::new(io);
    let wrote = AsyncWrite::poll_write_vectored(Pin::new(&mut back), cx, &slices);
    assert!(matches!(wrote, Poll::Ready(Ok(9))));
    let wrote = AsyncWrite::poll_write(Pin::new(&mut back), cx, b"end");
    assert!(matches!(wrote, Poll::Ready(Ok(3))));
    let closed = AsyncWrite::poll_close(Pin::new(&mut back), cx);
    assert!(matches!(closed, Poll::Ready(Ok(()))));

    let log = log.lock().unwrap();
    assert_eq!(log.slices, [4, 5, 4, 5, 3]);
    assert!(log.closed);
}

#[test]
fn a_reset_moves_the_same_sleep() {
    runtime().block_on(async {
        let mut sleep = Timer.sleep(Duration::MAX);
        let before: *const dyn ::hyper::rt::Sleep = &*sleep;
        Timer.reset(&mut sleep, Timer.now());
        assert!(std::ptr::addr_eq(before, &*sleep));
        sleep.await;
    });
}

#[test]
fn a_reset_replaces_the_sleep_of_another_timer() {
    /// Never ends.
    struct Theirs;

    impl Future for Theirs {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl ::hyper::rt::Sleep for Theirs {}

    runtime().block_on(async {
        let mut sleep: Pin<Box<dyn ::hyper::rt::Sleep>> = Box::pin(Theirs);
        Timer.reset(&mut sleep, Timer.now());
        sleep.await;
    });
}
