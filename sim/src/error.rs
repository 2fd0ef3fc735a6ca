//! Errors: the numbers that Linux gives to programs, and the mistakes in the set-up of a network.
//!
//! A socket call answers with an [`io::Error`] that carries Linux's number. On Linux the standard
//! library derives the kind from it, so a program sees exactly what the kernel would give. On
//! another system the number stays Linux's and the kind may differ.

use std::{fmt, io, net::IpAddr};

pub(crate) const EBADF: i32 = 9;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const EPIPE: i32 = 32;
pub(crate) const EDESTADDRREQ: i32 = 89;
pub(crate) const EMSGSIZE: i32 = 90;
pub(crate) const ENOPROTOOPT: i32 = 92;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const EAFNOSUPPORT: i32 = 97;
pub(crate) const EADDRINUSE: i32 = 98;
pub(crate) const EADDRNOTAVAIL: i32 = 99;
pub(crate) const ENETUNREACH: i32 = 101;
pub(crate) const ECONNABORTED: i32 = 103;
pub(crate) const ECONNRESET: i32 = 104;
pub(crate) const EISCONN: i32 = 106;
pub(crate) const ENOTCONN: i32 = 107;
pub(crate) const ETIMEDOUT: i32 = 110;
pub(crate) const ECONNREFUSED: i32 = 111;
pub(crate) const EHOSTUNREACH: i32 = 113;
pub(crate) const EALREADY: i32 = 114;
pub(crate) const EINPROGRESS: i32 = 115;

/// The error of a socket call.
pub(crate) fn os(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// A mistake in the set-up of a network. Its text says what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    HostTwice(String),
    AddressTwice { addr: IpAddr, owner: String },
    AddressUnusable(IpAddr),
    NameUnusable(String),
}

impl Error {
    /// Tells whether a host of this name exists already.
    pub fn is_name_taken(&self) -> bool {
        matches!(self.0, Kind::HostTwice(_))
    }

    /// Tells whether a host with this address exists already.
    pub fn is_address_taken(&self) -> bool {
        matches!(self.0, Kind::AddressTwice { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::HostTwice(name) => {
                write!(
                    f,
                    "a host named {name:?} exists already: give this one another name"
                )
            }
            Kind::AddressTwice { addr, owner } => write!(
                f,
                "host {owner:?} has the address {addr} already: give this host another address"
            ),
            Kind::AddressUnusable(addr) => write!(
                f,
                "{addr} cannot be the address of a host: give an address that is not loopback, \
                 unspecified, multicast or IPv4 mapped into IPv6"
            ),
            Kind::NameUnusable(name) => write!(
                f,
                "{name:?} cannot be the name of a host: give one of 1 to 64 bytes, without spaces \
                 and control characters, that is no address and not \"localhost\", and does not \
                 end with a dot"
            ),
        }
    }
}

impl std::error::Error for Error {}
