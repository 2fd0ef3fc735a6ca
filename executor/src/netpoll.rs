//! The netpoll of the current runtime, and what is counted of its sockets, for the crate that builds them.

use std::io;

use ws_reactor::Netpoll;

use crate::{
    context,
    sched::Shared,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::report,
};

/// The netpoll of this thread's current runtime, if there is one.
pub fn current() -> Option<Arc<Netpoll>> {
    context::with_current(|current| current.map(|(shared, _)| shared.netpoll.clone()))
}

/// Counts and reports that a listener waits, since the system has no room for a connection. False outside of a
/// runtime: then there is no timer to wait by.
pub fn accept_waits(error: &io::Error) -> bool {
    context::with_current(|current| {
        current
            .map(|(shared, _)| shared.accept_waits(error))
            .is_some()
    })
}

impl Shared {
    fn accept_waits(&self, error: &io::Error) {
        let count = self.accepts_delayed.fetch_add(1, Relaxed) + 1;
        if self.accept_reports.passes() {
            report(|| tracing::warn!(%error, count, "no room for a connection: accept waits"));
        }
    }
}
