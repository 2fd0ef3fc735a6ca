//! Plans of faults: which of them happen in a run, drawn from the seed.
//!
//! # How it works
//!
//! A [`Plan`] says what may go wrong, how often, and until when. Before the run the seed makes a
//! list of it: faults with their times, their hosts and their ends (`plan/fault.rs`). So a failure
//! can say what was planned, in words, and [`check()`](crate::check()) can run the same seed with
//! some of the faults left out (`plan/smallest.rs`).
//!
//! ```text
//! Plan  --seed-->  [Fault { at, lasts, what }]  --Sim::after-->  begin, and end
//! ```
//!
//! To draw the list: the time to the next fault is exponential. Its kind is drawn by the weights,
//! then its hosts, then how long it lasts. A fault that would touch what another one has in its
//! hands at that time is drawn again, up to [`TRIES`] times, and then left out. So each fault can
//! begin and end without a look at the others, whichever of them are left out.
//!
//! [`Plan::swarm`] lets each seed have its own plan (swarm testing: Groce et al., ISSTA 2012). If
//! all kinds are in each run, the rare ones hide behind the frequent ones: a leader that crashes
//! every second is never cut off for long with a wrong calendar.
//!
//! *Invariants*:
//!
//! 1. The list is a function of the seed, the plan and the names of the hosts. It has a generator
//!    of its own. So nothing else of the run changes its draws when a fault is left out.
//! 2. Each fault has ended at [`Plan::quiet_after`]. From then on a program has to come to its end.
//!
//! # Rejected
//!
//! - To draw each fault when it happens: a run that leaves one out would draw others after it.
//! - Faults that overlap on one host, such as a crash in a pause: what the end of one does while
//!   the other goes on needs a count for each host and each way.
//!
//! To add a kind: [`FaultKind`] and its weight here, and `What` in `plan/fault.rs`.

mod fault;
mod smallest;

use std::{collections::BTreeMap, time::Duration};

pub(crate) use self::{
    fault::{Fault, Host},
    smallest::{Drawn, Kept, smallest},
};
use crate::rng::Rng;

/// The most faults of a plan, by its length and its mean: a list of more says nothing to a reader.
const MOST: u64 = 100_000;

/// The faults of a seed of a swarm come up to so many times as often as those of its plan.
const SWARM_FASTEST: u64 = 4;

/// Draws of one fault before it is left out.
const TRIES: u32 = 8;

/// What may go wrong. See [`Plan::weight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// A host crashes, and restarts later. Clients never crash.
    Crash,
    /// The same without destructors: see [`Sim::crash_hard`](crate::Sim::crash_hard).
    HardCrash,
    /// A host's program gets `SIGKILL`, and starts again later. Its peers see the end of their
    /// connections. Clients are never killed.
    Kill,
    /// All hosts crash at once, and restart later. Clients do not.
    PowerCut,
    /// A host stands still, and goes on later.
    Pause,
    /// Hosts fall into two groups that do not reach each other.
    Partition,
    /// The same in one direction.
    OneWay,
    /// Packets from some hosts to the others wait, and arrive late.
    Hold,
    /// The link from a host to another takes 20 to 500 ms more.
    SlowLink,
    /// The link from a host to another loses 5 to 50 % of the packets.
    LossyLink,
    /// The calendar of a host is wrong by up to a minute.
    Clock,
    /// The clocks of a host jump forward by up to ten seconds.
    Jump,
    /// Each step of a host takes 1 ms.
    SlowHost,
    /// A sync of a host's disk takes up to half a second. See [`DiskFaults`](crate::DiskFaults).
    SlowDisk,
    /// Calls of a host's disk fail with `EIO`, one in ten. Never, if it has no weight of its own.
    FailingDisk,
    /// A host's disk is full. Never, if it has no weight of its own.
    FullDisk,
}

/// Each kind with its weight at first.
const WEIGHTS: [(FaultKind, u32); 16] = [
    (FaultKind::Crash, 3),
    (FaultKind::HardCrash, 1),
    (FaultKind::Kill, 1),
    (FaultKind::PowerCut, 1),
    (FaultKind::Pause, 3),
    (FaultKind::Partition, 4),
    (FaultKind::OneWay, 2),
    (FaultKind::Hold, 2),
    (FaultKind::SlowLink, 2),
    (FaultKind::LossyLink, 2),
    (FaultKind::Clock, 1),
    (FaultKind::Jump, 1),
    (FaultKind::SlowHost, 1),
    (FaultKind::SlowDisk, 1),
    (FaultKind::FailingDisk, 0),
    (FaultKind::FullDisk, 0),
];

