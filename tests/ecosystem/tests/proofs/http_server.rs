//! Proof 1: a hyper server, HTTP/1.1 and HTTP/2, under `curl`, `wrk` and `h2load`. Every request is
//! answered, and a graceful shutdown finishes what is in flight.

use std::{
    convert::Infallible,
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, channel::oneshot};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::server::graceful::GracefulShutdown;
use ws::{
    hyper::{Executor, Io, Timer},
    net::TcpListener,
    task::JoinHandle,
};

use crate::harness::{bytes, output, proofs, require, stdout};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    H1,
    H2,
}

use Version::{H1, H2};

/// What the service does, and has done.
#[derive(Debug)]
struct App {
    answered: AtomicUsize,
    /// Requests that have come to the gate.
    waiting: AtomicUsize,
    gate: async_lock::Semaphore,
}

impl App {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = match request.uri().path() {
            "/hello" => Bytes::from_static(b"hello"),
            "/echo" => request
                .into_body()
                .collect()
                .await
                .expect("the client sends all")
                .to_bytes(),
            "/gate" => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.forget();
                Bytes::from_static(b"through")
            }
            other => panic!("nobody asks for {other}"),
        };
        self.answered.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(Full::new(body)))
    }
}

struct Running {
    url: String,
    app: Arc<App>,
    stop: oneshot::Sender<()>,
    /// How many connections were open when it was told to stop.
    task: JoinHandle<usize>,
}

async fn serve(version: Version) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Arc::new(App {
        answered: AtomicUsize::new(0),
        waiting: AtomicUsize::new(0),
        gate: async_lock::Semaphore::new(0),
    });
    let (stop, mut stopped) = oneshot::channel();
    let service = app.clone();
    let task = ws::spawn(async move {
        let graceful = GracefulShutdown::new();
        loop {
            let (stream, _) = futures::select! {
                accepted = listener.accept().fuse() => accepted.unwrap(),
                _ = stopped => break,
            };
            // Whoever came later is not served, also if both were ready.
            if stopped.try_recv() == Ok(Some(())) {
                break;
            }
            stream.set_nodelay(true).unwrap();
            let app = service.clone();
            let service = service_fn(move |request| app.clone().answer(request));
            let io = Io::socket(stream);
            // A load generator that is done closes its connections in the middle of whatever there
            // is.
            match version {
                H1 => {
                    let connection = http1::Builder::new()
                        .timer(Timer)
                        .serve_connection(io, service);
                    ws::spawn(graceful.watch(connection));
                }
                H2 => {
                    let connection = http2::Builder::new(Executor)
                        .timer(Timer)
                        .serve_connection(io, service);
                    ws::spawn(graceful.watch(connection));
                }
            }
        }
        drop(listener);
        let open = graceful.count();
        graceful.shutdown().await;
        open
    });
    Running {
        url,
        app,
        stop,
        task,
    }
}

impl Running {
    async fn stop(self) -> usize {
        self.stop.send(()).expect("the server listens to it");
        self.task.await.unwrap()
    }
}

fn curl(version: Version) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "60"]);
    curl.arg(if version == H2 {
        "--http2-prior-knowledge"
    } else {
        "--http1.1"
    });
    curl
}

async fn bodies_by_curl(dir: &std::path::Path, version: Version) {
    require!("curl");
    let server = serve(version).await;
    let sent = dir.join("sent");
    let received = dir.join("received");
    for (seed, len) in [0, 1, 8 * 1024, 300_000, 5_000_000].into_iter().enumerate() {
        let body = bytes(len, seed as u64);
        fs::write(&sent, &body).unwrap();
        let mut curl = curl(version);
        curl.arg("--data-binary")
            .arg(format!("@{}", sent.display()))
            .arg("--output")
            .arg(&received);
        curl.args(["--write-out", "%{http_code} %{http_version}"])
            .arg(format!("{}/echo", server.url));
        let said = stdout(curl).await;
        assert_eq!(said, if version == H2 { "200 2" } else { "200 1.1" });
        assert!(
            fs::read(&received).unwrap() == body,
            "{len} bytes came back as others"
        );
    }
    assert_eq!(server.app.answered.load(Ordering::SeqCst), 5);
    server.stop().await;
}

