//! `ws::hyper::Server`: the limits of its connections, what has none, and its end. What is seen by
//! clients of a whole program is in `tests/serve/`.

#[cfg(unix)]
mod unix;

use std::{
    convert::Infallible,
    future::{self, poll_fn},
    io,
    net::SocketAddr,
    panic::resume_unwind,
    pin::Pin,
    time::Duration,
};

use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    client::conn::http2::{self, SendRequest},
    header::{CONNECTION, UPGRADE},
    service::service_fn,
};
use ws::{
    hyper::{Acceptor, Counts, Draining, Executor, Io, Limited, Server},
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinHandle},
    time::sleep,
};

/// Over in a moment.
const SHORT: Duration = Duration::from_millis(50);
/// Longer than all of the short ones.
const LONGER: Duration = Duration::from_millis(300);

/// What a client of HTTP/2 takes at a time.
const WINDOW: u32 = 1 << 16;
/// The answer to `/long`.
const LONG_LEN: usize = 4 * WINDOW as usize;

/// A server that runs, on the way of a test to its end.
struct Running {
    address: SocketAddr,
    counts: Counts,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Draining>,
}

impl Running {
    async fn start<A: Acceptor<TcpStream> + Sync>(server: Server<A>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (counts, (stop, stopped)) = (server.counts(), oneshot::channel());
        let ended = ws::spawn(server.serve_until(listener, service_fn(answer), stopped));
        Self {
            address,
            counts,
            stop,
            ended,
        }
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn http2(&self) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
        self.http2_with_window(WINDOW).await
    }

    /// A client that has room for so many bytes of each answer.
    async fn http2_with_window(
        &self,
        len: u32,
    ) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
        let client = Io::socket(self.client().await);
        let mut builder = http2::Builder::new(Executor);
        builder.initial_stream_window_size(len);
        let (send, connection) = builder.handshake(client).await.unwrap();
        (send, ws::spawn(connection))
    }

    async fn draining(self) -> Draining {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap()
    }

    async fn end(self) {
        assert_eq!(self.draining().await.finish().await.cut_off, 0);
    }
}

