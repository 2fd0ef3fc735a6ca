//! `ws-uring [ROUNDS]` prints what a request costs a server on epoll and on io_uring.
//!
//! The server is one thread, in `serve`; the client is a process of its own, in `client`. In each
//! round the variants have their turns one after the other, and the next round begins with the next
//! of them. A ratio is taken within a round. Each table is there twice: with server and client on a
//! CPU each, and with both on one. There the client has sent what it can when the server runs.
//!
//! `ws-uring one VARIANT WORK CONNECTIONS apart|together` does one run, for strace.

mod client;
mod epoll;
mod meter;
mod serve;
mod work;

use std::{
    env,
    error::Error,
    fs,
    net::TcpListener,
    process::{Child, Command, ExitCode},
    thread,
};

use meter::{COLUMNS, Figures};
use serve::{Run, Variant};
use work::Work;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CONNECTIONS: [usize; 3] = [1, 64, 1000];
const PLACES: [(&str, usize); 2] = [("apart", 1), ("together", 0)];
const SERVER_CPU: usize = 0;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["client", address, work, connections, cpu] => as_client(address, work, connections, cpu),
        ["one", variant, work, connections, place] => one(variant, work, connections, place),
        [] => all(5),
        [rounds] => rounds.parse().map_err(Into::into).and_then(all),
        _ => Err("usage: ws-uring [ROUNDS]".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ws-uring: {error}");
            ExitCode::FAILURE
        }
    }
}

fn as_client(address: &str, work: &str, connections: &str, cpu: &str) -> Outcome<()> {
    let (connections, cpu) = (connections.parse()?, cpu.parse()?);
    Ok(client::run(
        address.parse()?,
        work.parse()?,
        connections,
        cpu,
    )?)
}

fn one(variant: &str, work: &str, connections: &str, place: &str) -> Outcome<()> {
    let found = Variant::ALL.iter().find(|(_, name)| *name == variant);
    let (variant, _) = found.ok_or("no such variant")?;
    let place = PLACES.iter().find(|(name, _)| *name == place);
    let (_, cpu) = place.ok_or("apart or together?")?;
    let figures = measure(*variant, work.parse()?, connections.parse()?, *cpu)?;
    for (column, figure) in COLUMNS.iter().zip(figures) {
        println!("{column}: {figure:.3}");
    }
    Ok(())
}

/// All tables.
fn all(rounds: usize) -> Outcome<()> {
    if rounds == 0 {
        return Err("no rounds".into());
    }
    for (place, client_cpu) in PLACES {
        for work in Work::ALL {
            for connections in CONNECTIONS {
                let mut runs = [const { Vec::new() }; Variant::ALL.len()];
                for round in 0..rounds {
                    for turn in 0..runs.len() {
                        let at = (round + turn) % runs.len();
                        let variant = Variant::ALL[at].0;
                        runs[at].push(measure(variant, work, connections, client_cpu)?);
                    }
                }
                let name = work.name();
                println!("\n{name}, {connections} connections, {place}, {rounds} rounds");
                println!("load: {}\n", fs::read_to_string("/proc/loadavg")?.trim());
                print_table(&runs);
            }
        }
    }
    Ok(())
}

/// One run of a server with its client.
fn measure(
    variant: Variant,
    work: Work,
    connections: usize,
    client_cpu: usize,
) -> Outcome<Figures> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let requests = if connections == 1 { 4_000 } else { 20_000 };
    let run = Run {
        variant,
        work,
        connections,
        warm_up: requests / 10,
        requests,
        cpu: SERVER_CPU,
    };
    let mut client = Command::new(env::current_exe()?)
        .args(["client", &listener.local_addr()?.to_string(), work.name()])
        .args([connections.to_string(), client_cpu.to_string()])
        .spawn()?;
    // A process with two threads, as those of a runtime: a call pays for a shared descriptor table.
    let served = thread::spawn(move || serve::run(&listener, run)).join();
    let figures = match served.map_err(|_| "the server panicked")? {
        Ok(figures) => figures,
        Err(error) => return Err(after(&mut client, error.into())),
    };
    if !client.wait()?.success() {
        return Err("the client failed".into());
    }
    Ok(figures)
}

/// Ends the client after a fault of the server.
fn after(client: &mut Child, fault: Box<dyn Error + Send + Sync>) -> Box<dyn Error + Send + Sync> {
    match client.kill().and_then(|()| client.wait()) {
        Ok(_) => fault,
        Err(error) => format!("{fault}; the client: {error}").into(),
    }
}

/// The least CPU time of all rounds; medians of the ratios to the first variant in the same round,
/// and of the columns; means of user and system time, which the system counts by its ticks.
fn print_table(runs: &[Vec<Figures>; Variant::ALL.len()]) {
    let columns = COLUMNS.join(" | ");
    println!("| server | CPU/epoll | quartiles | least CPU us | {columns} |");
    println!("| --- |{}", " ---: |".repeat(3 + COLUMNS.len()));
    for ((_, name), rounds) in Variant::ALL.iter().zip(runs) {
        let neighbours = rounds.iter().zip(&runs[0]);
        let ratios: Vec<f64> = neighbours.map(|(it, epoll)| it[0] / epoll[0]).collect();
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(&ratios, part));
        print!("| {name} | {middle:.2} | {low:.2} to {high:.2} |");
        let of = |column: usize| rounds.iter().map(|it| it[column]).collect::<Vec<f64>>();
        print!(" {:.2} |", quantile(&of(0), 0.0));
        for (column, title) in COLUMNS.iter().enumerate() {
            let values = of(column);
            let figure = match *title {
                "user us" | "system us" => values.iter().sum::<f64>() / values.len() as f64,
                _ => quantile(&values, 0.5),
            };
            match figure {
                large if large >= 1000.0 => print!(" {large:.0} |"),
                small => print!(" {small:.2} |"),
            }
        }
        println!();
    }
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}
