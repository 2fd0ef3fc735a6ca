//! The corners of the adapters that no proof comes to.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    os::{fd::AsFd, linux::net::SocketAddrExt, unix::net::SocketAddr},
    pin::Pin,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_rs::traits::{Executor as _, Reactor as _};
use futures::{AsyncReadExt, AsyncWriteExt, FutureExt, StreamExt, future::join_all};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ws::{
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
    runtime::Handle,
    task::yield_now,
};
use zbus::runtime::{
    Interest, IoSource,
    traits::{PollIo as _, Runtime as _, TaskHandle as _},
};

use crate::harness::{bytes, proofs};

/// Sets a flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        yield_now().await;
    }
}

async fn panics<T>(future: impl Future<Output = T>) -> String {
    let payload = std::panic::AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .err()
        .expect("a panic");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

proofs! {
    /// tokio-io: a read leaves alone what the buffer has, takes what is there, and is empty at the
    /// end; vectored writes write all slices; the halves have each their trait.
    async fn tokio_io(env) {
        let (mut here, there) = UnixStream::pair().unwrap();
        let slices = [IoSlice::new(b"head "), IoSlice::new(b"body")];
        assert!(here.is_write_vectored());
        let wrote = poll_fn(|cx| AsyncWrite::poll_write_vectored(Pin::new(&mut here), cx, &slices)).await;
        assert_eq!(wrote.unwrap(), 9);

        let (mut read, mut write) = there.into_split();
        let mut buffer = [0; 64];
        let mut buf = ReadBuf::new(&mut buffer);
        buf.put_slice(b"kept ");
        poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut read), cx, &mut buf)).await.unwrap();
        assert_eq!(buf.filled(), b"kept head body");

        let wrote = poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut write), cx, b"back")).await;
        assert_eq!(wrote.unwrap(), 4);
        poll_fn(|cx| AsyncWrite::poll_shutdown(Pin::new(&mut write), cx)).await.unwrap();
        let (mut read, _write) = here.split_mut();
        let mut all = Vec::new();
        loop {
            let mut buffer = [0; 3];
            let mut buf = ReadBuf::new(&mut buffer);
            poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut read), cx, &mut buf)).await.unwrap();
            if buf.filled().is_empty() {
                break;
            }
            all.extend_from_slice(buf.filled());
        }
        assert_eq!(all, b"back");
    }

    /// hyper-util: a connection that does not come about ends with the time that it has.
    async fn hyper_util_timeout(env) {
        use tower_service::Service as _;

        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(0).unwrap();
        let uri: hyper::Uri = format!("http://{}/", full.local_addr().unwrap()).parse().unwrap();
        let mut connector = ws::hyper_util::Connector::new().timeout(Some(Duration::from_millis(500)));
        // Nobody accepts, so after a few there is no room.
        let mut connections = Vec::new();
        let error = loop {
            match connector.call(uri.clone()).await {
                Ok(connection) => connections.push(connection),
                Err(error) => break error,
            }
            assert!(connections.len() < 100);
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// async-rs: outputs, panics, cancelling and letting go; a registered socket; an interval; a
    /// refused connection.
    async fn async_rs(env) {
        env.expect_panics(&["as expected"]);
        let kit = ws::async_rs::Kit::current();
        assert_eq!(kit.spawn(async { 1 }).await, 1);
        assert_eq!(kit.spawn_blocking(|| 2).await, 2);
        let outside = kit.clone();
        assert_eq!(ws::spawn_blocking(move || outside.block_on(async { 3 })).await.unwrap(), 3);
        assert_eq!(panics(kit.spawn(async { panic!("as expected") })).await, "as expected");

        let flag = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(flag.clone());
        let mut task = kit.spawn(async move {
            futures::future::pending::<()>().await;
            drop(dropped);
        });
        assert_eq!(task.cancel().await, None);
        until(&flag).await;
        let mut done = kit.spawn(async { 4 });
        while Handle::current().metrics().live_tasks > 1 {
            yield_now().await;
        }
        assert_eq!(done.cancel().await, Some(4));
        let flag = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(flag.clone());
        drop(kit.spawn(async move {
            yield_now().await;
            drop(dropped);
        }));
        until(&flag).await;

        // In blocking mode, from the outside; and much more than a socket holds.
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut here, mut there) = (kit.register(here).unwrap(), kit.register(there).unwrap());
        let data = bytes(3_000_000, 1);
        let sent = data.clone();
        let writer = kit.spawn(async move {
            here.write_all(&sent).await.unwrap();
            here.close().await.unwrap();
        });
        let mut got = Vec::new();
        there.read_to_end(&mut got).await.unwrap();
        assert!(got == data);
        writer.await;

        let start = Instant::now();
        let ticks: Vec<Instant> = kit.interval(Duration::from_millis(5)).take(3).collect().await;
        assert!(ticks.is_sorted() && start.elapsed() >= Duration::from_millis(10));
        kit.sleep(Duration::from_millis(1)).await;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, accepted) = futures::join!(kit.tcp_connect_addr(address), listener.accept());
        assert_eq!(accepted.unwrap().1, stream.unwrap().local_addr().unwrap());
        drop(listener);
        let refused = kit.tcp_connect_addr(address).await;
        assert_eq!(refused.err().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }

    /// The adapters serve a thread that is in no runtime.
    async fn from_a_foreign_thread(env) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kit = ws::async_rs::Kit::current();
        let bus = ws::zbus::Runtime::current();
        let thread = crate::harness::thread(move || {
            futures::executor::block_on(async {
                let stream: TcpStream = kit.tcp_connect_addr(address).await.unwrap();
                kit.sleep(Duration::from_millis(1)).await;
                let source: IoSource = bus.connect_tcp(address).await.unwrap();
                bus.sleep(Duration::from_millis(1)).await;
                assert_eq!(bus.spawn("from outside", async { 5 }).await.unwrap(), 5);
                (stream, source)
            })
        });
        for _ in 0..2 {
            listener.accept().await.unwrap();
        }
        ws::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    }

    /// zbus: tasks are cancelled by a drop and let go by a detach; abstract names; readiness;
    /// children.
    async fn zbus(env) {
        let runtime = ws::zbus::Runtime::current();
        assert_eq!(runtime.spawn("gives one", async { 1 }).await.unwrap(), 1);
        assert_eq!(runtime.spawn_blocking(|| 2).await, 2);

        let flag = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(flag.clone());
        let task = runtime.spawn("waits", async move {
            futures::future::pending::<()>().await;
            drop(dropped);
        });
        let names: Vec<_> = Handle::current().dump().into_iter().filter_map(|task| task.name).collect();
        // The first may still be on its way out.
        assert!(names.iter().any(|name| name == "waits"), "{names:?}");
        drop(task);
        until(&flag).await;

        let (gate, opened) = futures::channel::oneshot::channel::<()>();
        let flag = Arc::new(AtomicBool::new(false));
        let dropped = Dropped(flag.clone());
        runtime.spawn("goes on", async move {
            opened.await.unwrap();
            drop(dropped);
        }).detach();
        gate.send(()).unwrap();
        until(&flag).await;

        let name = format!("\0ws-proof-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let source = runtime.connect_unix(name.as_ref()).await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        let registered = runtime.register_io_source(source.clone()).unwrap();
        let socket = std::os::unix::net::UnixStream::from(source.as_fd().try_clone_to_owned().unwrap());
        let mut buffer = [0; 16];
        let mut read = poll_fn(|cx| {
            registered.poll_io(cx, Interest::Readable, || io::Read::read(&mut &socket, &mut buffer))
        });
        assert!((&mut read).now_or_never().is_none());
        accepted.write_all(b"hello").await.unwrap();
        assert_eq!(read.await.unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");

        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let exit = runtime.spawn_process(command, Stdio::null(), Stdio::null(), Stdio::null());
        assert_eq!(exit.unwrap().await.unwrap().code(), Some(3));
    }

    /// quinn: a timer that is moved, and many pollers of one socket, each woken.
    async fn quinn_sockets(env) {
        use quinn::{Runtime as _, udp::{RecvMeta, Transmit}};

        let runtime = ws::quinn::Runtime::current();
        let mut timer = runtime.new_timer(runtime.now() + Duration::from_secs(3_600));
        assert!(poll_fn(|cx| timer.as_mut().poll(cx)).now_or_never().is_none());
        timer.as_mut().reset(runtime.now() + Duration::from_millis(1));
        poll_fn(|cx| timer.as_mut().poll(cx)).await;

        let socket = || runtime.wrap_udp_socket(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let (here, there) = (socket(), socket());
        join_all((0..10).map(|_| {
            let mut poller = here.clone().create_io_poller();
            async move { poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.unwrap() }
        }))
        .await;
        assert!(!here.may_fragment());
        // Linux takes segments apart since 4.18, and puts them together since 5.0.
        assert!(here.max_transmit_segments() > 1 && there.max_receive_segments() > 1);
        let contents = bytes(3 * 1_000, 1);
        let transmit = Transmit {
            destination: there.local_addr().unwrap(),
            ecn: None,
            contents: &contents,
            segment_size: Some(1_000),
            src_ip: None,
        };
        here.try_send(&transmit).unwrap();
        let mut got = Vec::new();
        while got.len() < contents.len() {
            let mut buffer = vec![0; 65_536];
            let mut meta = [RecvMeta::default()];
            let mut bufs = [io::IoSliceMut::new(&mut buffer)];
            let count = poll_fn(|cx| there.poll_recv(cx, &mut bufs, &mut meta)).await.unwrap();
            assert_eq!((count, meta[0].addr, meta[0].stride), (1, here.local_addr().unwrap(), 1_000));
            let len = meta[0].len;
            got.extend_from_slice(&buffer[..len]);
        }
        assert!(got == contents);
    }
}
