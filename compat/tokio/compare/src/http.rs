//! axum, and reqwest.

use std::{
    env,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, task::spawn_blocking};

use crate::{
    Result,
    measure::{Numbers, Times, calls, cpu},
};

const CONNECTIONS: usize = 32;
const BLOCKS: Duration = Duration::from_millis(50);

async fn serve() -> Result<SocketAddr> {
    let blocking = async || {
        thread::sleep(BLOCKS);
        "Hello, World!"
    };
    let app = Router::new()
        .route("/", get(async || "Hello, World!"))
        .route("/blocking", get(blocking));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// What a program of its own writes. It is not in this process's CPU time.
async fn output(mut command: Command) -> Result<String> {
    let output = spawn_blocking(move || command.output()).await??;
    if !output.status.success() {
        return Err(format!("{output:?}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The clients are wrk.
pub async fn axum(length: Duration) -> Result<Numbers> {
    let address = serve().await?;
    let mut wrk = Command::new(ws_test_servers::program("wrk"));
    wrk.args(["-t1", "--latency"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", length.as_secs()))
        .arg(format!("http://{address}/"));
    let before = cpu();
    let said = output(wrk).await?;
    let cpu = cpu() - before;
    if said.contains("Socket errors") || said.contains("Non-2xx") {
        return Err(said.into());
    }
    let line = said.lines().find(|line| line.contains(" requests in "));
    let mut words = line.ok_or("no count from wrk")?.split_whitespace();
    let operations = words.next().ok_or("no count from wrk")?.parse()?;
    let time = words.nth(2).and_then(|word| word.strip_suffix(','));
    let time = time.and_then(microseconds).ok_or("no time from wrk")?;
    let percentile = |name| {
        let mut lines = said.lines();
        let time = lines
            .find_map(|line| line.trim().strip_prefix(name))
            .map(str::trim);
        time.and_then(microseconds).ok_or("no percentile from wrk")
    };
    let percentiles = [percentile("50%")?, percentile("99%")?];
    Numbers::new(
        operations,
        Duration::from_secs_f64(time / 1e6),
        cpu,
        percentiles,
    )
}

/// Reads wrk's `1.23ms`.
fn microseconds(time: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)] {
        if let Some(number) = time.strip_suffix(unit) {
            return Some(number.parse::<f64>().ok()? * factor);
        }
    }
    None
}

/// One request in a hundred blocks its thread. The percentiles are of the others. The clients are
/// a process of their own.
pub async fn blocking(length: Duration) -> Result<Numbers> {
    let address = serve().await?;
    let mut clients = Command::new(env::current_exe()?);
    clients.args([
        "clients",
        &address.to_string(),
        &length.as_secs().to_string(),
    ]);
    let before = cpu();
    let said = output(clients).await?;
    let cpu = cpu() - before;
    let mut words = said.split_whitespace();
    let mut next = || words.next().ok_or("too few numbers from the clients");
    let (operations, p50, p99) = (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    Numbers::new(operations, length, cpu, [p50, p99])
}

/// Threads, each with a connection of its own.
pub fn clients(address: SocketAddr, length: Duration) -> Result<()> {
    let end = Instant::now() + length;
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|client| thread::spawn(move || one_client(address, client * 100 / CONNECTIONS, end)))
        .collect();
    let (mut requests, mut all) = (0, Times::default());
    for thread in threads {
        let (count, times) = thread.join().map_err(|_| "a client panicked")??;
        requests += count;
        all.join(&times);
    }
    println!("{requests} {} {}", all.percentile(50), all.percentile(99));
    Ok(())
}

/// Counts its requests, and has the times of those that do not block.
fn one_client(address: SocketAddr, first: usize, end: Instant) -> Result<(u64, Times)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (mut requests, mut times, mut answer) = (0, Times::default(), [0; 1024]);
    for number in first.. {
        let blocks = number % 100 == 99;
        let path = if blocks { "/blocking" } else { "/" };
        let began = Instant::now();
        if began >= end {
            break;
        }
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: ws\r\n\r\n").as_bytes())?;
        let mut length = 0;
        while !answer[..length].ends_with(b"Hello, World!") {
            match stream.read(&mut answer[length..])? {
                0 => return Err("the server has closed a connection".into()),
                more => length += more,
            }
        }
        requests += 1;
        if !blocks {
            times.add(began.elapsed());
        }
    }
    Ok((requests, times))
}

/// Clients and server are in this process.
pub async fn reqwest(length: Duration) -> Result<Numbers> {
    let url = format!("http://{}/", serve().await?);
    let client = reqwest::Client::new();
    let clients = vec![(client, url); CONNECTIONS];
    calls(clients, length, async |(client, url)| {
        let answer = client.get(&url).send().await?.error_for_status()?;
        assert_eq!(answer.bytes().await?, "Hello, World!");
        Ok((client, url))
    })
    .await
}
