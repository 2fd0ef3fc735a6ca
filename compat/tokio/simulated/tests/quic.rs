//! QUIC by quinn, on both ends.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use quinn::{
    ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt,
    rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, lookup_host},
};
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};

/// Made before the simulation: the certificate has a random key.
static IDENTITY: LazyLock<(CertificateDer<'static>, PrivateKeyDer<'static>)> =
    LazyLock::new(|| {
        let made = rcgen::generate_simple_self_signed(["quic.example".to_owned()]).unwrap();
        (made.cert.into(), made.signing_key.into())
    });

/// Serves on the UDP port that has the number of the listener's.
async fn serve(listener: TcpListener) -> Result<(), Error> {
    let (certificate, key) = (IDENTITY.0.clone(), IDENTITY.1.clone_key());
    let config = ServerConfig::with_single_cert(vec![certificate], key)?;
    let endpoint = Endpoint::server(config, listener.local_addr()?)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move { talk(incoming.await?).await });
    }
    Ok(())
}

/// Sends each stream back, and each datagram.
async fn talk(connection: Connection) -> Result<(), Error> {
    let datagrams = connection.clone();
    tokio::spawn(async move {
        loop {
            let datagram = datagrams.read_datagram().await?;
            datagrams.send_datagram_wait(datagram).await?;
        }
        #[expect(unreachable_code, reason = "it gives the type")]
        Ok::<(), Error>(())
    });
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        tokio::spawn(async move {
            tokio::io::copy(&mut receive, &mut send).await?;
            send.shutdown().await
        });
    }
}

fn client() -> Result<Endpoint, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(IDENTITY.0.clone())?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(20).try_into()?));
    transport.keep_alive_interval(Some(Duration::from_secs(5)));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

async fn connect(endpoint: &Endpoint, server: &str) -> Result<Connection, Error> {
    let mut all = lookup_host(server).await?;
    let address = all
        .find(SocketAddr::is_ipv4)
        .ok_or_else(|| wrong("no IPv4"))?;
    Ok(endpoint.connect(address, "quic.example")?.await?)
}

async fn echo(connection: &Connection, sent: Vec<u8>) -> Result<Vec<u8>, Error> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let write = async {
        send.write_all(&sent).await?;
        Ok::<_, Error>(send.finish()?)
    };
    let read = async { Ok(receive.read_to_end(1 << 20).await?) };
    let ((), got) = tokio::try_join!(write, read)?;
    if got != sent {
        return Err(wrong(&format!(
            "{} of {} bytes, or others",
            got.len(),
            sent.len()
        )));
    }
    Ok(got)
}

/// Streams side by side, a datagram, and the end.
struct Quic;

impl Protocol for Quic {
    type Answers = Vec<Vec<u8>>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<Vec<u8>>, Error> {
        let endpoint = client()?;
        let connection = connect(&endpoint, &server).await?;
        let echoes = (0..5_u32).map(|n| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let sent = (0..20_000).map(|at| (at % 251 + n) as u8).collect();
                echo(&connection, sent).await
            })
        });
        let mut answers = Vec::new();
        for echo in echoes.collect::<Vec<_>>() {
            answers.push(echo.await??);
        }
        // A datagram may be lost, so it is sent until one comes back.
        loop {
            connection.send_datagram_wait("datagram".into()).await?;
            let back = connection.read_datagram();
            if let Ok(datagram) = tokio::time::timeout(Duration::from_millis(500), back).await {
                answers.push(datagram?.to_vec());
                break;
            }
        }
        connection.close(VarInt::from_u32(7), b"done");
        answers.push(format!("{:?}", connection.closed().await).into_bytes());
        endpoint.wait_idle().await;
        Ok(answers)
    }
}

/// A client that connects again when its connection is gone.
struct Stubborn;

impl Protocol for Stubborn {
    type Answers = Vec<Vec<u8>>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<Vec<u8>>, Error> {
        let endpoint = client()?;
        let open = tokio::sync::Mutex::new(None::<Connection>);
        let mut answers = Vec::new();
        for n in 0..20 {
            let answer = again(|| async {
                let mut place = open.lock().await;
                let connection = match place.take() {
                    Some(connection) => connection,
                    None => connect(&endpoint, &server).await?,
                };
                let answer = echo(&connection, vec![n; 3000]).await?;
                *place = Some(connection);
                Ok(answer)
            });
            answers.push(answer.await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn quic_is_as_on_sockets() {
    LazyLock::force(&IDENTITY);
    check::<Quic>(0..100, Faults::Network);
}

#[test]
fn a_quic_client_connects_again_to_a_server_that_crashes() {
    LazyLock::force(&IDENTITY);
    check::<Stubborn>(0..100, Faults::Crashes);
}
