//! Sockets that outlive their runtime give errors, to a task that waits and to one that comes
//! later; dropping them does nothing worse. Sockets of a live runtime serve tasks of another, and
//! foreign executors.

use crate::net_support;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use net_support::{Limit, WORKERS, Wakes, runtime, tcp_pair};
use ws::io::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream, UdpSocket};
#[cfg(unix)]
use ws::net::{UnixDatagram, UnixStream};

/// Polls once, as a foreign executor would.
#[track_caller]
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for a runtime that is gone"),
    }
}

#[test]
fn operations_fail_and_drops_do_nothing() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let first = runtime(workers);
        let (listener, mut tcp, peer, udp) = first
            .block_on(async {
                let (tcp, peer) = tcp_pair().await?;
                Ok::<_, io::Error>((
                    TcpListener::bind("127.0.0.1:0").await?,
                    tcp,
                    peer,
                    UdpSocket::bind("127.0.0.1:0").await?,
                ))
            })
            .unwrap();
        let addr = udp.local_addr().unwrap();

        // Somebody waits when it ends.
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut byte = [0];
        let mut read = tcp.read(&mut byte);
        let mut cx = Context::from_waker(&waker);
        assert!(pin!(&mut read).poll(&mut cx).is_pending());
        drop(first);
        assert_eq!(wakes.count(), 1);
        assert_eq!(ready(read).unwrap_err().kind(), io::ErrorKind::Other);

        ready(tcp.write(b"x")).unwrap_err();
        ready(tcp.peek(&mut byte)).unwrap_err();
        ready(tcp.readable()).unwrap_err();
        tcp.try_write(b"x").unwrap_err();
        ready(listener.accept()).unwrap_err();
        ready(udp.send_to(b"x", addr)).unwrap_err();
        ready(udp.recv_from(&mut byte)).unwrap_err();
        drop((listener, udp));

        // The connection itself is whole, and may join another runtime.
        let second = runtime(workers);
        let answer = second.block_on(async {
            let mut tcp: TcpStream = tcp.into_std()?.try_into()?;
            let mut peer: TcpStream = peer.into_std()?.try_into()?;
            tcp.write_all(b"x").await?;
            peer.read_exact(&mut [0]).await
        });
        answer.unwrap();
    }
}

#[cfg(unix)]
#[test]
fn operations_of_unix_sockets_fail() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let guard = runtime.enter();
        let (mut unix, _) = UnixStream::pair().unwrap();
        let (datagram, _) = UnixDatagram::pair().unwrap();
        drop(guard);
        drop(runtime);
        let error = ready(unix.read(&mut [0])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other);
        ready(datagram.send(b"x")).unwrap_err();
        // Without the runtime's word it would be "not found".
        let error = ready(datagram.send_to(b"x", "nowhere")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other);
    }
}

#[test]
fn a_socket_made_in_a_dropped_runtime_is_an_error() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        drop(runtime);
        let _guard = handle.enter();
        #[cfg(unix)]
        assert!(UnixStream::pair().is_err());
        ready(TcpListener::bind("127.0.0.1:0")).unwrap_err();
        ready(TcpStream::connect("localhost:1")).unwrap_err();
    }
}

#[test]
fn a_task_of_another_runtime_is_served() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let (first, second) = (runtime(workers), runtime(workers));
        let (client, mut server) = first.block_on(tcp_pair()).unwrap();
        let echo = second.spawn(async move { ws::io::copy(&client, &mut &client).await });
        first
            .block_on(async {
                server.write_all(b"hello").await?;
                let mut answer = [0; 5];
                server.read_exact(&mut answer).await?;
                assert_eq!(&answer, b"hello");
                server.close().await
            })
            .unwrap();
        assert_eq!(second.block_on(echo).unwrap().unwrap(), 5);
    }
}
