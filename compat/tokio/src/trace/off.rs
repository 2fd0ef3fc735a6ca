//! Nothing, where `on.rs` has spans.

use std::{marker::PhantomData, task::Poll};

use ws_executor::task::JoinHandle as WsJoinHandle;

use crate::{task::JoinHandle, time::Instant};

pub(crate) struct Name<'a>(PhantomData<&'a str>);

impl Name<'_> {
    pub(crate) const NONE: Self = Self(PhantomData);
}

#[must_use = "it opens the span"]
pub(crate) struct Opening(());

impl Opening {
    #[inline]
    pub(crate) fn open<T>(self, handle: WsJoinHandle<T>) -> JoinHandle<T> {
        JoinHandle::of(handle)
    }
}

#[inline]
pub(crate) fn task<F>(
    future: F,
    _kind: &'static str,
    _name: Name<'_>,
    _original_size: usize,
) -> (F, Opening) {
    (future, Opening(()))
}

#[inline]
pub(crate) fn blocking<F>(f: F, _name: Name<'_>, _original_size: usize) -> (F, Opening) {
    (f, Opening(()))
}

#[inline]
pub(crate) fn block_on<F>(future: F, _original_size: usize) -> F {
    future
}

pub(crate) struct Unseen;

impl Unseen {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn end(&mut self) {}
}

#[derive(Debug)]
pub(crate) struct Op;

impl Op {
    #[inline]
    pub(crate) fn sleep() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn reset(&mut self, _deadline: Instant) {}

    #[inline]
    pub(crate) fn enter(&self) -> Entered {
        Entered
    }
}

pub(crate) struct Entered;

impl Entered {
    #[inline]
    pub(crate) fn polled<T>(&self, _name: &str, poll: Poll<T>) -> Poll<T> {
        poll
    }

    #[inline]
    pub(crate) fn until(&self, _deadline: Instant) {}
}

#[derive(Debug)]
pub(crate) struct Interval;

impl Interval {
    #[inline]
    pub(crate) fn new() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn tick(&self) -> Op {
        Op
    }
}
