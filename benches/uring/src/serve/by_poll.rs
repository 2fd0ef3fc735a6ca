//! Multishot poll of io_uring in epoll's place, then `recv` and `send`.

use std::{io, os::fd::AsRawFd};

use io_uring::{IoUring, cqueue, opcode::PollAdd, types::Fd};

use super::{INTEREST, READABLE, Server};
use crate::meter::Figures;

pub(super) fn serve(server: &mut Server, is_own: bool) -> io::Result<Figures> {
    server.set_nonblocking()?;
    let mut ring = super::ring(is_own)?;
    for (token, stream) in server.connections.iter().enumerate() {
        arm(&mut ring, stream, token)?;
    }
    let mut ended = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        ring.submit_and_wait(1)?;
        server.meter.calls += 1;
        server.meter.rounds += 1;
        for entry in ring.completion() {
            let (happened, token) = (entry.result(), entry.user_data() as usize);
            if happened < 0 {
                return Err(io::Error::from_raw_os_error(-happened));
            }
            if !cqueue::more(entry.flags()) {
                ended.push(token);
            }
            if happened & READABLE != 0 {
                server.answer(token, &mut buffer, false)?;
            }
        }
        for token in ended.drain(..) {
            arm(&mut ring, &server.connections[token], token)?;
        }
        if let Some(figures) = server.meter.look()? {
            server.shut_down();
            return Ok(figures);
        }
    }
}

/// Puts a poll into the queue; the next `io_uring_enter` submits it.
pub(super) fn arm(ring: &mut IoUring, source: &impl AsRawFd, token: usize) -> io::Result<()> {
    let poll = PollAdd::new(Fd(source.as_raw_fd()), INTEREST as u32).multi(true);
    let entry = poll.build().user_data(token as u64);
    // SAFETY: a poll has no memory of ours. A descriptor that is closed would be an error.
    unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)
}
