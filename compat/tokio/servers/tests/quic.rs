//! quinn on its default runtime.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig, TransportConfig,
    rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    },
};
use tokio::io::AsyncWriteExt;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// An endpoint that listens, and its certificate.
fn make_server_endpoint() -> Result<(Endpoint, CertificateDer<'static>)> {
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let cert_der = CertificateDer::from(cert.cert);
    let priv_key = PrivatePkcs8KeyDer::from(cert.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![cert_der.clone()], priv_key.into())?;
    Ok((Endpoint::server(config, ANY_PORT)?, cert_der))
}

/// An endpoint that trusts a certificate.
fn make_client_endpoint(
    cert: CertificateDer<'static>,
    transport: TransportConfig,
) -> Result<Endpoint> {
    let mut certs = RootCertStore::empty();
    certs.add(cert)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(certs))?;
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client(ANY_PORT)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// The endpoints of a client and of a server, and their connection.
async fn connect(
    transport: TransportConfig,
) -> Result<((Endpoint, Connection), (Endpoint, Connection))> {
    let (server, cert) = make_server_endpoint()?;
    let client = make_client_endpoint(cert, transport)?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()?, "localhost")?, async {
        server.accept().await.unwrap().await
    });
    Ok(((client, ours?), (server, theirs?)))
}

/// Fifty streams at once, each with an echo of half a megabyte; they and their datagrams end with
/// the connection.
#[tokio::test(flavor = "multi_thread")]
async fn streams_go_both_ways_at_once() -> Result {
    let ((client, ours), (server, theirs)) = connect(TransportConfig::default()).await?;
    let serve = tokio::spawn(async move {
        loop {
            match theirs.accept_bi().await {
                Ok((mut send, mut recv)) => tokio::spawn(async move {
                    tokio::io::copy(&mut recv, &mut send).await.unwrap();
                    send.shutdown().await.unwrap();
                }),
                Err(error) => return error,
            };
        }
    });
    let echoes = (0..50_u8).map(|n| {
        let ours = ours.clone();
        tokio::spawn(async move {
            let (mut send, mut recv) = ours.open_bi().await?;
            let all: Vec<u8> = (0..500_000_u32).map(|i| n ^ i.to_le_bytes()[1]).collect();
            let (sent, received) = tokio::join!(
                async {
                    send.write_all(&all).await?;
                    Result::Ok(send.finish()?)
                },
                recv.read_to_end(1_000_000)
            );
            sent?;
            Result::Ok(received? == all)
        })
    });
    for echo in echoes.collect::<Vec<_>>() {
        assert!(echo.await??);
    }

    ours.close(7_u32.into(), b"done");
    client.wait_idle().await;
    let ConnectionError::ApplicationClosed(close) = serve.await? else {
        panic!("the server is told of another end");
    };
    assert_eq!(
        (close.error_code.into_inner(), &close.reason[..]),
        (7, &b"done"[..])
    );
    server.wait_idle().await;
    Ok(())
}

#[tokio::test]
async fn streams_one_way_and_datagrams() -> Result {
    let ((_client, ours), (_server, theirs)) = connect(TransportConfig::default()).await?;
    for n in 0..100 {
        let mut send = ours.open_uni().await?;
        send.write_all(format!("stream {n}").as_bytes()).await?;
        send.finish()?;
        let mut recv = theirs.accept_uni().await?;
        assert_eq!(
            recv.read_to_end(100).await?,
            format!("stream {n}").as_bytes()
        );
        // The peer has it all.
        assert_eq!(send.stopped().await?, None);
    }

    // The writer has no room until the reader says that it wants no more.
    let (mut send, _recv) = ours.open_bi().await?;
    send.write_all(b"begin").await?;
    let (_send, mut recv) = theirs.accept_bi().await?;
    let writer = tokio::spawn(async move {
        loop {
            if let Err(error) = send.write_all(&[0; 10_000]).await {
                return error;
            }
        }
    });
    recv.read_exact(&mut [0; 5]).await?;
    recv.stop(3_u32.into())?;
    assert_eq!(writer.await?, quinn::WriteError::Stopped(3_u32.into()));

    // A datagram may get lost, and so it is sent until one comes.
    let received = tokio::spawn(async move { theirs.read_datagram().await });
    while !received.is_finished() {
        ours.send_datagram_wait("datagram".into()).await?;
        tokio::task::yield_now().await;
    }
    assert_eq!(received.await??, "datagram");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections() -> Result {
    let (server, cert) = make_server_endpoint()?;
    let address = server.local_addr()?;
    let client = make_client_endpoint(cert, TransportConfig::default())?;
    let serve = tokio::spawn(async move {
        let mut connections = Vec::new();
        for _ in 0..30 {
            let connection = server.accept().await.unwrap().await?;
            let mut send = connection.open_uni().await?;
            send.write_all(connection.remote_address().to_string().as_bytes())
                .await?;
            send.finish()?;
            connections.push(connection);
        }
        Result::Ok((server, connections))
    });
    let clients = (0..30).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let connection = client.connect(address, "localhost")?.await?;
            let mut recv = connection.accept_uni().await?;
            let told = recv.read_to_end(100).await?;
            Result::Ok(told == client.local_addr()?.to_string().as_bytes())
        })
    });
    for client in clients.collect::<Vec<_>>() {
        assert!(client.await??);
    }
    drop(serve.await??);
    Ok(())
}

/// Nothing is sent on the connection, and so both sides give it up.
#[tokio::test]
async fn an_idle_connection_ends() -> Result {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_millis(500).try_into()?));
    let ((_client, ours), (_server, theirs)) = connect(transport).await?;
    assert_eq!(ours.closed().await, ConnectionError::TimedOut);
    assert_eq!(theirs.closed().await, ConnectionError::TimedOut);
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_another_is_refused() -> Result {
    let (server, _) = make_server_endpoint()?;
    let (_, cert) = make_server_endpoint()?;
    let client = make_client_endpoint(cert, TransportConfig::default())?;
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()?, "localhost")?, async {
        server.accept().await.unwrap().await
    });
    assert!(
        matches!(ours, Err(ConnectionError::TransportError(_))),
        "{ours:?}"
    );
    assert!(
        matches!(theirs, Err(ConnectionError::ConnectionClosed(_))),
        "{theirs:?}"
    );
    Ok(())
}
