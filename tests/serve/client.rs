//! A blocking HTTP client in plain std, so that what is tested is not what tests.
//!
//! It knows what the server sends: a status line, headers, and a body of a stated length. Every
//! wait has an end, because a test that hangs tells nobody why.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// By name in lower case.
    pub(crate) headers: HashMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request, and waits for nothing.
    pub(crate) fn ask(&mut self, path: &str) {
        self.send(request("GET", path));
    }

    /// Ends the sending side, and goes on to read.
    pub(crate) fn end_sending(&mut self) {
        self.stream.get_mut().shutdown(Shutdown::Write).unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.ask(path);
        self.reply()
    }

    pub(crate) fn head(&mut self) -> Head {
        let line = self.line();
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{line}");
        let status = words.next().and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {line:?}"));
        let mut headers = HashMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                assert_eq!(line, "", "neither a header nor the end of them");
                return Head { status, headers };
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let head = self.head();
        let mut body = vec![0; head.len()];
        self.stream
            .read_exact(&mut body)
            .expect("a body of the length that was stated");
        Reply { head, body }
    }

    /// Everything until the server closes the connection, in whichever way.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            let kind = error.kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionReset, "{error}");
        }
        rest
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let end = line.strip_suffix("\r\n");
        end.unwrap_or_else(|| panic!("a line that is cut off: {line:?}"))
            .to_owned()
    }
}

impl Head {
    /// The stated length of the body.
    pub(crate) fn len(&self) -> usize {
        let len = self.headers.get("content-length");
        let len = len.and_then(|len| len.parse().ok());
        len.unwrap_or_else(|| panic!("no content-length in {self:?}"))
    }
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> String {
        let text = String::from_utf8(self.body).unwrap();
        assert_eq!(self.head.status, status, "{text}");
        text
    }
}

pub(crate) fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}
