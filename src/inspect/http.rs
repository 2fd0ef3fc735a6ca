//! As much of HTTP/1.1 as the page needs: a head without a body in, an answer with a stated length
//! out. A file is sent piece by piece, so one of any length takes the memory of a piece.

use std::{fs::File, io, sync::Arc, time::Duration};

use futures::{AsyncReadExt, AsyncWriteExt};

use super::aside;
use crate::{net::TcpStream, os::read_exact_at, time::timeout};

/// The most bytes of a request's head. What a browser sends is below 2 KiB.
const HEAD_MAX: usize = 8 << 10;

/// The most headers of a request.
const HEADERS_MAX: usize = 64;

/// Bytes of a file that are sent at a time. Guessed: some packets' worth.
const PIECE: usize = 256 << 10;

/// How long a connection may be silent, and how long a client may take for an answer, or for a
/// piece of a file.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// The client wants the connection to end with the answer.
    pub(super) closes: bool,
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// The client has gone, or was silent for too long.
    Gone,
    /// It is answered with this status, and the connection ends.
    Refused(u16, &'static str),
}

impl Request {
    /// The value of a header, if there is one. Two of a name are none: which one counts?
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(it, _)| it == name);
        let (_, value) = all.next()?;
        all.next().is_none().then_some(value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(it, _)| it == name)
    }
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not used.
    read: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            read: Vec::new(),
        }
    }

    /// Waits for a request.
    pub(super) async fn request(&mut self) -> Result<Request, NoRequest> {
        let request = timeout(PATIENCE, self.read_request()).await;
        request.unwrap_or(Err(NoRequest::Gone))
    }

    async fn read_request(&mut self) -> Result<Request, NoRequest> {
        loop {
            if let Some((request, length)) = parse(&self.read)? {
                self.read.drain(..length);
                return Ok(request);
            }
            if self.read.len() >= HEAD_MAX {
                return Err(NoRequest::Refused(
                    431,
                    "the head of the request is too long",
                ));
            }
            let mut piece = [0; 2048];
            match self.stream.read(&mut piece).await {
                Ok(0) | Err(_) => return Err(NoRequest::Gone),
                Ok(length) => self.read.extend_from_slice(&piece[..length]),
            }
        }
    }

    /// Sends an answer.
    pub(super) async fn send(&mut self, answer: Answer, head_alone: bool) -> io::Result<()> {
        let mut head = answer.head().into_bytes();
        match answer.body {
            _ if head_alone => self.write(&head).await,
            // In one packet.
            Body::Bytes(body) if body.len() < PIECE => {
                head.extend_from_slice(&body);
                self.write(&head).await
            }
            Body::Bytes(body) => {
                self.write(&head).await?;
                self.write(&body).await
            }
            Body::File(file, length) => {
                self.write(&head).await?;
                self.send_file(file, length).await
            }
        }
    }

    async fn send_file(&mut self, file: Arc<File>, length: u64) -> io::Result<()> {
        let mut sent = 0;
        let mut piece = Vec::new();
        while sent < length {
            let file = file.clone();
            let wanted = usize::try_from(length - sent).map_or(PIECE, |rest| rest.min(PIECE));
            piece.resize(wanted, 0);
            // One that has become shorter is an error, and the client sees the connection end.
            let read = aside(move || read_exact_at(&file, &mut piece, sent).map(|()| piece));
            piece = read.await??;
            self.write(&piece).await?;
            sent += wanted as u64;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(PATIENCE, self.stream.write_all(bytes)).await?
    }
}

/// The request at the begin of some bytes, and its length, if it is whole.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, NoRequest> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(NoRequest::Refused(431, "there are too many headers"));
        }
        Err(_) => return Err(NoRequest::Refused(400, "this is not a request of HTTP/1.1")),
    };
    let (authority, target) = split_target(parsed.path.unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
        closes: parsed.version == Some(0),
    };
    for header in parsed.headers.iter() {
        let Ok(value) = std::str::from_utf8(header.value) else {
            return Err(NoRequest::Refused(400, "a header is not a text"));
        };
        let name = header.name.to_ascii_lowercase();
        let value = value.trim();
        if name == "connection" {
            let mut options = value.split(',');
            request.closes |= options.any(|it| it.trim().eq_ignore_ascii_case("close"));
        }
        request.headers.push((name, value.to_owned()));
    }
    if let Some(authority) = authority {
        request.headers.retain(|(name, _)| name != "host");
        let host = ("host".to_owned(), authority.to_owned());
        request.headers.push(host);
    }
    // No request of the page has a body. One that came would be read as the next request.
    let has_body = request.has("transfer-encoding")
        || request.has("content-length") && request.header("content-length") != Some("0");
    if has_body {
        return Err(NoRequest::Refused(413, "no request here has a body"));
    }
    Ok(Some((request, length)))
}

