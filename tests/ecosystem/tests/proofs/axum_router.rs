//! Proof 2: an axum `Router` without tokio's runtime: JSON, a large body, streaming, a WebSocket by
//! async-tungstenite, and TLS by futures-rustls.

use std::{
    fs,
    future::pending,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use async_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::DefaultBodyLimit,
    http::{HeaderMap, Request, Response, StatusCode, header},
    routing::{get, post},
};
use futures::{SinkExt, StreamExt, stream};
use futures_rustls::TlsAcceptor;
use hyper_util::service::TowerToHyperService;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde_json::{Value, json};
use ws::{
    hyper::{Io, Server},
    net::{TcpListener, TcpStream},
};

use crate::harness::{bytes, proofs, require, stdout};

fn router() -> Router {
    Router::new()
        .route("/json", post(reverse))
        .route("/echo", post(async |body: Bytes| body))
        .route("/stream", get(count))
        .route("/socket", get(socket))
        .layer(DefaultBodyLimit::max(1_000_000))
}

async fn reverse(Json(mut value): Json<Value>) -> Json<Value> {
    if let Some(items) = value["items"].as_array_mut() {
        items.reverse();
    }
    Json(value)
}

/// What the last part of a stream waits for.
static LAST_PART: async_lock::Semaphore = async_lock::Semaphore::new(0);

/// Sends its parts one after the other, with time between them, and the last when it is told to.
async fn count() -> Body {
    Body::from_stream(stream::iter(0..100).then(async |n| {
        if n == 99 {
            LAST_PART.acquire().await.forget();
        }
        ws::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, std::convert::Infallible>(format!("part {n}\n"))
    }))
}

/// Sends back every message of a WebSocket.
async fn socket(mut request: Request<Body>) -> Response<Body> {
    let key = |headers: &HeaderMap| {
        Some(derive_accept_key(
            headers.get("sec-websocket-key")?.as_bytes(),
        ))
    };
    let Some(key) = key(request.headers()) else {
        return Response::builder()
            .status(StatusCode::BAD_REQUEST)
            .body(Body::empty())
            .unwrap();
    };
    ws::spawn(async move {
        let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
        let mut socket =
            WebSocketStream::from_raw_socket(Io::new(upgraded), Role::Server, None).await;
        while let Some(message) = socket.next().await {
            match message.unwrap() {
                close @ Message::Close(_) => drop(close),
                message => SinkExt::send(&mut socket, message).await.unwrap(),
            }
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header("sec-websocket-accept", key)
        .body(Body::empty())
        .unwrap()
}

/// Serves the router on a port of this machine, with TLS or without.
async fn serve(tls: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = TowerToHyperService::new(router());
    let server = Server::new().on_error(|error| eprintln!("a client: {error}"));
    let end = pending::<()>();
    match tls {
        Some(tls) => {
            let server = server.tls(move |stream| tls.accept(stream));
            drop(ws::spawn(server.serve(listener, router, end)));
        }
        None => drop(ws::spawn(server.serve(listener, router, end))),
    }
    port
}

fn curl(arguments: &[&str], url: String) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "60"])
        .args(arguments)
        .arg(url);
    curl
}

proofs! {
    /// JSON goes in and comes out, and what is not JSON is refused by axum.
    async fn json(env) {
        require!("curl");
        let url = format!("http://127.0.0.1:{}/json", serve(None).await);
        let sent = json!({ "items": [1, "two", null], "other": { "ratio": 2.5 } }).to_string();
        let post = ["--header", "content-type: application/json", "--data", &sent];
        let got: Value = serde_json::from_str(&stdout(curl(&post, url.clone())).await).unwrap();
        assert_eq!(got, json!({ "items": [null, "two", 1], "other": { "ratio": 2.5 } }));

        let post = ["--header", "content-type: application/json", "--data", "{", "--write-out", "%{http_code}"];
        let refused = crate::harness::output(curl(&post, url)).await;
        assert_eq!(String::from_utf8(refused.stdout).unwrap(), "400");
    }

    /// 300 KB come back as they were sent.
    async fn a_large_body(env) {
        require!("curl");
        let body = bytes(300_000, 1);
        let (sent, got) = (env.dir.join("sent"), env.dir.join("got"));
        fs::write(&sent, &body).unwrap();
        let data = format!("@{}", sent.display());
        let post = ["--data-binary", &data, "--output", got.to_str().unwrap()];
        stdout(curl(&post, format!("http://127.0.0.1:{}/echo", serve(None).await))).await;
        assert!(fs::read(&got).unwrap() == body);
    }

    /// A hundred parts come in order, and the first of them before the last is sent.
    async fn streaming(env) {
        require!("curl");
        let url = format!("http://127.0.0.1:{}/stream", serve(None).await);
        let got = ws::spawn_blocking(|| {
            let mut curl = curl(&["--no-buffer"], url).stdout(Stdio::piped()).spawn().unwrap();
            let mut parts = BufReader::new(curl.stdout.take().unwrap());
            let mut got = String::new();
            parts.read_line(&mut got).unwrap();
            LAST_PART.add_permits(1);
            parts.read_to_string(&mut got).unwrap();
            assert!(curl.wait().unwrap().success());
            got
        });
        let expected: String = (0..100).map(|n| format!("part {n}\n")).collect();
        assert_eq!(got.await.unwrap(), expected);
    }

    /// 200 messages of 70 KB, four under way at a time, come back in order and as they were.
    async fn websocket(env) {
        let port = serve(None).await;
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (socket, answer) = client_async(format!("ws://127.0.0.1:{port}/socket"), stream).await.unwrap();
        assert_eq!(answer.status().as_u16(), 101);
        let (mut sender, mut receiver) = StreamExt::split(socket);
        let window = Arc::new(async_lock::Semaphore::new(4));
        let send_window = window.clone();
        let sending = ws::spawn(async move {
            for n in 0..200 {
                send_window.acquire().await.forget();
                SinkExt::send(&mut sender, Message::Binary(bytes(70_000, n).into())).await.unwrap();
            }
            sender
        });
        for n in 0..200 {
            let message = receiver.next().await.unwrap().unwrap();
            assert!(message.into_data()[..] == bytes(70_000, n), "message {n}");
            window.add_permits(1);
        }
        let mut sender = sending.await.unwrap();
        SinkExt::close(&mut sender).await.unwrap();
        while let Some(message) = receiver.next().await {
            assert!(message.unwrap().is_close());
        }
    }

    /// curl trusts the certificate that was made for this when it is told to, and not before.
    async fn tls(env) {
        require!("curl");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = env.dir.join("certificate.pem");
        fs::write(&certificate, made.cert.pem()).unwrap();
        let chain = vec![CertificateDer::from(made.cert)];
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let port = serve(Some(TlsAcceptor::from(Arc::new(config)))).await;

        let body = bytes(300_000, 2);
        let (sent, got) = (env.dir.join("sent"), env.dir.join("got"));
        fs::write(&sent, &body).unwrap();
        let data = format!("@{}", sent.display());
        let url = format!("https://localhost:{port}/echo");
        let stranger = crate::harness::output(curl(&["--data-binary", &data], url.clone())).await;
        assert_eq!(stranger.status.code(), Some(60), "the certificate cannot be verified");
        let post = [
            "--cacert", certificate.to_str().unwrap(),
            "--data-binary", &data,
            "--output", got.to_str().unwrap(),
            "--write-out", "%{ssl_verify_result} %{scheme}",
        ];
        assert_eq!(stdout(curl(&post, url)).await.to_lowercase(), "0 https");
        assert!(fs::read(&got).unwrap() == body);
    }
}
