//! The part of reqwest that the store uses, on turmoil's sockets: a connection for each request.
use std::{error, fmt, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use turmoil::net::TcpStream;

/// As reqwest's.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in words.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Error {}

fn failed(error: impl fmt::Display) -> Error {
    Error(error.to_string())
}

#[derive(Clone, Copy, Debug)]
pub struct Client;

#[derive(Clone, Copy, Debug)]
pub struct ClientBuilder;

impl ClientBuilder {
    pub fn no_proxy(self) -> Self {
        self
    }

    pub fn build(self) -> Result<Client> {
        Ok(Client)
    }
}

impl Client {
    pub fn builder() -> ClientBuilder {
        ClientBuilder
    }

    pub fn post(&self, address: String) -> RequestBuilder {
        RequestBuilder {
            address,
            body: Ok(Vec::new()),
            timeout: Duration::MAX,
        }
    }
}

pub struct RequestBuilder {
    address: String,
    body: Result<Vec<u8>>,
    timeout: Duration,
}

impl RequestBuilder {
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).map_err(failed);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub async fn send(self) -> Result<Response> {
        let body = self.body?;
        let answer = tokio::time::timeout(self.timeout, exchange(&self.address, body)).await;
        answer.map_err(failed)?.map(Response)
    }
}

async fn exchange(address: &str, body: Vec<u8>) -> Result<Bytes> {
    let host = address.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let host = host.ok_or_else(|| failed("not an address"))?;
    let stream = TcpStream::connect(host).await.map_err(failed)?;
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(failed)?;
    let connection = tokio::spawn(connection);
    let request = Request::post(address)
        .header("host", host)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)));
    let response = sender.send_request(request.map_err(failed)?).await;
    let body = response.map_err(failed)?.into_body().collect().await;
    connection.abort();
    Ok(body.map_err(failed)?.to_bytes())
}

pub struct Response(Bytes);

impl Response {
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        serde_json::from_slice(&self.0).map_err(failed)
    }
}
