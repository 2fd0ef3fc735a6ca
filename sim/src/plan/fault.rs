//! One fault: its times, what it does, and its words. Times are in milliseconds.

use std::{fmt, time::Duration};

use super::FaultKind;
use crate::{DiskFaults, Sim, network::Latency, rng::Rng};

/// A host, as a plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) is_client: bool,
}

/// A fault with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(super) at: u64,
    pub(super) lasts: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It is done to a host.
    Of(FaultKind, String),
    /// The power fails for these.
    PowerCut(Vec<String>),
    /// A calendar is wrong by so many milliseconds.
    Clock(String, i64),
    /// Clocks jump by so many milliseconds.
    Jump(String, u64),
    /// Between two groups.
    Between(FaultKind, Vec<String>, Vec<String>),
    /// Of a link: milliseconds or parts per million.
    Link(FaultKind, String, String, u64),
}

/// What a fault has in its hands: no other one touches it meanwhile.
type Held<'a> = (FaultKind, &'a str, &'a str);

impl Fault {
    /// None if there are not enough hosts.
    pub(super) fn draw(
        kind: FaultKind,
        (at, lasts): (u64, u64),
        hosts: &[Host],
        rng: &mut Rng,
    ) -> Option<Self> {
        let index = |rng: &mut Rng| rng.below(hosts.len() as u64) as usize;
        let one = |rng: &mut Rng| hosts.get(index(rng));
        let what = match kind {
            FaultKind::Crash | FaultKind::HardCrash | FaultKind::Kill => {
                let host = one(rng).filter(|host| !host.is_client)?;
                What::Of(kind, host.name.clone())
            }
            FaultKind::PowerCut => {
                let hosts = hosts.iter().filter(|host| !host.is_client);
                let names: Vec<_> = hosts.map(|host| host.name.clone()).collect();
                if names.is_empty() {
                    return None;
                }
                What::PowerCut(names)
            }
            FaultKind::Clock => {
                let host = one(rng)?.name.clone();
                What::Clock(host, rng.below(120_001) as i64 - 60_000)
            }
            FaultKind::Jump => What::Jump(one(rng)?.name.clone(), 1 + rng.below(10_000)),
            FaultKind::Partition | FaultKind::OneWay | FaultKind::Hold => {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                for host in hosts {
                    let side = if rng.below(2) == 0 { &mut a } else { &mut b };
                    side.push(host.name.clone());
                }
                if a.is_empty() || b.is_empty() {
                    return None;
                }
                What::Between(kind, a, b)
            }
            FaultKind::SlowLink | FaultKind::LossyLink => {
                let (from, to) = (one(rng)?, one(rng)?);
                let how = match kind {
                    FaultKind::SlowLink => 20 + rng.below(481),
                    _ => 50_000 + rng.below(450_001),
                };
                if from == to {
                    return None;
                }
                What::Link(kind, from.name.clone(), to.name.clone(), how)
            }
            FaultKind::Pause
            | FaultKind::SlowHost
            | FaultKind::SlowDisk
            | FaultKind::FailingDisk
            | FaultKind::FullDisk => What::Of(kind, one(rng)?.name.clone()),
        };
        Some(Self { at, lasts, what })
    }

    /// How long it lasts, or how far a clock jumps.
    fn size(&mut self) -> &mut u64 {
        match &mut self.what {
            What::Jump(_, by) => by,
            _ => &mut self.lasts,
        }
    }

    /// The same with its size halved so often.
    pub(crate) fn halved(mut self, halvings: u32) -> Self {
        let size = self.size();
        *size = size.checked_shr(halvings).unwrap_or(0).max(1);
        self
    }

    /// How often it can be halved.
    pub(crate) fn halvings(&self) -> u32 {
        self.clone().size().ilog2()
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.at <= other.at + other.lasts && other.at <= self.at + self.lasts
    }

    pub(super) fn collides(&self, other: &Self) -> bool {
        self.overlaps(other) && {
            let held = other.held();
            self.held().iter().any(|mine| held.contains(mine))
        }
    }

    /// How many hosts it takes out of work.
    pub(super) fn takes(&self) -> usize {
        match &self.what {
            What::Of(kind, _) => usize::from(matches!(
                kind,
                FaultKind::Crash | FaultKind::HardCrash | FaultKind::Kill | FaultKind::Pause
            )),
            What::PowerCut(hosts) => hosts.len(),
            _ => 0,
        }
    }

