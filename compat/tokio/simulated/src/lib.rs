//! Two ends of a protocol, on real sockets and on simulated hosts.
//!
//! # How it works
//!
//! A [`Protocol`] has a server and a client. The client gives back what it was answered.
//!
//! 1. Both run on the sockets of this machine, on an ordinary runtime. What the client was answered
//!    is what is expected.
//! 2. Both run on simulated hosts, for each seed: with a slow network that loses packets, a short
//!    partition, and crashes of the server if they are asked for ([`Faults`]). The client has to be
//!    answered the same. An error, a wait without an end, and an answer that differs are failures.
//! 3. All seeds run once more. Each run has to have the digest that it had before.
//!
//! *Invariant*: the programs are the same in all runs, and only the address of the server differs.
//!
//! Rejected: answers that are written down in the tests. A mistake in them would be the same in
//! both runs of the simulation.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::Future,
    io,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{net::TcpListener, time::timeout};
use ws_sim::{
    Sim,
    network::{Latency, Link},
};

/// Any error of a server or a client.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// The simulated time that a client has.
const LIMIT: Duration = Duration::from_secs(600);

/// A server and a client.
pub trait Protocol: 'static {
    /// What the client was answered.
    type Answers: PartialEq + Debug + Send + Sync;

    /// Whether a library sends numbers that it counts in a static. Then the bytes of a second run
    /// in this process are others, so each seed runs once.
    const COUNTS_IN_THE_PROCESS: bool = false;

    /// Serves for ever.
    fn serve(listener: TcpListener) -> impl Future<Output = Result<(), Error>> + Send + 'static;

    /// Asks the server, which is called `HOST:PORT`.
    fn ask(server: String) -> impl Future<Output = Result<Self::Answers, Error>> + Send + 'static;
}

/// What goes wrong in the simulation, besides the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// A short partition.
    Network,
    /// The server crashes as well, and comes again: up to three times.
    Crashes,
}

/// Runs a protocol on sockets and in the simulation. See the module's head.
///
/// # Panics
///
/// If the runs differ.
pub fn check<P: Protocol>(seeds: Range<u64>, faults: Faults) {
    let expected = Arc::new(on_sockets::<P>().expect("it works on sockets"));
    let set_up = |sim: &Sim| {
        slow_network(sim);
        let all = "0.0.0.0:80";
        sim.host("server", move || async move {
            P::serve(TcpListener::bind(all).await?).await
        });
        let expected = expected.clone();
        sim.client("client", async move {
            let answers = timeout(LIMIT, P::ask("server:80".to_owned())).await??;
            assert_eq!(answers, *expected);
            Ok::<(), Error>(())
        });
        partition(sim);
        if faults == Faults::Crashes {
            crashes(sim);
        }
    };
    let ran = if P::COUNTS_IN_THE_PROCESS {
        once(seeds, set_up)
    } else {
        twice(seeds, set_up)
    };
    let first = ran.values().next();
    assert!(
        ran.len() < 2 || ran.values().any(|one| Some(one) != first),
        "all seeds had the same run"
    );
}

/// Runs each seed twice, and gives their digests.
///
/// # Panics
///
/// If a seed fails, and if its second run is another one.
pub fn twice(seeds: Range<u64>, set_up: impl Fn(&Sim) + Sync) -> BTreeMap<u64, Ran> {
    let first = once(seeds.clone(), &set_up);
    let second = once(seeds, &set_up);
    let differ: Vec<_> = first
        .iter()
        .filter(|(seed, ran)| second.get(seed) != Some(ran))
        .map(|(seed, ran)| format!("seed {seed}: {ran:?}, then {:?}", second.get(seed)))
        .collect();
    assert!(
        differ.is_empty(),
        "{} of {} seeds had another second run:\n{}",
        differ.len(),
        first.len(),
        differ[..differ.len().min(3)].join("\n")
    );
    first
}

/// Runs each seed.
///
/// # Panics
///
/// If a seed fails.
fn once(seeds: Range<u64>, set_up: impl Fn(&Sim) + Sync) -> BTreeMap<u64, Ran> {
    let ran = Mutex::new(BTreeMap::new());
    ws_sim::check(seeds, |sim| {
        set_up(sim);
        if let Err(failure) = sim.try_run() {
            panic!("{failure}");
        }
        let this = Ran {
            digest: sim.digest(),
            events: sim.events(),
            elapsed: sim.elapsed(),
        };
        ran.lock().unwrap().insert(sim.seed(), this);
    });
    ran.into_inner().unwrap()
}

/// What there is to say of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    digest: u64,
    events: u64,
    elapsed: Duration,
}

fn on_sockets<P: Protocol>() -> Result<P::Answers, Error> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = listener.local_addr()?.to_string();
        let serving = tokio::spawn(P::serve(listener));
        let answers = timeout(LIMIT, P::ask(server)).await??;
        serving.abort();
        match serving.await {
            Ok(ended) => ended?,
            Err(error) if error.is_cancelled() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(answers)
    })
}

/// Latencies from 0.1 to 50 ms, with jitter on top, and up to 3% of the packets lost. Of datagrams,
/// 1% come twice, and 5% are passed by others.
pub fn slow_network(sim: &Sim) {
    let slowest = MS + sim.below(49 * MS);
    sim.set_default_link(Link {
        latency: Latency::Uniform {
            min: MS / 10,
            max: slowest,
        },
        jitter: sim.below(5 * MS),
        loss_ppm: sim.below(30_000) as u32,
        duplicate_ppm: 10_000,
        reorder_ppm: 50_000,
        ..Link::default()
    });
}

fn partition(sim: &Sim) {
    let length = Duration::from_millis(10 + sim.below(700));
    sim.after(Duration::from_millis(sim.below(1500)), move |sim| {
        sim.partition(["client"], ["server"]);
        sim.after(length, Sim::heal);
    });
}

fn crashes(sim: &Sim) {
    for _ in 0..=sim.below(3) {
        let down = Duration::from_millis(1 + sim.below(800));
        sim.after(Duration::from_millis(sim.below(3000)), move |sim| {
            sim.crash("server");
            sim.after(down, |sim| sim.restart("server"));
        });
    }
}

/// Calls `attempt` until it is well, with a pause in between: for clients of a server that crashes.
///
/// # Errors
///
/// None: the time limit of the client is the end.
pub async fn again<T, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    const PATIENCE: Duration = Duration::from_secs(5);
    loop {
        if let Ok(Ok(answer)) = timeout(PATIENCE, attempt()).await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An error in words.
pub fn wrong(what: &str) -> Error {
    io::Error::other(what.to_owned()).into()
}
