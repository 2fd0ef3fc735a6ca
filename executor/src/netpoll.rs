//! The netpoll of the current runtime, for the crate that builds sockets on it.

use ws_reactor::Netpoll;

use crate::{context, sched::ground::Ground, sync::Arc};

/// The netpoll of this thread's current runtime, if there is one.
///
/// Called on a thread that is no worker, it also sees to it that somebody waits there.
pub fn current() -> Option<Arc<Netpoll>> {
    context::with_current(|current| {
        current.map(|(shared, worker)| {
            if worker.is_none() {
                shared.start_poller();
            }
            shared.netpoll.clone()
        })
    })
}
