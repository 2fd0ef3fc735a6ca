//! Faults. Those of the network are done at once, those of a host between two steps.

use std::{fmt, rc::Rc, time::Duration};

use super::{Main, Phase, Sim, nanos};
use crate::network::{HostId, Link};

/// What is done to a host between two steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Start(usize),
    Crash(usize),
    CrashHard(usize),
    Restart(usize),
    Pause(usize),
    Resume(usize),
    /// By so many nanoseconds.
    Jump(usize, u64),
    /// By parts per million.
    Drift(usize, i32),
    /// A signal of this number.
    Signal(usize, i32),
}

/// Hosts by their names, in small or capital letters. They panic for a name that no host has. After
/// the run they do nothing.
impl Sim {
    /// Stops a host: its sockets vanish without a packet, and its tasks are dropped.
    #[track_caller]
    pub fn crash(&self, host: impl AsRef<str>) {
        self.command(Command::Crash(self.index(host)));
    }

    /// Stops a host as a loss of power does: nothing of it runs any more, and no destructor. Its
    /// disk loses what any crash loses.
    ///
    /// So a lock that a guard holds in memory that hosts share stays locked, and a channel between
    /// them stays open. A [`restart`](Self::restart) begins anew.
    ///
    /// Destructors run when the run is over, as those of hosts that still run then. So the memory
    /// and the numbers of its descriptors are free after the run, and not before: some 45 kB for
    /// the runtime of a host, and what its tasks own.
    ///
    /// ```
    /// use std::{cell::Cell, rc::Rc};
    /// use ws_sim::{Sim, secs};
    ///
    /// struct Guard(Rc<Cell<bool>>);
    /// impl Drop for Guard {
    ///     fn drop(&mut self) {
    ///         self.0.set(true);
    ///     }
    /// }
    ///
    /// let (sim, dropped) = (Sim::new(1), Rc::new(Cell::new(false)));
    /// let (guarded, seen) = (dropped.clone(), dropped.clone());
    /// sim.host("server", move || {
    ///     let guard = Guard(guarded.clone());
    ///     async move {
    ///         std::future::pending::<()>().await;
    ///         drop(guard);
    ///     }
    /// });
    /// sim.client("client", async move {
    ///     ws::time::sleep(secs(2)).await;
    ///     assert!(!seen.get());
    /// });
    /// sim.after(secs(1), |sim| sim.crash_hard("server"));
    /// sim.try_run()?;
    /// assert!(dropped.get());
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    #[track_caller]
    pub fn crash_hard(&self, host: impl AsRef<str>) {
        self.command(Command::CrashHard(self.index(host)));
    }

    /// Starts a host again with its `main`. One that runs crashes first.
    ///
    /// # Panics
    ///
    /// If it is a client, whose program can run only once.
    #[track_caller]
    pub fn restart(&self, host: impl AsRef<str>) {
        let name = host.as_ref();
        let index = self.index(name);
        assert!(
            self.inner
                .hosts
                .borrow()
                .get(index)
                .is_none_or(|host| !host.main.is_client()),
            "{name:?} is a client, whose program runs once: add it with `Sim::host`"
        );
        self.command(Command::Restart(index));
    }

    /// Lets a host stand still. What is sent to it arrives in the meantime.
    #[track_caller]
    pub fn pause(&self, host: impl AsRef<str>) {
        self.command(Command::Pause(self.index(host)));
    }

    /// Lets a host go on after a [`pause`](Self::pause).
    #[track_caller]
    pub fn resume(&self, host: impl AsRef<str>) {
        self.command(Command::Resume(self.index(host)));
    }

    /// Sets how many nanoseconds a host's calendar (`SystemTime`) is ahead, or behind if it is
    /// negative. Its `Instant`s and timers do not change. A calendar that would be before 1970
    /// stands at its begin, and so do the times of files.
    #[track_caller]
    pub fn skew(&self, host: impl AsRef<str>, nanoseconds: i64) {
        let index = self.index(host);
        self.inner.world.borrow_mut().hosts[index].skew = nanoseconds;
        self.note_fault(
            index,
            &format!("has a calendar that is {nanoseconds} ns ahead"),
        );
    }

