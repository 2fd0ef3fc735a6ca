//! A runtime with a page, and a blocking client of it.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use ws::{
    inspect::Inspect,
    runtime::{Builder, Runtime},
};

/// Longer than anything takes here, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A runtime that serves its page.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) page: Inspect,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::built(Builder::new().workers(2))
    }

    pub(crate) fn built(builder: Builder) -> Self {
        let runtime = builder.build().unwrap();
        let page = runtime.block_on(ws::inspect::serve("127.0.0.1:0")).unwrap();
        Self { runtime, page }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.page.addr())
    }

    /// What `/state` answers to a query.
    pub(crate) fn state(&self, query: &str) -> Value {
        self.client().get(&format!("/state?{query}")).json()
    }

    /// The token, as the page has it.
    pub(crate) fn token(&self) -> String {
        let page = self.client().get("/").text();
        let token = page.split("const TOKEN = \"").nth(1).unwrap();
        token.split('"').next().unwrap().to_owned()
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// By name in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the page is served");
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self {
            stream: BufReader::new(stream),
            address,
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a request with these headers besides `host`, each with its line's end.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str) -> Reply {
        let host = self.address;
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n"
        ));
        self.reply().expect("there is an answer")
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.ask("GET", path, "")
    }

    /// Nothing if the connection ends instead.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        Some(Reply {
            status,
            headers,
            body,
        })
    }
}

impl Reply {
    #[track_caller]
    pub(crate) fn text(self) -> String {
        let text = String::from_utf8(self.body).unwrap();
        assert_eq!(self.status, 200, "{text}");
        text
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "not so in two minutes: {what}");
        thread::yield_now();
    }
}
