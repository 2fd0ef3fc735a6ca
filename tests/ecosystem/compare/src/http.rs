//! A server that says hello, under wrk.

use std::{
    convert::Infallible,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, server::conn::http1, service::service_fn};

use crate::{
    Options, Program, Round, child, in_turn,
    rt::{Rt, on},
};

/// The child: prints where it serves, and does so until it is killed.
pub(crate) fn serve(runtime: &str, _: &[String]) -> Vec<f64> {
    on!(runtime, serve_on())
}

async fn hello(_: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(
        b"Hello, World!",
    ))))
}

fn serve_on<R: Rt>() -> Vec<f64> {
    R::run(async {
        let (listener, address) = R::listen().await;
        println!("{address}");
        std::io::stdout().flush().expect("the parent reads");
        loop {
            let stream = R::accept(&listener).await;
            drop(R::spawn(async {
                // wrk closes its connections in the middle of whatever there is.
                let _closed = http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(stream, service_fn(hello))
                    .await;
            }));
        }
    })
}

pub(crate) fn rounds(program: &Program, options: &Options, rounds: &mut Vec<Round>) {
    for round in 0..options.rounds {
        rounds.push(in_turn(round, |runtime| {
            let mut server = child(program.name, runtime, &[], options)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program can be started");
            let stdout = server.stdout.take().expect("it is piped");
            let mut address = String::new();
            BufReader::new(stdout)
                .read_line(&mut address)
                .expect("the child says where it serves");
            wrk(address.trim(), 1);
            let before = ticks(server.id());
            let (requests, per_second, p99_us) = wrk(address.trim(), options.seconds);
            let after = ticks(server.id());
            let cpu = [0, 1].map(|at| (after[at] - before[at]) * us_per_tick() / requests);
            server.kill().expect("it still runs");
            server.wait().expect("it was killed");
            vec![per_second, cpu[0], cpu[0] + cpu[1], p99_us]
        }));
    }
}

/// CPU time in user mode and in the kernel: `utime` and `stime` of the manual, in ticks of mostly
/// 10 ms.
fn ticks(pid: u32) -> [f64; 2] {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the child lives");
    let (_, fields) = stat.rsplit_once(')').expect("the name is in brackets");
    let mut fields = fields.split_whitespace().skip(11);
    [0, 1].map(|_| {
        fields
            .next()
            .and_then(|field| field.parse().ok())
            .expect("a number")
    })
}

fn us_per_tick() -> f64 {
    // SAFETY: a call without pointers.
    1e6 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// Requests in all and in a second, and how long all but one in a hundred took at most.
fn wrk(address: &str, seconds: u64) -> (f64, f64, f64) {
    let output = Command::new("wrk")
        .args([
            "-t1",
            "-c64",
            "--latency",
            &format!("-d{seconds}s"),
            &format!("http://{address}/"),
        ])
        .output()
        .expect("wrk is installed");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(!printed.contains("Non-2xx"), "{printed}");
    let after = |label: &str| {
        let line = printed
            .lines()
            .find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.trim_start().strip_prefix(label))
            .map(str::trim)
    };
    let requests = printed
        .lines()
        .find(|line| line.contains(" requests in "))
        .expect("wrk counts");
    let requests = requests
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok());
    let per_second = after("Requests/sec:").and_then(|n| n.parse().ok());
    let p99 = after("99%").map(micros);
    match (requests, per_second, p99) {
        (Some(requests), Some(per_second), Some(p99)) => (requests, per_second, p99),
        _ => panic!("wrk said something else:\n{printed}"),
    }
}

/// `1.23ms` and the like.
fn micros(text: &str) -> f64 {
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    let unit = match &text[number.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        _ => 1e6,
    };
    number.parse::<f64>().expect("a number") * unit
}
