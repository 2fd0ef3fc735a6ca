//! What a simulator costs: an echo, and an hour of hosts that mostly wait.
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use super::plan::{Program, Setup};
use crate::seam::{self, AsyncReadExt as _, AsyncWriteExt as _, TcpStream};

/// A system without hosts.
pub fn setup(latency: (u64, u64)) -> Setup {
    Setup {
        seed: 1,
        latency,
        hosts: Vec::new(),
        clients: Vec::new(),
        actions: Vec::new(),
        crashed: Arc::new(|_| ()),
    }
}

fn add_host<Fut>(setup: &mut Setup, name: &str, program: impl Fn() -> Fut + Send + Sync + 'static)
where
    Fut: Future<Output = io::Result<()>> + Send + 'static,
{
    let program = Arc::new(move || Box::pin(program()) as Program);
    setup.hosts.push((name.to_owned(), program));
}

/// So many echoes of five bytes over one TCP connection, each 0.1 ms away.
pub fn echo(rounds: u32) -> Result<(), String> {
    let mut setup = setup((100, 100));
    add_host(&mut setup, "server", || async {
        let listener = seam::listen(7).await?;
        let (mut peer, _) = listener.accept().await?;
        let mut buffer = [0; 64];
        while let len @ 1.. = peer.read(&mut buffer).await? {
            peer.write_all(&buffer[..len]).await?;
            peer.flush().await?;
        }
        std::future::pending().await
    });
    let client = async move {
        // madsim refuses a connection to a host that does not listen yet.
        seam::sleep(Duration::from_millis(10)).await;
        let mut stream = seam::connect("server", 7).await?;
        for _ in 0..rounds {
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            stream.read_exact(&mut [0; 5]).await?;
        }
        Ok(())
    };
    setup.clients.push(("client".to_owned(), Box::pin(client)));
    seam::run(setup)
}

/// So many seconds of five hosts that send each other a heartbeat each 50 ms.
pub fn waiting(seconds: u64) -> Result<(), String> {
    let mut setup = setup((100, 100));
    for n in 0..5 {
        add_host(&mut setup, &format!("n{n}"), member);
    }
    let watch = async move {
        seam::sleep(Duration::from_secs(seconds)).await;
        Ok(())
    };
    setup.clients.push(("watch".to_owned(), Box::pin(watch)));
    seam::run(setup)
}

async fn member() -> io::Result<()> {
    let listener = seam::listen(7).await?;
    for peer in 0..5 {
        seam::spawn(async move {
            seam::sleep(Duration::from_millis(10)).await;
            beat(peer).await.expect("nobody crashes");
        });
    }
    loop {
        let (peer, _) = listener.accept().await?;
        seam::spawn(async { answer(peer).await.expect("nobody crashes") });
    }
}

async fn beat(peer: usize) -> io::Result<()> {
    let mut stream = seam::connect(&format!("n{peer}"), 7).await?;
    loop {
        stream.write_all(b"heartbeat").await?;
        stream.flush().await?;
        stream.read_exact(&mut [0; 2]).await?;
        seam::sleep(Duration::from_millis(50)).await;
    }
}

async fn answer(mut peer: TcpStream) -> io::Result<()> {
    loop {
        peer.read_exact(&mut [0; 9]).await?;
        peer.write_all(b"ok").await?;
        peer.flush().await?;
    }
}

/// Memory of the process in kB, by the name that `/proc/self/status` has for it.
pub fn memory(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let value = lines
        .get(name)
        .and_then(|value| value.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Seconds of a processor that the process had, to a hundredth.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in parentheses: the 12th and the 13th field, in ticks of 10 ms.
    let fields = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields.skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}
