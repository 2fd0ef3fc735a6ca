//! What is ready.

use std::{
    fmt,
    ops::{BitAnd, BitOr, BitOrAssign, Sub},
};

use ws_reactor::ReadySet;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Ready.html).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(pub(crate) ReadySet);

impl Ready {
    /// Nothing.
    pub const EMPTY: Self = Self(ReadySet::EMPTY);
    /// Reading.
    pub const READABLE: Self = Self(ReadySet::READABLE);
    /// Writing.
    pub const WRITABLE: Self = Self(ReadySet::WRITABLE);
    /// The end of what is read.
    pub const READ_CLOSED: Self = Self(ReadySet::READ_CLOSED);
    /// The end of what is written.
    pub const WRITE_CLOSED: Self = Self(ReadySet::WRITE_CLOSED);
    /// Urgent data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Self = Self(ReadySet::PRIORITY);
    /// An error.
    pub const ERROR: Self = Self(ReadySet::ERROR);
    /// Everything.
    pub const ALL: Self = Self(
        ReadySet::READABLE
            .union(ReadySet::WRITABLE)
            .union(ReadySet::READ_CLOSED)
            .union(ReadySet::WRITE_CLOSED)
            .union(ReadySet::PRIORITY)
            .union(ReadySet::ERROR),
    );

    /// Whether nothing is ready.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Whether a read is worth trying.
    pub fn is_readable(self) -> bool {
        self.0.contains(ReadySet::READABLE) || self.is_read_closed()
    }

    /// Whether a write is worth trying.
    pub fn is_writable(self) -> bool {
        self.0.contains(ReadySet::WRITABLE) || self.is_write_closed()
    }

    /// Whether reading has come to its end.
    pub fn is_read_closed(self) -> bool {
        self.0.contains(ReadySet::READ_CLOSED)
    }

    /// Whether writing has come to its end.
    pub fn is_write_closed(self) -> bool {
        self.0.contains(ReadySet::WRITE_CLOSED)
    }

    /// Whether there is urgent data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn is_priority(self) -> bool {
        self.0.contains(ReadySet::PRIORITY)
    }

    /// Whether there is an error.
    pub fn is_error(self) -> bool {
        self.0.contains(ReadySet::ERROR)
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0.union(other.0))
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Ready {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0.intersection(other.0))
    }
}

impl Sub for Ready {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.difference(other.0))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Ready");
        f.field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error());
        #[cfg(any(target_os = "linux", target_os = "android"))]
        f.field("is_priority", &self.is_priority());
        f.finish()
    }
}
