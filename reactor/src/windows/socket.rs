//! A socket in the netpoll. An island of `unsafe` code.
//!
//! # How it works
//!
//! Windows has no readiness. mio asks the driver of sockets (`\Device\Afd`) for one report, and the
//! report comes once. What was reported is not asked for again until mio is told so, by
//! `reregister`. mio's own sockets do that at each operation that "would block". So a [`Watch`] is
//! one of mio's sockets with the number of the user's, and [`Watch::rearm`] is such an operation.
//!
//! A registration rearms its watch wherever readiness is found untrue, just before the readiness is
//! cleared. A report that comes in between has a newer tick, and the clear respects it.
//!
//! *Invariant*: if a direction of a socket does not count as ready, a report of it is under way.
//!
//! # Ownership
//!
//! The socket is the user's. The watch gives the number back on drop (`into_raw_socket`), and
//! closes nothing. It neither reads nor writes. mio looks at the number once, at the registration.
//!
//! Rejected: mio's sockets in the place of std's. The types above would differ from those on Unix,
//! and mio has none for listeners that are made with options.

#![expect(
    unsafe_code,
    reason = "a socket of mio's with the number of another, and a flag of a handle"
)]

use std::{
    io,
    os::windows::io::{AsRawSocket, FromRawSocket, IntoRawSocket},
    sync::Arc,
};

use mio::{Interest, Registry, Token, event::Source, net::TcpStream};
use windows_sys::Win32::Foundation::{HANDLE, HANDLE_FLAG_INHERIT, SetHandleInformation};

use crate::{Netpoll, Registration, sync::Mutex};

/// What a registration has of its socket. Empty for a source that is not a socket.
#[derive(Debug)]
pub(crate) struct Watch(Mutex<Option<TcpStream>>);

impl Watch {
    pub(crate) fn none() -> Self {
        Self(Mutex::new(None))
    }

    /// The socket has to be there until this is dropped. Its kind does not matter: a UDP socket and
    /// a listener are watched by the same call.
    fn of(socket: &impl AsRawSocket) -> Self {
        // SAFETY: the socket is not ours to close, and `drop` gives its number back without closing
        // it. Until then nothing but mio's `register`, `reregister` and `deregister` uses it. A
        // number that is no socket's is an error of `register`.
        let watch = unsafe { TcpStream::from_raw_socket(socket.as_raw_socket()) };
        Self(Mutex::new(Some(watch)))
    }

    /// Asks for the next report of the socket.
    pub(crate) fn rearm(&self) {
        if let Some(socket) = &*self.0.lock() {
            let blocked = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // An error of the driver: the next operation of the user's meets it.
            let _would_block = socket.try_io(blocked);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(socket) = self.0.lock().take() {
            let _the_users = socket.into_raw_socket();
        }
    }
}

impl Source for &Watch {
    fn register(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        with(self, |socket| socket.register(registry, token, of))
    }

    fn reregister(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        with(self, |socket| socket.reregister(registry, token, of))
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        with(self, |socket| socket.deregister(registry))
    }
}

fn with(watch: &Watch, f: impl FnOnce(&mut TcpStream) -> io::Result<()>) -> io::Result<()> {
    let mut socket = watch.0.lock();
    socket
        .as_mut()
        .map_or_else(|| Err(io::ErrorKind::NotFound.into()), f)
}

/// Keeps a socket from the programs that this one starts. What `accept` returns would go there, and
/// the connection would be open until they end.
///
/// # Errors
///
/// What the system says.
pub fn keep_from_children(socket: &impl AsRawSocket) -> io::Result<()> {
    let handle = socket.as_raw_socket() as HANDLE;
    // SAFETY: the call has no pointers, and a socket is a handle. A number that is none is an
    // error.
    if unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Registration {
    /// Registers a socket of any kind. It has to be there until
    /// [`leave_socket`](Self::leave_socket) or the drop.
    ///
    /// # Errors
    ///
    /// As [`Registration::new`].
    pub fn of_socket(
        netpoll: &Arc<Netpoll>,
        socket: &impl AsRawSocket,
        interest: Interest,
    ) -> io::Result<Self> {
        let watch = Watch::of(socket);
        let mut registration = Self::new(netpoll, &mut &watch, interest)?;
        // Its number is small in practice. It is for readers.
        if let Ok(number) = i32::try_from(socket.as_raw_socket()) {
            registration.note_descriptor(number);
        }
        registration.watch = watch;
        Ok(registration)
    }

    /// [`Registration::leave`] for a socket.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn leave_socket(&mut self) -> io::Result<()> {
        let watch = std::mem::replace(&mut self.watch, Watch::none());
        self.leave(&mut &watch)
    }

    /// [`Registration::deregister`] for a socket.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn deregister_socket(&self) -> io::Result<()> {
        self.deregister(&mut &self.watch)
    }
}
