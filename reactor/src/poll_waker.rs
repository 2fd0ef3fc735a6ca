//! How another thread ends a wait in the poll: mio's waker, or a pipe.
//!
//! mio's waker is an eventfd on Linux, and a call of its own on most other systems. If a sandbox
//! refuses the eventfd, a pipe does the same: a byte is an event at its other end. An interrupt is
//! one write in both cases.
//!
//! # The pipe is emptied after each event
//!
//! Linux 5.5 to 5.13 reports a byte only if the pipe was empty before. So the thread that fetches
//! the event reads all bytes ([`PollWaker::fetched`]), and looks afterwards at what they stood for
//! (the flag and the deadline of `netpoll.rs`). A byte that is written before the last read belongs
//! to a flag that this look sees. A byte that is written later finds an empty pipe, and is a new
//! event. If the pipe is full, its event has not been fetched, or its bytes are being read, so that
//! no byte is needed.

use std::io;

use mio::{Registry, Token, Waker};

/// Wakes the thread that waits in the poll.
#[derive(Debug)]
pub(crate) enum PollWaker {
    Mio(Waker),
    #[cfg(target_os = "linux")]
    Pipe(mio::unix::pipe::Sender, mio::unix::pipe::Receiver),
}

impl PollWaker {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let error = match Waker::new(registry, token) {
            Ok(waker) => return Ok(Self::Mio(waker)),
            Err(error) => error,
        };
        #[cfg(target_os = "linux")]
        if crate::refused::Facility::Event.note(&error) {
            return Self::pipe(registry, token);
        }
        Err(error)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn pipe(registry: &Registry, token: Token) -> io::Result<Self> {
        let (sender, mut receiver) = mio::unix::pipe::new()?;
        registry.register(&mut receiver, token, mio::Interest::READABLE)?;
        Ok(Self::Pipe(sender, receiver))
    }

    /// One event, now or in the next poll.
    pub(crate) fn wake(&self) -> io::Result<()> {
        match self {
            Self::Mio(waker) => waker.wake(),
            #[cfg(target_os = "linux")]
            Self::Pipe(sender, _) => write_one(sender),
        }
    }

    /// The event was fetched. The caller looks afterwards at what it stood for.
    pub(crate) fn fetched(&self) {
        match self {
            Self::Mio(_) => {}
            #[cfg(target_os = "linux")]
            Self::Pipe(_, receiver) => empty(receiver),
        }
    }
}

#[cfg(target_os = "linux")]
fn write_one(mut sender: &mio::unix::pipe::Sender) -> io::Result<()> {
    use io::{ErrorKind, Write};

    loop {
        match sender.write(&[1]) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Full: see the head.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(target_os = "linux")]
fn empty(mut receiver: &mio::unix::pipe::Receiver) {
    use io::{ErrorKind, Read};

    let mut bytes = [0; 64];
    loop {
        match receiver.read(&mut bytes) {
            Ok(read) if read == bytes.len() => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Less than was asked for: the pipe is empty.
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(all(test, target_os = "linux", not(ws_loom)))]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;

    impl PollWaker {
        /// Whether no byte is in the pipe. Takes one out if there is.
        pub(crate) fn is_empty(&self) -> bool {
            let Self::Pipe(_, receiver) = self else {
                panic!("made as a pipe");
            };
            let mut receiver = receiver;
            let read = receiver.read(&mut [0]);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        }
    }

    /// Fails if a full pipe is an error, and if a byte is left in it: no other byte is an event
    /// then, on some kernels.
    #[test]
    fn a_pipe_wakes_more_often_than_it_has_room_and_is_emptied() {
        let mut poll = Poll::new().unwrap();
        let waker = PollWaker::pipe(poll.registry(), Token(7)).unwrap();
        let mut events = Events::with_capacity(4);
        for wakes in [1, 64, 65, 70_000, 1] {
            for _ in 0..wakes {
                waker.wake().unwrap();
            }
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            assert!(events.iter().any(|event| event.token() == Token(7)));
            waker.fetched();
            assert!(waker.is_empty(), "after {wakes} wakes");
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            assert!(events.is_empty(), "an event without a wake");
        }
    }
}
