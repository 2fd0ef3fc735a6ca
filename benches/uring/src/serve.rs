//! The servers: one thread each, with nothing but its connections.

mod buffers;
mod by_epoll;
mod by_poll;
mod by_recv;
#[cfg(test)]
mod tests;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
};

use io_uring::IoUring;

use crate::{
    meter::{self, Figures, Meter},
    work::Work,
};

/// How a server learns of requests. "Own" is a ring of `SINGLE_ISSUER` and `DEFER_TASKRUN`: only
/// the thread that made it may use it. The other rings have no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As `ws` does: edges of epoll, and no second read after a short one.
    Epoll,
    /// The same, and each event is read until nothing is there.
    EpollUntilEmpty,
    /// Multishot poll, then the same calls as with epoll.
    Poll,
    PollOwn,
    /// Multishot receive into provided buffers, and sends in the ring. One `io_uring_enter` of a
    /// round submits, another one waits if nothing is there.
    Recv,
    /// The same, with one `io_uring_enter` a round.
    RecvOwn,
}

impl Variant {
    pub(crate) const ALL: [(Variant, &str); 6] = [
        (Variant::Epoll, "epoll"),
        (Variant::EpollUntilEmpty, "epoll-until-empty"),
        (Variant::Poll, "poll"),
        (Variant::PollOwn, "poll-own"),
        (Variant::Recv, "recv"),
        (Variant::RecvOwn, "recv-own"),
    ];
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) variant: Variant,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    pub(crate) warm_up: u64,
    pub(crate) requests: u64,
    pub(crate) cpu: usize,
}

/// Accepts the connections and serves them. At the end it closes them.
pub(crate) fn run(listener: &TcpListener, run: Run) -> io::Result<Figures> {
    meter::stay_on(run.cpu)?;
    let mut server = Server {
        connections: Vec::new(),
        work: run.work,
        meter: Meter::new(run.warm_up, run.requests),
    };
    for _ in 0..run.connections {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        server.connections.push(stream);
    }
    match run.variant {
        Variant::Epoll => by_epoll::serve(&mut server, false),
        Variant::EpollUntilEmpty => by_epoll::serve(&mut server, true),
        Variant::Poll => by_poll::serve(&mut server, false),
        Variant::PollOwn => by_poll::serve(&mut server, true),
        Variant::Recv => by_recv::serve(&mut server, false),
        Variant::RecvOwn => by_recv::serve(&mut server, true),
    }
}

/// What a connection is registered for, as `ws` asks epoll. epoll and poll have the same bits.
const INTEREST: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP;
/// Events after which a read is tried.
const READABLE: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;

#[derive(Debug)]
struct Server {
    connections: Vec<TcpStream>,
    work: Work,
    meter: Meter,
}

impl Server {
    /// Answers what has come on a connection, by calls of `recv` and `send`.
    fn answer(&mut self, token: usize, buffer: &mut [u8], until_empty: bool) -> io::Result<()> {
        let mut stream = &self.connections[token];
        loop {
            self.meter.calls += 1;
            let length = match stream.read(buffer) {
                Ok(0) => return Err(client_has_gone()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            };
            self.meter.calls += 1;
            let answer = self.work.answer(&buffer[..length])?;
            if stream.write(answer)? < answer.len() {
                return Err(io::Error::other("no room for an answer"));
            }
            self.meter.served += 1;
            if length < buffer.len() && !until_empty {
                return Ok(());
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        let mut streams = self.connections.iter();
        streams.try_for_each(|stream| stream.set_nonblocking(true))
    }

    fn shut_down(&self) {
        for stream in &self.connections {
            // The client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn client_has_gone() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the client has gone")
}

/// A ring, and a queue that takes an entry of each connection at once.
fn ring(is_own: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    if is_own {
        builder.setup_single_issuer().setup_defer_taskrun();
    }
    builder.setup_cqsize(8192).build(2048)
}
