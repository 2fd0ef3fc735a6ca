//! Signals that a host gets.
//!
//! A listener of `ws::signal` in a host is one of that host's runtime. If none listens for a
//! signal, the system's default happens: the process ends, or nothing.

use super::{Sim, faults::Command};
use crate::world::as_host;

/// What Linux ignores if nobody listens for it.
const IGNORED: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

impl Sim {
    /// Sends a signal to a host, by its number: `ws::signal` of that host hears of it, and no other
    /// host does.
    ///
    /// If nothing there listens for it, what Linux does happens: `SIGTERM`, `SIGINT` and most
    /// others end the program, and so does `SIGKILL` always. The host's sockets are closed then, so
    /// its peers see the end of their connections, unlike after a [`crash`](Self::crash). A
    /// [`restart`](Self::restart) starts it again. A paused host hears of it when it goes on.
    ///
    /// # Panics
    ///
    /// If no host has this name, or there is no signal of this number.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::signal::unix::{SignalKind, signal};
    /// use ws_sim::Sim;
    ///
    /// let sim = Sim::new(7);
    /// sim.client("server", async {
    ///     let mut terminate = signal(SignalKind::terminate())?;
    ///     terminate.recv().await // and finish what is in flight
    /// });
    /// sim.after(Duration::from_secs(5), |sim| {
    ///     sim.signal("server", SignalKind::terminate().as_raw());
    /// });
    /// sim.try_run()?;
    /// assert_eq!(sim.elapsed(), Duration::from_secs(5));
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    #[track_caller]
    pub fn signal(&self, host: impl AsRef<str>, signal: i32) {
        assert!(
            (1..=64).contains(&signal),
            "there is no signal {signal}: take a number from 1 to 64, such as libc::SIGTERM"
        );
        self.command(Command::Signal(self.index(host), signal));
    }

    pub(super) fn raise(&self, index: usize, signal: i32) {
        let machine = self.inner.hosts.borrow()[index].machine.clone();
        let Some(machine) = machine else { return };
        let is_heard = signal != libc::SIGKILL && as_host(index, || machine.raise(signal));
        drop(machine);
        if is_heard || IGNORED.contains(&signal) {
            return;
        }
        self.inner.world.borrow_mut().close_sockets_of(index);
        self.stop(index);
    }
}
