//! What `ws` has on Windows works there: sockets, timers, named pipes, processes, files.
//!
//! `cargo xtask deep windows` runs it under Wine, and the others of this folder that are not about
//! Unix alone. On Unix it is empty.
#![cfg(windows)]

mod net_support;

use std::{
    io,
    net::Shutdown,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use net_support::Limit;
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream, UdpSocket,
        windows::named_pipe::{ClientOptions, PipeEnd, PipeMode, ServerOptions},
    },
    process::Child,
};

/// Bytes of the buffers of a connection, and more than all of them hold.
const BUFFER: usize = 16 << 10;
const LARGE: usize = 1 << 20;

/// `ERROR_PIPE_BUSY`.
const PIPE_BUSY: i32 = 231;

fn name(of: &str) -> String {
    format!(r"\\.\pipe\ws-test-{of}-{}", std::process::id())
}

#[ws::test]
async fn streams_carry_more_than_their_buffers_hold_in_both_directions() {
    let small = || {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(BUFFER).unwrap();
        socket.set_recv_buffer_size(BUFFER).unwrap();
        socket
    };
    let listener = small();
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let echo = ws::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.into_split();
        ws::io::copy(&mut read, &mut write).await.unwrap()
    });
    let client = small().connect(address).await.unwrap();
    let (mut read, mut write) = client.into_split();
    let bytes: Vec<u8> = (0..LARGE).map(|n| (n % 251) as u8).collect();
    let sent = bytes.clone();
    ws::spawn(async move { write.write_all(&sent).await.unwrap() });
    let mut came = Vec::new();
    read.read_to_end(&mut came).await.unwrap();
    assert!(came == bytes, "{} bytes came", came.len());
    assert_eq!(echo.await.unwrap(), LARGE as u64);
}

#[ws::test]
async fn many_connections_are_served_at_once() {
    const CLIENTS: u8 = 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    ws::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            ws::spawn(async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    let clients = (0..CLIENTS).map(|number| {
        ws::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            for turn in 0..10 {
                let sent = [number ^ turn];
                stream.write_all(&sent).await.unwrap();
                let mut came = [0];
                stream.read_exact(&mut came).await.unwrap();
                assert_eq!(came, sent);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[ws::test]
async fn a_connection_to_nobody_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[ws::test]
async fn the_end_of_the_peer_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let reads = ws::spawn(async move {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        rest
    });
    server.try_write(b"last").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reads.await.unwrap(), b"last");
}

#[ws::test]
async fn datagrams_come_whole() {
    let here = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let there = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = here.local_addr().unwrap();
    let mut buffer = [0; 64];
    for text in ["one", "two", "three"] {
        there.send_to(text.as_bytes(), address).await.unwrap();
        let (len, from) = here.recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..len], text.as_bytes());
        assert_eq!(from, there.local_addr().unwrap());
    }
}

#[ws::test]
async fn a_timer_is_never_early() {
    for ms in [1, 7, 30] {
        let wait = Duration::from_millis(ms);
        let begin = Instant::now();
        ws::time::sleep(wait).await;
        assert!(begin.elapsed() >= wait);
    }
}

#[ws::test]
async fn a_pipe_carries_bytes_both_ways_for_one_client_after_the_other() {
    let name = name("bytes");
    for turn in 0..3u8 {
        let mut server = ServerOptions::new().create(&name).unwrap();
        let mut client = ClientOptions::new().open(&name).unwrap();
        server.connect().await.unwrap();
        assert_eq!(client.info().unwrap().end, PipeEnd::Client);
        client.write_all(&[turn; 3000]).await.unwrap();
        let mut came = [9; 3000];
        server.read_exact(&mut came).await.unwrap();
        assert_eq!(came, [turn; 3000]);
        server.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
        server.disconnect().unwrap();
    }
}

#[ws::test]
async fn a_name_has_no_more_servers_than_was_said() {
    let mut options = ServerOptions::new();
    let _only = options.max_instances(1).create(name("one")).unwrap();
    let refused = options.create(name("one")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(PIPE_BUSY), "{refused}");
}

#[ws::test]
async fn a_server_waits_for_a_client_that_comes_later() {
    let name = name("later");
    let server = ServerOptions::new().create(&name).unwrap();
    let waits = ws::spawn(async move {
        server.connect().await.unwrap();
        let mut server = server;
        let mut came = [0; 2];
        server.read_exact(&mut came).await.unwrap();
        came
    });
    ws::task::yield_now().await;
    let mut client = ClientOptions::new().open(&name).unwrap();
    client.write_all(b"hi").await.unwrap();
    assert_eq!(&waits.await.unwrap(), b"hi");
}

#[ws::test]
async fn messages_keep_their_limits() {
    let name = name("messages");
    let mut options = ServerOptions::new();
    let mut server = options.pipe_mode(PipeMode::Message).create(&name).unwrap();
    let mut client = ClientOptions::new()
        .pipe_mode(PipeMode::Message)
        .open(&name)
        .unwrap();
    server.connect().await.unwrap();
    assert_eq!(server.info().unwrap().mode, PipeMode::Message);
    client.write_all(b"first").await.unwrap();
    client.write_all(b"second").await.unwrap();
    let mut buffer = [0; 64];
    for message in [&b"first"[..], b"second"] {
        let len = server.read(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..len], message);
    }
}

