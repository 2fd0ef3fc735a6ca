//! Unix, where it is not alike on all systems of `ws`. `windows.rs` is its counterpart.

mod descriptor;

pub use descriptor::{stderr_now, wait_readable, wait_writable};

/// What a registration has of its socket: nothing. epoll and kqueue report each edge unasked.
#[derive(Debug)]
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn none() -> Self {
        Self
    }

    /// Asks for the next event of the socket.
    #[inline]
    pub(crate) fn rearm(&self) {}
}
