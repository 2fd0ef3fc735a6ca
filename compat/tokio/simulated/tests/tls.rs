//! TLS by rustls, on both ends.

use std::sync::{Arc, LazyLock};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};
use tokio_simulated::{Error, Faults, Protocol, check};

/// Made before the simulation: the certificate has a random key.
static IDENTITY: LazyLock<(CertificateDer<'static>, PrivateKeyDer<'static>)> =
    LazyLock::new(|| {
        let made = rcgen::generate_simple_self_signed(["tls.example".to_owned()]).unwrap();
        (made.cert.into(), made.signing_key.into())
    });

struct Tls;

impl Protocol for Tls {
    type Answers = Vec<u8>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        let (certificate, key) = (IDENTITY.0.clone(), IDENTITY.1.clone_key());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        loop {
            let (stream, _) = listener.accept().await?;
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await?;
                let (mut reader, mut writer) = tokio::io::split(stream);
                tokio::io::copy(&mut reader, &mut writer).await?;
                writer.shutdown().await
            });
        }
    }

    async fn ask(server: String) -> Result<Vec<u8>, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(IDENTITY.0.clone())?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let mut all = Vec::new();
        // The second connection goes on with the session of the first.
        for n in 0..2 {
            let stream = TcpStream::connect(&server).await?;
            let stream = connector.connect("tls.example".try_into()?, stream).await?;
            let sent: Vec<u8> = (0..50_000_u32).map(|at| (at % 251 + n) as u8).collect();
            let (mut reader, mut writer) = tokio::io::split(stream);
            let write = async {
                writer.write_all(&sent).await?;
                writer.shutdown().await
            };
            let mut got = Vec::new();
            tokio::try_join!(write, reader.read_to_end(&mut got))?;
            assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
            all.extend(got);
        }
        Ok(all)
    }
}

#[test]
fn tls_is_as_on_sockets() {
    LazyLock::force(&IDENTITY);
    check::<Tls>(0..200, Faults::Network);
}
