//! The names that the program needs, by madsim.
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use madsim::{
    Config,
    net::NetSim,
    runtime::{Handle, NodeHandle, Runtime},
};
pub use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use crate::shared::{Action, Setup};

#[cfg(not(madsim))]
compile_error!("build it with RUSTFLAGS=\"--cfg madsim\": see `cargo xtask simulators`");

pub type Moment = Instant;

/// Now, for all hosts alike: they have one clock.
pub fn moment() -> Moment {
    Instant::now()
}

pub const NAME: &str = "madsim";

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
    let mut config = Config::default();
    config.net.send_latency = range(setup.latency);
    let mut runtime = Runtime::with_seed_and_config(setup.seed, config);
    runtime.set_time_limit(Duration::from_secs(4_000));
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(simulate(setup))))
        .unwrap_or_else(|_| Err("a panic".to_owned()))
}

async fn simulate(setup: Setup) -> Result<(), String> {
    let (handle, net) = (Handle::current(), NetSim::current());
    let node = |number: usize, name: &str| {
        let [.., number] = number.to_be_bytes();
        let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, number + 1));
        net.add_dns_record(name, ip);
        handle.create_node().name(name).ip(ip)
    };
    let mut nodes: Vec<NodeHandle> = Vec::new();
    for (name, program) in setup.hosts {
        let init = move || {
            let program = program();
            async { program.await.expect("a host goes on") }
        };
        nodes.push(node(nodes.len(), &name).init(init).build());
    }
    let clients = (nodes.len()..).zip(setup.clients);
    let tasks: Vec<_> = clients
        .map(|(number, (name, program))| node(number, &name).build().spawn(program))
        .collect();
    let faults = tokio::spawn(async move {
        let begin = Instant::now();
        for (time, action) in setup.actions {
            tokio::time::sleep_until(begin + time).await;
            act(&handle, &nodes, action);
            if let Action::Crash(id) = action {
                (setup.crashed)(id);
            }
        }
    });
    for task in tasks {
        let ended = task.await.map_err(|error| error.to_string())?;
        ended.map_err(|error| error.to_string())?;
    }
    faults.abort();
    Ok(())
}

fn act(handle: &Handle, nodes: &[NodeHandle], action: Action) {
    let net = NetSim::current();
    match action {
        Action::Crash(id) => handle.kill(nodes[id].id()),
        Action::Restart(id) => handle.restart(nodes[id].id()),
        Action::Cut(from, to) => net.clog_link(nodes[from].id(), nodes[to].id()),
        Action::Heal(from, to) => net.unclog_link(nodes[from].id(), nodes[to].id()),
        Action::Latency(min, max) => net.update_config(|config| {
            config.send_latency = range((min, max));
        }),
        Action::Loss(ppm) => net.update_config(|config| {
            config.packet_loss_rate = f64::from(ppm) / 1e6;
        }),
    }
}

fn range((min, max): (u64, u64)) -> std::ops::Range<Duration> {
    Duration::from_micros(min)..Duration::from_micros(max.max(min + 1))
}
