//! A short read or write saves the system call that would only say "would block", and loses
//! nothing: neither the end of the stream, nor an edge, nor what lies behind urgent data.
//!
//! Each test names the change that makes it fail. The savings are Linux's alone.

#![cfg(target_os = "linux")]

use crate::common;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll, Waker};
use std::thread;

use common::{Registered, TimeLimit, Wakes, look, pair, tcp_pair, wait};
use ws_reactor::{Interest, Netpoll, STREAM_INTEREST, pipe};

/// A reader with room for 64 bytes that counts its calls, and its waker's.
struct Reader<S: AsRawFd> {
    source: Registered<S>,
    calls: usize,
    waker: Waker,
}

impl<S: AsRawFd> Reader<S>
where
    for<'a> &'a S: Read,
{
    fn new(source: Registered<S>) -> Self {
        Self {
            source,
            calls: 0,
            waker: Wakes::new().1,
        }
    }

    fn poll(&mut self) -> Poll<usize> {
        let mut buffer = [0; 64];
        let Self {
            source,
            calls,
            waker,
        } = self;
        let mut cx = Context::from_waker(waker);
        let polled = source
            .registration
            .poll_read_with(&mut cx, buffer.len(), || {
                *calls += 1;
                (&source.io).read(&mut buffer)
            });
        polled.map(Result::unwrap)
    }

    /// Reads so many bytes, waiting for each edge.
    fn read_all(&mut self, netpoll: &Netpoll, mut left: usize) {
        while left > 0 {
            match self.poll() {
                Poll::Ready(0) => panic!("the stream ended with {left} bytes missing"),
                Poll::Ready(n) => left -= n,
                Poll::Pending => _ = wait(netpoll),
            }
        }
    }
}

// Fails if a short read does not clear readiness (a second call), or clears a full one (no call).
#[test]
fn a_short_read_saves_the_next_call() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = tcp_pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    let mut reader = Reader::new(here);
    look(&netpoll);
    assert!(reader.poll().is_pending());
    assert_eq!(reader.calls, 1);

    there.write_all(b"hello").unwrap();
    wait(&netpoll);
    assert_eq!(reader.poll(), Poll::Ready(5));
    assert!(reader.poll().is_pending());
    assert_eq!(reader.calls, 2);

    there.write_all(&[0; 64]).unwrap();
    wait(&netpoll);
    assert_eq!(reader.poll(), Poll::Ready(64));
    assert!(reader.poll().is_pending());
    assert_eq!(reader.calls, 4);
}

// Fails if the shortcut is taken without an interest in urgent data.
#[test]
fn without_an_interest_in_urgent_data_a_short_read_tells_nothing() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = tcp_pair();
    let interest = Interest::READABLE | Interest::WRITABLE;
    let mut reader = Reader::new(Registered::new(&netpoll, here, interest).unwrap());
    look(&netpoll);
    assert!(reader.poll().is_pending());
    there.write_all(b"hello").unwrap();
    wait(&netpoll);
    assert_eq!(reader.poll(), Poll::Ready(5));
    assert!(reader.poll().is_pending());
    assert_eq!(reader.calls, 3);
}

// Fails if a short transfer clears readiness although the end was reported with the data.
#[test]
fn data_and_end_in_one_event_are_both_seen() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let mut reader = Reader::new(Registered::new(&netpoll, here, STREAM_INTEREST).unwrap());
    look(&netpoll);
    assert!(reader.poll().is_pending());
    there.write_all(b"last").unwrap();
    there.shutdown(Shutdown::Write).unwrap();
    assert_eq!(look(&netpoll), 1);
    assert_eq!(reader.poll(), Poll::Ready(4));
    assert_eq!(reader.poll(), Poll::Ready(0));
    assert_eq!(reader.poll(), Poll::Ready(0));
}

// Fails if the clear after a short read ignores the tick: the end is noted while the read runs.
#[test]
fn an_end_that_is_noted_during_the_read_is_seen() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    there.write_all(b"last").unwrap();
    look(&netpoll);
    let mut buffer = [0; 64];
    let mut cx = Context::from_waker(Waker::noop());
    let polled = here.registration.poll_read_with(&mut cx, 64, || {
        let answer = (&here.io).read(&mut buffer);
        there.shutdown(Shutdown::Write).unwrap();
        look(&netpoll);
        answer
    });
    assert!(matches!(polled, Poll::Ready(Ok(4))));
    let polled = here
        .registration
        .poll_read_with(&mut cx, 64, || (&here.io).read(&mut buffer));
    assert!(matches!(polled, Poll::Ready(Ok(0))));
}