    /// Lets a host's monotonic clock jump forward, and its calendar with it. Timers that are due by
    /// the new time fire at once. A clock jumps to 146 years at most.
    ///
    /// Clocks go on through crashes. The kernel's own timers, those of TCP, keep to the true time.
    ///
    /// ```
    /// use std::time::Instant;
    /// use ws_sim::{Sim, secs};
    ///
    /// let sim = Sim::new(1);
    /// sim.client("client", async {
    ///     let begin = Instant::now();
    ///     ws::time::sleep(secs(3600)).await;
    ///     assert!(begin.elapsed() >= secs(3600));
    /// });
    /// sim.after(secs(1), |sim| sim.jump("client", secs(3600)));
    /// sim.try_run()?;
    /// assert_eq!(sim.elapsed(), secs(1));
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    #[track_caller]
    pub fn jump(&self, host: impl AsRef<str>, by: Duration) {
        self.command(Command::Jump(self.index(host), nanos(by)));
    }

    /// Lets a host's clocks run faster than the true time, by parts per million, or slower if the
    /// number is negative. 0 lets them keep to it again, at what they show then.
    ///
    /// # Panics
    ///
    /// If the clock would stand still or go back: below -999,999.
    ///
    /// ```
    /// use ws_sim::{Sim, secs};
    ///
    /// let sim = Sim::new(1);
    /// sim.client("client", async { ws::time::sleep(secs(100)).await });
    /// sim.drift("client", -200_000);
    /// sim.try_run()?;
    /// assert_eq!(sim.elapsed(), secs(125));
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    #[track_caller]
    pub fn drift(&self, host: impl AsRef<str>, parts_per_million: i32) {
        assert!(
            parts_per_million > -1_000_000,
            "a clock with a drift of {parts_per_million} parts per million would not go on: \
             give a number from -999999 on"
        );
        self.command(Command::Drift(self.index(host), parts_per_million));
    }

    /// Lets each step of a host take so much simulated time. A step is mostly one poll of a task.
    /// With zero, as at first, a step takes none.
    ///
    /// What a step sends leaves at its end. A crash or a signal that ends the program before that
    /// keeps it from leaving, and after a [`pause`](Self::pause) it leaves when the host goes on.
    ///
    /// ```
    /// use ws_sim::{Sim, millis};
    ///
    /// let sim = Sim::new(1);
    /// sim.client("client", async {
    ///     for _ in 0..100 {
    ///         ws::task::yield_now().await;
    ///     }
    /// });
    /// sim.slow("client", millis(1));
    /// sim.try_run()?;
    /// assert!(sim.elapsed() >= millis(100));
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    #[track_caller]
    pub fn slow(&self, host: impl AsRef<str>, step_time: Duration) {
        let index = self.index(host);
        self.inner.world.borrow_mut().hosts[index].step_time = nanos(step_time);
        self.note_fault(index, &format!("takes {step_time:?} for each step"));
    }

    /// Cuts every way between a host of `a` and a host of `b`, until [`heal`](Self::heal).
    #[track_caller]
    pub fn partition<A: AsRef<str>, B: AsRef<str>>(
        &self,
        a: impl IntoIterator<Item = A>,
        b: impl IntoIterator<Item = B>,
    ) {
        let (a, b) = (self.ids(a), self.ids(b));
        self.note_ways("a partition cut", (&a, "from", &b));
        self.inner.world.borrow_mut().net.partition(&a, &b);
    }

