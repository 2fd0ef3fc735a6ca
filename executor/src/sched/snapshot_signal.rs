//! A signal that asks for a snapshot.
//!
//! The handler writes a byte to a socket, and a thread of its own reads it: so the file is written
//! also while no task can run, which is when one sends that signal. The end of the runtime shuts
//! the socket down, and the thread sees that. To close it would not be enough: a process that was
//! forked has it, too.

use std::{
    io::{self, ErrorKind, Read},
    net::Shutdown,
    os::unix::net::UnixStream,
};

use signal_hook::low_level::{pipe, unregister};

use super::{Shared, state::snapshot_files::Why};
use crate::{permit::phase::ShutdownEnv, sync::thread};

impl Shared {
    /// Begins to listen, if that is wanted. Once, when the runtime is built.
    pub(crate) fn listen_for_snapshots(&self) -> io::Result<()> {
        let Some(signal) = self.telling.snapshots.signal() else {
            return Ok(());
        };
        let (mut heard, told) = UnixStream::pair()?;
        let end = told.try_clone()?;
        let handler = pipe::register(signal, told)?;
        *self.telling.snapshots.listening.0.lock() = Some((handler, end));
        let shared = self.strong();
        let builder = thread::Builder::new().name(format!("{}-sig", self.config.name));
        let started = self.start(builder, move || {
            let mut bytes = [0; 64];
            loop {
                match heard.read(&mut bytes) {
                    Ok(1..) => _ = shared.snapshot(Why::Signal),
                    // Another signal, whose handler was set to end system calls.
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // The runtime ends. No other error comes.
                    Ok(0) | Err(_) => break,
                }
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
        if let Some((handler, end)) = self.telling.snapshots.listening.0.lock().take() {
            unregister(handler);
            // It was not shut down before, so there is no error.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}
