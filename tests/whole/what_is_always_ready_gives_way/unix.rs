//! What Unix alone has: its sockets, descriptors and signals.

use std::{future::poll_fn, net::Shutdown, process::Command};

use ws::{
    io::{AsyncFd, AsyncReadExt, AsyncWriteExt, Direction, Interest},
    net::{UnixDatagram, UnixStream, unix::SocketAddr},
    process::{self, Child},
    signal::unix::{SignalKind, signal},
};

use super::{each_gives_way, gives_way};

each_gives_way! {
    child_wait_after_its_end: {
        let child = process::spawn(&mut Command::new("true")).unwrap();
        let mut child = Child::new(child).unwrap();
        while child.wait().await.is_ok() {}
    };
    unix_connect_to_nobody: loop {
        UnixStream::connect("/there/is/no/such/path").await.unwrap_err();
    };
    unix_connect_addr_to_nobody: {
        let addr = SocketAddr::from_pathname("/there/is/no/such/path").unwrap();
        while UnixStream::connect_addr(&addr).await.is_err() {}
    };
    unix_read_at_the_end: {
        let (mut stream, _) = UnixStream::pair().unwrap();
        while stream.read(&mut [0]).await.unwrap() == 0 {}
    };
    unix_readable_at_the_end: {
        let (stream, _) = UnixStream::pair().unwrap();
        while stream.readable().await.is_ok() {}
    };
    unix_write_of_nothing: {
        let (mut stream, _peer) = UnixStream::pair().unwrap();
        while stream.write(&[]).await.unwrap() == 0 {}
    };
    unix_flush: {
        let (mut stream, _peer) = UnixStream::pair().unwrap();
        while stream.flush().await.is_ok() {}
    };
    unix_close: {
        let (mut stream, _peer) = UnixStream::pair().unwrap();
        while stream.close().await.is_ok() {}
    };
    unix_datagram_send_to_nobody: {
        let (socket, _) = UnixDatagram::pair().unwrap();
        while socket.send(b"x").await.is_err() {}
    };
    unix_datagram_poll_send_to_nobody: {
        let (socket, _) = UnixDatagram::pair().unwrap();
        while poll_fn(|cx| socket.poll_send(cx, b"x")).await.is_err() {}
    };
    unix_datagram_send_to: {
        let socket = UnixDatagram::unbound().unwrap();
        while socket.send_to(b"x", "/there/is/no/such/path").await.is_err() {}
    };
    unix_datagram_send_to_no_address: {
        let socket = UnixDatagram::unbound().unwrap();
        let too_long = "x".repeat(1000);
        while socket.send_to(b"x", &too_long).await.is_err() {}
    };
    unix_datagram_send_to_addr: {
        let socket = UnixDatagram::unbound().unwrap();
        let addr = SocketAddr::from_pathname("/there/is/no/such/path").unwrap();
        while socket.send_to_addr(b"x", &addr).await.is_err() {}
    };
    unix_datagram_recv_at_the_end: {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        socket.shutdown(Shutdown::Read).unwrap();
        while socket.recv(&mut [0]).await.unwrap() == 0 {}
    };
    unix_datagram_poll_recv_at_the_end: {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        socket.shutdown(Shutdown::Read).unwrap();
        while poll_fn(|cx| socket.poll_recv(cx, &mut [0])).await.unwrap() == 0 {}
    };
    unix_datagram_recv_from_at_the_end: {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        socket.shutdown(Shutdown::Read).unwrap();
        while socket.recv_from(&mut [0]).await.unwrap().0 == 0 {}
    };
    an_fd_is_ready: {
        let fd = ended_fd();
        while fd.ready(Direction::Read).await.is_ok() {}
    };
    an_fd_is_polled_for_readiness: {
        let fd = ended_fd();
        while poll_fn(|cx| fd.poll_ready(cx, Direction::Read)).await.is_ok() {}
    };
    io_of_an_fd: {
        let fd = ended_fd();
        while fd.io(Interest::READABLE, || Ok(())).await.is_ok() {}
    };
    io_of_an_fd_in_both_directions: {
        let fd = ended_fd();
        let both = Interest::READABLE | Interest::WRITABLE;
        while fd.io(both, || Ok(())).await.is_ok() {}
    };
    poll_io_of_an_fd: {
        let fd = ended_fd();
        while poll_fn(|cx| fd.poll_io(cx, Interest::READABLE, || Ok(()))).await.is_ok() {}
    };
    an_fd_is_read: {
        let mut fd = ended_fd();
        while fd.read(&mut [0]).await.unwrap() == 0 {}
    };
    an_fd_is_written: {
        let mut fd = ended_fd();
        while fd.write(b"x").await.is_err() {}
    };
    an_fd_is_flushed: {
        let mut fd = ended_fd();
        while fd.flush().await.is_ok() {}
    };
    an_fd_is_closed: {
        let mut fd = ended_fd();
        while fd.close().await.is_ok() {}
    };
    signals: {
        let kind = SignalKind::user_defined2();
        let mut signals = signal(kind).unwrap();
        loop {
            signal_hook::low_level::raise(kind.as_raw()).unwrap();
            signals.recv().await.unwrap();
        }
    };
    polled_signals: {
        let kind = SignalKind::user_defined1();
        let mut signals = signal(kind).unwrap();
        loop {
            signal_hook::low_level::raise(kind.as_raw()).unwrap();
            poll_fn(|cx| signals.poll_recv(cx)).await.unwrap();
        }
    };
}

/// A descriptor that is at its end, for reading and for writing.
fn ended_fd() -> AsyncFd<std::os::unix::net::UnixStream> {
    let (here, _) = std::os::unix::net::UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    AsyncFd::new(here).unwrap()
}
