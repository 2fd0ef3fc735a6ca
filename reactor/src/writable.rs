//! Whether a write to a descriptor would wait.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use mio::{Events, Interest, Poll, Token, unix::SourceFd};

/// Whether a short write (up to `PIPE_BUF` bytes, 4,096 on Linux) would not wait now. A file is
/// always writable.
///
/// ```
/// let (mut _reader, writer) = std::io::pipe().unwrap();
/// assert!(ws_reactor::is_writable(&writer));
/// ```
#[must_use]
pub fn is_writable(descriptor: &impl AsFd) -> bool {
    let raw = descriptor.as_fd().as_raw_fd();
    let look = || -> io::Result<bool> {
        let mut poll = Poll::new()?;
        match poll
            .registry()
            .register(&mut SourceFd(&raw), Token(0), Interest::WRITABLE)
        {
            // What epoll does not take, such as a file, does not wait.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
            other => other?,
        }
        let mut events = Events::with_capacity(1);
        poll.poll(&mut events, Some(Duration::ZERO))?;
        Ok(!events.is_empty())
    };
    look().unwrap_or(false)
}
