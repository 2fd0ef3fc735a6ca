//! How many runs find each planted bug on turmoil. What it cannot do is left out: pauses, calendars
//! that jump, loss, and disks that lose what was not synced.
#[path = "../../tests/support/checker.rs"]
mod checker;
#[path = "../../tests/support/history.rs"]
mod history;
#[path = "../../tests/support/load.rs"]
mod load;

use std::{
    cell::Cell,
    env, io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use history::History;
use kv::{
    bug::Bug,
    node::{self, Options},
};
use load::{CLIENTS, FAULTY, LONGEST, NODES, Random, addresses, millis, name};
use turmoil::{
    Builder, Sim,
    net::{TcpListener, TcpStream},
};

/// A run that takes so many steps of 1 ms does not end.
const STEPS: u64 = 60_000;

thread_local! {
    static STEPPED: Cell<u64> = const { Cell::new(0) };
}

struct Listener(TcpListener);

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            if let Ok(accepted) = self.0.accept().await {
                return accepted;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// What happens at a time of the run.
#[derive(Clone)]
enum Fault {
    Crash(Vec<String>),
    Restart(Vec<String>),
    Cut(String, Vec<String>),
    CutOneWay(String, Vec<String>),
    Heal,
}

fn faults(random: &mut Random) -> Vec<(Duration, Fault)> {
    let mut all = Vec::new();
    for _ in 0..2 + random.below(6) {
        let begin = millis(random.below(FAULTY));
        let end = begin + millis(10 + random.below(LONGEST - 10));
        let id = 1 + random.below(NODES);
        let others = (1..=NODES).filter(|other| *other != id).map(name).collect();
        match random.below(7) {
            0 | 1 => {
                all.push((begin, Fault::Crash(vec![name(id)])));
                all.push((end, Fault::Restart(vec![name(id)])));
            }
            2 => all.push((begin, Fault::Restart(vec![name(id)]))),
            3 => {
                let nodes: Vec<_> = (1..=NODES).map(name).collect();
                all.push((begin, Fault::Crash(nodes.clone())));
                all.push((end, Fault::Restart(nodes)));
            }
            4 | 5 => {
                all.push((begin, Fault::Cut(name(id), others)));
                all.push((end, Fault::Heal));
            }
            _ => {
                all.push((begin, Fault::CutOneWay(name(id), others)));
                all.push((end, Fault::Heal));
            }
        }
    }
    all.sort_by_key(|(time, _)| *time);
    all
}

fn apply(sim: &mut Sim<'_>, fault: Fault) {
    match fault {
        Fault::Crash(nodes) => nodes.into_iter().for_each(|node| sim.crash(node)),
        Fault::Restart(nodes) => nodes.into_iter().for_each(|node| sim.bounce(node)),
        Fault::Cut(node, others) => others
            .into_iter()
            .for_each(|other| sim.partition(&*node, other)),
        Fault::CutOneWay(node, others) => {
            others
                .into_iter()
                .for_each(|other| sim.partition_oneway(&*node, other));
        }
        Fault::Heal => {
            for a in 1..=NODES {
                (1..a).for_each(|b| sim.repair(name(a), name(b)));
            }
        }
    }
}

/// Tells how many requests were answered, or what does not fit.
fn run(seed: u64, bug: Bug) -> Result<usize, String> {
    let mut random = Random::new(seed);
    let mut sim = Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .simulation_duration(Duration::from_secs(60))
        .max_message_latency(millis(1 + random.below(8)))
        .build();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for id in 1..=NODES {
        let options = Options {
            id,
            nodes: addresses(),
            listen: "0.0.0.0:80".to_owned(),
            folder: folder.path().join(name(id)),
            snapshot_every: 12,
            bug,
        };
        sim.host(name(id), move || {
            let options = options.clone();
            async move {
                let listener = TcpListener::bind(&*options.listen).await?;
                Ok(node::serve(options, Listener(listener)).await?)
            }
        });
    }
    let history = History::default();
    for id in 1..=CLIENTS {
        let random = Random::new(random.below(u64::MAX));
        let client = load::client(id, random, history.clone());
        sim.client(format!("client{id}"), async { Ok(client.await?) });
    }
    let mut faults = faults(&mut random).into_iter().peekable();
    for _ in 0..STEPS {
        while let Some((_, fault)) = faults.next_if(|(time, _)| *time <= sim.elapsed()) {
            apply(&mut sim, fault);
        }
        STEPPED.set(STEPPED.get() + 1);
        if sim.step().map_err(|error| error.to_string())? {
            return history.check().map(|()| history.answered());
        }
    }
    Err("it does not end".to_owned())
}

fn main() {
    let mut words = env::args().skip(1);
    let seeds = words
        .next()
        .map_or(200, |seeds| seeds.parse().expect("a number of seeds"));
    let only = words.next();
    let bugs = Bug::ALL.into_iter().chain([Bug::None]);
    for bug in bugs.filter(|bug| only.as_ref().is_none_or(|only| *only == format!("{bug:?}"))) {
        let begin = Instant::now();
        STEPPED.set(0);
        let found = (0..seeds).find_map(|seed| Some((seed, run(seed, bug).err()?)));
        let (time, steps) = (begin.elapsed(), STEPPED.get());
        match found {
            Some((seed, text)) => {
                println!("| {bug:?} | {} | {time:.1?} | {steps} |", seed + 1);
                eprintln!("{text}\n");
            }
            None => println!("| {bug:?} | none of {seeds} | {time:.1?} | {steps} |"),
        }
    }
}