async fn requests_by_h2load(version: Version) {
    require!("h2load");
    const REQUESTS: usize = 20_000;
    let server = serve(version).await;
    let mut load = Command::new("h2load");
    load.args([
        "--requests",
        &REQUESTS.to_string(),
        "--clients",
        "32",
        "--threads",
        "1",
    ]);
    load.args(["--connection-inactivity-timeout", "60"]);
    match version {
        H1 => load.arg("--h1"),
        H2 => load.args(["--max-concurrent-streams", "16"]),
    };
    let said = stdout({
        load.arg(format!("{}/hello", server.url));
        load
    })
    .await;
    let line = said
        .lines()
        .find(|line| line.starts_with("requests: "))
        .expect("a summary");
    let expected = format!(
        "requests: {REQUESTS} total, {REQUESTS} started, {REQUESTS} done, {REQUESTS} succeeded, \
         0 failed, 0 errored, 0 timeout"
    );
    assert_eq!(line, expected);
    assert_eq!(server.app.answered.load(Ordering::SeqCst), REQUESTS);
    server.stop().await;
}

/// Sixteen requests wait in the server when it is told to stop. It takes no new connection, answers
/// all of them, and ends.
async fn shutdown_in_flight(version: Version) {
    require!("curl");
    const IN_FLIGHT: usize = 16;
    let server = serve(version).await;
    let (url, app) = (server.url.clone(), server.app.clone());
    let clients: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let mut curl = curl(version);
            curl.arg(format!("{url}/gate"));
            ws::spawn(stdout(curl))
        })
        .collect();
    while app.waiting.load(Ordering::SeqCst) < IN_FLIGHT {
        ws::time::sleep(Duration::from_millis(5)).await;
    }

    server.stop.send(()).expect("the server listens to it");
    // The listener is closed by another task, soon. Until then the system takes connections, and
    // nobody answers there. What curl says in the end is that it could not connect.
    loop {
        let mut curl = curl(version);
        curl.args(["--max-time", "1"]).arg(format!("{url}/hello"));
        let output = output(curl).await;
        assert!(!output.status.success(), "answered after the end");
        if output.status.code() == Some(7) {
            break;
        }
    }
    assert!(!server.task.is_finished(), "requests are in flight");

    app.gate.add_permits(IN_FLIGHT);
    assert_eq!(server.task.await.unwrap(), IN_FLIGHT);
    for client in clients {
        assert_eq!(client.await.unwrap(), "through");
    }
}

proofs! {
    /// Bodies of many sizes come back as they were sent.
    async fn bodies_by_curl_http1(env) { bodies_by_curl(&env.dir, H1).await; }

    /// The same over HTTP/2.
    async fn bodies_by_curl_http2(env) { bodies_by_curl(&env.dir, H2).await; }

    /// As many are answered as were asked.
    async fn requests_by_h2load_http1(env) { requests_by_h2load(H1).await; }

    /// The same over HTTP/2, sixteen at a time on each connection.
    async fn requests_by_h2load_http2(env) { requests_by_h2load(H2).await; }

    /// wrk stops in the middle, so the server has answered as many as wrk has counted, or a few
    /// more.
    async fn requests_by_wrk(env) {
        require!("wrk");
        let server = serve(H1).await;
        let mut wrk = Command::new("wrk");
        // An answer that is late is none that is missing.
        wrk.args(["-t1", "-c64", "-d2s", "--timeout", "60s"]).arg(format!("{}/hello", server.url));
        let said = stdout(wrk).await;
        let counted = said.lines().find_map(|line| line.trim().split_once(" requests in "));
        let counted: usize = counted.expect("a summary").0.parse().unwrap();
        assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
        let answered = server.app.answered.load(Ordering::SeqCst);
        assert!(counted > 0 && (counted..=counted + 64).contains(&answered), "{counted}, {answered}");
        server.stop().await;
    }

    /// A server that is told to stop answers what is in flight, and nobody else.
    async fn shutdown_finishes_what_is_in_flight_http1(env) { shutdown_in_flight(H1).await; }

    /// The same over HTTP/2.
    async fn shutdown_finishes_what_is_in_flight_http2(env) { shutdown_in_flight(H2).await; }
}
