//! A connector for the client of [hyper-util] (feature `hyper-util`).
//!
//! hyper itself speaks HTTP on a stream that it is given. The client of hyper-util adds what lies
//! around it: it looks up the host, keeps a pool of connections, and speaks HTTP/1 or HTTP/2 on
//! them. It takes a [`Connector`], with [`Executor`](crate::hyper::Executor) and
//! [`Timer`](crate::hyper::Timer) of [`ws::hyper`](crate::hyper):
//!
//! ```
//! use http_body_util::{BodyExt, Empty};
//! use hyper::body::Bytes;
//! use hyper_util::client::legacy::Client;
//! use ws::hyper::{Executor, Timer};
//! use ws::hyper_util::Connector;
//!
//! # use ws::io::{AsyncReadExt, AsyncWriteExt};
//! # #[ws::main(workers = 1)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = ws::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let address = listener.local_addr()?;
//! # ws::spawn(async move {
//! #     let (mut stream, _) = listener.accept().await?;
//! #     stream.read(&mut [0; 1024]).await?;
//! #     stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await
//! # });
//! let client: Client<_, Empty<Bytes>> = Client::builder(Executor)
//!     .timer(Timer)
//!     .pool_timer(Timer) // without it, idle connections stay in the pool until they are asked for
//!     .build(Connector::new());
//!
//! let answer = client.get(format!("http://{address}/").parse()?).await?;
//! assert_eq!(answer.into_body().collect().await?.to_bytes(), "hello");
//! # Ok(())
//! # }
//! ```
//!
//! For TLS, wrap the connector in a service of your own that does the handshake (with
//! `futures-rustls`, say), or use one that is generic over the inner connector, like
//! `hyper-rustls`, after [`Connector::allow_https`].
//!
//! hyper-util brings tokio's crate with its feature `net`, for a connector of its own. That one is
//! not used, and no runtime of tokio's is needed or started.
//!
//! [hyper-util]: https://docs.rs/hyper-util

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ::hyper::{Uri, http::uri::Scheme};
use ::hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

use crate::{hyper::Io, net::TcpStream, time};

/// Connects to the host of a URI by TCP.
///
/// A name is looked up off the workers, and its addresses are tried one after the other. A clone
/// has the same settings, and shares nothing else.
#[derive(Clone, Debug)]
pub struct Connector {
    nodelay: bool,
    timeout: Option<Duration>,
    https: bool,
}

impl Connector {
    /// Makes a connector for `http`: small writes are sent at once, and there is no limit to the
    /// time that a connection takes.
    pub const fn new() -> Self {
        Self {
            nodelay: true,
            timeout: None,
            https: false,
        }
    }

    /// Says whether small writes are sent at once; see [`TcpStream::set_nodelay`]. On by default: a
    /// request is one write or few, and the answer waits for the last.
    #[must_use]
    pub const fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// Limits the time that a connection takes, with the lookup of its name and all addresses
    /// together. No limit by default.
    #[must_use]
    pub const fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects for `https` as well, by plain TCP: for code that wraps this connector and does the
    /// handshake.
    #[must_use]
    pub const fn allow_https(mut self) -> Self {
        self.https = true;
        self
    }

    /// The host and the port that a URI means, or why it means none.
    fn target<'a>(&self, uri: &'a Uri) -> io::Result<(&'a str, u16)> {
        let invalid = |what: &str| {
            let message = format!("cannot connect to {uri}: {what}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) => return Err(invalid("the scheme is not http")),
            None => return Err(invalid("it has no scheme")),
        };
        if tls && !self.https {
            return Err(invalid("this connector does no TLS"));
        }
        let host = uri.host().ok_or_else(|| invalid("it has no host"))?;
        // An IPv6 address stands in brackets.
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok((bare.unwrap_or(host), port))
    }

    async fn connect(self, uri: Uri) -> io::Result<Io<TcpStream>> {
        let connect = TcpStream::connect(self.target(&uri)?);
        let stream = match self.timeout {
            Some(limit) => time::timeout(limit, connect).await??,
            None => connect.await?,
        };
        stream.set_nodelay(self.nodelay)?;
        Ok(Io::socket(stream))
    }
}

impl Default for Connector {
    /// As [`Connector::new`].
    fn default() -> Self {
        Self::new()
    }
}

/// # Errors
///
/// The future fails with [`InvalidInput`](io::ErrorKind::InvalidInput) for a URI that is not
/// `http`, [`TimedOut`](io::ErrorKind::TimedOut), or as [`TcpStream::connect`] does.
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
impl Service<Uri> for Connector {
    type Response = Io<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Io<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

impl Connection for Io<TcpStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// For connectors of users' own, to a server behind a Unix socket.
#[cfg(unix)]
impl Connection for Io<crate::net::UnixStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(connector: &Connector, uri: &str) -> Result<(String, u16), String> {
        match connector.target(&uri.parse().unwrap()) {
            Ok((host, port)) => Ok((host.to_owned(), port)),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                Err(error.to_string())
            }
        }
    }

    #[test]
    fn a_uri_means_a_host_and_a_port() {
        let plain = Connector::new();
        let both = Connector::new().allow_https();
        for (uri, host, port) in [
            ("http://example.org/x?y", "example.org", 80),
            ("http://example.org:8080", "example.org", 8080),
            ("http://user@[::1]:81/", "::1", 81),
        ] {
            assert_eq!(target(&plain, uri), Ok((host.to_owned(), port)));
            assert_eq!(target(&both, uri), Ok((host.to_owned(), port)));
        }
        let tls = target(&both, "https://example.org");
        assert_eq!(tls, Ok(("example.org".to_owned(), 443)));
    }

    #[test]
    fn a_uri_for_others_is_refused_with_a_reason() {
        let plain = Connector::new();
        for (uri, reason) in [
            ("https://example.org/", "this connector does no TLS"),
            ("ftp://example.org/", "the scheme is not http"),
            ("/path", "it has no scheme"),
        ] {
            let error = target(&plain, uri).unwrap_err();
            assert_eq!(error, format!("cannot connect to {uri}: {reason}"));
        }
    }
}