/// `/slow` takes longer than every short limit, `/never` has no answer, `/long` more than a window
/// of HTTP/2, `/panic` panics, `/echo` upgrades, and so does a tunnel.
async fn answer(mut request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let mut response = Response::new(format!("answer to {}", request.uri().path()));
    match request.uri().path() {
        "" | "/echo" => {
            let is_tunnel = request.method() == Method::CONNECT;
            let upgrade = hyper::upgrade::on(&mut request);
            ws::spawn(async move {
                let mut stream = Io::new(upgrade.await.unwrap());
                let mut byte = [0];
                // The connection of a tunnel may end before it: that is an error.
                while let Ok(1) = stream.read(&mut byte).await {
                    stream.write_all(&byte).await.unwrap();
                    stream.flush().await.unwrap();
                }
                let _ended = stream.close().await;
            });
            response = Response::new(String::new());
            if !is_tunnel {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let headers = response.headers_mut();
                headers.insert(CONNECTION, "upgrade".parse().unwrap());
                headers.insert(UPGRADE, "echo".parse().unwrap());
            }
        }
        "/slow" => sleep(LONGER).await,
        "/never" => future::pending().await,
        "/long" => response = Response::new("x".repeat(LONG_LEN)),
        "/panic" => resume_unwind(Box::new("on purpose")),
        _ => {}
    }
    Ok(response)
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// Asks, and reads to the end of the answer.
async fn ask(client: &mut TcpStream, path: &str) {
    client.write_all(request(path).as_bytes()).await.unwrap();
    read_until(client, &format!("answer to {path}")).await;
}

async fn read_until(client: &mut TcpStream, end: &str) {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(end.as_bytes()) {
        let read = client.read(&mut byte).await.unwrap();
        assert_eq!(read, 1, "{:?}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
}

/// The server ends the connection, and says nothing before that.
async fn is_ended(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[ws::test]
async fn a_head_has_a_time() {
    let server = Running::start(Server::new().head_time(SHORT)).await;
    let mut silent = server.client().await;
    let mut slow = server.client().await;
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    is_ended(&mut silent).await;
    is_ended(&mut slow).await;

    // A later one as well; what is between them has a time of its own.
    let mut second = server.client().await;
    ask(&mut second, "/").await;
    sleep(LONGER).await;
    ask(&mut second, "/").await;
    second.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    is_ended(&mut second).await;
    server.end().await;
}

#[ws::test]
async fn an_idle_connection_has_a_time() {
    let server = Running::start(Server::new().idle_time(SHORT)).await;
    let mut client = server.client().await;
    ask(&mut client, "/").await;
    is_ended(&mut client).await;
    // Also if its answer took a while, in which nothing is read.
    let mut client = server.client().await;
    ask(&mut client, "/slow").await;
    is_ended(&mut client).await;
    server.end().await;
}

#[ws::test]
async fn an_answer_may_take_longer_than_a_client() {
    let limits = Server::new().head_time(SHORT).idle_time(SHORT);
    let server = Running::start(limits.write_time(SHORT)).await;
    let mut client = server.client().await;
    ask(&mut client, "/slow").await;
    server.end().await;
}

/// hyper does not read while it has a byte of a next request, or of a body that nobody wants.
const UNREAD: [&str; 2] = [
    "GET /slow HTTP/1.1\r\nhost: x\r\n\r\nG",
    "POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc",
];

#[ws::test]
async fn a_client_that_is_gone_is_seen_whatever_it_has_sent() {
    let server = Running::start(Server::new().ended_time(SHORT)).await;
    for said in UNREAD {
        let mut client = server.client().await;
        let said = said.replace("/slow", "/never");
        client.write_all(said.as_bytes()).await.unwrap();
        while server.counts.requests_in_flight() == 0 {
            ws::task::yield_now().await;
        }
        drop(client);
        while server.counts.connections_open() > 0 {
            ws::task::yield_now().await;
        }
    }
    server.end().await;
}

#[ws::test]
async fn a_client_that_has_sent_all_gets_its_answer_whatever_it_has_sent() {
    let server = Running::start(Server::new().ended_time(Duration::MAX)).await;
    for said in UNREAD {
        let mut client = server.client().await;
        client.write_all(said.as_bytes()).await.unwrap();
        client.close().await.unwrap();
        read_until(&mut client, "answer to /slow").await;
        is_ended(&mut client).await;
    }
    server.end().await;
}

#[ws::test]
async fn an_upgraded_stream_has_the_times_of_its_service() {
    let limits = Server::new().head_time(SHORT).idle_time(SHORT);
    let server = Running::start(limits.ended_time(Duration::MAX).connections(1)).await;
    let mut client = server.client().await;
    let head = request("/echo").replace(
        "\r\n\r\n",
        "\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
    );
    client.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    for byte in *b"abc" {
        sleep(LONGER).await;
        client.write_all(&[byte]).await.unwrap();
        let mut echo = [0];
        client.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, [byte]);
    }
    // It has its place still.
    assert_eq!(server.counts.connections_open(), 1);
    assert_eq!(server.counts.requests_in_flight(), 0);
    let mut waiting = server.client().await;
    waiting.write_all(request("/").as_bytes()).await.unwrap();
    // Its end is told at once, whatever the time for clients that half-close.
    client.close().await.unwrap();
    is_ended(&mut client).await;
    read_until(&mut waiting, "answer to /").await;
    server.end().await;
}

#[ws::test]
async fn a_handshake_has_the_time_of_a_head() {
    let endless = |_: Limited<TcpStream>| future::pending::<io::Result<TcpStream>>();
    // It takes the socket with it, so the client's time is the socket's alone here.
    let reads = |mut socket: Limited<TcpStream>| async move {
        socket.read_exact(&mut [0; 5]).await.map(|()| socket)
    };
    let server = Running::start(Server::new().head_time(SHORT).tls(reads)).await;
    let mut silent = server.client().await;
    is_ended(&mut silent).await;
    let mut client = server.client().await;
    client.write_all(b"hello").await.unwrap();
    ask(&mut client, "/").await;
    drop(client);
    server.end().await;

    // One that hangs ends with the server.
    let server = Running::start(Server::new().tls(endless)).await;
    let mut client = server.client().await;
    while server.counts.connections_open() == 0 {
        ws::task::yield_now().await;
    }
    let ended = server.draining().await.finish().await;
    assert_eq!(ended.cut_off, 0);
    is_ended(&mut client).await;
}

#[ws::test]
async fn http2_is_served_on_the_same_port() {
    let server = Running::start(Server::new().head_time(SHORT).idle_time(LONGER)).await;
    let (mut send, connection) = server.http2().await;
    let answers: Vec<_> = ["/slow", "/a", "/b"]
        .into_iter()
        .map(|path| send.send_request(Request::get(path).body(String::new()).unwrap()))
        .collect();
    for answer in answers {
        assert_eq!(answer.await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(server.counts.requests(), 3);
    // An idle one is ended here, too.
    let _over = connection.await.unwrap();
    assert!(send.ready().await.is_err());
    server.end().await;
}

/// hyper has all of the answer as soon as the client has opened a window for its first byte.
#[ws::test]
async fn an_answer_on_http2_is_in_flight_to_its_last_byte() {
    let limits = Server::new().head_time(SHORT).idle_time(SHORT);
    let server = Running::start(limits).await;
    let (mut send, connection) = server.http2_with_window(WINDOW).await;
    let request = Request::get("/long").body(String::new()).unwrap();
    let answer = send.send_request(request).await.unwrap();
    let (mut body, mut len) = (answer.into_body(), 0);
    while len < LONG_LEN {
        // The next window, too, is not the last one.
        if len < LONG_LEN / 2 {
            sleep(LONGER).await;
            assert_eq!(server.counts.requests_in_flight(), 1);
        }
        let window_end = len + WINDOW as usize;
        while len < window_end {
            let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            len += frame.unwrap().unwrap().into_data().unwrap().len();
        }
    }
    // And then the connection is idle.
    let _over = connection.await.unwrap();
    server.end().await;
}

#[ws::test]
async fn a_client_that_opens_no_window_is_cut_off() {
    let server = Running::start(Server::new().write_time(SHORT)).await;
    let (mut send, connection) = server.http2_with_window(0).await;
    // The service takes longer than that, which is not the client's fault.
    let request = Request::get("/slow").body(String::new()).unwrap();
    let answer = send.send_request(request).await.unwrap();
    let _over = connection.await.unwrap();
    drop(answer);
    server.end().await;
}

#[ws::test]
async fn a_tunnel_of_http2_keeps_its_connection_by_its_bytes() {
    let limits = Server::new().head_time(SHORT).idle_time(LONGER);
    let server = Running::start(limits).await;
    let (mut send, connection) = server.http2().await;
    let tunnel = Request::connect("echo:1").body(String::new()).unwrap();
    let answer = send.send_request(tunnel).await.unwrap();
    let mut stream = Io::new(hyper::upgrade::on(answer).await.unwrap());
    for byte in *b"abcd" {
        sleep(2 * SHORT).await;
        stream.write_all(&[byte]).await.unwrap();
        stream.flush().await.unwrap();
        let mut echo = [0];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(echo, [byte]);
    }
    // It is idle now, although it has a tunnel.
    let _over = connection.await.unwrap();
    drop(stream);
    server.end().await;
}

// It hangs if a tunnel, which any client may ask for, lifts the limits of its connection.
#[ws::test]
async fn a_tunnel_of_http2_lifts_no_limit() {
    let server = Running::start(Server::new().write_time(SHORT)).await;
    let (mut send, connection) = server.http2_with_window(0).await;
    let tunnel = Request::connect("echo:1").body(String::new()).unwrap();
    let _tunnel = send.send_request(tunnel).await.unwrap();
    let request = Request::get("/a").body(String::new()).unwrap();
    let _answer = send.send_request(request).await.unwrap();
    let _over = connection.await.unwrap();
    server.end().await;
}

// It hangs if one of two that wait for room is not told of it.
#[ws::test]
async fn a_clone_counts_with_its_server() {
    let server = Server::new().connections(1);
    let servers = [
        Running::start(server.clone()).await,
        Running::start(server).await,
    ];
    let mut first = servers[0].client().await;
    ask(&mut first, "/").await;
    // The other one has waited for a client, so it lets this one in. Then it waits for room, too.
    ask(&mut servers[1].client().await, "/").await;
    let waiting = servers.each_ref().map(|server| async {
        for _ in 0..3 {
            ask(&mut server.client().await, "/").await;
        }
    });
    drop(first);
    futures::future::join_all(waiting).await;
    for server in servers {
        let draining = server.draining().await;
        while draining.connections() > 0 {
            ws::task::yield_now().await;
        }
    }
}

#[ws::test]
async fn a_handshake_that_fails_by_our_fault_is_told() {
    use io::ErrorKind::{InvalidData, NotFound, Other, TimedOut, UnexpectedEof};
    for (kind, is_told) in [
        (InvalidData, true),
        (Other, true),
        (NotFound, true),
        (UnexpectedEof, false),
        (TimedOut, false),
    ] {
        let (told, mut errors) = mpsc::unbounded();
        let server = Server::new().on_error(move |error| told.unbounded_send(error).unwrap());
        let fails = move |_: Limited<TcpStream>| future::ready(Err::<TcpStream, _>(kind.into()));
        let server = Running::start(server.tls(fails)).await;
        is_ended(&mut server.client().await).await;
        server.end().await;
        assert_eq!(errors.try_recv().is_ok(), is_told, "{kind}");
    }
}

#[ws::test]
async fn what_is_left_at_the_end_is_aborted_and_counted() {
    let server = Running::start(Server::new().grace(SHORT)).await;
    let (mut idle, mut waiting) = (server.client().await, server.client().await);
    ask(&mut idle, "/").await;
    waiting
        .write_all(request("/never").as_bytes())
        .await
        .unwrap();
    while server.counts.requests_in_flight() == 0 {
        ws::task::yield_now().await;
    }
    let counts = server.counts.clone();
    let ended = server.draining().await.finish().await;
    assert_eq!(ended.cut_off, 1);
    assert_eq!(counts.connections_open(), 0);
    is_ended(&mut idle).await;
    is_ended(&mut waiting).await;
}

/// It has nothing to lose, although it does not answer the farewell.
#[ws::test]
async fn an_idle_client_is_not_cut_off() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    for time in [SHORT, Duration::ZERO] {
        let server = Running::start(Server::new().grace(time)).await;
        let mut client = server.client().await;
        let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &SETTINGS].concat();
        client.write_all(&hello).await.unwrap();
        client.read_exact(&mut [0; SETTINGS.len()]).await.unwrap();
        server.end().await;
    }
}

#[ws::test]
async fn no_connection_outlives_the_future() {
    let server = Running::start(Server::new()).await;
    let mut client = server.client().await;
    ask(&mut client, "/").await;
    server.ended.abort();
    assert!(server.ended.await.unwrap_err().is_cancelled());
    is_ended(&mut client).await;
    let again = TcpStream::connect(server.address).await.unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::ConnectionRefused);
}

#[ws::test]
async fn a_panic_is_told_whatever_the_version() {
    let (told, mut errors) = mpsc::unbounded();
    let tells = Server::new().on_error(move |error| told.unbounded_send(error).unwrap());
    let server = Running::start(tells).await;
    let mut client = server.client().await;
    client
        .write_all(request("/panic").as_bytes())
        .await
        .unwrap();
    is_ended(&mut client).await;
    let (mut send, _connection) = server.http2().await;
    for path in ["/panic", "/"] {
        let request = Request::get(path).body(String::new()).unwrap();
        assert_eq!(send.send_request(request).await.is_ok(), path == "/");
    }
    for _ in 0..2 {
        let error = errors.next().await.unwrap().downcast::<JoinError>();
        assert_eq!(
            error.unwrap().into_panic().downcast_ref(),
            Some(&"on purpose")
        );
    }
    drop(send);
    server.end().await;
}

#[ws::test]
async fn what_is_done_with_errors_may_panic() {
    let panics = Server::new().on_error(|_| resume_unwind(Box::new("on purpose")));
    let server = Running::start(panics).await;
    for _ in 0..2 {
        let mut client = server.client().await;
        client
            .write_all(request("/panic").as_bytes())
            .await
            .unwrap();
        is_ended(&mut client).await;
        ask(&mut server.client().await, "/").await;
    }
    server.end().await;
}
