//! The process at the other side of a Unix stream.

use super::{gid_t, pid_t, uid_t};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/struct.UCred.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pub(super) pid: Option<pid_t>,
    pub(super) uid: uid_t,
    pub(super) gid: gid_t,
}

impl UCred {
    /// The user.
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// The group.
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// The process, where the system tells.
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }
}
