//! How the end of a child is seen on Windows.

use std::{
    io,
    os::windows::io::AsHandle,
    process::{self, ExitStatus},
    sync::Arc,
    task::{Context, Poll, ready},
};

use ws_reactor::{ExitWatch, Netpoll};

/// What tells of the end.
#[derive(Debug)]
pub(super) struct Exit(ExitWatch);

impl Exit {
    pub(super) fn of(child: &process::Child, _: &Arc<Netpoll>) -> io::Result<Self> {
        ExitWatch::new(child.as_handle()).map(Self)
    }

    /// Polls for the end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        child: &mut process::Child,
    ) -> Poll<io::Result<ExitStatus>> {
        ready!(self.0.poll_ended(cx));
        Poll::Ready(child.wait())
    }

    /// Takes a child that nobody waits for any more: the drop of its handle is all.
    pub(super) fn leave(self, _: process::Child) {}
}

pub(super) fn push_orphan(_: process::Child) {}

pub(super) fn reap_orphans() {}
