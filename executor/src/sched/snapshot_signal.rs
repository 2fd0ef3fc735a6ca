//! A signal that asks for a snapshot.
//!
//! The handler writes a byte to a socket, and a thread of its own reads it: so the file is written
//! also while no task can run, which is when one sends that signal. At the end of the runtime the
//! handler lets go of its end of the socket, and the thread sees that.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
};

use signal_hook::{
    SigId,
    low_level::{pipe, unregister},
};

use super::{Shared, snapshots::Why};
use crate::{
    permit::phase::ShutdownEnv,
    sync::{Mutex, thread},
};

/// The handler of a runtime, while there is one.
#[derive(Debug, Default)]
pub(super) struct Listening(Mutex<Option<SigId>>);

/// Whether a program may have a handler for this signal.
pub(crate) fn may_listen(signal: i32) -> bool {
    signal > 0 && !signal_hook::consts::FORBIDDEN.contains(&signal)
}

impl Shared {
    /// Begins to listen, if that is wanted. Once, when the runtime is built.
    pub(crate) fn listen_for_snapshots(&self) -> io::Result<()> {
        let Some(signal) = self.snapshots.signal() else {
            return Ok(());
        };
        if self.threads.sim_threads.is_some() {
            return Ok(());
        }
        let (mut heard, told) = UnixStream::pair()?;
        let handler = pipe::register(signal, told)?;
        *self.snapshots.listening.0.lock() = Some(handler);
        let shared = self.strong();
        let builder = thread::Builder::new().name(format!("{}-sig", self.config.name));
        let started = self.start(builder, move || {
            let mut bytes = [0; 64];
            // An end of the file is the end of the runtime. No other error comes.
            while heard.read(&mut bytes).is_ok_and(|read| read > 0) {
                shared.snapshot(Why::Signal);
            }
            shared.join_the_one_before();
        });
        if started.is_err() {
            self.ignore_snapshot_signal();
        }
        started
    }

    /// Lets the thread end.
    pub(super) fn ignore_snapshot_signal(&self) {
        if let Some(handler) = self.snapshots.listening.0.lock().take() {
            unregister(handler);
        }
    }
}
