//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/).

mod addr;
mod common;
pub(crate) mod island;
pub(crate) mod socket;
pub mod tcp;
mod udp;
pub mod unix;

pub use self::{
    addr::{ToSocketAddrs, lookup_host},
    tcp::{listener::TcpListener, socket::TcpSocket, stream::TcpStream},
    udp::UdpSocket,
    unix::{
        datagram::UnixDatagram, listener::UnixListener, socket::UnixSocket, stream::UnixStream,
    },
};
