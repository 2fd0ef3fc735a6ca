//! `tokio::signal` in hosts: a server that is told to end finishes what is in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use tokio::{
    net::TcpListener,
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::sleep,
};
use tokio_simulated::{Error, again, slow_network, twice, wrong};
use ws_sim::Sim;

const MINUTE: Duration = Duration::from_secs(60);

/// Serves until it is told to end, by Ctrl-C or as a service manager does it.
async fn serve(is_asked: Arc<AtomicBool>) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let told = async move {
        tokio::select! {
            result = ctrl_c() => result.unwrap(),
            _ = terminate.recv() => {}
        }
    };
    let slow = get(async move || {
        is_asked.store(true, Relaxed);
        sleep(Duration::from_secs(2)).await;
        "done"
    });
    let app = Router::new()
        .route("/", get(async || "here"))
        .route("/slow", slow);
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    axum::serve(listener, app)
        .with_graceful_shutdown(told)
        .await?;
    tokio::fs::write("ended", "well").await?;
    Ok(())
}

async fn get_text(path: &str) -> Result<String, Error> {
    Ok(reqwest::get(format!("http://server{path}"))
        .await?
        .text()
        .await?)
}

/// The signal comes while a request is in flight. It is answered, and no other one is taken.
fn a_server_ends(sim: &Sim, kind: SignalKind) {
    slow_network(sim);
    let is_asked = Arc::new(AtomicBool::new(false));
    let asked = is_asked.clone();
    sim.host("server", move || serve(asked.clone()));
    signal_once(sim, is_asked, kind);
    sim.client("client", async move {
        again(|| get_text("/")).await;
        let slow = get_text("/slow").await?;
        while get_text("/").await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
        (slow == "done").then_some(()).ok_or_else(|| wrong(&slow))
    });
    let disk = sim.disk("server");
    sim.after(MINUTE, move |_| {
        assert_eq!(disk.read("ended").unwrap(), b"well")
    });
    sim.client("waits", async { sleep(2 * MINUTE).await });
}

/// Sends the signal as soon as the slow request is there.
fn signal_once(sim: &Sim, is_asked: Arc<AtomicBool>, kind: SignalKind) {
    sim.after(Duration::from_millis(10), move |sim| {
        if is_asked.load(Relaxed) {
            sim.signal("server", kind.as_raw_value());
        } else {
            signal_once(sim, is_asked, kind);
        }
    });
}

#[test]
fn a_server_that_is_told_to_end_answers_what_is_in_flight() {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        twice(0..100, |sim| a_server_ends(sim, kind));
    }
}
