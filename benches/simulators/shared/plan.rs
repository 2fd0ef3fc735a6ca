//! What a seed decides: the faults and their times, and what a run of them has to show.
use std::{
    collections::BTreeMap,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    bug::Bug,
    client::Client,
    disk::Disk,
    history::History,
    node::{self, NODES, Options, Watch, name},
    rng::Rng,
};
use crate::seam;

/// All faults are over.
pub const QUIET: Duration = Duration::from_millis(3_000);
/// A node that begins an election after this has no reason to.
pub const SETTLED: Duration = Duration::from_millis(5_000);
const END: Duration = Duration::from_millis(5_500);
const CLIENTS: u64 = 3;
/// Latencies of a slow network, in microseconds.
const SLOW: (u64, u64) = (1_000, 200_000);

/// Something that a simulator does to the system.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Crash(usize),
    Restart(usize),
    /// Nothing goes from the first node to the second one, and what was sent is lost or late.
    Cut(usize, usize),
    Heal(usize, usize),
    /// Latencies of all links, in microseconds.
    Latency(u64, u64),
    /// So many messages of a million are lost.
    Loss(u32),
}

pub type Program = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// What a simulator runs.
pub struct Setup {
    pub seed: u64,
    /// Shortest and longest latency in microseconds.
    pub latency: (u64, u64),
    /// Hosts, and the programs that begin anew with each restart.
    pub hosts: Vec<(String, Arc<dyn Fn() -> Program + Send + Sync>)>,
    /// Programs that the run waits for.
    pub clients: Vec<(String, Program)>,
    /// In the order of their times.
    pub actions: Vec<(Duration, Action)>,
    /// Called with a host that has crashed.
    pub crashed: Arc<dyn Fn(usize) + Send + Sync>,
}

/// What a run has shown.
#[derive(Debug)]
pub struct Seen {
    pub digest: u64,
    pub answered: usize,
    pub failure: Option<String>,
}

/// Runs a seed.
pub fn run(seed: u64, bug: Bug) -> Seen {
    let history = History::default();
    let watch = Arc::new(Mutex::new(Watch::default()));
    let setup = setup(seed, bug, &history, &watch);
    let ended = seam::run(setup);
    let watch = watch.lock().unwrap();
    let judge = || {
        ended?;
        history.check()?;
        if watch.last_election() > SETTLED {
            return Err("an election long after all faults".to_owned());
        }
        if watch.asked_too_often() {
            return Err("a node asked another one too often".to_owned());
        }
        Ok(())
    };
    Seen {
        failure: judge().err(),
        digest: history.digest(),
        answered: history.answered(),
    }
}

fn setup(seed: u64, bug: Bug, history: &History, watch: &Arc<Mutex<Watch>>) -> Setup {
    let mut rng = Rng::new(seed, 1);
    let latency = (100, 1_000 + rng.below(8_000));
    let disks: Vec<Disk> = (2..)
        .take(NODES)
        .map(|purpose| Disk::new(Rng::new(seed, purpose)))
        .collect();
    let hosts = (0..NODES).map(|id| {
        let options = Options {
            id,
            bug,
            disk: disks[id].clone(),
            rng: Arc::new(Mutex::new(Rng::new(seed, 10 + id as u64))),
            watch: watch.clone(),
        };
        let program = move || Box::pin(node::run(options.clone())) as Program;
        (name(id), Arc::new(program) as Arc<_>)
    });
    let clients = (0..CLIENTS).map(|id| {
        let client = Client {
            id,
            rng: Rng::new(seed, 20 + id),
            history: history.clone(),
        };
        (format!("c{id}"), Box::pin(client.run(END)) as Program)
    });
    Setup {
        seed,
        latency,
        hosts: hosts.collect(),
        clients: clients.collect(),
        actions: actions(&mut rng, latency),
        crashed: Arc::new(move |id| disks[id].crash()),
    }
}

/// Draws three to ten faults, and their ends.
fn actions(rng: &mut Rng, latency: (u64, u64)) -> Vec<(Duration, Action)> {
    let mut actions = Vec::new();
    for _ in 0..3 + rng.below(8) {
        let begin = 300 + rng.below(1_700);
        let longest = [30, 900][rng.below(2) as usize];
        let end = begin + 1 + rng.below(longest);
        let id = rng.below(NODES as u64) as usize;
        let others = (0..NODES).filter(move |other| *other != id);
        let mut both = |first, last| {
            actions.push((Duration::from_millis(begin), first));
            actions.push((Duration::from_millis(end), last));
        };
        match rng.below(12) {
            0..=2 => both(Action::Crash(id), Action::Restart(id)),
            3 => (0..NODES).for_each(|id| both(Action::Crash(id), Action::Restart(id))),
            4..=6 => others.for_each(|other| {
                both(Action::Cut(id, other), Action::Heal(id, other));
                both(Action::Cut(other, id), Action::Heal(other, id));
            }),
            7 => others.for_each(|other| both(Action::Cut(id, other), Action::Heal(id, other))),
            8..=10 => both(
                Action::Latency(SLOW.0, SLOW.1),
                Action::Latency(latency.0, latency.1),
            ),
            _ => both(Action::Loss(20_000), Action::Loss(0)),
        }
    }
    actions.sort_by_key(|(time, _)| *time);
    without_overlaps(actions)
}

/// Leaves out what would begin twice, and the ends that come before the last one.
fn without_overlaps(mut actions: Vec<(Duration, Action)>) -> Vec<(Duration, Action)> {
    let mut depth = BTreeMap::new();
    actions.retain(|(_, action)| {
        let (what, step, goal) = match *action {
            Action::Crash(id) => ((0, id, id), 1, 1),
            Action::Restart(id) => ((0, id, id), -1, 0),
            Action::Cut(from, to) => ((1, from, to), 1, 1),
            Action::Heal(from, to) => ((1, from, to), -1, 0),
            Action::Latency(..) | Action::Loss(_) => return true,
        };
        let depth = depth.entry(what).or_insert(0);
        *depth += step;
        *depth == goal
    });
    actions
}
