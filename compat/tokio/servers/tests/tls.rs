//! TLS: tokio-rustls alone, and axum over it and hyper-util, with reqwest and hyper-util's own
//! client.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request},
    routing::{get, post},
};
use futures_util::{StreamExt, future::try_join_all, stream};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use reqwest::{StatusCode, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        AlertDescription, ClientConfig, Error, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self {
            certificate: made.cert.into(),
            key: made.signing_key.into(),
        }
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// The configuration of a client that trusts this one alone.
    fn trusted(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::new(self.trusted()))
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Sends back what each client sends, until the client has sent all.
async fn echo(listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await?;
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
    }
}

async fn what_is_sent_comes_back() {
    let identity = Identity::new();
    let (listener, addr) = listen().await;
    tokio::spawn(echo(listener, identity.acceptor(&[])));
    let clients = (0..20).map(|n| {
        let connector = identity.connector();
        tokio::spawn(async move {
            let stream = TcpStream::connect(addr).await?;
            let stream = connector
                .connect("localhost".try_into().unwrap(), stream)
                .await?;
            let sent: Vec<u8> = (0..500_000_u32).map(|at| (at % 251 + n) as u8).collect();
            let (mut reader, mut writer) = tokio::io::split(stream);
            let write = async {
                writer.write_all(&sent).await?;
                writer.shutdown().await
            };
            let mut got = Vec::new();
            // Neither direction waits for the other's end.
            tokio::try_join!(write, reader.read_to_end(&mut got))?;
            assert!(got == sent);
            io::Result::Ok(())
        })
    });
    for done in try_join_all(clients).await.unwrap() {
        done.unwrap();
    }
}

#[tokio::test]
async fn what_is_sent_comes_back_on_one_thread() {
    what_is_sent_comes_back().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_comes_back_on_several_threads() {
    what_is_sent_comes_back().await;
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let (listener, addr) = listen().await;
    let acceptor = Identity::new().acceptor(&[]);
    let connector = Identity::new().connector();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await.err().unwrap()
    };
    let client = async {
        let stream = TcpStream::connect(addr).await.unwrap();
        let connected = connector
            .connect("localhost".try_into().unwrap(), stream)
            .await;
        connected.err().unwrap()
    };
    let (server, client) = tokio::join!(server, client);
    let cause = |error: io::Error| error.downcast::<Error>().unwrap();
    assert!(matches!(cause(client), Error::InvalidCertificate(_)));
    assert!(matches!(
        cause(server),
        Error::AlertReceived(
            AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::DecryptError
        )
    ));
}

/// A connection that ends without TLS's own end is an error to its reader.
#[tokio::test]
async fn an_end_that_is_cut_off_is_seen() {
    let identity = Identity::new();
    let (listener, addr) = listen().await;
    let acceptor = identity.acceptor(&[]);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        stream.write_all(b"half").await.unwrap();
        stream.flush().await.unwrap();
        stream.get_mut().0.shutdown().await.unwrap();
    });
    let stream = TcpStream::connect(addr).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = identity.connector().connect(name, stream).await.unwrap();
    let mut got = Vec::new();
    let error = stream.read_to_end(&mut got).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(got, b"half");
}

/// Requests for `/held` that are under way, and that may end.
#[derive(Clone, Default)]
struct Held {
    begun: Arc<Notify>,
    end: Arc<Notify>,
    answered: Arc<AtomicBool>,
}

struct Server {
    identity: Identity,
    addr: SocketAddr,
    url: String,
    held: Held,
    /// The connections so far.
    accepted: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    /// Whether `/held` had been answered when the server ended.
    ended: JoinHandle<bool>,
}

/// axum on connections that hyper-util serves, as its own examples have it.
async fn serve() -> Server {
    let identity = Identity::new();
    let (listener, addr) = listen().await;
    let held = Held::default();
    let app = Router::new()
        .route(
            "/",
            get(async |request: Request| format!("{:?}", request.version())),
        )
        .route(
            "/double/{n}",
            get(async |Path(n): Path<u64>| (2 * n).to_string()),
        )
        .route("/echo", post(async |body: Body| body))
        .route(
            "/held",
            get({
                let held = held.clone();
                async move || {
                    held.begun.notify_one();
                    held.end.notified().await;
                    held.answered.store(true, Ordering::Relaxed);
                    "done"
                }
            }),
        );
    let acceptor = identity.acceptor(&["h2", "http/1.1"]);
    let accepted = Arc::new(AtomicUsize::new(0));
    let (count, answered) = (accepted.clone(), held.answered.clone());
    let (stop, mut stopped) = oneshot::channel();
    let ended = tokio::spawn(async move {
        let graceful = GracefulShutdown::new();
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => accepted.unwrap().0,
                _ = &mut stopped => break,
            };
            count.fetch_add(1, Ordering::Relaxed);
            let (acceptor, watcher) = (acceptor.clone(), graceful.watcher());
            let service = TowerToHyperService::new(app.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().timer(TokioTimer::new());
                builder.http2().timer(TokioTimer::new());
                let connection =
                    builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
                if let Err(error) = watcher.watch(connection.into_owned()).await {
                    eprintln!("connection error: {error}");
                }
            });
        }
        drop(listener);
        graceful.shutdown().await;
        answered.load(Ordering::Relaxed)
    });
    Server {
        url: format!("https://localhost:{}", addr.port()),
        identity,
        addr,
        held,
        accepted,
        stop,
        ended,
    }
}

