//! When a connection is given up, and what else of the network takes time or is lost.
#![cfg(target_os = "linux")]

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    time::{Instant, timeout},
};
use ws_sim::{Sim, network::Link};

const SECOND: Duration = Duration::from_secs(1);

async fn silent() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    let _stream = listener.accept().await?;
    std::future::pending().await
}

/// A connection to a host that is cut off after a second.
fn cut_off(client: impl AsyncFnOnce(TcpStream) -> io::Result<()> + 'static) {
    let sim = Sim::new(1);
    sim.host("server", silent);
    sim.client("client", async move {
        let stream = TcpStream::connect("server:7").await?;
        ws::time::sleep(2 * SECOND).await;
        client(stream).await
    });
    sim.after(SECOND, |sim| sim.partition(["client"], ["server"]));
    sim.try_run().unwrap();
}

#[test]
fn data_without_an_acknowledgement_is_given_up_after_the_user_timeout() {
    cut_off(async |mut stream| {
        SockRef::from(&stream).set_tcp_user_timeout(Some(5 * SECOND))?;
        let begin = Instant::now();
        stream.write_all(b"x").await?;
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed(), 5 * SECOND);
        Ok(())
    });
}

#[test]
fn times_of_keep_alive_have_no_effect_before_it_is_on() {
    cut_off(async |mut stream| {
        let times = TcpKeepalive::new()
            .with_time(3 * SECOND)
            .with_interval(SECOND)
            .with_retries(2);
        SockRef::from(&stream).set_tcp_keepalive(&times)?;
        SockRef::from(&stream).set_keepalive(false)?;
        let mut byte = [0];
        let read = timeout(3600 * SECOND, stream.read(&mut byte)).await;
        assert!(read.is_err(), "{read:?}");
        SockRef::from(&stream).set_keepalive(true)?;
        let begin = Instant::now();
        let error = stream.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() <= 3 * SECOND, "{:?}", begin.elapsed());
        Ok(())
    });
}

#[test]
fn a_peer_that_lives_and_does_not_read_is_given_up_after_the_user_timeout() {
    let sim = Sim::new(1);
    sim.host("server", silent);
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        SockRef::from(&stream).set_tcp_user_timeout(Some(4 * SECOND))?;
        let begin = Instant::now();
        let error = loop {
            if let Err(error) = stream.write_all(&[1; 65_536]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Linux needs from 4.4 to 4.5 s: the time begins with the first probe.
        let taken = begin.elapsed();
        assert!((4 * SECOND..5 * SECOND).contains(&taken), "{taken:?}");
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_peer_that_reads_a_little_now_and_then_is_not_given_up() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut stream, _) = listener.accept().await?;
        let mut some = vec![0; 100_000];
        while stream.read(&mut some).await? > 0 {
            ws::time::sleep(3 * SECOND).await;
        }
        io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        SockRef::from(&stream).set_tcp_user_timeout(Some(8 * SECOND))?;
        stream.write_all(&[1; 4_000_000]).await
    });
    sim.try_run().unwrap();
    assert!(sim.elapsed() > 60 * SECOND, "{:?}", sim.elapsed());
}

#[test]
fn the_handshake_measures_the_round_trip() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut stream, _) = listener.accept().await?;
        stream.read_exact(&mut [0]).await?;
        stream.write_all(b"y").await?;
        std::future::pending::<io::Result<()>>().await
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        ws::time::sleep(SECOND).await;
        let begin = Instant::now();
        stream.write_all(b"x").await?;
        stream.read_exact(&mut [0]).await?;
        // Each end sends once more, after 200 ms and a round trip.
        let taken = begin.elapsed();
        assert!((2 * SECOND / 5..SECOND / 2).contains(&taken), "{taken:?}");
        io::Result::Ok(())
    });
    // The first segment of each end is lost.
    sim.after(SECOND / 2, |sim| sim.partition(["client"], ["server"]));
    sim.after(SECOND + SECOND / 10, |sim| {
        sim.heal();
        sim.partition_one_way(["server"], ["client"]);
    });
    sim.after(SECOND + 3 * SECOND / 10, |sim| sim.heal());
    sim.try_run().unwrap();
}

