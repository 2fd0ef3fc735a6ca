//! Addresses, and names of hosts.

use std::{future::Future, io, net::SocketAddr};

pub use ws_net::ToSocketAddrs;

use super::socket;

/// Looks up the addresses of a host with a port.
///
/// # Errors
///
/// What the system's resolver says.
pub async fn lookup_host<T>(host: T) -> io::Result<impl Iterator<Item = SocketAddr>>
where
    T: ToSocketAddrs,
{
    ws_net::addr::resolve(&host).await
}

/// Does `attempt` with each address, until one succeeds.
///
/// It is no `AsyncFnMut`: with one that borrows, the compiler does not see that the future is
/// `Send`.
pub(crate) async fn first_that_works<A, T, F>(
    addr: A,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<T>
where
    A: ToSocketAddrs,
    F: Future<Output = io::Result<T>>,
{
    let mut answer = Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "could not resolve to any address",
    ));
    for addr in ws_net::addr::resolve(&addr).await? {
        answer = attempt(addr).await.map_err(socket::error);
        if answer.is_ok() {
            break;
        }
    }
    answer
}
