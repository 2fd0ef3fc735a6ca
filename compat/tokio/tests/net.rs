//! Sockets, where tokio's own tests do not look: giving way, the words of panics and errors,
//! buffers that are not initialised.

#[path = "../../../executor/tests/common/skip.rs"]
#[cfg(target_os = "linux")]
mod skip;

use std::{
    io::{self, ErrorKind},
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest, ReadBuf, Ready, unix::AsyncFd},
    net::{
        TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixSocket,
        UnixStream, tcp, unix,
    },
    runtime::{Builder, Runtime},
};

const SHUTTING_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (client, listener.accept().await.unwrap().0)
}

// It fails (it hangs) if a read or a write takes no unit of the budget.
#[test]
fn streams_that_are_always_ready_give_way() {
    for runtime in [current(), multi()] {
        let greedy = runtime.spawn(async {
            let (mut here, mut there) = connected().await;
            loop {
                here.write_all(b"x").await.unwrap();
                there.read_exact(&mut [0]).await.unwrap();
            }
        });
        let other = runtime.spawn(async { tokio::time::sleep(Duration::from_millis(5)).await });
        runtime.block_on(other).unwrap();
        greedy.abort();
        assert!(runtime.block_on(greedy).unwrap_err().is_cancelled());
    }
}

// It fails if an operation takes its unit from the budget of `ws`, which `unconstrained` of tokio
// does not lift.
#[test]
fn without_a_budget_nothing_gives_way() {
    current().block_on(tokio::task::unconstrained(async {
        let (here, there) = UnixDatagram::pair().unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            assert!(here.poll_send(&mut cx, b"x").is_ready());
            assert!(pin!(there.recv(&mut [0])).poll(&mut cx).is_ready());
        }
    }));
}

#[test]
fn without_a_runtime_there_is_a_panic_in_tokios_words() {
    let said = |f: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        match payload.downcast::<String>() {
            Ok(words) => *words,
            Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
        }
    };
    let no_reactor =
        "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
    let pair = std::os::unix::net::UnixStream::pair().unwrap();
    pair.0.set_nonblocking(true).unwrap();
    let stream = || pair.0.try_clone().unwrap();
    assert_eq!(said(&|| drop(UnixStream::from_std(stream()))), no_reactor);
    assert_eq!(said(&|| drop(unix::pipe::pipe())), no_reactor);
    let without_io = Builder::new_current_thread().build().unwrap();
    let _entered = without_io.enter();
    assert!(said(&|| drop(UnixStream::from_std(stream()))).contains("IO is disabled"));
}

// It fails if an error of `ws` gets through.
#[test]
fn after_the_end_of_the_runtime_every_wait_says_so() {
    let runtime = current();
    let (mut here, _there, udp) = runtime.block_on(async {
        let (here, there) = UnixStream::pair().unwrap();
        (here, there, UdpSocket::bind("127.0.0.1:0").await.unwrap())
    });
    drop(runtime);
    let expect = |error: io::Error| {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(error.to_string(), SHUTTING_DOWN);
        assert!(tokio::runtime::is_rt_shutdown_err(&error));
    };
    current().block_on(async {
        expect(here.readable().await.unwrap_err());
        expect(here.read(&mut [0]).await.unwrap_err());
        expect(here.write(&[0]).await.unwrap_err());
        expect(udp.recv(&mut [0]).await.unwrap_err());
        expect(udp.ready(Interest::ERROR).await.unwrap_err());
    });
}

/// Reads to the end, by buffers of 4 bytes that hold 1 already.
async fn in_portions(mut stream: impl AsyncRead + Unpin) -> Vec<Vec<u8>> {
    let mut portions = Vec::new();
    loop {
        let mut bytes = [MaybeUninit::uninit(); 4];
        let mut buf = ReadBuf::uninit(&mut bytes);
        buf.put_slice(b"<");
        std::future::poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buf))
            .await
            .unwrap();
        assert_eq!(buf.filled()[0], b'<');
        match &buf.filled()[1..] {
            [] => return portions,
            portion => portions.push(portion.to_vec()),
        }
    }
}

