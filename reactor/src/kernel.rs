//! The one door to the kernel's poll: in life mio, the timer of `sys.rs`, and the waker of
//! `poll_waker.rs`; in a model the kernel of `models/kernel.rs`. The rest of this crate is the same
//! in both.

#[cfg(not(all(test, ws_loom)))]
pub(crate) use crate::{poll_waker::PollWaker, sys::Timer};
#[cfg(not(all(test, ws_loom)))]
pub(crate) use mio::{
    Events, Poll, Registry,
    event::{Event, Source},
};

#[cfg(all(test, ws_loom))]
pub(crate) use crate::models::kernel::{
    Event, Events, Poll, Registry, Source, Timer, Waker as PollWaker,
};