/// What may go wrong in a run, for [`Sim::faults`](crate::Sim::faults). The seed draws the faults.
///
/// ```
/// use std::time::Duration;
/// use ws_sim::{FaultKind, Plan};
///
/// ws_sim::check(0..5, |sim| {
///     sim.host("n0", || std::future::pending::<()>());
///     sim.host("n1", || std::future::pending::<()>());
///     sim.client("client", async { ws::time::sleep(Duration::from_secs(60)).await });
///     let plan = Plan::new()
///         .only([FaultKind::Crash, FaultKind::Partition])
///         .every(Duration::from_secs(2))
///         .quiet_after(Duration::from_secs(20));
///     sim.faults(plan);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    weights: BTreeMap<FaultKind, u32>,
    hosts: Option<Vec<String>>,
    most_down: usize,
    swarm: bool,
    begin: u64,
    quiet_after: u64,
    every: u64,
    lasts: (u64, u64),
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl Plan {
    /// All kinds but `FailingDisk` and `FullDisk`, a fault every 2 seconds in the mean, for 0.1 to
    /// 3 seconds, on all hosts that are no clients. It is quiet after 30 seconds.
    pub fn new() -> Self {
        Self {
            weights: WEIGHTS.into(),
            hosts: None,
            most_down: usize::MAX,
            swarm: false,
            begin: 0,
            quiet_after: 30_000,
            every: 2_000,
            lasts: (100, 3_000),
        }
    }

    /// How often a kind is drawn, compared to the sum of all weights. With 0 it is never drawn.
    pub fn weight(mut self, kind: FaultKind, weight: u32) -> Self {
        self.weights.insert(kind, weight);
        self
    }

    /// These kinds alone, with the weights that they have, or 1 instead of 0.
    pub fn only(mut self, kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        let old = std::mem::take(&mut self.weights);
        for kind in kinds {
            let weight = old.get(&kind).map_or(1, |&weight| weight.max(1));
            self.weights.insert(kind, weight);
        }
        self
    }

    /// Each seed draws which half of the kinds may happen, and how often. Faults come up to four
    /// times as often, or half as often, as [`every`](Self::every) says. Kinds of weight 0 stay so.
    ///
    /// Some bugs need a few faults of two kinds, and no others between them.
    ///
    /// ```
    /// use ws_sim::Plan;
    ///
    /// ws_sim::check(0..5, |sim| {
    ///     sim.host("n0", || std::future::pending::<()>());
    ///     sim.client("client", async { ws::time::sleep(ws_sim::secs(60)).await });
    ///     sim.faults(Plan::new().swarm());
    /// });
    /// ```
    pub fn swarm(mut self) -> Self {
        self.swarm = true;
        self
    }

    /// The hosts that faults happen to, and the ways between these. A client may be one of them.
    /// One that is named twice counts once.
    pub fn hosts<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.hosts = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The number of hosts that may be crashed or paused at the same time. No limit at first.
    pub fn most_down(mut self, hosts: usize) -> Self {
        self.most_down = hosts;
        self
    }

    /// No fault begins before this time of the run.
    pub fn begin(mut self, time: Duration) -> Self {
        self.begin = millis(time);
        self
    }

    /// All faults have ended at this time of the run.
    pub fn quiet_after(mut self, time: Duration) -> Self {
        self.quiet_after = millis(time);
        self
    }

    /// The mean time from the begin of one fault to that of the next.
    pub fn every(mut self, mean: Duration) -> Self {
        self.every = millis(mean).max(1);
        self
    }

    /// The shortest and the longest time that a fault lasts, in whole milliseconds, and at least
    /// one. A fault that would last beyond [`quiet_after`](Self::quiet_after) ends then.
    ///
    /// # Panics
    ///
    /// If the shortest is above the longest.
    #[track_caller]
    pub fn lasts(mut self, shortest: Duration, longest: Duration) -> Self {
        assert!(
            shortest <= longest,
            "a fault that lasts from {shortest:?} to {longest:?} has no time: give the shorter \
             one first"
        );
        let shortest = millis(shortest).max(1);
        self.lasts = (shortest, millis(longest).max(shortest));
        self
    }

    /// The faults that a seed makes of it, in the order of their begins.
    ///
    /// # Panics
    ///
    /// If it names a host that is not there, or if it may have more than [`MOST`] faults.
    pub(crate) fn draw(&self, all: &[Host], rng: &mut Rng, before: &[Fault]) -> Vec<Fault> {
        let hosts = self.chosen(all);
        // A swarm is judged by what a seed may draw, so that no seed alone fails.
        let every = if self.swarm {
            (self.every / SWARM_FASTEST).max(1)
        } else {
            self.every
        };
        let most = self.quiet_after.saturating_sub(self.begin) / every;
        assert!(
            most <= MOST,
            "a plan may have {most} faults, more than {MOST}: let `quiet_after` be earlier, or \
             `every` longer"
        );
        if self.swarm {
            return self.swarmed(rng).draw_from(&hosts, rng, before);
        }
        self.draw_from(&hosts, rng, before)
    }

    /// The plan of this seed alone: see [`swarm`](Self::swarm).
    fn swarmed(&self, rng: &mut Rng) -> Self {
        let mut plan = self.clone();
        let mut kinds: Vec<_> = plan.weights.values_mut().filter(|it| **it > 0).collect();
        let sure = rng.below(kinds.len() as u64) as usize;
        for (place, weight) in kinds.iter_mut().enumerate() {
            let factor = 1 + rng.below(4) as u32;
            let happens = place == sure || rng.below(2) == 0;
            **weight = if happens {
                weight.saturating_mul(factor)
            } else {
                0
            };
        }
        plan.every = (self.every.saturating_mul(1 + rng.below(8)) / SWARM_FASTEST).max(1);
        plan
    }

    fn draw_from(&self, hosts: &[Host], rng: &mut Rng, before: &[Fault]) -> Vec<Fault> {
        let sum = self.weights.values().map(|&weight| u64::from(weight)).sum();
        let mut faults: Vec<Fault> = Vec::new();
        let mut at = self.begin;
        if sum == 0 {
            return faults;
        }
        loop {
            at = at
                .saturating_add(1)
                .saturating_add(rng.exponential(self.every));
            if at >= self.quiet_after {
                return faults;
            }
            let fault = (0..TRIES).find_map(|_| {
                let fault = self.draw_one(at, sum, hosts, rng)?;
                let others = || before.iter().chain(&faults);
                let is_free = !others().any(|other| fault.collides(other));
                let with_it = others().filter(|other| other.overlaps(&fault));
                let down: usize = with_it.map(Fault::takes).sum();
                let may_go_down = fault.takes() == 0 || down + fault.takes() <= self.most_down;
                (is_free && may_go_down).then_some(fault)
            });
            faults.extend(fault);
        }
    }

    fn draw_one(&self, at: u64, sum: u64, hosts: &[Host], rng: &mut Rng) -> Option<Fault> {
        let mut number = rng.below(sum);
        let kind = self.weights.iter().find(|(_, weight)| {
            let weight = u64::from(**weight);
            let is_it = number < weight;
            number = number.saturating_sub(weight);
            is_it
        });
        let (shortest, longest) = self.lasts;
        let lasts = shortest + rng.below(longest - shortest + 1);
        let lasts = lasts.min(self.quiet_after - at);
        Fault::draw(*kind?.0, (at, lasts), hosts, rng)
    }

    fn chosen(&self, all: &[Host]) -> Vec<Host> {
        let Some(names) = &self.hosts else {
            return all.iter().filter(|host| !host.is_client).cloned().collect();
        };
        let is_it = |host: &&Host, name: &str| host.name.eq_ignore_ascii_case(name);
        let find = |name: &String| match all.iter().find(|host| is_it(host, name)) {
            Some(host) => host.clone(),
            None => {
                let known: Vec<_> = all.iter().map(|host| &host.name).collect();
                panic!("a plan of faults names {name:?}: the hosts are {known:?}")
            }
        };
        let mut chosen = Vec::new();
        for host in names.iter().map(find) {
            if !chosen.contains(&host) {
                chosen.push(host);
            }
        }
        chosen
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
