//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/error/).

use std::{fmt, io};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/error/struct.Error.html).
#[derive(Clone, Copy, Debug)]
pub struct Error(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shutdown,
    AtCapacity,
    Invalid,
}

impl Error {
    /// The error of a timer whose runtime has ended.
    pub fn shutdown() -> Self {
        Self(Kind::Shutdown)
    }

    /// Whether the runtime has ended.
    pub fn is_shutdown(&self) -> bool {
        self.0 == Kind::Shutdown
    }

    /// The error of one timer too many.
    pub fn at_capacity() -> Self {
        Self(Kind::AtCapacity)
    }

    /// Whether there is no place for the timer.
    pub fn is_at_capacity(&self) -> bool {
        self.0 == Kind::AtCapacity
    }

    /// The error of a wait that is too long.
    pub fn invalid() -> Self {
        Self(Kind::Invalid)
    }

    /// Whether the wait is too long.
    pub fn is_invalid(&self) -> bool {
        self.0 == Kind::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Shutdown => {
                "the timer is shutdown, must be called from the context of Tokio runtime"
            }
            Kind::AtCapacity => "timer is at capacity and cannot create a new entry",
            Kind::Invalid => "timer duration exceeds maximum duration",
        })
    }
}

impl std::error::Error for Error {}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/error/struct.Elapsed.html).
#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed(pub(super) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> Self {
        io::ErrorKind::TimedOut.into()
    }
}
