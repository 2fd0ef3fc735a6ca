//! The netpoll of the current runtime, for the crate that builds sockets on it.

use ws_reactor::Netpoll;

use crate::{context, sync::Arc};

/// The netpoll of this thread's current runtime, if there is one.
pub fn current() -> Option<Arc<Netpoll>> {
    context::with_current(|current| current.map(|(shared, _)| shared.netpoll.clone()))
}
