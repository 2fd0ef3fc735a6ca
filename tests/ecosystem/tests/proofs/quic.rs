//! Proof 5: quinn. 16 MiB go there and back over eight streams, while datagrams are dropped on
//! purpose in both directions, and both endpoints come to rest.

use std::{
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime as _, ServerConfig, UdpPoller,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    udp::{RecvMeta, Transmit},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
    version::TLS13,
};
use ws::quinn::Runtime;

use crate::harness::{bytes, proofs};

const STREAMS: u64 = 8;
const BYTES: usize = 2 * 1024 * 1024;

/// Drops one call to send in `every`. Such a call is one datagram or, by segmentation offload,
/// several.
#[derive(Debug)]
struct Lossy {
    socket: Arc<dyn AsyncUdpSocket>,
    every: usize,
    sent: AtomicUsize,
    dropped: Arc<AtomicUsize>,
}

impl AsyncUdpSocket for Lossy {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.sent.fetch_add(1, Ordering::Relaxed) % self.every == self.every - 1 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// An endpoint on a lossy socket, and how many of its sends were dropped.
fn endpoint(server: Option<ServerConfig>, every: usize) -> (Endpoint, Arc<AtomicUsize>) {
    let runtime = Arc::new(Runtime::current());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let socket = Arc::new(Lossy {
        socket: runtime.wrap_udp_socket(socket).unwrap(),
        every,
        sent: AtomicUsize::new(0),
        dropped: dropped.clone(),
    });
    let config = EndpointConfig::default();
    let endpoint = Endpoint::new_with_abstract_socket(config, server, socket, runtime).unwrap();
    (endpoint, dropped)
}

fn configs() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert);
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());

    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = QuicServerConfig::try_from(server).unwrap();
    let client = QuicClientConfig::try_from(client).unwrap();
    (
        ServerConfig::with_crypto(Arc::new(server)),
        ClientConfig::new(Arc::new(client)),
    )
}

/// Sends back what comes on each stream of each connection.
async fn echo(endpoint: Endpoint) -> u64 {
    let mut echoed = 0;
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await.unwrap();
        let mut tasks = Vec::new();
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            tasks.push(ws::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                let mut echoed = 0;
                while let Some(len) = receive.read(&mut buffer).await.unwrap() {
                    send.write_all(&buffer[..len]).await.unwrap();
                    echoed += len as u64;
                }
                send.finish().unwrap();
                echoed
            }));
        }
        for task in tasks {
            echoed += task.await.unwrap();
        }
    }
    echoed
}

async fn sixteen_mebibytes(every: usize) -> [usize; 2] {
    let (server_config, client_config) = configs();
    let (server, server_dropped) = endpoint(Some(server_config), every);
    let address = server.local_addr().unwrap();
    let echo = ws::spawn(echo(server.clone()));

    let (mut client, client_dropped) = endpoint(None, every);
    client.set_default_client_config(client_config);
    let connection = client.connect(address, "localhost").unwrap().await.unwrap();
    let tasks: Vec<_> = (0..STREAMS)
        .map(|n| {
            let connection = connection.clone();
            ws::spawn(async move {
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                let data = bytes(BYTES, n);
                let sent = data.clone();
                let sender = ws::spawn(async move {
                    send.write_all(&sent).await.unwrap();
                    send.finish().unwrap();
                });
                let got = receive.read_to_end(BYTES + 1).await.unwrap();
                assert!(
                    got == data,
                    "stream {n}: {} bytes came back as others",
                    got.len()
                );
                sender.await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    server.close(0_u32.into(), b"done");
    assert_eq!(echo.await.unwrap(), STREAMS * BYTES as u64);
    server.wait_idle().await;
    [
        client_dropped.load(Ordering::Relaxed),
        server_dropped.load(Ordering::Relaxed),
    ]
}

proofs! {
    /// Nothing is dropped on purpose.
    async fn sixteen_mebibytes_over_eight_streams(env) {
        assert_eq!(sixteen_mebibytes(usize::MAX).await, [0, 0]);
    }

    /// One call in fifty, in each direction, sends nothing.
    async fn dropped_datagrams_are_sent_again(env) {
        let dropped = sixteen_mebibytes(50).await;
        assert!(dropped.iter().all(|dropped| *dropped > 0), "{dropped:?}");
    }
}