// Under a checker of memory it fails if more bytes count as filled than were written. A read that
// fills the buffer must not count as short.
#[test]
fn buffers_are_filled_behind_what_they_have() {
    current().block_on(async {
        let expected = [b"abc".to_vec(), b"de".to_vec()];
        let (mut here, there) = connected().await;
        here.write_all(b"abcde").await.unwrap();
        drop(here);
        assert_eq!(in_portions(there).await, expected);

        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"abcde").await.unwrap();
        drop(here);
        assert_eq!(in_portions(there).await, expected);

        let (mut here, there) = unix::pipe::pipe().unwrap();
        here.write_all(b"abcde").await.unwrap();
        there.readable().await.unwrap();
        let mut bytes = Vec::from(*b"<");
        assert_eq!(there.try_read_buf(&mut bytes).unwrap(), 5);
        assert_eq!(bytes, b"<abcde");
        here.write_all(b"abcde").await.unwrap();
        drop(here);
        assert_eq!(in_portions(there).await, expected);

        let (here, there) = UnixDatagram::pair().unwrap();
        here.send(b"abcde").await.unwrap();
        let mut bytes = Vec::from(*b"<");
        bytes.reserve(16);
        assert_eq!(there.recv_buf(&mut bytes).await.unwrap(), 5);
        assert_eq!(bytes, b"<abcde");
    });
}

// Fails if a closed bit is taken back by a read.
#[test]
fn the_end_of_a_direction_is_ready() {
    current().block_on(async {
        let (here, mut there) = UnixStream::pair().unwrap();
        drop(here);
        let ready = there.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_read_closed() && ready.is_readable());
        assert_eq!(there.read(&mut [0]).await.unwrap(), 0);
        let again = there.ready(Interest::READABLE | Interest::WRITABLE).await;
        assert!((again.unwrap() & Ready::READ_CLOSED).is_read_closed());
    });
}

// The system's event for that end would do as well.
#[test]
fn a_datagram_socket_whose_receiving_side_was_ended_waits_no_more() {
    current().block_on(async {
        let (here, _there) = UnixDatagram::pair().unwrap();
        let mut byte = [0];
        let mut received = pin!(here.recv(&mut byte));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(received.as_mut().poll(&mut cx).is_pending());
        here.shutdown(std::net::Shutdown::Read).unwrap();
        assert_eq!(received.await.unwrap(), 0);
    });
}

// A wait that serves one task only would leave the others.
#[test]
fn any_number_of_tasks_waits_for_a_socket() {
    let runtime = multi();
    let socket = runtime.block_on(async { UdpSocket::bind("127.0.0.1:0").await.unwrap() });
    let socket = std::sync::Arc::new(socket);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let socket = socket.clone();
            runtime.spawn(async move { socket.recv(&mut [0]).await.unwrap() })
        })
        .collect();
    runtime.block_on(async {
        let addr = socket.local_addr().unwrap();
        for _ in &tasks {
            socket.send_to(b"x", addr).await.unwrap();
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), 1);
        }
    });
}

#[test]
fn interests_and_readiness_are_sets() {
    let both = Interest::READABLE | Interest::WRITABLE;
    assert_eq!(both.remove(Interest::READABLE), Some(Interest::WRITABLE));
    assert_eq!(both.remove(both), None);
    assert_eq!(format!("{both:?}"), "READABLE | WRITABLE");
    assert!((Ready::ALL - Ready::READABLE).is_readable(), "it is closed");
    assert!(!(Ready::READABLE - Ready::READABLE).is_readable());
    assert!(Ready::EMPTY.is_empty() && Ready::ERROR.is_error());
}

fn is_auto<T: Send + Sync + Unpin + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}

#[test]
fn sockets_have_all_auto_traits() {
    is_auto::<TcpListener>();
    is_auto::<TcpSocket>();
    is_auto::<TcpStream>();
    is_auto::<tcp::ReadHalf<'_>>();
    is_auto::<tcp::OwnedWriteHalf>();
    is_auto::<UdpSocket>();
    is_auto::<UnixDatagram>();
    is_auto::<UnixListener>();
    is_auto::<UnixSocket>();
    is_auto::<UnixStream>();
    is_auto::<unix::OwnedReadHalf>();
    is_auto::<unix::pipe::Sender>();
    is_auto::<AsyncFd<std::fs::File>>();
}

