//! A future of many operations that are ready at once pays for them: it is not ready in one poll.

#![expect(
    clippy::async_yields_async,
    reason = "what is prepared outlives the operation"
)]

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use futures::StreamExt;
use ws::{
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    runtime::{Builder, Sysmon},
    task::{JoinHandle, JoinSet},
};

use super::{ANY, udp_to_itself};
use crate::net_support::Limit;

/// More than a budget takes.
const MANY: usize = 200;

/// A future does `MANY` operations, and each of them is ready at once. The future is not ready in
/// one poll.
fn ends_its_poll<P, F>(prepare: fn() -> P)
where
    P: Future<Output = F>,
    F: Future<Output = ()>,
{
    let _limit = Limit::new(1);
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut many = Box::pin(prepare().await);
        // In a poll of its own, with a whole budget.
        ws::task::yield_now().await;
        let polled = poll_fn(|cx| Poll::Ready(many.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "it pays nothing");
        many.await;
    });
}

macro_rules! ends_its_poll {
    ($($name:ident: { $($prepare:tt)* } then $future:expr;)*) => {$(
        #[test]
        fn $name() {
            ends_its_poll(|| async {
                $($prepare)*
                async move { $future }
            });
        }
    )*};
}

async fn ended(handles: Vec<JoinHandle<()>>) -> Vec<JoinHandle<()>> {
    while !handles.iter().all(JoinHandle::is_finished) {
        ws::task::yield_now().await;
    }
    handles
}

fn many<T>(f: impl FnMut(usize) -> T) -> Vec<T> {
    (0..MANY).map(f).collect()
}

ends_its_poll! {
    tasks_that_have_ended: {
        let handles = ended(many(|_| ws::spawn(async {}))).await;
    } then for handle in handles {
        handle.await.unwrap();
    };
    tasks_that_have_ended_and_are_aborted_on_drop: {
        let handles = ended(many(|_| ws::spawn(async {}))).await;
    } then for handle in handles {
        handle.abort_on_drop().await.unwrap();
    };
    blocking_calls_that_have_ended: {
        let handles = ended(many(|_| ws::spawn_blocking(|| ()))).await;
    } then for handle in handles {
        handle.await.unwrap();
    };
    a_set_of_tasks_that_have_ended: {
        let mut set = JoinSet::new();
        for handle in ended(many(|_| ws::spawn(async {}))).await {
            set.insert(handle);
        }
    } then while set.join_next().await.is_some() {};
    tcp_accept: {
        let (listener, _clients) = tcp_clients().await;
    } then for _ in 0..MANY {
        listener.accept().await.unwrap();
    };
    tcp_poll_accept: {
        let (listener, _clients) = tcp_clients().await;
    } then for _ in 0..MANY {
        poll_fn(|cx| listener.poll_accept(cx)).await.unwrap();
    };
    tcp_incoming: {
        let (listener, _clients) = tcp_clients().await;
    } then {
        let mut incoming = listener.incoming();
        for _ in 0..MANY {
            incoming.next().await.unwrap().unwrap();
        }
    };
    tcp_connect: {
        let (listener, _clients) = tcp_clients().await;
        let addr = listener.local_addr().unwrap();
    } then {
        for _ in 0..MANY {
            TcpStream::connect(addr).await.unwrap();
        }
        drop(listener);
    };
    udp_recv: {
        let socket = udp_with_datagrams().await;
    } then for _ in 0..MANY {
        socket.recv(&mut [0]).await.unwrap();
    };
    udp_poll_recv: {
        let socket = udp_with_datagrams().await;
    } then for _ in 0..MANY {
        poll_fn(|cx| socket.poll_recv(cx, &mut [0])).await.unwrap();
    };
    udp_recv_from: {
        let socket = udp_with_datagrams().await;
    } then for _ in 0..MANY {
        socket.recv_from(&mut [0]).await.unwrap();
    };
    udp_poll_recv_from: {
        let socket = udp_with_datagrams().await;
    } then for _ in 0..MANY {
        poll_fn(|cx| socket.poll_recv_from(cx, &mut [0])).await.unwrap();
    };
}

/// A listener with connections that nobody has accepted.
async fn tcp_clients() -> (TcpListener, Vec<std::net::TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(ANY.parse().unwrap()).unwrap();
    let listener = socket.listen(1024).unwrap();
    let addr = listener.local_addr().unwrap();
    let clients = many(|_| std::net::TcpStream::connect(addr).unwrap());
    (listener, clients)
}

async fn udp_with_datagrams() -> UdpSocket {
    let socket = udp_to_itself().await;
    for _ in 0..MANY {
        socket.send(b"x").await.unwrap();
    }
    socket.readable().await.unwrap();
    socket
}
