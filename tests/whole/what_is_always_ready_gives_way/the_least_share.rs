//! F7: each operation gets on with the least share of a poll, one unit: as the first future of the
//! innermost of seven `ws::join!`. It fails when an operation holds one unit while it takes another
//! one: then it is refused in each poll, and never ends.

use std::{
    future::{Future, ready},
    pin::Pin,
};

use futures::{StreamExt, TryFutureExt};
use ws::{
    fs::{self, File},
    io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, Cursor, SeekFrom},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::Builder,
    task::{self, JoinSet, LocalSet, coop},
    time,
};

use super::{ANY, SOON, udp_to_itself};
use crate::net_support::{Limit, tcp_pair};

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// Half of a poll is for the other future, so `depth` of these leave one part in 2^`depth`.
fn with_a_part<T: 'static>(depth: u32, future: impl Future<Output = T> + 'static) -> Boxed<T> {
    if depth == 0 {
        return Box::pin(future);
    }
    Box::pin(async move { ws::join!(with_a_part(depth - 1, future), ready(())).0 })
}

/// `future` ends, though it may take one unit in each poll.
fn gets_on(future: impl Future<Output = ()> + 'static) {
    let _limit = Limit::new(1);
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(async {
        ws::spawn_local(with_a_part(7, future)).await.unwrap();
    });
}

macro_rules! each_gets_on {
    ($($name:ident: $future:expr;)*) => {$(
        #[test]
        fn $name() {
            gets_on(async { $future });
        }
    )*};
}

each_gets_on! {
    a_file_is_written_and_read: {
        let path = std::env::temp_dir().join(format!("ws-least-share-{}", std::process::id()));
        let options = File::options().read(true).write(true).create(true).truncate(true).clone();
        let mut file = options.open(&path).await.unwrap();
        // The second one waits for the first.
        file.write_all(b"one").await.unwrap();
        file.write_all(b"two").await.unwrap();
        file.flush().await.unwrap();
        file.seek(SeekFrom::Start(1)).await.unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "netwo");
        file.set_len(2).await.unwrap();
        assert_eq!(file.metadata().await.unwrap().len(), 2);
        file.sync_all().await.unwrap();
        file.close().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"on");
        fs::remove_file(&path).await.unwrap();
    };
    a_folder_is_listed: {
        let names: Vec<_> = fs::read_dir("tests").await.unwrap().collect().await;
        assert!(names.iter().all(|entry| entry.is_ok()) && !names.is_empty());
    };
    a_stream_of_the_process_is_written: {
        let mut out = ws::io::stderr();
        out.write_all(b"one, ").await.unwrap();
        out.write_all(b"two\n").await.unwrap();
        out.flush().await.unwrap();
    };
    a_connection_carries_bytes: {
        let (mut here, mut there) = tcp_pair().await.unwrap();
        here.write_all(b"bytes").await.unwrap();
        here.close().await.unwrap();
        let mut read = Vec::new();
        there.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"bytes");
    };
    bytes_are_copied: {
        let (here, mut there) = tcp_pair().await.unwrap();
        let copied = ws::io::copy(Cursor::new(vec![7; 100_000]), &mut there);
        let taken = async {
            let mut read = vec![0; 100_000];
            (&mut &here).read_exact(&mut read).await.unwrap();
        };
        assert_eq!(ws::join!(copied, taken).0.unwrap(), 100_000);
    };
    connections_are_accepted: {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut incoming = listener.incoming();
        let both = ws::join!(TcpStream::connect(addr), incoming.next());
        both.0.unwrap();
        both.1.unwrap().unwrap();
    };
    a_name_is_looked_up: drop(ws::net::lookup_host(("localhost", 0)).await);
    a_datagram_arrives: {
        let socket: UdpSocket = udp_to_itself().await;
        socket.send(b"x").await.unwrap();
        assert_eq!(socket.recv(&mut [0]).await.unwrap(), 1);
    };
    timers_fire: {
        time::sleep(SOON).await;
        time::interval(SOON).tick().await;
        time::timeout(SOON, std::future::pending::<()>()).await.unwrap_err();
    };
    tasks_are_joined: {
        ws::spawn(async {}).await.unwrap();
        ws::spawn_blocking(|| ()).await.unwrap();
        ws::compute(|| ()).await.unwrap();
        let mut set = JoinSet::new();
        set.spawn(async {});
        set.spawn(task::yield_now());
        while let Some(ended) = set.join_next().await {
            ended.unwrap();
        }
    };
    a_set_of_tasks_runs: {
        let set = LocalSet::new();
        let handle = set.spawn_local(async {});
        set.run_until(handle.map_ok(drop)).await.unwrap();
        set.spawn_local(task::yield_now());
        set.await;
    };
    combinators_end: {
        coop::cooperative(coop::consume_budget()).await;
        ws::join!(coop::consume_budget(), task::yield_now(), time::sleep(SOON));
        ws::select! {
            () = time::sleep(SOON) => {}
            () = futures::future::pending() => {}
        }
    };
}

#[cfg(unix)]
use std::process::Command;
#[cfg(unix)]
use ws::process::{self, Child};

#[cfg(unix)]
each_gets_on! {
    a_child_is_waited_for: {
        let child = process::spawn(&mut Command::new("true")).unwrap();
        assert!(Child::new(child).unwrap().wait().await.unwrap().success());
    };
    sockets_of_unix_carry_bytes: {
        let (mut here, mut there) = ws::net::unix::UnixStream::pair().unwrap();
        here.write_all(b"x").await.unwrap();
        assert_eq!(there.read(&mut [0; 2]).await.unwrap(), 1);
        let (here, there) = ws::net::unix::UnixDatagram::pair().unwrap();
        here.send(b"x").await.unwrap();
        assert_eq!(there.recv(&mut [0; 2]).await.unwrap(), 1);
    };
}
