//! The names that the program needs, by `ws::sim`.
use std::{io, time::Duration};

pub use std::time::Instant;
use ws::sim::{
    Sim,
    network::{Latency, Link},
};
pub use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::shared::{Action, Setup};

pub type Moment = Instant;

/// Now, for all hosts alike: they have one clock.
pub fn moment() -> Moment {
    Instant::now()
}

pub const NAME: &str = "ws";

pub async fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(("0.0.0.0", port)).await
}

pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(ws::spawn(task));
}

pub async fn timeout<T>(time: Duration, what: impl Future<Output = T>) -> Option<T> {
    ws::time::timeout(time, what).await.ok()
}

/// Runs it, or tells what went wrong.
pub fn run(setup: Setup) -> Result<(), String> {
    let sim = Sim::builder()
        .seed(setup.seed)
        .event_limit(u64::MAX)
        .time_limit(Duration::from_secs(4_000))
        .build();
    let names: Vec<String> = setup.hosts.iter().map(|(name, _)| name.clone()).collect();
    for (name, program) in setup.hosts {
        sim.host(name, move || program());
    }
    for (name, program) in setup.clients {
        sim.client(name, program);
    }
    let mut link = Link {
        latency: latency(setup.latency),
        ..Link::default()
    };
    sim.set_default_link(link);
    for (time, action) in setup.actions {
        let (names, crashed) = (names.clone(), setup.crashed.clone());
        match action {
            Action::Latency(min, max) => link.latency = latency((min, max)),
            Action::Loss(ppm) => link.loss_ppm = ppm,
            _ => {}
        }
        sim.after(time, move |sim| match action {
            Action::Crash(id) => {
                sim.crash(&names[id]);
                crashed(id);
            }
            Action::Restart(id) => sim.restart(&names[id]),
            Action::Cut(from, to) => sim.partition_one_way([&names[from]], [&names[to]]),
            Action::Heal(from, to) => sim.heal_one_way([&names[from]], [&names[to]]),
            Action::Latency(..) | Action::Loss(_) => sim.set_default_link(link),
        });
    }
    sim.try_run().map_err(|failure| failure.to_string())
}

fn latency((min, max): (u64, u64)) -> Latency {
    Latency::Uniform {
        min: min * 1_000,
        max: max * 1_000,
    }
}
