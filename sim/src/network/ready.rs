//! What a socket is ready for, as `epoll` would say it.

use std::ops::{BitOr, BitOrAssign};

/// A set of the things that a socket is ready for.
///
/// ```
/// use ws_sim::network::Ready;
///
/// let ready = Ready::READABLE | Ready::READ_CLOSED;
/// assert!(ready.contains(Ready::READABLE) && !ready.contains(Ready::WRITABLE));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// A read, or an accept, does not answer `WouldBlock`: `EPOLLIN`.
    pub const READABLE: Self = Self(1);
    /// A write has room, or fails: `EPOLLOUT`.
    pub const WRITABLE: Self = Self(2);
    /// No more data will come: `EPOLLRDHUP`.
    pub const READ_CLOSED: Self = Self(4);
    /// Both directions are closed, or the socket has never been connected: `EPOLLHUP`.
    pub const WRITE_CLOSED: Self = Self(8);
    /// An error waits for `take_error`: `EPOLLERR`.
    pub const ERROR: Self = Self(16);

    /// Tells whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Tells whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What is in this set and not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Adds `other` if `condition` holds.
    pub(crate) fn set_if(&mut self, condition: bool, other: Self) {
        if condition {
            *self |= other;
        }
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(Ready, &str); 5] = [
            (Ready::READABLE, "readable"),
            (Ready::WRITABLE, "writable"),
            (Ready::READ_CLOSED, "read-closed"),
            (Ready::WRITE_CLOSED, "write-closed"),
            (Ready::ERROR, "error"),
        ];
        let names: Vec<_> = NAMES
            .iter()
            .filter(|(bit, _)| self.contains(*bit))
            .map(|(_, name)| *name)
            .collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join("|"))
    }
}