    /// Cuts the ways from hosts of `from` to hosts of `to`. The ways back stay.
    #[track_caller]
    pub fn partition_one_way<A: AsRef<str>, B: AsRef<str>>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) {
        let (from, to) = (self.ids(from), self.ids(to));
        self.note_ways("a partition cut the ways of", (&from, "to", &to));
        self.inner
            .world
            .borrow_mut()
            .net
            .partition_one_way(&from, &to);
    }

    /// Ends all partitions.
    pub fn heal(&self) {
        let net = &mut self.inner.world.borrow_mut().net;
        net.note_event(None, || "all partitions ended".to_owned());
        net.heal();
    }

    /// Keeps what hosts of `from` send to hosts of `to`, until [`release`](Self::release).
    #[track_caller]
    pub fn hold<A: AsRef<str>, B: AsRef<str>>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) {
        let (from, to) = (self.ids(from), self.ids(to));
        self.note_ways("was held: what is sent from", (&from, "to", &to));
        self.inner.world.borrow_mut().net.hold(&from, &to);
    }

    /// Lets go what a [`hold`](Self::hold) has kept.
    #[track_caller]
    pub fn release<A: AsRef<str>, B: AsRef<str>>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) {
        let (from, to) = (self.ids(from), self.ids(to));
        self.note_ways("was let go: what is sent from", (&from, "to", &to));
        self.inner.world.borrow_mut().net.release(&from, &to);
    }

    /// Sets the link from one host to another. The way back keeps its own.
    ///
    /// # Panics
    ///
    /// Also if its latency has a `min` above its `max`.
    #[track_caller]
    pub fn set_link(&self, from: impl AsRef<str>, to: impl AsRef<str>, link: Link) {
        let (from, to) = (self.ids([from])[0], self.ids([to])[0]);
        self.inner.world.borrow_mut().net.set_link(from, to, link);
    }

    /// Sets the link of all pairs of hosts that have none of their own.
    ///
    /// # Panics
    ///
    /// If its latency has a `min` above its `max`.
    #[track_caller]
    pub fn set_default_link(&self, link: Link) {
        self.inner.world.borrow_mut().net.set_default_link(link);
    }

    /// Notes a fault that is done to a host. The text begins with what comes after its name.
    pub(super) fn note_fault(&self, host: usize, text: &str) {
        let mut world = self.inner.world.borrow_mut();
        if world.net.log().is_some() && self.inner.phase.get() != Phase::Over {
            let text = format!("host {:?} {text}", world.name(host));
            world.net.note_event(None, || text);
        }
    }

    pub(super) fn note_command(&self, command: Command) {
        match command {
            Command::Start(_) => {}
            Command::Crash(host) => self.note_fault(host, "crashed"),
            Command::CrashHard(host) => self.note_fault(host, "lost its power"),
            Command::Restart(host) => self.note_fault(host, "restarted"),
            Command::Pause(host) => self.note_fault(host, "was paused"),
            Command::Resume(host) => self.note_fault(host, "went on"),
            Command::Signal(host, number) => {
                self.note_fault(host, &format!("was sent signal {number}"));
            }
            Command::Jump(host, by) => {
                let by = Duration::from_nanos(by);
                self.note_fault(host, &format!("has clocks that jumped by {by:?}"));
            }
            Command::Drift(host, ppm) => {
                self.note_fault(host, &format!("has clocks that drift by {ppm} ppm"));
            }
        }
    }

    /// Notes a fault of the ways between hosts.
    pub(super) fn note_ways(&self, what: &str, (a, to, b): (&[HostId], &str, &[HostId])) {
        let net = &mut self.inner.world.borrow_mut().net;
        let names = |hosts: &[HostId]| {
            let names: Vec<_> = hosts.iter().map(|&host| net.host_name(host)).collect();
            format!("{names:?}")
        };
        if net.log().is_some() {
            let text = format!("{what} {} {to} {}", names(a), names(b));
            net.note_event(None, || text);
        }
    }

    pub(super) fn command(&self, command: Command) {
        if self.inner.phase.get() != Phase::Over {
            self.inner.commands.borrow_mut().push_back(command);
        }
    }

    #[track_caller]
    pub(super) fn index(&self, name: impl AsRef<str>) -> usize {
        let name = name.as_ref();
        let names = self.inner.names.borrow();
        match names.get(&name.to_ascii_lowercase()) {
            Some(index) => *index,
            None => {
                let world = self.inner.world.borrow();
                let known: Vec<_> = names.values().map(|index| world.name(*index)).collect();
                panic!("no host is named {name:?}: the hosts are {known:?}")
            }
        }
    }

    #[track_caller]
    pub(super) fn ids<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Vec<HostId> {
        let mut ids = Vec::new();
        for name in names {
            let index = self.index(name);
            ids.push(self.inner.world.borrow().hosts[index].id);
        }
        ids
    }
}

impl fmt::Debug for Main {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(main) => write!(f, "host {:p}", Rc::as_ptr(main)),
            Self::Client(_) => f.write_str("client"),
        }
    }
}