#[test]
fn polling_for_a_datagram_gives_its_sender() {
    current().block_on(async {
        let (here, there) = UnixDatagram::pair().unwrap();
        here.send(b"ab").await.unwrap();
        let mut bytes = [0; 4];
        let mut buf = ReadBuf::new(&mut bytes);
        let sender = std::future::poll_fn(|cx| there.poll_recv_from(cx, &mut buf)).await;
        assert!(sender.unwrap().is_unnamed());
        assert_eq!(buf.filled(), b"ab");
        let nothing = std::future::poll_fn(|cx| Poll::Ready(there.poll_recv(cx, &mut buf))).await;
        assert!(nothing.is_pending());
    });
}

// Fails if what an operation of the user's says counts for the descriptor: this one asks about
// something else.
#[test]
fn an_operation_that_would_block_does_not_open_a_closed_direction() {
    current().block_on(async {
        let (mut here, mut there) = connected().await;
        there.shutdown().await.unwrap();
        here.readable().await.unwrap();
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        for interest in [Interest::READABLE, Interest::READABLE | Interest::PRIORITY] {
            let blocked = here.try_io(interest, || other.recv(&mut [0]));
            assert_eq!(blocked.unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        assert_eq!(here.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn a_fresh_connection_has_room_to_write() {
    current().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
        assert_eq!(stream.unwrap().try_write(b"x").unwrap(), 1);
    });
}

/// It compiles: an address need not be `Sync`.
#[test]
fn an_address_of_any_type_goes_into_a_task() {
    fn is_send<T: Send>(_: T) {}
    fn check<A: tokio::net::ToSocketAddrs + Send + Copy + 'static>(addr: A) {
        is_send(TcpStream::connect(addr));
        is_send(TcpListener::bind(addr));
        is_send(UdpSocket::bind(addr));
        is_send(tokio::net::lookup_host(addr));
    }
    let runtime = current();
    let _entered = runtime.enter();
    check(("127.0.0.1", 1));
}

/// It compiles: a method of a socket may be awaited in a task, whatever it borrows.
#[test]
fn what_a_socket_does_goes_into_a_task() {
    fn is_send<T: Send>(_: T) {}
    fn check(udp: &UdpSocket, unix: &UnixDatagram, stream: &TcpStream, listener: &TcpListener) {
        let bytes = &mut [0; 4];
        is_send(udp.connect(("localhost", 1)));
        is_send(udp.send_to(bytes, ("localhost", 1)));
        is_send(udp.recv_from(bytes));
        is_send(udp.recv_buf_from(&mut Vec::new()));
        is_send(udp.peek_from(bytes));
        is_send(udp.peek_sender());
        is_send(udp.async_io(Interest::READABLE, || Ok(())));
        is_send(udp.ready(Interest::READABLE));
        is_send(unix.send_to(bytes, "/nowhere"));
        is_send(unix.recv_from(bytes));
        is_send(unix.recv_buf_from(&mut Vec::new()));
        is_send(stream.peek(bytes));
        is_send(stream.writable());
        is_send(listener.accept());
        is_send(
            TcpSocket::new_v4()
                .unwrap()
                .connect(([127, 0, 0, 1], 1).into()),
        );
        is_send(UnixStream::connect("/nowhere"));
        is_send(UnixSocket::new_stream().unwrap().connect("/nowhere"));
    }
    let _ = check;
}

// Fails if an operation that had an answer, on a socket that no event was reported of yet, does not
// count as a report: what could go on is told that it would block.
#[test]
fn what_went_well_is_worth_another_try() {
    for runtime in [current(), multi()] {
        runtime.block_on(async {
            let here = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let there = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let addr = there.local_addr().unwrap();
            here.send_to(b"a", addr).await.unwrap();
            assert_eq!(here.try_send_to(b"b", addr).unwrap(), 1);
            let mut byte = [0];
            assert_eq!(there.recv(&mut byte).await.unwrap(), 1);
            assert_eq!(there.try_recv(&mut byte).unwrap(), 1);
            assert_eq!(&byte, b"b");
            let nothing = there.try_recv(&mut byte).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
            assert_eq!(nothing.raw_os_error(), None, "as in tokio");

            let (mut here, mut there) = UnixStream::pair().unwrap();
            here.write_all(b"ab").await.unwrap();
            assert_eq!(here.try_write(b"c").unwrap(), 1);
            assert_eq!(there.read(&mut byte).await.unwrap(), 1);
            assert_eq!(there.try_read(&mut byte).unwrap(), 1);
            assert_eq!(&byte, b"b");
        });
    }
}

// Fails if a guard for reading takes back no more than what it was asked for.
#[test]
fn a_guard_takes_back_what_it_is_told_to() {
    current().block_on(async {
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        #[expect(deprecated, reason = "the other way is unsafe")]
        let here = AsyncFd::new(here).unwrap();
        drop(here.writable().await.unwrap());
        std::io::Write::write_all(&mut there, b"x").unwrap();
        let mut guard = here.readable().await.unwrap();
        guard.clear_ready_matching(Ready::WRITABLE);
        assert!(guard.ready().is_readable());
        let writable = tokio::time::timeout(Duration::ZERO, here.writable()).await;
        assert!(writable.is_err());
    });
}

#[test]
fn an_address_that_is_none_is_told_why() {
    current().block_on(async {
        for (addr, why) in [
            ("localhost", "has no port"),
            ("localhost:99999", "is no number"),
        ] {
            let error = TcpStream::connect(addr).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(why), "{error}");
        }
    });
}

// Fails if the drop of a socket wakes the task that has polled it. The waker may take a lock, and
// the code that drops the socket may hold that lock: then both wait for ever.
#[test]
fn a_socket_that_is_dropped_wakes_nobody() {
    struct Counts(std::sync::atomic::AtomicUsize);
    impl std::task::Wake for Counts {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    current().block_on(async {
        let counts = std::sync::Arc::new(Counts(0.into()));
        let waker = Waker::from(counts.clone());
        let mut cx = Context::from_waker(&waker);
        let (mut here, _there) = connected().await;
        let mut bytes = [0; 4];
        let mut buf = ReadBuf::new(&mut bytes);
        assert!(
            Pin::new(&mut here)
                .poll_read(&mut cx, &mut buf)
                .is_pending()
        );
        drop(here);
        assert_eq!(counts.0.load(std::sync::atomic::Ordering::Relaxed), 0);
        drop(waker);
        assert_eq!(
            std::sync::Arc::strong_count(&counts),
            1,
            "the waker has gone with it"
        );
    });
}

#[test]
fn peeking_leaves_what_is_there() {
    current().block_on(async {
        let (here, mut there) = connected().await;
        there.write_all(b"ab").await.unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addr = udp.local_addr().unwrap();
        udp.send_to(b"ab", addr).await.unwrap();
        for _ in 0..2 {
            let (mut tcp_bytes, mut udp_bytes) = ([0; 4], [0; 4]);
            let mut buf = ReadBuf::new(&mut tcp_bytes);
            std::future::poll_fn(|cx| here.poll_peek(cx, &mut buf))
                .await
                .unwrap();
            assert_eq!(buf.filled(), b"ab");
            let mut buf = ReadBuf::new(&mut udp_bytes);
            std::future::poll_fn(|cx| udp.poll_peek(cx, &mut buf))
                .await
                .unwrap();
            assert_eq!(buf.filled(), b"ab");
        }
    });
}

#[test]
fn options_reach_the_socket() {
    let is_set = |flag: u32, fd: &dyn std::os::fd::AsRawFd| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()));
        let info = info.unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        u32::from_str_radix(flags.unwrap().trim(), 8).unwrap() & flag != 0
    };
    const CLOEXEC: u32 = 0o2_000_000;
    current().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert!(socket2::SockRef::from(&listener).reuse_address().unwrap());
        let (here, there) = connected().await;
        let (unix, _peer) = UnixStream::pair().unwrap();
        for fd in [&here as &dyn std::os::fd::AsRawFd, &there, &listener, &unix] {
            assert!(is_set(CLOEXEC, fd), "children would have it");
        }
        for on in [true, false] {
            here.set_nodelay(on).unwrap();
            assert_eq!(here.nodelay().unwrap(), on);
            assert_eq!(socket2::SockRef::from(&here).tcp_nodelay().unwrap(), on);
        }
        assert!(tokio::io::AsyncWrite::is_write_vectored(&here));

        let udp = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let (group, any) = ([224, 0, 0, 251].into(), [127, 0, 0, 1].into());
        let refused = udp.leave_multicast_v4(group, any).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrNotAvailable);
        udp.join_multicast_v4(group, any).unwrap();
        udp.leave_multicast_v4(group, any).unwrap();
    });
}

