//! HTTP by hyper on simulated hosts, unmodified, under loss and latency.
#![cfg(target_os = "linux")]

use std::{convert::Infallible, error::Error, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
    service::service_fn,
};
use ws::{
    hyper::{Executor, Io, Server},
    net::{TcpListener, TcpStream},
};
use ws_sim::network::{Latency, Link};

async fn doubles(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let twice = [&body[..], &body[..]].concat();
    Ok(Response::new(Full::new(twice.into())))
}

async fn server() -> std::io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    let never = std::future::pending::<Infallible>();
    Server::new()
        .serve(listener, service_fn(doubles), never)
        .await;
    Ok(())
}

fn request(body: &[u8]) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::copy_from_slice(body));
    Request::post("http://server/")
        .body(body)
        .expect("it is valid")
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, hyper::Error> {
    Ok(response.into_body().collect().await?.to_bytes())
}

#[test]
fn http_1_and_2_under_loss() {
    ws_sim::check(0..20, |sim| {
        sim.set_default_link(Link {
            latency: Latency::Exponential {
                min: 1_000_000,
                mean: 3_000_000,
            },
            loss_ppm: 20_000,
            ..Link::default()
        });
        sim.host("server", server);
        let body: Vec<u8> = (0..50_000).map(|n| (n % 251) as u8).collect();
        let twice = [&body[..], &body[..]].concat();
        sim.client("http1", {
            let (body, twice) = (body.clone(), twice.clone());
            async move {
                let stream = TcpStream::connect("server:80").await?;
                let (mut send, connection) = http1::handshake(Io::socket(stream)).await?;
                let connection = ws::spawn(connection);
                for _ in 0..3 {
                    let answer = send.send_request(request(&body)).await?;
                    assert_eq!(whole(answer).await?, twice);
                }
                drop(send);
                connection.await??;
                Ok::<(), Box<dyn Error>>(())
            }
        });
        sim.client("http2", async move {
            let stream = TcpStream::connect("server:80").await?;
            let (send, connection) = http2::handshake(Executor, Io::socket(stream)).await?;
            let connection = ws::spawn(connection);
            let all: Vec<_> = (0..3)
                .map(|_| {
                    let (mut send, request) = (send.clone(), request(&body));
                    ws::spawn(async move { whole(send.send_request(request).await?).await })
                })
                .collect();
            for answer in all {
                assert_eq!(answer.await??, twice);
            }
            drop(send);
            connection.await??;
            Ok::<(), Box<dyn Error>>(())
        });
        sim.try_run().unwrap();
        assert!(
            sim.elapsed() < Duration::from_secs(60),
            "{:?}",
            sim.elapsed()
        );
    });
}
