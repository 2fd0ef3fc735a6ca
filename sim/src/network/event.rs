//! The queue of what happens by itself: packets that arrive and timers that fire.
//!
//! Events of the same time happen in the order in which they were added. So a run does not depend
//! on how the queue is built. A timer is cancelled by its key, so no dead event stays in the queue
//! and `next_event` never names a time at which nothing happens.

use std::collections::BTreeMap;

use super::{HostId, packet::Packet, ports::Pair};

/// The place of an event in the queue: its time in nanoseconds, and its number.
pub(crate) type EventKey = (u64, u64);

/// Small, since the queue moves its entries.
#[derive(Debug)]
pub(crate) enum Event {
    Arrival {
        from: HostId,
        to: HostId,
        packet: Box<Packet>,
    },
    /// A packet of a program that is ahead of the network leaves: see `tcp/late.rs`.
    Departure { from: HostId, packet: Box<Packet> },
    /// A timer of the socket in this slot. It is cancelled before the slot is freed.
    Timer(usize, Timer),
    /// A file of a host wants to know of a time.
    Alarm(HostId, usize),
    /// The end of a TIME_WAIT.
    Forget(HostId, Pair),
}

/// The timers of a socket: all but the last one are TCP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retransmission, and the probe of a closed window.
    Retransmit,
    /// The keep-alive probe.
    KeepAlive,
    /// What the program has done at a later time than the network's.
    Late,
    /// The end of a FIN_WAIT2 that no program waits for.
    Orphan,
    /// A datagram has left the queue of a slow link, and so the send buffer.
    Left,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: BTreeMap<EventKey, Event>,
    added: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: u64, event: Event) -> EventKey {
        self.added += 1;
        self.queue.insert((at, self.added), event);
        (at, self.added)
    }

    pub(crate) fn cancel(&mut self, key: EventKey) {
        self.queue.remove(&key);
    }

    pub(crate) fn next_time(&self) -> Option<u64> {
        self.queue.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes the first event, if its time is not after `now`.
    pub(crate) fn take(&mut self, now: u64) -> Option<(EventKey, Event)> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now).then(|| first.remove_entry())
    }

    /// Takes some events, each with its time, in their order.
    pub(crate) fn take_all(&mut self, which: impl Fn(&Event) -> bool) -> Vec<(u64, Event)> {
        let queue = std::mem::take(&mut self.queue);
        let (taken, left) = queue.into_iter().partition(|(_, event)| which(event));
        self.queue = left;
        let taken: BTreeMap<EventKey, Event> = taken;
        let taken = taken.into_iter().map(|((at, _), event)| (at, event));
        taken.collect()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Event) -> bool) {
        self.queue.retain(|_, event| keep(event));
    }
}