fn reqwest(server: &Server, version: Version) -> reqwest::Client {
    let root = reqwest::Certificate::from_der(&server.identity.certificate).unwrap();
    let builder = reqwest::Client::builder()
        .tls_built_in_root_certs(false)
        .add_root_certificate(root)
        .https_only(true);
    match version {
        Version::HTTP_11 => builder.http1_only(),
        _ => builder,
    }
    .build()
    .unwrap()
}

async fn requests_are_answered(version: Version) -> reqwest::Result<()> {
    let server = serve().await;
    let client = reqwest(&server, version);
    let response = client.get(&server.url).send().await?;
    assert_eq!(response.version(), version);
    assert_eq!(response.text().await?, format!("{version:?}"));
    let missing = client.get(format!("{}/none", server.url)).send().await?;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);

    let requests = (0..200_u64).map(|n| {
        let request = client.get(format!("{}/double/{n}", server.url));
        tokio::spawn(async move { request.send().await?.text().await })
    });
    for (n, doubled) in try_join_all(requests)
        .await
        .unwrap()
        .into_iter()
        .enumerate()
    {
        assert_eq!(doubled?, (2 * n).to_string());
    }

    // A body that comes back while it is still sent.
    let parts = stream::iter(0..500_u32).map(|n| Ok::<_, Infallible>(n.to_be_bytes().repeat(1000)));
    let response = client
        .post(format!("{}/echo", server.url))
        .body(reqwest::Body::wrap_stream(parts))
        .send()
        .await?;
    let expected: Vec<u8> = (0..500_u32)
        .flat_map(|n| n.to_be_bytes().repeat(1000))
        .collect();
    assert!(response.bytes().await? == expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_requests_are_answered() -> reqwest::Result<()> {
    requests_are_answered(Version::HTTP_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_requests_are_answered() -> reqwest::Result<()> {
    requests_are_answered(Version::HTTP_2).await
}

#[tokio::test]
async fn one_thread_answers_requests() -> reqwest::Result<()> {
    requests_are_answered(Version::HTTP_11).await?;
    requests_are_answered(Version::HTTP_2).await
}

async fn a_graceful_end_waits(version: Version) -> reqwest::Result<()> {
    let server = serve().await;
    let client = reqwest(&server, version);
    // A second connection that has nothing under way ends at once.
    let idle = reqwest(&server, version);
    idle.get(&server.url).send().await?.text().await?;
    let request = client.get(format!("{}/held", server.url));
    let request = tokio::spawn(async move { request.send().await?.text().await });
    server.held.begun.notified().await;
    server.stop.send(()).unwrap();
    while TcpStream::connect(server.addr).await.is_ok() {}
    server.held.end.notify_one();
    assert_eq!(request.await.unwrap()?, "done");
    assert!(server.ended.await.unwrap());
    assert!(idle.get(&server.url).send().await.is_err());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_waits_for_http_1() -> reqwest::Result<()> {
    a_graceful_end_waits(Version::HTTP_11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_waits_for_http_2() -> reqwest::Result<()> {
    a_graceful_end_waits(Version::HTTP_2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_hyper_util_keeps_its_connections() {
    let server = serve().await;
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(server.identity.trusted())
        .https_only()
        .enable_all_versions()
        .build();
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .build(https);
    // The first makes the connection, and the others share it.
    for count in [1, 200] {
        let requests = (0..count).map(|n| {
            let response = client.get(format!("{}/double/{n}", server.url).parse().unwrap());
            tokio::spawn(async move { response.await.unwrap().into_body().collect().await })
        });
        let doubled = try_join_all(requests).await.unwrap();
        for (n, body) in doubled.into_iter().enumerate() {
            assert_eq!(body.unwrap().to_bytes(), (2 * n).to_string());
        }
    }
    assert_eq!(server.accepted.load(Ordering::Relaxed), 1);

    // The same client without TLS sees no HTTP here.
    let plain: Client<_, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    let url = server.url.replace("https", "http").parse().unwrap();
    assert!(plain.get(url).await.is_err());
}
