//! The main job: the example `serve`, as a process, with real sockets and real files.
//!
//! Each test runs with one worker, with as many as most machines have cores, and with more than
//! this one has. Where something has to have happened, the server's own metrics say when it has;
//! nothing sleeps. `.ci/serve-curl.sh` repeats the like with curl.

#![cfg(unix)]

mod client;
mod server;

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::symlink,
    process::Command,
    sync::{Arc, LazyLock},
    thread,
};

use client::{Client, request};
use server::{End, Folder, Server, run};

const WORKERS: [u32; 3] = [1, 2, 8];
const MIB: usize = 1 << 20;

/// More than the buffers of two sockets hold, so that it is not sent before someone reads.
const UNREAD_LEN: usize = 64 * MIB;

/// Bytes in which no piece is like another.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Compares without printing megabytes.
#[track_caller]
fn assert_same(left: &[u8], right: &[u8]) {
    if left != right {
        let mut pairs = left.iter().zip(right);
        let differ = pairs.position(|(left, right)| left != right);
        let (left, right) = (left.len(), right.len());
        panic!("{left} bytes and {right} bytes, which differ first at {differ:?}");
    }
}

/// A server with a file that no client gets without reading.
fn with_unread(workers: u32, options: &[&str]) -> (Server, &'static [u8]) {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| bytes(UNREAD_LEN));
    let folder = Folder::new();
    fs::write(folder.public("unread"), &*CONTENT).unwrap();
    (Server::start(folder, workers, options), &CONTENT)
}

