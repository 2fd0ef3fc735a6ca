//! How fast is a web server on this runtime?
//!
//! hyper answers "hello" over HTTP/1.1 with keep-alive, and `wrk` asks from a process of its own,
//! over 64 connections from one thread. Without `wrk` the row is skipped, and says so. CPU time and
//! context switches are the server's alone.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Measure, Meter, Outcome};
use crate::rt::Rt;

const CONNECTIONS: usize = 64;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "hyper_hello",
        "a request answered",
        Figure::Time,
        hello::<R>,
    )
    .heavy()]
}

/// The service: the same few bytes for every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello;

impl Service<Request<Incoming>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(Full::new(Bytes::from_static(
            b"Hello, world!\n",
        )))))
    }
}

fn hello<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    match Command::new("wrk").arg("--version").output() {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Outcome::Skipped("wrk is not installed".into()));
        }
        Err(error) => return Err(error.into()),
    }
    let seconds = params.size(2, 1);
    let runtime = R::build(params.workers);
    let measure = runtime.run(async move {
        let listener = R::listen().await?;
        let address = R::address(&listener)?;
        R::detach(serve::<R>(listener));
        let (done, ended) = oneshot::channel();
        let driver = thread::spawn(move || {
            // The root waits for it, and has gone only if the whole process goes.
            done.send(drive(address, seconds)).is_ok()
        });
        let measure = ended.await??;
        driver.join().expect("it ends after it has sent");
        Ok::<Measure, BoxError>(measure)
    })?;
    Ok(Outcome::Measured(measure))
}

async fn serve<R: Rt>(listener: R::Listener) {
    loop {
        match R::accept(&listener).await {
            Ok(stream) => R::detach(async {
                // wrk leaves without a goodbye, in the middle of its last requests.
                if let Err(error) = R::serve_http(stream, Hello).await
                    && !error.is_incomplete_message()
                    && !is_reset(&error)
                {
                    eprintln!("hello: a connection failed: {error}");
                }
            }),
            Err(error) => {
                eprintln!("hello: no more connections: {error}");
                return;
            }
        }
    }
}

fn is_reset(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            )
        })
}

/// Runs `wrk` and reads its report.
fn drive(address: SocketAddr, seconds: usize) -> Result<Measure, BoxError> {
    let mut wrk = Command::new("wrk");
    wrk.args([
        "-t1",
        "--latency",
        &format!("-c{CONNECTIONS}"),
        &format!("-d{seconds}s"),
        // By default an answer that takes two seconds counts as an error of the socket.
        "--timeout",
        "60s",
    ]);
    wrk.arg(format!("http://{address}/"));
    let meter = Meter::start();
    let output = wrk.output()?;
    let text = String::from_utf8(output.stdout)?;
    let report = Report::read(&text).ok_or_else(|| format!("wrk said:\n{text}"))?;
    let per_second = report.requests as f64 / report.seconds;
    let measure = meter.stop_after(report.requests, Duration::from_secs_f64(report.seconds));
    Ok(measure
        .with("p50_us", report.p50_us)
        .with("p99_us", report.p99_us)
        .with("kreq_per_s", per_second / 1e3))
}

/// What `wrk` reports.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Report {
    requests: usize,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Report {
    /// Reads the report, unless it tells of errors or is none.
    fn read(text: &str) -> Option<Self> {
        if text.contains("Socket errors") || text.contains("Non-2xx") {
            return None;
        }
        let percentile = |name: &str| {
            text.lines()
                .find_map(|line| micros(line.trim().strip_prefix(name)?.trim()))
        };
        let (requests, seconds) = text.lines().find_map(|line| {
            let (requests, rest) = line.trim().split_once(" requests in ")?;
            let (time, _) = rest.split_once(',')?;
            Some((requests.parse().ok()?, micros(time)? / 1e6))
        })?;
        Some(Report {
            requests,
            seconds,
            p50_us: percentile("50%")?,
            p99_us: percentile("99%")?,
        })
    }
}

/// Reads a time as `wrk` writes it, such as `812.00us`, `1.20ms` or `2.00s`.
fn micros(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::Report;

    const TEXT: &str = "Running 2s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   725.67us  210.12us   5.98ms   85.94%
    Req/Sec    86.74k     3.05k   91.02k    80.00%
  Latency Distribution
     50%  701.00us
     75%  790.00us
     90%    0.93ms
     99%    1.43ms
  172634 requests in 2.00s, 21.89MB read
Requests/sec:  86220.05
Transfer/sec:     10.93MB
";

    #[test]
    fn report_is_read_and_errors_are_refused() {
        let report = Report {
            requests: 172_634,
            seconds: 2.0,
            p50_us: 701.0,
            p99_us: 1_430.0,
        };
        assert_eq!(Report::read(TEXT), Some(report));
        let errors = format!("{TEXT}  Socket errors: connect 0, read 3, write 0, timeout 0\n");
        assert_eq!(Report::read(&errors), None);
        assert_eq!(Report::read("unable to connect"), None);
    }
}
