//! `ws::inspect` answers this machine, and no page of another host: not by its name for loopback
//! (DNS rebinding), not by a request across sites (CSRF). What is too long or too much is refused.
//!
//! It fails if a check of `guard.rs`, a limit of `http.rs` or the limit of connections is taken
//! away.

use std::io::ErrorKind;

use crate::client::{Client, Served, until};

#[test]
fn only_loopback_is_listened_on() {
    let runtime = ws::runtime::Runtime::new().unwrap();
    for address in ["0.0.0.0:7070", "[::]:7070", "192.0.2.1:7070"] {
        let error = runtime.block_on(ws::inspect::serve(address)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains("ssh -L 7070:127.0.0.1:7070"), "{text}");
    }
}

/// The status of the answer to a request with these lines, on a connection of its own.
fn status(served: &Served, lines: &str) -> u16 {
    let mut client = served.client();
    client.send(&format!("{lines}\r\n"));
    client.reply().expect("there is an answer").status
}

#[test]
fn other_names_and_other_pages_are_refused() {
    let served = Served::new();
    let port = served.page.addr().port();
    for path in ["/", "/state?", "/perfetto"] {
        let get = |lines: &str| status(&served, &format!("GET {path} HTTP/1.1\r\n{lines}"));
        let host = format!("Host: localhost:{port}\r\n");
        assert_eq!(get(&host), 200);
        assert_eq!(get(&format!("Host: [::1]:{port}\r\n")), 200);
        // The near end of a tunnel.
        assert_eq!(get("Host: localhost:8000\r\n"), 200);
        assert_eq!(get("Host: evil.example\r\n"), 403);
        assert_eq!(get(&format!("Host: evil.example:{port}\r\n")), 403);
        assert_eq!(get(""), 400, "without a host");
        assert_eq!(get(&format!("{host}Host: evil.example\r\n")), 400);

        let with = |header: &str| get(&format!("{host}{header}\r\n"));
        assert_eq!(with(&format!("Origin: http://localhost:{port}")), 200);
        assert_eq!(with("Origin: http://evil.example"), 403);
        assert_eq!(with("Origin: null"), 403);
        assert_eq!(with("Origin: http://localhost:1"), 403, "another port");
        assert_eq!(with(&format!("Origin: https://localhost:{port}")), 403);
        assert_eq!(with("Sec-Fetch-Site: same-origin"), 200);
        assert_eq!(with("Sec-Fetch-Site: none"), 200);
        assert_eq!(with("Sec-Fetch-Site: cross-site"), 403);
        assert_eq!(with("Sec-Fetch-Site: same-site"), 403);
        let twice = "Sec-Fetch-Site: none\r\nSec-Fetch-Site: none";
        assert_eq!(with(twice), 403);
    }
}

#[test]
fn the_page_loads_nothing_and_is_kept_nowhere() {
    let reply = Served::new().client().get("/");
    let header = |name: &str| reply.headers[name].as_str();
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("x-frame-options"), "DENY");
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let cors = reply.headers.keys().find(|name| name.contains("allow"));
    assert_eq!(cors, None);
}

#[test]
fn what_is_too_long_is_refused() {
    let served = Served::new();
    let host = "Host: localhost\r\n";
    let long = format!("GET / HTTP/1.1\r\n{host}A: {}\r\n", "a".repeat(9000));
    assert_eq!(status(&served, &long), 431);
    let many = format!("GET / HTTP/1.1\r\n{host}{}", "A: 1\r\n".repeat(70));
    assert_eq!(status(&served, &many), 431);
    let body = format!("POST /snapshot HTTP/1.1\r\n{host}Content-Length: 5\r\n");
    assert_eq!(status(&served, &body), 413);
    assert_eq!(status(&served, "no request\r\n"), 400);
    let get = |path: &str| status(&served, &format!("GET {path} HTTP/1.1\r\n{host}"));
    assert_eq!(get("/../etc/passwd"), 404);
    assert_eq!(get("/snapshot"), 405);
    assert_eq!(
        status(&served, &format!("POST /state HTTP/1.1\r\n{host}")),
        405
    );
}

#[test]
fn an_answer_says_what_comes_next() {
    let served = Served::new();
    let reply = |lines: &str| {
        let mut client = served.client();
        client.send(&format!("{lines}\r\nHost: localhost\r\n\r\n"));
        let reply = client.reply().expect("there is an answer");
        let header = |name: &str| reply.headers.get(name).cloned().unwrap_or_default();
        (reply.status, header("connection"), header("allow"))
    };
    let is = |status, connection: &str, allow: &str| (status, connection.into(), allow.into());
    assert_eq!(reply("GET /state? HTTP/1.1"), is(200, "keep-alive", ""));
    assert_eq!(reply("GET /state? HTTP/1.0"), is(200, "close", ""));
    let closes = "GET /state? HTTP/1.1\r\nConnection: close";
    assert_eq!(reply(closes), is(200, "close", ""));
    assert_eq!(reply("DELETE / HTTP/1.1"), is(405, "close", "GET, HEAD"));
    assert_eq!(reply("GET /snapshot HTTP/1.1"), is(405, "close", "POST"));
    // By way of a proxy, the address counts.
    assert_eq!(reply("GET http://localhost/state? HTTP/1.1").0, 200);
    assert_eq!(reply("GET http://evil.example/state? HTTP/1.1").0, 403);
}

#[test]
fn connections_have_a_limit() {
    let served = Served::new();
    let mut open: Vec<Client> = Vec::new();
    // Each is answered, so it was let in.
    let is_let_in = |client: &mut Client| {
        client.send("GET /state? HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.reply().is_some()
    };
    let refused = (0..200).any(|_| {
        let mut client = served.client();
        let refused = !is_let_in(&mut client);
        open.push(client);
        refused
    });
    assert!(refused, "200 connections are open");
    open.clear();
    until("there is room again", || is_let_in(&mut served.client()));
}
