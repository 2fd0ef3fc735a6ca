//! What this package knows of a runtime, which the runtime of `ws` carries.
//!
//! A runtime that was built by `ws` itself has none: it has all drivers, and the multi-thread
//! flavour.

use std::{
    fmt,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use ws_executor::task::Spawner;

use super::RuntimeFlavor;
use crate::signal::unix::Listeners;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.Id.html).
#[derive(Clone, Copy, Debug, Hash, Eq, PartialEq)]
pub struct Id(NonZeroU64);

impl Id {
    /// That of a runtime which `ws` has built. Addresses are beyond all numbers that are counted.
    pub(crate) fn of_address(address: usize) -> Self {
        Self(NonZeroU64::new(address as u64).expect("an address is not 0"))
    }

    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Relaxed)).expect("2^64 runtimes are too many"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: Id,
    pub(crate) name: Option<String>,
    pub(crate) io: bool,
    pub(crate) time: bool,
    /// Of the current-thread flavour: where its tasks go.
    pub(crate) queue: Option<Spawner>,
    /// It is one of a `LocalRuntime`.
    pub(crate) local: bool,
    pub(crate) listeners: Listeners,
}

impl Host {
    pub(crate) fn of(ws: &ws_executor::runtime::Handle) -> Option<Arc<Self>> {
        ws.host().and_then(|host| host.clone().downcast().ok())
    }

    pub(crate) fn flavor(&self) -> RuntimeFlavor {
        match self.queue {
            Some(_) => RuntimeFlavor::CurrentThread,
            None => RuntimeFlavor::MultiThread,
        }
    }
}

/// What is known of the current runtime. None outside of one; `Some(None)` if `ws` has built it.
pub(crate) fn with_host<R>(f: impl FnOnce(Option<Option<&Host>>) -> R) -> R {
    ws_executor::runtime::with_host(|host| {
        f(host.map(|host| host.and_then(|host| host.downcast_ref())))
    })
}