// Fails if what would block stays ready: a loop around it would spin.
#[test]
fn a_guard_that_may_change_its_descriptor_takes_back_as_well() {
    current().block_on(async {
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        #[expect(deprecated, reason = "the other way is unsafe")]
        let mut here = AsyncFd::new(here).unwrap();
        std::io::Write::write_all(&mut there, b"x").unwrap();
        let mut guard = here.readable_mut().await.unwrap();
        let read = |fd: &mut AsyncFd<std::os::unix::net::UnixStream>| {
            std::io::Read::read(fd.get_mut(), &mut [0; 4])
        };
        assert_eq!(guard.try_io(read).unwrap().unwrap(), 1);
        guard.try_io(read).unwrap_err();
        drop(guard);
        let readable = tokio::time::timeout(Duration::from_millis(1), here.readable()).await;
        assert!(readable.is_err());
    });
}

// Fails if a half that is put together again, or forgotten, ends its direction.
#[test]
fn halves_that_are_given_up_end_nothing() {
    current().block_on(async {
        let (here, mut there) = connected().await;
        let (read, write) = here.into_split();
        let mut here = read.reunite(write).unwrap();
        here.write_all(b"x").await.unwrap();
        assert_eq!(there.read(&mut [0; 4]).await.unwrap(), 1);
        let (read, write) = here.into_split();
        write.forget();
        let ended = tokio::time::timeout(Duration::from_millis(1), there.read(&mut [0; 4])).await;
        assert!(ended.is_err());
        drop(read);
        assert_eq!(there.read(&mut [0; 4]).await.unwrap(), 0);
    });
}

