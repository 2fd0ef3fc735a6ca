//! Addresses as users write them, and what becomes of them.
//!
//! An address that is written in numbers is used as it is, on the spot. A name has to be looked up
//! by the system's resolver, which blocks for as long as it likes. That runs by `spawn_blocking`,
//! so no task waits for it but the one that asked.
//!
//! The trait is sealed, so that it can grow what a lookup of our own would need.

use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs as _,
};
use std::option;
use std::panic;
use std::vec;

use crate::current::in_runtime;

/// What can be turned into socket addresses: `"localhost:80"`, `("localhost", 80)`, a
/// [`SocketAddr`] or several.
///
/// | type | resolved |
/// | --- | --- |
/// | [`SocketAddr`], [`SocketAddrV4`], [`SocketAddrV6`], a pair of an IP address and a port | it is one |
/// | a slice, array or `Vec` of [`SocketAddr`] | it is several, which are tried in this order |
/// | `str`, `String`, a pair of one of them and a port | parsed if it is in numbers, otherwise looked up by the system, off the workers |
///
/// A reference to any of these will do as well. The trait cannot be implemented elsewhere.
pub trait ToSocketAddrs: sealed::Resolve {}

/// Looks up the addresses of `host`, which includes a port.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if there is no port in it, or what the system's
/// resolver says.
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
///
/// # Cancel safety
///
/// Nothing is lost when the future is dropped. A lookup that has begun goes on, on its thread, and
/// its answer is dropped.
///
/// # Examples
///
/// ```
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let addresses: Vec<_> = ws::net::lookup_host("127.0.0.1:80").await?.collect();
/// assert_eq!(addresses, ["127.0.0.1:80".parse().unwrap()]);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn lookup_host<A: ToSocketAddrs>(
    host: A,
) -> impl Future<Output = io::Result<impl Iterator<Item = SocketAddr>>> {
    in_runtime("ws::net::lookup_host", async move |_| resolve(&host).await)
}

/// The addresses that `addr` means.
///
/// The future does not borrow `addr`, which need not be `Sync` then.
pub fn resolve<A: ToSocketAddrs>(addr: &A) -> impl Future<Output = io::Result<Addrs>> + use<A> {
    let resolved = addr.resolve();
    async move {
        match resolved {
            sealed::Resolved::Known(addrs) => Ok(addrs),
            sealed::Resolved::Invalid(error) => Err(error),
            sealed::Resolved::Name(name, port) => look_up(name, port).await,
        }
    }
}

async fn look_up(name: String, port: u16) -> io::Result<Addrs> {
    // The functions that make sockets have seen to it, each at its caller's line. Methods of a
    // socket may be polled anywhere.
    if ws_executor::netpoll::current().is_none() {
        return Err(io::Error::other(
            "a name can be looked up inside of a ws runtime only",
        ));
    }
    let lookup = ws_executor::spawn_blocking(move || (name.as_str(), port).to_socket_addrs());
    match lookup.await {
        Ok(addrs) => addrs.map(Addrs::Many),
        Err(error) => match error.try_into_panic() {
            Ok(payload) => panic::resume_unwind(payload),
            Err(_) => Err(io::Error::other(
                "the lookup was cancelled: its runtime was shut down",
            )),
        },
    }
}

/// Does `attempt` with one address after the other, until one succeeds.
pub async fn first_that_works<A, T>(
    addr: A,
    attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T>
where
    A: ToSocketAddrs,
{
    let mut answers = resolve(&addr).await?.map(attempt);
    let mut answer = Err(no_address());
    while answer.is_err()
        && let Some(next) = answers.next()
    {
        answer = next;
    }
    answer
}

/// What is said of a list without an address.
pub fn no_address() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the address stands for no socket address at all",
    )
}

/// Resolved addresses. One, as it mostly is, takes no allocation.
#[derive(Debug)]
pub enum Addrs {
    One(option::IntoIter<SocketAddr>),
    Many(vec::IntoIter<SocketAddr>),
}

impl Iterator for Addrs {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            Addrs::One(addr) => addr.next(),
            Addrs::Many(addrs) => addrs.next(),
        }
    }
}

mod sealed {
    use super::{Addrs, SocketAddr, io};

    #[derive(Debug)]
    pub enum Resolved {
        Known(Addrs),
        Invalid(io::Error),
        /// To be looked up.
        Name(String, u16),
    }

    impl Resolved {
        pub(super) fn one(addr: impl Into<SocketAddr>) -> Self {
            Resolved::Known(Addrs::One(Some(addr.into()).into_iter()))
        }
    }

    pub trait Resolve {
        fn resolve(&self) -> Resolved;
    }
}

use sealed::{Resolve, Resolved};

impl<A: ToSocketAddrs + ?Sized> ToSocketAddrs for &A {}

impl<A: Resolve + ?Sized> Resolve for &A {
    fn resolve(&self) -> Resolved {
        (**self).resolve()
    }
}

macro_rules! known {
    ($($type:ty),*) => {
        $(
            impl ToSocketAddrs for $type {}

            impl Resolve for $type {
                fn resolve(&self) -> Resolved {
                    Resolved::one(*self)
                }
            }
        )*
    };
}

known!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl ToSocketAddrs for [SocketAddr] {}

impl Resolve for [SocketAddr] {
    fn resolve(&self) -> Resolved {
        Resolved::Known(Addrs::Many(Vec::from(self).into_iter()))
    }
}

impl<const N: usize> ToSocketAddrs for [SocketAddr; N] {}

impl<const N: usize> Resolve for [SocketAddr; N] {
    fn resolve(&self) -> Resolved {
        self.as_slice().resolve()
    }
}

impl ToSocketAddrs for Vec<SocketAddr> {}

impl Resolve for Vec<SocketAddr> {
    fn resolve(&self) -> Resolved {
        self.as_slice().resolve()
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl Resolve for (&str, u16) {
    fn resolve(&self) -> Resolved {
        let (name, port) = *self;
        match name.parse::<IpAddr>() {
            Ok(ip) => Resolved::one((ip, port)),
            Err(_) => Resolved::Name(name.to_owned(), port),
        }
    }
}

impl ToSocketAddrs for (String, u16) {}

impl Resolve for (String, u16) {
    fn resolve(&self) -> Resolved {
        (self.0.as_str(), self.1).resolve()
    }
}

impl ToSocketAddrs for str {}

impl Resolve for str {
    fn resolve(&self) -> Resolved {
        if let Ok(addr) = self.parse::<SocketAddr>() {
            return Resolved::one(addr);
        }
        match self
            .rsplit_once(':')
            .map(|(name, port)| (name, port.parse()))
        {
            Some((name, Ok(port))) => (name, port).resolve(),
            found => Resolved::Invalid(io::Error::new(
                io::ErrorKind::InvalidInput,
                match found {
                    Some(_) => "the port is no number from 0 to 65535",
                    None => "the address has no port: write it as \"host:port\"",
                },
            )),
        }
    }
}

impl ToSocketAddrs for String {}

impl Resolve for String {
    fn resolve(&self) -> Resolved {
        self.as_str().resolve()
    }
}
