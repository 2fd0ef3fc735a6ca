//! What is asked and what is answered. One request of a connection is under way at a time.

use std::{io, str::FromStr};

const MESSAGE: [u8; 64] = [b'w'; 64];
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: 127.0.0.1:8080\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\
    date: Sun, 29 Nov 2026 09:00:00 GMT\r\n\r\nhello";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// 64 bytes there and back.
    Echo,
    /// A fixed request of HTTP and its fixed answer.
    Hello,
}

impl Work {
    pub(crate) const ALL: [Work; 2] = [Work::Echo, Work::Hello];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Work::Echo => "echo",
            Work::Hello => "hello",
        }
    }

    pub(crate) const fn request(self) -> &'static [u8] {
        match self {
            Work::Echo => &MESSAGE,
            Work::Hello => REQUEST,
        }
    }

    pub(crate) const fn answer_len(self) -> usize {
        match self {
            Work::Echo => MESSAGE.len(),
            Work::Hello => ANSWER.len(),
        }
    }

    /// The answer to a request. On loopback a request of this size comes in one piece.
    pub(crate) fn answer(self, request: &[u8]) -> io::Result<&[u8]> {
        match self {
            Work::Echo if request.len() == MESSAGE.len() => Ok(request),
            Work::Hello if request == REQUEST => Ok(ANSWER),
            _ => Err(io::Error::other("a request came in pieces")),
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(name: &str) -> Result<Work, String> {
        let found = Work::ALL.into_iter().find(|work| work.name() == name);
        found.ok_or_else(|| format!("{name}: not echo or hello"))
    }
}
