//! Faults. Those of the network are done at once, those of a host between two steps.

use std::{fmt, rc::Rc};

use super::{Main, Sim};
use crate::network::{HostId, Link};

/// What is done to a host between two steps.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Start(usize),
    Crash(usize),
    Restart(usize),
    Pause(usize),
    Resume(usize),
}

/// Hosts by their names. They panic for a name that no host has.
impl Sim {
    /// Stops a host: its sockets vanish without a packet, and its tasks are dropped.
    #[track_caller]
    pub fn crash(&self, host: impl AsRef<str>) {
        self.order(Order::Crash(self.index(host)));
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
            matches!(self.inner.hosts.borrow()[index].main, Main::Host(_)),
            "{name:?} is a client, whose program runs once: add it with `Sim::host`"
        );
        self.order(Order::Restart(index));
    }

    /// Lets a host stand still. What is sent to it arrives in the meantime.
    #[track_caller]
    pub fn pause(&self, host: impl AsRef<str>) {
        self.order(Order::Pause(self.index(host)));
    }

    /// Lets a host go on after a [`pause`](Self::pause).
    #[track_caller]
    pub fn resume(&self, host: impl AsRef<str>) {
        self.order(Order::Resume(self.index(host)));
    }

    /// Sets how many nanoseconds a host's calendar (`SystemTime`) is ahead, or behind if it is
    /// negative. Its `Instant`s and timers do not change.
    #[track_caller]
    pub fn skew(&self, host: impl AsRef<str>, nanoseconds: i64) {
        let index = self.index(host);
        self.inner.world.borrow_mut().hosts[index].skew = nanoseconds;
        self.note_fault(
            index,
            &format!("has a calendar that is {nanoseconds} ns ahead"),
        );
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
    #[track_caller]
    pub fn set_link(&self, from: impl AsRef<str>, to: impl AsRef<str>, link: Link) {
        let (from, to) = (self.ids([from])[0], self.ids([to])[0]);
        self.inner.world.borrow_mut().net.set_link(from, to, link);
    }

    /// Sets the link of all pairs of hosts that have none of their own.
    pub fn set_default_link(&self, link: Link) {
        self.inner.world.borrow_mut().net.set_default_link(link);
    }

    /// Notes a fault that is done to a host. The text begins with what comes after its name.
    pub(super) fn note_fault(&self, host: usize, text: &str) {
        let net = &mut self.inner.world.borrow_mut().net;
        if net.log().is_some() {
            let hosts = self.inner.hosts.borrow();
            let name = &hosts[host].name;
            net.note_event(None, || format!("host {name:?} {text}"));
        }
    }

    pub(super) fn note_order(&self, order: Order) {
        match order {
            Order::Start(_) => {}
            Order::Crash(host) => self.note_fault(host, "crashed"),
            Order::Restart(host) => self.note_fault(host, "restarted"),
            Order::Pause(host) => self.note_fault(host, "was paused"),
            Order::Resume(host) => self.note_fault(host, "went on"),
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

    pub(super) fn order(&self, order: Order) {
        self.inner.orders.borrow_mut().push_back(order);
    }

    #[track_caller]
    pub(super) fn index(&self, name: impl AsRef<str>) -> usize {
        let name = name.as_ref();
        let names = self.inner.names.borrow();
        match names.get(name) {
            Some(index) => *index,
            None => {
                let known: Vec<_> = names.keys().collect();
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