#[ws::test]
async fn a_pipe_of_no_server_is_not_found() {
    let missing = ClientOptions::new().open(name("missing")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[ws::test]
async fn a_child_is_waited_for_while_others_run() {
    let mut command = Command::new("cmd");
    command.args(["/c", "set /p x="]).stdin(Stdio::piped());
    let child = ws::process::spawn(command.stdout(Stdio::null())).unwrap();
    let mut child = Child::new(child).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    let status = child.wait().await.unwrap();
    assert_eq!(child.try_wait().unwrap(), Some(status));

    let child = ws::process::spawn(Command::new("cmd").args(["/c", "exit 7"])).unwrap();
    let status = Child::new(child).unwrap().wait().await.unwrap();
    assert_eq!(status.code(), Some(7));
}

#[ws::test]
async fn files_and_blocking_code_have_their_threads() {
    let path = std::env::temp_dir().join(format!("ws-windows-{}", std::process::id()));
    ws::fs::write(&path, "hello").await.unwrap();
    let mut file = ws::fs::File::options()
        .append(true)
        .open(&path)
        .await
        .unwrap();
    file.write_all(b", world").await.unwrap();
    file.flush().await.unwrap();
    drop(file);
    assert_eq!(ws::fs::read_to_string(&path).await.unwrap(), "hello, world");
    ws::fs::remove_file(&path).await.unwrap();
    let name = ws::spawn_blocking(|| std::thread::current().name().is_some());
    assert!(name.await.unwrap());
}

/// Ends at once when its input does, and has what its parent lets it have.
fn waits_for_input() -> std::process::Child {
    let mut child = Command::new("cmd");
    let child = child.args(["/c", "set /p line="]).stdin(Stdio::piped());
    child.stdout(Stdio::null()).spawn().unwrap()
}

// Fails if a child has what was accepted: its peer would read the end when the child ends.
#[ws::test]
async fn a_child_keeps_no_connection_open() {
    let _limit = Limit::new(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let mut child = waits_for_input();
    drop(accepted);
    let read = client.read(&mut [0]).await;
    assert!(child.try_wait().unwrap().is_none(), "the child lives on");
    assert_eq!(read.unwrap(), 0);
    drop(child.stdin.take());
    child.wait().unwrap();
}

// Fails if nobody looks at the netpoll when no source is left: mio keeps a pipe until it has heard
// of what the drop has cancelled.
#[test]
fn the_last_pipe_is_closed_by_its_drop() {
    let _limit = Limit::new(1);
    for (round, workers) in [1, 2, 8].into_iter().cycle().take(90).enumerate() {
        let runtime = ws::runtime::Builder::new()
            .workers(workers)
            .build()
            .unwrap();
        let name = name(&format!("last-{round}"));
        let opened = name.clone();
        let (server, mut client) = runtime.block_on(async move {
            let server = ServerOptions::new().create(&name).unwrap();
            // A client of std: it is no source of the runtime.
            let client = std::fs::File::options()
                .read(true)
                .write(true)
                .open(&opened);
            server.connect().await.unwrap();
            (server, client.unwrap())
        });
        let blocks = runtime.spawn(async move {
            drop(server);
            // Mostly the end is seen by a thread that is in a wait already. This one would not be.
            let netpoll = ws_executor::netpoll::current().unwrap();
            assert!(netpoll.has_sources(), "nobody would look");
            // It is closed while this task holds up its thread.
            let end = io::Read::read(&mut client, &mut [0]);
            assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        });
        runtime.block_on(blocks).unwrap();
    }
}
