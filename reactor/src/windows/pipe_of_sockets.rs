//! A pipe of two sockets, for tests that want what mio has as a pipe on Unix.

use std::io;

pub use mio::net::{TcpStream as Sender, TcpStream as Receiver};

/// Makes a pipe. Both ends are in nonblocking mode.
///
/// # Errors
///
/// What the system says.
pub fn new() -> io::Result<(Sender, Receiver)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let sender = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    sender.set_nodelay(true)?;
    for end in [&sender, &receiver] {
        end.set_nonblocking(true)?;
    }
    Ok((Sender::from_std(sender), Receiver::from_std(receiver)))
}