/// The authority of a target, if it has one, and the rest. A request by way of a proxy has one, and
/// then it counts and not `Host` (RFC 9112, 3.2.2).
fn split_target(target: &str) -> (Option<&str>, &str) {
    const SCHEME: &str = "http://";
    match target.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, rest) = rest.split_at(end);
            let is_root = rest.is_empty() || rest.starts_with('?');
            (Some(authority), if is_root { "/" } else { rest })
        }
        _ => (None, target),
    }
}

/// What an answer has below its head.
#[derive(Debug)]
pub(super) enum Body {
    Bytes(Vec<u8>),
    /// So many bytes of a file, from its begin.
    File(Arc<File>, u64),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    /// Lines of the head beside those that each answer has.
    pub(super) headers: String,
    pub(super) body: Body,
    /// The connection ends with it.
    pub(super) last: bool,
}

impl Answer {
    pub(super) fn new(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::with(content_type, Body::Bytes(body.into()))
    }

    /// A file.
    pub(super) fn file(content_type: &'static str, file: Arc<File>) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::with(content_type, Body::File(file, length)))
    }

    fn with(content_type: &'static str, body: Body) -> Self {
        Self {
            status: 200,
            content_type,
            headers: String::new(),
            body,
            last: false,
        }
    }

    /// Why there is nothing else. The connection ends: what comes on it is not trusted.
    pub(super) fn refusal(status: u16, why: &str) -> Self {
        Self {
            status,
            last: true,
            ..Self::new("text/plain; charset=utf-8", format!("{why}\n"))
        }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            _ => "Internal Server Error",
        };
        let (status, content_type) = (self.status, self.content_type);
        let length = match &self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::File(_, length) => *length,
        };
        let connection = if self.last { "close" } else { "keep-alive" };
        let headers = &self.headers;
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\n\
             content-length: {length}\r\nconnection: {connection}\r\ncache-control: no-store\r\n\
             x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\
             cross-origin-resource-policy: same-origin\r\nx-frame-options: DENY\r\n{headers}\r\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> u16 {
        match parse(text.as_bytes()) {
            Err(NoRequest::Refused(status, _)) => status,
            other => panic!("{text:?} is taken: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let text = "GET /a/b?c=d HTTP/1.1\r\nHost:  x \r\nA: 1\r\nA: 2\r\n\r\nGET";
        let whole = text.len() - 3;
        for length in 0..whole {
            assert!(matches!(parse(&text.as_bytes()[..length]), Ok(None)));
        }
        let (request, length) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(length, whole);
        assert_eq!((&*request.path, &*request.query), ("/a/b", "c=d"));
        assert_eq!(request.header("host"), Some("x"));
        assert_eq!(request.header("a"), None, "two of a name are none");
    }

    fn parsed(text: &str) -> Request {
        parse(text.as_bytes()).unwrap().unwrap().0
    }

    #[test]
    fn a_client_may_have_the_connection_closed() {
        let closes = |text| parsed(text).closes;
        assert!(!closes("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(!closes("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"));
        assert!(closes("GET / HTTP/1.1\r\nConnection: TE, Close\r\n\r\n"));
        assert!(closes("GET / HTTP/1.0\r\nHost: x\r\n\r\n"));
    }

    #[test]
    fn a_whole_address_counts_and_not_the_host() {
        let whole = |target: &str| {
            let text = format!("GET {target} HTTP/1.1\r\nHost: other\r\n\r\n");
            let request = parsed(&text);
            let host = request.header("host").unwrap_or_default().to_owned();
            (host, request.path, request.query)
        };
        let is = |host: &str, path: &str, query: &str| (host.into(), path.into(), query.into());
        assert_eq!(whole("http://a:1/state?x=1"), is("a:1", "/state", "x=1"));
        assert_eq!(whole("HTTP://a"), is("a", "/", ""));
        assert_eq!(whole("/http://a/"), is("other", "/http://a/", ""));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(refused("GET\0 / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET / FTP/1.1\r\n\r\n"), 400);
    }

    #[test]
    fn a_body_is_refused() {
        assert_eq!(refused("POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n"), 413);
        assert_eq!(
            refused("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            413
        );
        let two = "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(refused(two), 413);
        assert!(parse(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").is_ok());
    }

    #[test]
    fn too_many_headers_are_refused() {
        let headers = "a: 1\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{headers}\r\n")), 431);
    }
}