#[test]
fn a_connection_from_the_port_of_one_in_time_wait_takes_no_second() {
    ws_sim::check(0..10, |sim| {
        sim.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:7").await?;
            loop {
                // The server closes first.
                drop(listener.accept().await?);
            }
            #[expect(unreachable_code, reason = "it says which type the answer has")]
            io::Result::Ok(())
        });
        sim.client("client", async {
            for _ in 0..20 {
                let socket = TcpSocket::new_v4()?;
                socket.set_reuse_addr(true)?;
                socket.bind("0.0.0.0:50000".parse().unwrap())?;
                let begin = Instant::now();
                let mut stream = socket.connect("10.0.0.1:7".parse().unwrap()).await?;
                assert!(begin.elapsed() < SECOND / 2, "{:?}", begin.elapsed());
                assert_eq!(stream.read(&mut [0]).await?, 0);
                drop(stream);
                ws::time::sleep(SECOND / 50).await;
            }
            io::Result::Ok(())
        });
    });
}

#[test]
fn a_connection_to_an_address_of_nobody_fails_after_three_seconds() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = Instant::now();
        let error = TcpStream::connect("10.0.0.77:1").await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EHOSTUNREACH));
        assert_eq!(begin.elapsed(), 3 * SECOND);
        let error = TcpStream::connect("8.8.8.8:1").await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
        assert_eq!(begin.elapsed(), 3 * SECOND);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_datagram_to_an_address_of_nobody_is_lost() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        assert_eq!(socket.send_to(b"x", "10.0.0.78:1").await?, 1);
        assert_eq!(socket.send_to(b"x", "10.0.0.78:1").await?, 1);
        let error = socket.send_to(b"x", "8.8.8.8:1").await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
        for all in ["255.255.255.255:1", "10.255.255.255:1"] {
            let error = socket.send_to(b"x", all).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EACCES), "{all}");
        }
        socket.connect("10.0.0.79:1").await?;
        assert_eq!(socket.send(b"x").await?, 1);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_slow_link_fills_the_send_buffer_of_datagrams() {
    let sim = Sim::new(1);
    let link = Link {
        bandwidth: Some(10_000),
        ..Link::default()
    };
    sim.set_default_link(link);
    sim.host("server", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        loop {
            socket.recv(&mut [0; 1_000]).await?;
        }
        #[expect(unreachable_code, reason = "it says which type the answer has")]
        io::Result::Ok(())
    });
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        SockRef::from(&socket).set_send_buffer_size(5_000)?;
        socket.connect("server:1").await?;
        let begin = Instant::now();
        let mut taken = 0;
        let error = loop {
            match SockRef::from(&socket).send(&[1; 1_000]) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // Linux takes 7 of them.
        assert!((5..8).contains(&taken), "{taken}");
        // Each takes 0.1 s, so a hundred take ten.
        for _ in taken..100 {
            socket.send(&[1; 1_000]).await?;
        }
        let took = begin.elapsed();
        assert!((9 * SECOND..11 * SECOND).contains(&took), "{took:?}");
        // What others send is not behind more than that.
        let begin = Instant::now();
        let refused = TcpStream::connect("server:7").await;
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(begin.elapsed() < 2 * SECOND, "{:?}", begin.elapsed());
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_socket_is_closed_while_its_datagrams_leave() {
    let sim = Sim::new(1);
    let link = Link {
        bandwidth: Some(10_000),
        ..Link::default()
    };
    sim.set_default_link(link);
    sim.client("server", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        for _ in 0..5 {
            assert_eq!(socket.recv(&mut [0; 1_000]).await?, 1_000);
        }
        io::Result::Ok(())
    });
    sim.client("client", async {
        for _ in 0..5 {
            let socket = UdpSocket::bind("0.0.0.0:5").await?;
            socket.send_to(&[1; 1_000], "server:1").await?;
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}
