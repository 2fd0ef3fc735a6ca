//! Unix sockets of hosts, by tasks of the runtime.

use std::{io, time::Duration};

use socket2::SockRef;
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixDatagram, UnixListener, UnixStream},
    time::{sleep, timeout},
};
use ws_sim::Sim;

#[test]
fn a_path_is_a_name_of_its_host() {
    let sim = Sim::new(1);
    sim.host("other", || async {
        let _listener = UnixListener::bind("/run/socket")?;
        std::future::pending::<io::Result<()>>().await
    });
    sim.client("client", async {
        sleep(Duration::from_secs(1)).await;
        let error = UnixStream::connect("/run/socket").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind("/run/socket")?;
        let server = ws::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            stream.write_all(text.to_uppercase().as_bytes()).await
        });
        let mut stream = UnixStream::connect("/run/socket").await?;
        stream.write_all(b"hello").await?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert_eq!(text, "HELLO");
        server.await.unwrap()
    });
    sim.try_run().unwrap();
}

#[test]
fn a_reader_and_a_writer_wait_for_each_other() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let (mut a, mut b) = UnixStream::pair()?;
        let writer = ws::spawn(async move {
            a.write_all(&vec![7; 3_000_000]).await?;
            io::Result::Ok(a)
        });
        let mut all = Vec::new();
        let reader = async {
            let mut buffer = [0; 4096];
            while all.len() < 3_000_000 {
                let len = b.read(&mut buffer).await?;
                all.extend_from_slice(&buffer[..len]);
            }
            io::Result::Ok(())
        };
        reader.await?;
        assert!(all.iter().all(|byte| *byte == 7));
        drop(writer.await.unwrap()?);
        assert_eq!(b.read(&mut [0]).await?, 0);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_full_datagram_socket_lets_its_sender_wait() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let receiver = UnixDatagram::bind("/run/log")?;
        let sender = UnixDatagram::unbound()?;
        sender.connect("/run/log")?;
        let sends = ws::spawn(async move {
            for number in 0..100_u8 {
                sender.send(&[number]).await?;
            }
            io::Result::Ok(())
        });
        for number in 0..100_u8 {
            let mut byte = [0];
            receiver.recv(&mut byte).await?;
            assert_eq!(byte[0], number);
        }
        sends.await.unwrap()
    });
    sim.try_run().unwrap();
}

#[test]
fn a_crash_takes_sockets_away_and_leaves_their_paths() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let again = UnixListener::bind("\0abstract");
        assert!(again.is_ok(), "an abstract name goes with its socket");
        let is_there = std::fs::exists("/run/socket")?;
        if is_there {
            let error = UnixListener::bind("/run/socket").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            let error = UnixStream::connect("/run/socket").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            std::fs::remove_file("/run/socket")?;
        }
        let _listener = UnixListener::bind("/run/socket")?;
        std::fs::File::open("/run")?.sync_all()?;
        if is_there {
            ws::net::TcpStream::connect("client:7").await?;
        }
        std::future::pending::<io::Result<()>>().await
    });
    sim.client("client", async {
        let listener = ws::net::TcpListener::bind("0.0.0.0:7").await?;
        listener.accept().await.map(drop)
    });
    sim.after(Duration::from_secs(1), |sim| sim.restart("server"));
    sim.try_run().unwrap();
}

#[test]
fn a_sender_waits_for_an_inbox_that_another_one_filled() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let receiver = UnixDatagram::bind("/tmp/r")?;
        let (one, another) = (UnixDatagram::unbound()?, UnixDatagram::unbound()?);
        one.connect("/tmp/r")?;
        another.connect("/tmp/r")?;
        // Both know that they can be written.
        one.send(b"x").await?;
        another.send(b"x").await?;
        let full = SockRef::from(&one);
        while full.send(b"x").is_ok() {}
        let waits = ws::spawn(async move { another.send(b"last").await });
        sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished());
        let mut buffer = [0; 4];
        while receiver.recv(&mut buffer).await? != 4 {}
        assert_eq!((waits.await.unwrap()?, &buffer), (4, b"last"));
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_sender_goes_on_when_what_another_one_has_sent_is_read() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let reader = UnixDatagram::bind("r")?;
        let (a, b) = (UnixDatagram::unbound()?, UnixDatagram::unbound()?);
        a.connect("r")?;
        b.connect("r")?;
        let millisecond = Duration::from_millis(1);
        while timeout(millisecond, b.send(b"x")).await.is_ok() {}
        ws::spawn_local(async move { a.send(b"y").await });
        sleep(Duration::from_secs(1)).await;
        let mut byte = [0];
        while byte != *b"y" {
            reader.recv(&mut byte).await?;
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}
