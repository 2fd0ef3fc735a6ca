//! 16 MiB there and back over eight streams, client and server on one runtime.

use std::{net::UdpSocket, sync::Arc};

use futures::future::join_all;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, ServerConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::TLS13,
};

use crate::{
    median,
    rt::{Rt, measured, on},
};

const STREAMS: usize = 8;
const BYTES: usize = 2 * 1024 * 1024;
const TRANSFERS: usize = 5;

pub(crate) fn child(runtime: &str, _: &[String]) -> Vec<f64> {
    on!(runtime, transfers())
}

fn transfers<R: Rt>() -> Vec<f64> {
    R::run(async {
        let (server_config, client_config) = configs();
        let server = endpoint::<R>(Some(server_config));
        let address = server.local_addr().expect("it is bound");
        drop(R::spawn(echo::<R>(server)));
        let mut client = endpoint::<R>(None);
        client.set_default_client_config(client_config);
        let connection = client
            .connect(address, "localhost")
            .expect("a good configuration");
        let connection = connection.await.expect("the server answers");
        transfer::<R>(&connection).await;
        let mut figures = Vec::new();
        for _ in 0..TRANSFERS {
            figures.push(measured(transfer::<R>(&connection)).await);
        }
        [0, 1]
            .map(|at| median(figures.iter().map(|row| row[at] / 1e3).collect()))
            .into()
    })
}

fn endpoint<R: Rt>(server: Option<ServerConfig>) -> Endpoint {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    Endpoint::new(EndpointConfig::default(), server, socket, R::quinn()).expect("an endpoint")
}

async fn transfer<R: Rt>(connection: &quinn::Connection) {
    let streams = (0..STREAMS).map(|_| {
        let connection = connection.clone();
        R::spawn(async move {
            let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
            let sender = R::spawn(async move {
                send.write_all(&vec![b'x'; BYTES])
                    .await
                    .expect("the server reads");
                send.finish().expect("it is open");
            });
            let got = receive
                .read_to_end(BYTES + 1)
                .await
                .expect("the server answers");
            assert_eq!(got.len(), BYTES);
            sender.await;
        })
    });
    join_all(streams.collect::<Vec<_>>()).await;
}

async fn echo<R: Rt>(endpoint: Endpoint) {
    let incoming = endpoint.accept().await.expect("one connection");
    let connection = incoming.await.expect("a handshake");
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        drop(R::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Some(len) = receive
                .read(&mut buffer)
                .await
                .expect("the client sends all")
            {
                send.write_all(&buffer[..len])
                    .await
                    .expect("the client reads");
            }
            send.finish().expect("it is open");
        }));
    }
}

fn configs() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let made = made.expect("a certificate");
    let certificate = CertificateDer::from(made.cert);
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .expect("ring knows it")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .expect("its own key");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("ring knows it")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = QuicServerConfig::try_from(server).expect("TLS 1.3");
    let client = QuicClientConfig::try_from(client).expect("TLS 1.3");
    (
        ServerConfig::with_crypto(Arc::new(server)),
        ClientConfig::new(Arc::new(client)),
    )
}