// Fails if the end comes after the clear and its edge is not noted: the waiting task sleeps for
// ever.
#[test]
fn an_end_after_the_short_read_wakes() {
    let _limit = TimeLimit::new();
    for_each_pipe_and_stream(|netpoll, reader, mut writer| {
        writer.write_all(b"last").unwrap();
        reader.read_all(netpoll, 4);
        assert!(reader.poll().is_pending());
        drop(writer);
        assert_eq!(wait(netpoll), 1);
        assert_eq!(reader.poll(), Poll::Ready(0));
    });
}

// Fails if a new registration's first event is not noted: here the end is older than the
// registration.
#[test]
fn an_end_before_the_registration_is_seen_behind_a_short_read() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    there.write_all(b"last").unwrap();
    drop(there);
    let mut reader = Reader::new(Registered::new(&netpoll, here, STREAM_INTEREST).unwrap());
    assert_eq!(reader.poll(), Poll::Ready(4));
    assert!(reader.poll().is_pending(), "not looked at the netpoll yet");
    assert_eq!(look(&netpoll), 1);
    assert_eq!(reader.poll(), Poll::Ready(0));
}

// Fails if a short read is trusted although urgent data was reported, or the interest in it is
// missing from STREAM_INTEREST and not asked for: "ccc" stays behind the mark, and no edge follows.
#[test]
fn what_lies_behind_urgent_data_is_read() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = tcp_pair();
    there.write_all(b"aaa").unwrap();
    socket2::SockRef::from(&there)
        .send_out_of_band(b"!")
        .unwrap();
    there.write_all(b"ccc").unwrap();
    let mut reader = Reader::new(Registered::new(&netpoll, here, STREAM_INTEREST).unwrap());
    look(&netpoll);
    reader.read_all(&netpoll, 6);
}

// Fails if a short write does not clear readiness (a second call), or its edge is lost (the wait
// times out).
#[test]
fn a_short_write_waits_for_room() {
    let _limit = TimeLimit::new();
    const TOTAL: usize = 32 << 20;
    let netpoll = Netpoll::new().unwrap();
    let (here, there) = tcp_pair();
    there.set_nonblocking(false).unwrap();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    look(&netpoll);
    let block = vec![7; 1 << 20];
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut calls = 0;
    let mut poll_write = |len: usize| {
        let polled = here.registration.poll_write_with(&mut cx, len, || {
            calls += 1;
            (&here.io).write(&block[..len])
        });
        (polled.map(Result::unwrap), calls)
    };

    // Nobody reads yet, so one of these is short.
    let mut sent = 0;
    let calls_before = loop {
        let (Poll::Ready(n), calls) = poll_write(block.len()) else {
            panic!("the socket took whole blocks only");
        };
        sent += n;
        if n < block.len() {
            break calls;
        }
    };
    let (polled, calls) = poll_write(block.len());
    assert!(polled.is_pending());
    assert_eq!(calls, calls_before);

    thread::scope(|scope| {
        let reader = scope.spawn(|| io::copy(&mut (&there).take(TOTAL as u64), &mut io::sink()));
        while sent < TOTAL {
            match poll_write(block.len().min(TOTAL - sent)) {
                (Poll::Ready(n), _) => sent += n,
                (Poll::Pending, _) => _ = wait(&netpoll),
            }
        }
        assert_eq!(reader.join().unwrap().unwrap(), TOTAL as u64);
    });
    assert!(wakes.count() > 0);
}

/// Pipes, Unix streams and TCP.
fn for_each_pipe_and_stream(test: impl Fn(&Netpoll, &mut Reader<Box<dyn AsRead>>, Box<dyn Write>)) {
    let (unix, unix_peer) = pair();
    let (tcp, tcp_peer) = tcp_pair();
    let (pipe_writer, pipe_reader) = pipe::new().unwrap();
    let sources: [(Box<dyn AsRead>, Box<dyn Write>); 3] = [
        (Box::new(unix), Box::new(unix_peer)),
        (Box::new(tcp), Box::new(tcp_peer)),
        (Box::new(pipe_reader), Box::new(pipe_writer)),
    ];
    for (here, there) in sources {
        let netpoll = Netpoll::new().unwrap();
        let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
        let mut reader = Reader::new(here);
        look(&netpoll);
        test(&netpoll, &mut reader, there);
    }
}

trait AsRead: AsRawFd {
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl<S: AsRawFd> AsRead for S
where
    for<'a> &'a S: Read,
{
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut this = self;
        Read::read(&mut this, buffer)
    }
}

impl AsRawFd for Box<dyn AsRead> {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        (**self).as_raw_fd()
    }
}

impl Read for &Box<dyn AsRead> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (***self).read_some(buffer)
    }
}
