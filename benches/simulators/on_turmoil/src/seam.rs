//! The names that the program needs, by turmoil.
use std::{
    env, io,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

pub use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep},
};
pub use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Sim};

use crate::shared::{Action, Setup};

/// The simulated time since the begin. An `Instant` of one host says nothing to another, or to the
/// same host after a restart: each has a runtime of its own, and its clock begins when that is
/// built.
pub type Moment = Duration;

/// Now, for all hosts alike.
pub fn moment() -> Moment {
    turmoil::sim_elapsed().expect("a host asks")
}

pub const NAME: &str = "turmoil";

pub async fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", port)).await
}

pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect((host, port)).await
}

pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

pub async fn timeout<T>(time: Duration, what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, what).await.ok()
}

/// Runs it, or tells what went wrong. A panic of a program is one of the simulation.
pub fn run(setup: Setup) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| simulate(setup))).unwrap_or_else(|_| Err("a panic".to_owned()))
}

fn simulate(setup: Setup) -> Result<(), String> {
    let mut builder = Builder::new();
    builder
        .rng_seed(setup.seed)
        .simulation_duration(Duration::from_secs(4_000))
        .min_message_latency(Duration::from_micros(setup.latency.0))
        .max_message_latency(Duration::from_micros(setup.latency.1));
    if env::var_os("TURMOIL_RANDOM_ORDER").is_some() {
        builder.enable_random_order();
    }
    if let Some(tick) = env::var_os("TURMOIL_TICK_US") {
        let tick = tick.to_str().and_then(|tick| tick.parse().ok());
        builder.tick_duration(Duration::from_micros(tick.expect("microseconds")));
    }
    let mut sim = builder.build();
    let names: Vec<String> = setup.hosts.iter().map(|(name, _)| name.clone()).collect();
    for (name, program) in setup.hosts {
        sim.host(name, move || {
            let program = program();
            async { Ok(program.await?) }
        });
    }
    for (name, program) in setup.clients {
        sim.client(name, async { Ok(program.await?) });
    }
    let mut actions = setup.actions.into_iter().peekable();
    loop {
        while let Some((_, action)) = actions.next_if(|(time, _)| *time <= sim.elapsed()) {
            act(&mut sim, &names, action);
            if let Action::Crash(id) = action {
                (setup.crashed)(id);
            }
        }
        if sim.step().map_err(|error| error.to_string())? {
            return Ok(());
        }
    }
}

fn act(sim: &mut Sim<'_>, names: &[String], action: Action) {
    match action {
        Action::Crash(id) => sim.crash(&*names[id]),
        Action::Restart(id) => sim.bounce(&*names[id]),
        Action::Cut(from, to) => sim.partition_oneway(&*names[from], &*names[to]),
        Action::Heal(from, to) => sim.repair_oneway(&*names[from], &*names[to]),
        // It has no call for the shortest latency while it runs.
        Action::Latency(_, max) => sim.set_max_message_latency(Duration::from_micros(max)),
        Action::Loss(ppm) => sim.set_fail_rate(f64::from(ppm) / 1e6),
    }
}