    fn held(&self) -> Vec<Held<'_>> {
        match &self.what {
            What::Of(_, host) if self.takes() > 0 => vec![(FaultKind::Crash, host, "")],
            What::PowerCut(hosts) => {
                let names = hosts.iter().map(String::as_str);
                names.map(|host| (FaultKind::Crash, host, "")).collect()
            }
            What::Of(FaultKind::SlowHost, host) => vec![(FaultKind::SlowHost, host, "")],
            What::Of(_, host) => vec![(FaultKind::SlowDisk, host, "")],
            What::Clock(host, _) | What::Jump(host, _) => vec![(FaultKind::Clock, host, "")],
            What::Between(kind, a, b) => {
                let of = match kind {
                    FaultKind::Hold => FaultKind::Hold,
                    _ => FaultKind::Partition,
                };
                let pairs = a
                    .iter()
                    .flat_map(|a| b.iter().map(move |b| (of, &**a, &**b)));
                let both = pairs.flat_map(|(of, a, b)| [(of, a, b), (of, b, a)]);
                both.collect()
            }
            What::Link(_, from, to, _) => vec![(FaultKind::SlowLink, from, to)],
        }
    }

    /// When it begins.
    pub(crate) fn begin(&self) -> Duration {
        Duration::from_millis(self.at)
    }

    /// How long it lasts.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.lasts)
    }

    /// Begins it. What comes back ends it.
    pub(crate) fn happen(&self, sim: &Sim) -> Box<dyn FnOnce(&Sim)> {
        match self.what.clone() {
            What::Of(FaultKind::Crash, host) => {
                sim.crash(&host);
                Box::new(move |sim| sim.restart(host))
            }
            What::Of(FaultKind::HardCrash, host) => {
                sim.crash_hard(&host);
                Box::new(move |sim| sim.restart(host))
            }
            What::Of(FaultKind::Kill, host) => {
                sim.signal(&host, libc::SIGKILL);
                Box::new(move |sim| sim.restart(host))
            }
            What::PowerCut(hosts) => {
                hosts.iter().for_each(|host| sim.crash(host));
                Box::new(move |sim| hosts.into_iter().for_each(|host| sim.restart(host)))
            }
            What::Of(FaultKind::SlowHost, host) => {
                let before = sim.step_time(&host);
                sim.slow(&host, Duration::from_millis(1));
                Box::new(move |sim| sim.slow(host, before))
            }
            What::Of(FaultKind::Pause, host) => {
                sim.pause(&host);
                Box::new(move |sim| sim.resume(host))
            }
            What::Of(kind, host) => {
                let before = sim.disk_faults(&host);
                sim.set_disk(&host, disk(kind, before));
                Box::new(move |sim| sim.set_disk(host, before))
            }
            What::Jump(host, by) => {
                sim.jump(host, Duration::from_millis(by));
                Box::new(|_| ())
            }
            What::Clock(host, off) => {
                let before = sim.skew_of(&host);
                sim.skew(&host, before.saturating_add(off * 1_000_000));
                Box::new(move |sim| sim.skew(host, before))
            }
            What::Between(FaultKind::Hold, a, b) => {
                sim.hold(&a, &b);
                Box::new(move |sim| sim.release(a, b))
            }
            What::Between(kind, a, b) => {
                sim.partition_one_way(&a, &b);
                if kind == FaultKind::Partition {
                    sim.partition_one_way(&b, &a);
                }
                Box::new(move |sim| {
                    sim.heal_one_way(&a, &b);
                    if kind == FaultKind::Partition {
                        sim.heal_one_way(b, a);
                    }
                })
            }
            What::Link(kind, from, to, how) => {
                let (before, mut link) = sim.link(&from, &to);
                match kind {
                    FaultKind::SlowLink => {
                        link.latency = link.latency.longer(how.saturating_mul(1_000_000));
                    }
                    _ => link.loss_ppm = link.loss_ppm.max(how as u32),
                }
                sim.set_link(&from, &to, link);
                Box::new(move |sim| sim.restore_link(from, to, before))
            }
        }
    }
}

fn disk(kind: FaultKind, before: DiskFaults) -> DiskFaults {
    match kind {
        FaultKind::SlowDisk => DiskFaults {
            sync_latency: Latency::Uniform {
                min: 10_000_000,
                max: 500_000_000,
            },
            ..before
        },
        FaultKind::FullDisk => DiskFaults {
            capacity: Some(0),
            ..before
        },
        _ => DiskFaults {
            read_error_ppm: 100_000,
            write_error_ppm: 100_000,
            sync_error_ppm: 100_000,
            ..before
        },
    }
}

/// Milliseconds as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} s", self.0 / 1_000, self.0 % 1_000)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = Seconds(self.at + self.lasts);
        write!(f, "at {}: ", Seconds(self.at))?;
        match &self.what {
            What::Of(FaultKind::Crash, host) => {
                return write!(f, "crash {host:?}, and restart it at {end}");
            }
            What::Of(FaultKind::HardCrash, host) => {
                return write!(f, "power off {host:?}, and restart it at {end}");
            }
            What::Of(FaultKind::Kill, host) => {
                return write!(f, "kill {host:?}, and restart it at {end}");
            }
            What::PowerCut(hosts) => {
                return write!(f, "the power of {hosts:?} fails, and they restart at {end}");
            }
            What::Jump(host, by) => {
                return write!(f, "the clocks of {host:?} jump by {}", Seconds(*by));
            }
            What::Of(FaultKind::SlowHost, host) => write!(f, "a step of {host:?} takes 1 ms"),
            What::Of(FaultKind::Pause, host) => write!(f, "pause {host:?}"),
            What::Of(FaultKind::SlowDisk, host) => write!(f, "the disk of {host:?} is slow"),
            What::Of(FaultKind::FullDisk, host) => write!(f, "the disk of {host:?} is full"),
            What::Of(_, host) => write!(f, "the disk of {host:?} fails one call in ten"),
            What::Clock(host, off) => {
                let side = if *off < 0 { "behind" } else { "ahead" };
                let off = Seconds(off.unsigned_abs());
                write!(f, "the calendar of {host:?} is {off} {side}")
            }
            What::Between(FaultKind::Hold, a, b) => {
                write!(f, "packets from {a:?} to {b:?} wait")
            }
            What::Between(FaultKind::OneWay, a, b) => {
                write!(f, "no packet from {a:?} reaches {b:?}")
            }
            What::Between(_, a, b) => write!(f, "cut {a:?} from {b:?}"),
            What::Link(FaultKind::SlowLink, from, to, how) => {
                write!(f, "the link from {from:?} to {to:?} takes {how} ms more")
            }
            What::Link(_, from, to, how) => {
                let percent = how / 10_000;
                write!(f, "the link from {from:?} to {to:?} loses {percent} %")
            }
        }?;
        write!(f, ", until {end}")
    }
}
