//! The one door to the kernel's poll: mio and the timer of `sys.rs` in life, and in a model the
//! kernel of `models/kernel.rs`. The rest of this crate is the same in both.

#[cfg(not(all(test, ws_loom)))]
pub(crate) use crate::sys::Timer;
#[cfg(not(all(test, ws_loom)))]
pub(crate) use mio::{
    Events, Poll, Registry, Waker,
    event::{Event, Source},
};

#[cfg(all(test, ws_loom))]
pub(crate) use crate::models::kernel::{Event, Events, Poll, Registry, Source, Timer, Waker};
