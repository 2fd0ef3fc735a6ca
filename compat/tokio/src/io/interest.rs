//! What a task waits for.

use std::{
    fmt,
    ops::{BitOr, BitOrAssign},
};

use ws_reactor::ReadySet;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/struct.Interest.html).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Reading, and its end.
    pub const READABLE: Self = Self(1);
    /// Writing, and its end.
    pub const WRITABLE: Self = Self(2);
    /// Urgent data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Self = Self(4);
    /// Errors.
    pub const ERROR: Self = Self(8);

    const NAMES: [(Self, &str); 4] = [
        (Self::READABLE, "READABLE"),
        (Self::WRITABLE, "WRITABLE"),
        (Self(4), "PRIORITY"),
        (Self::ERROR, "ERROR"),
    ];

    /// Whether reading is in it.
    pub const fn is_readable(self) -> bool {
        self.0 & Self::READABLE.0 != 0
    }

    /// Whether writing is in it.
    pub const fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE.0 != 0
    }

    /// Whether errors are in it.
    pub const fn is_error(self) -> bool {
        self.0 & Self::ERROR.0 != 0
    }

    /// Whether urgent data is in it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const fn is_priority(self) -> bool {
        self.0 & Self::PRIORITY.0 != 0
    }

    /// Both.
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub const fn add(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without the other, unless nothing is left.
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub fn remove(self, other: Self) -> Option<Self> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Self(left)),
        }
    }

    /// What the system is asked for. It reports errors unasked, and something has to be asked for.
    pub(crate) fn asked(self) -> ws_reactor::Interest {
        let read = ws_reactor::Interest::READABLE;
        let parts = [
            (self.is_readable() || self.is_error(), read),
            (self.is_writable(), ws_reactor::Interest::WRITABLE),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            (self.is_priority(), ws_reactor::Interest::PRIORITY),
        ];
        parts
            .into_iter()
            .filter_map(|(is_in, part)| is_in.then_some(part))
            .reduce(ws_reactor::Interest::add)
            .unwrap_or(read)
    }

    /// What satisfies a task that waits for it.
    pub(crate) const fn wanted(self) -> ReadySet {
        let mut wanted = ReadySet::EMPTY;
        if self.is_readable() {
            wanted = wanted.union(ReadySet::READABLE);
        }
        if self.0 & (Self::READABLE.0 | 4) != 0 {
            wanted = wanted.union(ReadySet::READ_CLOSED);
        }
        if self.0 & 4 != 0 {
            wanted = wanted.union(ReadySet::PRIORITY);
        }
        if self.is_writable() {
            wanted = wanted
                .union(ReadySet::WRITABLE)
                .union(ReadySet::WRITE_CLOSED);
        }
        if self.is_error() {
            wanted = wanted.union(ReadySet::ERROR);
        }
        wanted
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (part, name) in Self::NAMES {
            if self.0 & part.0 != 0 {
                write!(f, "{separator}{name}")?;
                separator = " | ";
            }
        }
        Ok(())
    }
}
