//! Nothing, where `on.rs` has spans.

use std::marker::PhantomData;

use ws_executor::task::JoinHandle as WsJoinHandle;

use crate::task::JoinHandle;

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
pub(crate) fn task<F>(future: F, _kind: &'static str, _name: Name<'_>) -> (F, Opening) {
    (future, Opening(()))
}

#[inline]
pub(crate) fn blocking<F>(f: F, _name: Name<'_>) -> (F, Opening) {
    (f, Opening(()))
}

#[inline]
pub(crate) fn block_on<F>(future: F) -> F {
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
