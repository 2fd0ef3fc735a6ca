//! Signals that a host gets.
//!
//! A listener of `ws::signal` in a host is one of that host's runtime. If none has ever listened
//! for a signal, the system's default happens: the process ends, stands still, goes on, or nothing.
//! A handler that a listener has set stays until the process ends.
//!
//! A process that ends is not a host that crashes. The kernel stays: it sends what is in the send
//! buffers, then the end of each stream, and refuses new connections. What was written to files
//! stays in the cache of the disk. Whatever the process had open is closed, and the next one begins
//! with a folder and a umask of its own.

use super::{Sim, faults::Command};
use crate::world::as_host;

/// What Linux ignores if nobody listens for it, and `SIGPIPE`, which programs in Rust ignore.
const IGNORED: [i32; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGPIPE];

/// What lets a process stand still if nobody listens for it.
const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// What nobody can listen for.
const SURE: [i32; 2] = [libc::SIGKILL, libc::SIGSTOP];

impl Sim {
    /// Sends a signal to a host, by its number: `ws::signal` of that host hears of it, and no other
    /// host does.
    ///
    /// If nothing there has ever listened for it, what Linux does happens: `SIGTERM`, `SIGINT` and
    /// most others end the program, and so does `SIGKILL` always. The host's sockets are closed
    /// then, so its peers see the end of their connections, unlike after a [`crash`](Self::crash).
    /// New connections are refused, and files have what was written, and are closed. A
    /// [`restart`](Self::restart) starts it again. A paused host hears of it when it goes on, but
    /// for `SIGKILL`. `SIGSTOP` and its like are a [`pause`](Self::pause), and `SIGCONT` is a
    /// [`resume`](Self::resume).
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
        let is_heard = !SURE.contains(&signal) && as_host(index, || machine.raise(signal));
        drop(machine);
        if signal == libc::SIGCONT {
            return self.resume_host(index);
        }
        if is_heard || IGNORED.contains(&signal) {
            return;
        }
        if STOPS.contains(&signal) {
            return self.pause_host(index);
        }
        {
            let host = &mut self.inner.hosts.borrow_mut()[index];
            if host.is_paused && signal != libc::SIGKILL {
                host.signals.push(signal);
                return;
            }
        }
        self.inner.world.borrow_mut().end_process_of(index);
        self.end_program(index);
    }

    pub(super) fn pause_host(&self, index: usize) {
        self.inner.hosts.borrow_mut()[index].is_paused = true;
        let mut world = self.inner.world.borrow_mut();
        let id = world.hosts[index].id;
        world.net.stop_program(id);
    }

    pub(super) fn resume_host(&self, index: usize) {
        {
            let mut world = self.inner.world.borrow_mut();
            let id = world.hosts[index].id;
            world.net.resume_program(id);
        }
        let signals = {
            let host = &mut self.inner.hosts.borrow_mut()[index];
            host.is_paused = false;
            std::mem::take(&mut host.signals)
        };
        for signal in signals {
            self.raise(index, signal);
        }
    }
}