#[test]
fn one_connection_carries_many_requests() {
    for workers in WORKERS {
        let server = Server::start(Folder::new(), workers, &[]);
        let mut client = server.client();
        for _ in 0..100 {
            assert_eq!(client.get("/hello").expect(200), "hello\n");
            assert_eq!(client.get("/fib/15").expect(200), "610\n");
        }
        // And several at a time, which are answered in their order.
        client.send([request("GET", "/fib/10"), request("GET", "/fib/11")].concat());
        assert_eq!(client.reply().expect(200), "55\n");
        assert_eq!(client.reply().expect(200), "89\n");

        let metrics = client.get("/metrics").expect(200);
        assert!(
            metrics.contains("\nserve_connections_total 1\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("\nserve_requests_total 203\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains(&format!("\nws_workers {workers}\n")),
            "{metrics}"
        );
        server.end();
    }
}

#[test]
fn files_arrive_byte_for_byte() {
    let big = bytes(10 * MIB);
    for workers in WORKERS {
        let folder = Folder::new();
        fs::write(folder.public("big"), &big).unwrap();
        fs::write(folder.public("empty"), "").unwrap();
        fs::create_dir(folder.public("a folder")).unwrap();
        fs::write(folder.public("a folder/50% ü.txt"), "text").unwrap();
        let server = Server::start(folder, workers, &[]);

        let mut client = server.client();
        assert_same(&client.get("/files/big").body, &big);
        assert_eq!(client.get("/files/empty").expect(200), "");
        let encoded = client.get("/files/a%20folder/50%25%20%C3%BC.txt");
        assert_eq!(
            encoded.head.headers["content-type"],
            "text/plain; charset=utf-8"
        );
        assert_eq!(encoded.expect(200), "text");

        client.send(request("HEAD", "/files/big"));
        let head = client.head();
        assert_eq!((head.status, head.len()), (200, big.len()));
        assert_eq!(client.get("/hello").expect(200), "hello\n"); // no body came in between
        server.end();
    }
}

#[test]
fn only_files_of_the_folder_are_served() {
    let folder = Folder::new();
    fs::write(folder.private("secret"), "secret").unwrap();
    fs::write(folder.public(".hidden"), "secret").unwrap();
    fs::write(folder.public("file"), "public").unwrap();
    symlink("../secret", folder.public("out")).unwrap();
    symlink("..", folder.public("up")).unwrap();
    symlink("loop", folder.public("loop")).unwrap();
    symlink("file", folder.public("alias")).unwrap();
    let pipe = Command::new("mkfifo").arg(folder.public("pipe")).status();
    assert!(pipe.unwrap().success());
    let secret = folder.private("secret").canonicalize().unwrap();
    let server = Server::start(folder, 1, &[]);

    let mut client = server.client();
    assert_eq!(client.get("/files/alias").expect(200), "public");
    for path in [
        "../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "./file",
        ".hidden",
        "out",
        "loop",
        "up/secret",
        "pipe", // opening it would wait for a writer
        "file/file",
        "file%00",
        "",
        "/",
        &"x".repeat(1000),
        secret.to_str().unwrap(),
    ] {
        let text = client.get(&format!("/files/{path}")).expect(404);
        assert_eq!(text, "no such file\n", "{path}");
    }
    for path in ["%", "%4", "%zz", "%ff"] {
        client.get(&format!("/files/{path}")).expect(400);
    }
    server.end();
}

#[test]
fn two_hundred_requests_are_answered_at_once() {
    let content = bytes(100_000);
    for workers in WORKERS {
        let folder = Folder::new();
        fs::write(folder.public("file"), &content).unwrap();
        let server = Server::start(folder, workers, &[]);

        // All are sent before the first answer is read.
        let paths = ["/hello", "/fib/20", "/files/file", "/sleep/20"];
        let mut clients: Vec<Client> = (0..200).map(|_| server.client()).collect();
        for (client, path) in clients.iter_mut().zip(paths.iter().cycle()) {
            client.ask(path);
        }
        for (client, path) in clients.iter_mut().zip(paths.iter().cycle()) {
            let body = client.reply().body;
            match *path {
                "/hello" => assert_eq!(body, b"hello\n"),
                "/fib/20" => assert_eq!(body, b"6765\n"),
                "/sleep/20" => assert_eq!(body, b"slept 20 ms\n"),
                _ => assert_same(&body, &content),
            }
        }

        // They are under way at the same time, on as few workers as there may be.
        for client in &mut clients {
            client.ask("/sleep/60000");
        }
        server.wait_for("serve_requests_in_flight", 201);
        drop(clients);
        server.wait_for("serve_requests_in_flight", 1);
        server.end();
    }
}

#[test]
fn a_computation_holds_up_nobody() {
    // L2, F2: as many as there are workers, in plain code without an await. While they compute, the
    // metrics are asked for and answered, on another connection.
    for workers in [1, 2] {
        let server = Server::start(Folder::new(), workers, &["--grace", "100"]);
        // They compute again and again until somebody has seen them all at it, however long that
        // takes on a busy machine, or has given up.
        let looks = Arc::new(());
        let clients = (0..workers).map(|_| {
            let (mut client, looker) = (server.client(), Arc::downgrade(&looks));
            thread::spawn(move || {
                while looker.strong_count() > 0 {
                    assert_eq!(client.get("/fib/38").expect(200), "39088169\n");
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        server.wait_for("serve_requests_in_flight", u64::from(workers) + 1);
        drop(looks);
        for client in clients {
            client.join().unwrap();
        }
        server.end();
    }
}

#[test]
fn a_client_that_goes_away_takes_nothing_with_it() {
    for workers in WORKERS {
        let (server, _) = with_unread(workers, &[]);
        for _ in 0..10 {
            let mut download = server.client();
            download.ask("/files/unread");
            assert_eq!(download.head().status, 200);
            let mut request = server.client();
            request.send("GET /hel");
            let mut answer = server.client();
            answer.ask("/sleep/60000");
            let mut upload = server.client();
            upload.send("POST /hello HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n\r\nabc");
        }
        server.wait_for("serve_connections_open", 1);
        server.wait_for("serve_requests_in_flight", 1);
        assert_eq!(server.client().get("/hello").expect(200), "hello\n");
        server.end();
    }
}

#[test]
fn a_bad_request_is_refused_and_the_next_one_is_served() {
    let server = Server::start(Folder::new(), 1, &[]);
    for bad in [
        "no HTTP at all\r\n\r\n",
        "GET /hello HTTP/9.9\r\n\r\n",
        "GET /hello HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /\0 HTTP/1.1\r\n\r\n",
        "POST /hello HTTP/1.1\r\ncontent-length: many\r\n\r\n",
    ] {
        let mut client = server.client();
        client.send(bad);
        let reply = String::from_utf8(client.rest()).unwrap();
        assert!(reply.starts_with("HTTP/1.1 400 "), "{bad:?}: {reply:?}");
    }
    let mut client = server.client();
    client.send(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MIB)));
    let reply = String::from_utf8(client.rest()).unwrap();
    assert!(
        reply.starts_with("HTTP/1.1 414 ") || reply.starts_with("HTTP/1.1 431 "),
        "{reply:?}"
    );

    // What is HTTP but makes no sense leaves the connection as it is.
    let mut client = server.client();
    for (path, answer) in [
        ("/fib/43", "expected a number from 0 to 42\n"),
        ("/fib/-1", "expected a number from 0 to 42\n"),
        ("/fib/", "expected a number from 0 to 42\n"),
        (
            "/fib/99999999999999999999999",
            "expected a number from 0 to 42\n",
        ),
        ("/sleep/60001", "expected a number from 0 to 60000\n"),
    ] {
        assert_eq!(client.get(path).expect(400), answer, "{path}");
    }
    assert_eq!(
        client.get("/nothing").expect(404),
        "nothing here; / lists what there is\n"
    );
    client.send(request("DELETE", "/hello"));
    let reply = client.reply();
    assert_eq!(reply.head.headers["allow"], "GET, HEAD");
    reply.expect(405);
    server.end();
}

#[test]
fn a_file_that_shrinks_is_not_sent_as_if_it_were_whole() {
    let (server, content) = with_unread(2, &[]);
    let mut client = server.client();
    client.ask("/files/unread");
    assert_eq!(client.head().len(), content.len());
    let file = OpenOptions::new()
        .write(true)
        .open(server.folder().public("unread"));
    file.unwrap().set_len(0).unwrap();

    let came = client.rest();
    assert!(came.len() < content.len());
    assert_same(&came, &content[..came.len()]);
    assert_eq!(server.client().get("/hello").expect(200), "hello\n");
    server.signal("TERM");
    let End { code, stderr, .. } = server.wait();
    assert_eq!(code, Some(0));
    assert!(stderr.contains("bytes early"), "{stderr}");
}

#[test]
fn what_is_in_flight_is_finished_before_the_end() {
    for (workers, signal) in WORKERS.into_iter().zip(["TERM", "INT", "TERM"]) {
        let (mut server, content) = with_unread(workers, &["--grace", "100"]);
        let mut download = server.client();
        download.ask("/files/unread");
        let head = download.head();
        let mut sleeper = server.client();
        sleeper.ask("/sleep/1000");
        let mut idle = server.client();
        assert_eq!(idle.get("/hello").expect(200), "hello\n");
        let silent = server.client();
        server.wait_for_requests(3);

        server.signal(signal);
        let line = server.line();
        assert!(
            line.starts_with(&format!("SIG{signal}: no more connections, ")),
            "{line}"
        );
        let refused = std::net::TcpStream::connect(server.address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(idle.rest(), b"");
        assert_eq!(silent.rest(), b"");

        assert_eq!(sleeper.reply().expect(200), "slept 1000 ms\n");
        assert_eq!(sleeper.rest(), b"");

        assert_eq!(head.len(), content.len());
        assert_same(&download.rest(), content);

        let end = server.wait();
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
        assert_eq!(end.stdout, "every request was answered\n");
    }
}

#[test]
fn the_wait_for_a_client_that_never_reads_has_an_end() {
    for workers in WORKERS {
        let (server, _) = with_unread(workers, &["--grace", "0"]);
        let mut client = server.client();
        client.ask("/files/unread");
        client.head();
        server.signal("TERM");
        let end = server.wait();
        assert_eq!(end.code, Some(1));
        assert_eq!(end.stderr, "serve: 1 connections were cut off\n");
    }
}

#[test]
fn a_second_signal_ends_the_wait() {
    let (mut server, _) = with_unread(2, &["--grace", "100000"]);
    let mut client = server.client();
    client.ask("/files/unread");
    client.head();
    server.signal("INT");
    assert_eq!(server.line(), "SIGINT: no more connections, 1 open\n");
    server.signal("INT");
    let end = server.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""));
}

#[test]
fn arguments_that_make_no_sense_are_told_by_name() {
    for (args, message) in [
        (
            &["--workers", "0"][..],
            "--workers takes a number from 1 to 1024, not 0",
        ),
        (
            &["--workers", "-1"],
            "--workers takes a number from 1 to 1024, not \"-1\"",
        ),
        (&["--workers"], "missing argument for option '--workers'"),
        (
            &["--inspect", "7070"],
            "--inspect takes an address of loopback and a port",
        ),
        (
            &["--listen", "8080"],
            "--listen takes an address and a port",
        ),
        (
            &["--grace", "soon"],
            "--grace takes whole seconds, not \"soon\"",
        ),
        (
            &["--connections", "0"],
            "--connections takes a number from 1 on, not 0",
        ),
        (
            &["--write-time", "0"],
            "--write-time takes whole seconds from 1 on, not 0",
        ),
        (
            &["--ended-time", "-1"],
            "--ended-time takes whole seconds, not \"-1\"",
        ),
        (&["--dir", "/no/such/folder"], "--dir /no/such/folder: "),
        (&["--dir", "/dev/null"], "--dir /dev/null: not a folder"),
        (&["--speed"], "invalid option '--speed'"),
        (&["here"], "unexpected argument \"here\""),
    ] {
        let output = run(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(
            stderr.starts_with(&format!("serve: {message}")),
            "{args:?}: {stderr}"
        );
        assert_eq!(output.stdout, b"", "{args:?}");
    }
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(
        String::from_utf8(help.stdout)
            .unwrap()
            .contains("--listen ADDR")
    );
}

#[test]
fn an_address_in_use_is_told() {
    let server = Server::start(Folder::new(), 1, &[]);
    let address = server.address.to_string();
    let output = run(&["--listen", &address]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with(&format!("serve: cannot listen on {address}: ")),
        "{stderr}"
    );
    server.end();
}

/// Each connection that is cut short is a line on a stderr that takes none.
#[test]
fn a_stderr_that_takes_nothing_ends_nobody() {
    let folder = Folder::new();
    let file = folder.public("file");
    fs::write(&file, bytes(UNREAD_LEN)).unwrap();
    let server = Server::start_on(folder, 1, &[], "/dev/full");
    for _ in 0..3 {
        OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(UNREAD_LEN as u64)
            .unwrap();
        let mut client = server.client();
        client.ask("/files/file");
        client.head();
        OpenOptions::new()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(0)
            .unwrap();
        assert!(client.rest().len() < UNREAD_LEN);
    }
    assert_eq!(server.client().get("/hello").expect(200), "hello\n");
    server.end();
}

/// A client that comes when there is no room is served when another one has left.
#[test]
fn connections_have_a_limit() {
    let server = Server::start(Folder::new(), 2, &["--connections", "2"]);
    let mut inside = [server.client(), server.client()];
    for client in &mut inside {
        client.get("/hello").expect(200);
    }
    let mut outside = server.client();
    outside.ask("/hello");
    let metrics = inside[0].get("/metrics").expect(200);
    assert!(
        metrics.contains("\nserve_connections_total 2\n"),
        "{metrics}"
    );
    drop(inside);
    outside.reply().expect(200);
    server.end();
}

/// Also those that have sent several requests, and one whose answer is more than the sockets hold.
#[test]
fn clients_that_have_sent_all_are_answered() {
    let content = bytes(10_000);
    for workers in WORKERS {
        let folder = Folder::new();
        fs::write(folder.public("file"), &content).unwrap();
        // How long it may take is another test's.
        let server = Server::start(folder, workers, &["--ended-time", "60"]);
        let paths = ["/hello", "/fib/15", "/files/file", "/sleep/20"];
        let mut clients: Vec<Client> = (0..500).map(|_| server.client()).collect();
        for (client, path) in clients.iter_mut().zip(paths.iter().cycle()) {
            client.send([request("GET", path), request("GET", path)].concat());
            client.end_sending();
        }
        let mut unanswered = 0;
        for (client, path) in clients.into_iter().zip(paths.iter().cycle()) {
            let rest = client.rest();
            let expected = match *path {
                "/hello" => b"hello\n".as_slice(),
                "/fib/15" => b"610\n",
                "/sleep/20" => b"slept 20 ms\n",
                _ => &content,
            };
            let heads = rest
                .windows(15)
                .filter(|part| *part == b"HTTP/1.1 200 OK")
                .count();
            if heads != 2 || !rest.ends_with(expected) {
                unanswered += 1;
            }
        }
        assert_eq!(unanswered, 0, "of 500 clients, with {workers} workers");
        // Nor do they stay.
        server.wait_for("serve_connections_open", 1);
        server.end();

        let (server, content) = with_unread(workers, &[]);
        let mut download = server.client();
        download.ask("/files/unread");
        download.end_sending();
        assert_eq!(download.head().len(), content.len());
        assert_same(&download.rest(), content);
        server.wait_for("serve_connections_open", 1);
        server.end();
    }
}

/// Nothing is written in that time, so only the option decides.
#[test]
fn a_client_that_has_sent_all_is_waited_for_as_long_as_asked() {
    let case = |workers, time, ms, answer: &str| {
        let server = Server::start(Folder::new(), workers, &["--ended-time", time]);
        let mut client = server.client();
        client.ask(&format!("/sleep/{ms}"));
        client.end_sending();
        let rest = String::from_utf8(client.rest()).unwrap();
        assert_eq!(rest.is_empty(), answer.is_empty(), "{rest}");
        assert!(rest.ends_with(answer), "{rest}");
        server.wait_for("serve_requests_in_flight", 1);
        server.end();
    };
    // Each has a server of its own, and waits.
    std::thread::scope(|scope| {
        for workers in WORKERS {
            scope.spawn(move || case(workers, "100", 2500, "slept 2500 ms\n"));
            scope.spawn(move || case(workers, "1", 60_000, ""));
        }
    });
}

/// It holds what is buffered for it no longer than that.
#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let case = |workers| {
        let (server, content) = with_unread(workers, &["--write-time", "1"]);
        let mut client = server.client();
        client.ask("/files/unread");
        client.head();
        server.wait_for("serve_connections_open", 1);
        server.wait_for("serve_requests_in_flight", 1);
        assert!(client.rest().len() < content.len());
        server.end();
    };
    std::thread::scope(|scope| {
        for workers in WORKERS {
            scope.spawn(move || case(workers));
        }
    });
}

/// The page of `ws::inspect` beside the server's own, and not for others.
#[test]
fn the_scheduler_is_shown_on_loopback() {
    let server = Server::start(Folder::new(), 2, &["--inspect", "127.0.0.1:0"]);
    server.signal("TERM");
    let end = server.wait();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let line = "the scheduler is on http://127.0.0.1:";
    assert!(end.stdout.contains(line), "{}", end.stdout);

    let options = ["--listen", "127.0.0.1:0", "--inspect", "0.0.0.0:7070"];
    let output = run(&options);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("serves on loopback alone"), "{stderr}");
}