#[cfg(debug_assertions)]
#[test]
#[should_panic = "Registering a blocking socket"]
fn a_socket_that_blocks_is_refused() {
    let runtime = current();
    let _entered = runtime.enter();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _listener = TcpListener::from_std(listener);
}

// Fails if an operation of the user's takes no unit of the budget.
#[test]
fn operations_of_the_users_take_from_the_budget() {
    use tokio::task::coop::has_budget_remaining;
    current().block_on(async {
        let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        #[expect(deprecated, reason = "the other way is unsafe")]
        let mut here = AsyncFd::new(here).unwrap();
        drop(here.writable().await.unwrap());
        let mut done = 0;
        while has_budget_remaining() {
            done += 1;
            assert!(done < 200);
            let interest = Interest::WRITABLE;
            here.async_io_mut(interest, |_| Ok(())).await.unwrap();
        }
    });
}

/// The name of the listener that [`the_peer_in_the_child`] connects to.
#[cfg(target_os = "linux")]
const PEER: &str = "TOKIO_TEST_PEER_CHILD";

// Not a test by itself.
#[cfg(target_os = "linux")]
#[test]
fn the_peer_in_the_child() {
    use std::os::{linux::net::SocketAddrExt, unix::net};
    if let Ok(name) = std::env::var(PEER) {
        let addr = net::SocketAddr::from_abstract_name(name).unwrap();
        let mut stream = net::UnixStream::connect_addr(&addr).unwrap();
        // Until the other side is gone.
        std::io::Read::read(&mut stream, &mut [0]).unwrap();
    }
}

// Fails if the user is taken for the group. Only root has children of other users.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_has_the_user_and_the_group_of_its_process() {
    use std::os::unix::{fs::MetadataExt, process::CommandExt};
    const USER: u32 = 65534;
    const GROUP: u32 = 65533;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skip::skipped("a peer of another user: only root has children of other users");
    }
    let name = format!("ws-tokio-peer-{}", std::process::id());
    current().block_on(async {
        let listener = UnixListener::bind(format!("\0{name}")).unwrap();
        // Its path may be in a directory that the other user may not look into.
        let mut child = std::process::Command::new("/proc/self/exe")
            .args(["--exact", "the_peer_in_the_child"])
            .env(PEER, name)
            .stdout(std::process::Stdio::null())
            .current_dir("/")
            .gid(GROUP)
            .uid(USER)
            .spawn()
            .unwrap();
        let accepted = tokio::time::timeout(Duration::from_secs(60), listener.accept()).await;
        let (stream, _) = accepted.expect("the child has not come").unwrap();
        let cred = stream.peer_cred().unwrap();
        assert_eq!((cred.uid(), cred.gid()), (USER, GROUP));
        assert_eq!(cred.pid(), Some(child.id().cast_signed()));
        drop(stream);
        assert!(child.wait().unwrap().success());
    });
}
