//! axum's server and reqwest's client, on HTTP/1 and HTTP/2.

use std::time::Duration;

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Request},
    routing::{get, post},
};
use futures::{StreamExt, stream};
use reqwest::{Client, StatusCode, Version};
use tokio::net::TcpListener;
use tokio_simulated::{Error, Faults, Protocol, again, check};

fn router() -> Router {
    Router::new()
        .route(
            "/version",
            get(async |request: Request| format!("{:?}", request.version())),
        )
        .route(
            "/double/{n}",
            get(async |Path(n): Path<u64>| (2 * n).to_string()),
        )
        .route(
            "/sorted",
            post(async |Json(mut numbers): Json<Vec<u64>>| {
                numbers.sort_unstable();
                Json(numbers)
            }),
        )
        .route("/echo", post(async |body: Body| body))
        .route("/ticks", get(ticks))
}

/// A body that takes its time.
async fn ticks() -> Body {
    Body::from_stream(stream::iter(0..5).then(async |n| {
        tokio::time::sleep(Duration::from_millis(3)).await;
        Ok::<_, std::io::Error>(format!("{n};"))
    }))
}

fn client(version: Version) -> reqwest::Result<Client> {
    let builder = Client::builder().no_proxy();
    match version {
        Version::HTTP_2 => builder.http2_prior_knowledge().build(),
        _ => builder.http1_only().build(),
    }
}

/// All kinds of requests, one after the other and side by side.
async fn requests(version: Version, server: String) -> Result<Vec<String>, Error> {
    let client = client(version)?;
    let at = |path: &str| format!("http://{server}{path}");
    let mut answers = Vec::new();
    answers.push(client.get(at("/version")).send().await?.text().await?);
    let missing = client.get(at("/none")).send().await?;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let sorted = client.post(at("/sorted")).json(&[3, 1, 2]).send().await?;
    answers.push(format!("{:?}", sorted.json::<Vec<u64>>().await?));
    let side_by_side: Vec<_> = (0..10)
        .map(|n| tokio::spawn(client.get(at(&format!("/double/{n}"))).send()))
        .collect();
    for request in side_by_side {
        answers.push(request.await??.text().await?);
    }
    let parts = stream::iter(0..50_u32).map(|n| Ok::<_, Error>(n.to_be_bytes().repeat(1000)));
    let echo = client
        .post(at("/echo"))
        .body(reqwest::Body::wrap_stream(parts));
    let echoed = echo.send().await?.bytes().await?;
    let sum: u64 = echoed.iter().map(|byte| u64::from(*byte)).sum();
    answers.push(format!("{} {sum}", echoed.len()));
    answers.push(client.get(at("/ticks")).send().await?.text().await?);
    Ok(answers)
}

async fn serve(listener: TcpListener) -> Result<(), Error> {
    Ok(axum::serve(listener, router()).await?)
}

struct Http1;

impl Protocol for Http1 {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        requests(Version::HTTP_11, server).await
    }
}

struct Http2;

impl Protocol for Http2 {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        requests(Version::HTTP_2, server).await
    }
}

/// A client that asks again until it is answered, 20 times.
struct Stubborn;

impl Protocol for Stubborn {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let clients = [client(Version::HTTP_11)?, client(Version::HTTP_2)?];
        let mut answers = Vec::new();
        for n in 0..20 {
            let (client, url) = (&clients[n % 2], format!("http://{server}/double/{n}"));
            let answer = again(|| async { Ok(client.get(&url).send().await?.text().await?) });
            answers.push(answer.await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn http_1_is_as_on_sockets() {
    check::<Http1>(0..200, Faults::Network);
}

#[test]
fn http_2_is_as_on_sockets() {
    check::<Http2>(0..200, Faults::Network);
}

#[test]
fn requests_are_answered_by_a_server_that_crashes() {
    check::<Stubborn>(0..200, Faults::Crashes);
}
