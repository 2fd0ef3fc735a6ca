//! S7: where an operation tries again now and then, because no event tells of room, it ends with an
//! error when the runtime ends that it waits by: `accept` and `incoming` without a descriptor,
//! `connect` to a Unix listener whose queue is full, and `send_to` a Unix datagram socket whose
//! queue is full. So it is also below `enter` of a runtime that had ended before, for a socket of
//! one that lives.
//!
//! It fails with a panic if `Backoff` in `net/src/retry.rs` waits by a `Sleep`.

use crate::net_support;

use std::env;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};

use futures::StreamExt;
use net_support::Folder;
use ws::net::{TcpListener, UnixDatagram, UnixListener, UnixStream};
use ws::runtime::{Builder, Handle, Runtime, Sysmon};

/// Says to the child that it is one.
const CHILD: &str = "WS_TEST_WITHOUT_DESCRIPTORS";

/// Without the monitor, which now and then opens a file for a moment.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    builder.build().expect("a runtime can be built")
}

/// A runtime that has ended.
fn ended() -> Handle {
    runtime().handle().clone()
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn is_refused<T>(answer: Poll<io::Result<T>>) {
    match answer {
        Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::Other, "{error}"),
        Poll::Ready(Ok(_)) => panic!("there is no room"),
        Poll::Pending => panic!("the runtime has ended"),
    }
}

/// Has an operation wait by the timer of a runtime, and ends that.
fn is_told_of_the_end<T>(
    waits_by: Runtime,
    mut leave_no_room: impl FnMut(),
    mut operation: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) {
    leave_no_room();
    waits_by.block_on(poll_fn(|cx| {
        assert!(operation(cx).is_pending());
        Poll::Ready(())
    }));
    let handle = waits_by.handle().clone();
    drop(waits_by);
    leave_no_room();
    // The wait may have been over before the end: then it is tried again, and begins the next wait
    // here.
    let _guard = handle.enter();
    is_refused(operation(&mut Context::from_waker(Waker::noop())));
}

#[test]
fn a_datagram_that_finds_no_room() {
    let lives = runtime();
    let folder = Folder::new();
    let path = folder.path("socket");
    let guard = lives.enter();
    let _receiver = UnixDatagram::bind(&path).expect("there is room");
    let sender = UnixDatagram::unbound().expect("there is room");
    let std_sender = std::os::unix::net::UnixDatagram::unbound().expect("there is room");
    drop(guard);
    std_sender.set_nonblocking(true).expect("it is a socket");
    while std_sender.send_to(b"x", &path).is_ok() {}
    let mut waits = Box::pin(sender.send_to(b"x", &path));
    is_told_of_the_end(runtime(), || {}, |cx| waits.as_mut().poll(cx));

    let _guard = ended().enter();
    is_refused(poll(sender.send_to(b"x", &path)));
}

#[test]
fn a_connect_that_finds_no_room() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)
        .expect("there is room");
    let addr = socket2::SockAddr::unix(&path).expect("it is a path");
    listener.bind(&addr).expect("it is free");
    listener.listen(0).expect("it is bound");
    let lives = runtime();
    let mut connected = Vec::new();
    #[expect(
        clippy::async_yields_async,
        reason = "it is awaited where there is no runtime"
    )]
    let mut waits = lives.block_on(async {
        loop {
            let mut connect = Box::pin(UnixStream::connect(path.clone()));
            match futures::poll!(&mut connect) {
                Poll::Ready(stream) => connected.push(stream.expect("somebody listens")),
                Poll::Pending => return connect,
            }
        }
    });
    is_told_of_the_end(lives, || {}, |cx| waits.as_mut().poll(cx));
    drop(connected);
}

// The limit is the process's, so this runs in a child of its own.
#[test]
fn an_accept_that_finds_no_descriptor() {
    if env::var_os(CHILD).is_some() {
        return without_descriptors();
    }
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(env::current_exe().expect("the test is a program"))
        .args([
            "--exact",
            "retries_end_with_their_runtime::an_accept_that_finds_no_descriptor",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn without_descriptors() {
    let lives = runtime();
    let folder = Folder::new();
    let path = folder.path("socket");
    let (tcp, unix) = lives.block_on(async {
        let tcp = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("there is room");
        (tcp, UnixListener::bind(&path).expect("there is room"))
    });
    let addr = tcp.local_addr().expect("it is bound");
    let _tcp_client = std::net::TcpStream::connect(addr).expect("it listens");
    let _unix_client = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
    let mut waits_by: Vec<Runtime> = (0..4).map(|_| runtime()).collect();
    let ended = ended();
    let mut files = Vec::new();
    let mut take_all = || {
        while let Ok(file) = File::open("/dev/null") {
            files.push(file);
        }
    };
    let mut check = |operation: &mut dyn FnMut(&mut Context<'_>) -> Poll<io::Result<()>>| {
        let waits_by = waits_by.pop().expect("there is one for each");
        // The end of a runtime frees descriptors.
        is_told_of_the_end(waits_by, &mut take_all, operation);
    };
    fn stream<T>(next: Option<io::Result<T>>) -> io::Result<()> {
        next.expect("it never ends").map(drop)
    }
    let mut accept = Box::pin(tcp.accept());
    check(&mut |cx| accept.as_mut().poll(cx).map_ok(drop));
    let mut accept = Box::pin(unix.accept());
    check(&mut |cx| accept.as_mut().poll(cx).map_ok(drop));
    let mut incoming = tcp.incoming();
    check(&mut |cx| incoming.poll_next_unpin(cx).map(stream));
    let mut incoming = unix.incoming();
    check(&mut |cx| incoming.poll_next_unpin(cx).map(stream));

    take_all();
    let _guard = ended.enter();
    is_refused(poll(tcp.accept()));
    is_refused(poll(unix.accept()));
}
