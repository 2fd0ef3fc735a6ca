//! What blocks the one thread of a host: it takes simulated time, and what comes after it comes
//! later.
#![cfg(target_os = "linux")]

use std::{
    io,
    net::Shutdown,
    sync::{Condvar, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};
use ws_sim::Sim;

const SECOND: Duration = Duration::from_secs(1);
/// The default link.
const LATENCY: Duration = Duration::from_micros(100);

#[test]
fn a_datagram_after_a_blocking_sleep_leaves_after_it() {
    let sim = Sim::new(1);
    sim.host("sender", || async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        ws::time::sleep(SECOND).await;
        thread::sleep(3 * SECOND);
        socket.send_to(b"x", "10.0.0.2:7").await.map(|_| ())
    });
    sim.client("receiver", async {
        let begin = Instant::now();
        let socket = UdpSocket::bind("0.0.0.0:7").await?;
        socket.recv_from(&mut [0]).await?;
        assert_eq!(begin.elapsed(), 4 * SECOND + LATENCY);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_datagram_of_a_blocking_call_leaves_after_its_sleep() {
    let sim = Sim::new(1);
    sim.host("sender", || async {
        let sends = |seconds: u32| {
            move || {
                thread::sleep(seconds * SECOND);
                let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
                socket.send_to(b"x", "10.0.0.2:7").map(drop)
            }
        };
        ws::time::sleep(SECOND).await;
        let calls = [3, 2].map(|seconds| ws::spawn_blocking(sends(seconds)));
        for call in calls {
            call.await.unwrap()?;
        }
        io::Result::Ok(())
    });
    sim.client("receiver", async {
        let begin = Instant::now();
        let socket = UdpSocket::bind("0.0.0.0:7").await?;
        for seconds in [3, 4] {
            socket.recv_from(&mut [0]).await?;
            assert_eq!(begin.elapsed(), seconds * SECOND + LATENCY);
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

// The write is Nagle's business, and the acknowledgement of the first byte comes in the sleep.
#[test]
fn a_stream_keeps_its_order_and_its_times_over_blocking_sleeps() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (stream, _) = listener.accept().await?;
        let stream = stream.into_std()?;
        let mut std = &stream;
        for byte in [b"a", b"b", b"c"] {
            io::Write::write_all(&mut std, byte)?;
            thread::sleep(SECOND);
        }
        stream.shutdown(Shutdown::Write)?;
        thread::sleep(SECOND);
        drop(stream);
        io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("10.0.0.1:7").await?;
        let begin = Instant::now();
        let mut seen = Vec::new();
        loop {
            let mut byte = [0];
            let read = stream.read(&mut byte).await?;
            seen.push((byte[0], begin.elapsed()));
            if read == 0 {
                break;
            }
        }
        // The ACK of the handshake, and the byte.
        let first = 2 * LATENCY;
        let at = |byte, seconds| (byte, first + seconds * SECOND);
        assert_eq!(seen, [at(b'a', 0), at(b'b', 1), at(b'c', 2), at(0, 3)]);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn what_a_crashed_host_would_have_sent_after_its_sleep_is_never_sent() {
    let sim = Sim::new(1);
    sim.host("sender", || async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        let mut stream = TcpStream::connect("10.0.0.2:7").await?;
        thread::sleep(3 * SECOND);
        stream.write_all(b"x").await?;
        socket.send_to(b"x", "10.0.0.2:7").await.map(|_| ())
    });
    sim.client("receiver", async {
        let socket = UdpSocket::bind("0.0.0.0:7").await?;
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut stream, _) = listener.accept().await?;
        let mut byte = [0];
        let read = ws::time::timeout(10 * SECOND, stream.read(&mut byte)).await;
        assert!(read.is_err(), "{read:?}");
        let received = ws::time::timeout(SECOND, socket.recv_from(&mut byte)).await;
        assert!(received.is_err(), "{received:?}");
        io::Result::Ok(())
    });
    sim.after(2 * SECOND, |sim| sim.crash("sender"));
    sim.try_run().unwrap();
}

#[test]
fn the_clock_of_the_runtime_moves_with_a_blocking_sleep() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = ws::time::Instant::now();
        thread::sleep(SECOND);
        assert_eq!(begin.elapsed(), SECOND);
        ws::time::sleep(SECOND).await;
        assert_eq!(begin.elapsed(), 2 * SECOND);
        thread::sleep(SECOND);
        let late = ws::time::timeout_at(begin + 2 * SECOND, std::future::pending::<()>());
        assert!(late.await.is_err());
        assert_eq!(begin.elapsed(), 3 * SECOND);
    });
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), 3 * SECOND);
}

#[test]
fn timed_waits_of_std_take_simulated_time() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = Instant::now();
        thread::park_timeout(3600 * SECOND);
        assert_eq!(begin.elapsed(), 3600 * SECOND);
        let (_sender, receiver) = mpsc::channel::<()>();
        let received = receiver.recv_timeout(SECOND);
        assert_eq!(received, Err(mpsc::RecvTimeoutError::Timeout));
        assert_eq!(begin.elapsed(), 3601 * SECOND);
        let pair = (Mutex::new(()), Condvar::new());
        let guard = pair.0.lock().unwrap();
        let (_guard, result) = pair.1.wait_timeout(guard, SECOND).unwrap();
        assert!(result.timed_out());
        assert_eq!(begin.elapsed(), 3602 * SECOND);
    });
    sim.try_run().unwrap();
}

// It is this program once more, in which one test runs that never ends.
#[test]
fn a_wait_that_nobody_can_end_ends_the_process_with_the_place() {
    let name = "blocks_for_ever_if_it_is_told_to";
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(program);
    let output = command
        .args([name, "--exact", "--nocapture"])
        .env("WS_SIM_BLOCKS", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let says = r#"host "stuck" blocks its thread for ever, with seed 77"#;
    assert!(text.contains(says), "{text}");
    assert!(text.contains("the_place_that_blocks"), "{text}");
}

#[test]
fn blocks_for_ever_if_it_is_told_to() {
    #[inline(never)]
    fn the_place_that_blocks(receiver: &mpsc::Receiver<()>) {
        receiver.recv().unwrap();
    }
    if std::env::var_os("WS_SIM_BLOCKS").is_some() {
        let sim = Sim::new(77);
        sim.client("stuck", async {
            let (_sender, receiver) = mpsc::channel::<()>();
            the_place_that_blocks(&receiver);
        });
        sim.try_run().unwrap();
    }
}

/// Fails if the runtime of the host counts the time of the call by another clock than the host.
#[test]
fn a_blocking_call_takes_its_time_by_the_clock_of_its_host() {
    for ppm in [1_000_000, -500_000] {
        let sim = Sim::new(1);
        sim.client("host", async {
            let begin = Instant::now();
            let inside = ws::spawn_blocking(|| {
                thread::sleep(100 * SECOND);
                Instant::now()
            });
            let inside = inside.await.unwrap();
            assert_eq!(inside - begin, 100 * SECOND);
            let after = begin.elapsed() - 100 * SECOND;
            assert!(after < Duration::from_micros(1), "{after:?}");
        });
        sim.drift("host", ppm);
        sim.try_run().unwrap();
    }
}

/// A host that sleeps in a step and then closes a connection, and what is done to it meanwhile.
/// How long the connection lives for its peer.
fn closes_after_a_sleep(meanwhile: fn(&Sim)) -> Duration {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (stream, _) = listener.accept().await?;
        ws::time::sleep(SECOND).await;
        thread::sleep(10 * SECOND);
        drop(stream);
        std::future::pending::<io::Result<()>>().await
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        assert_eq!(stream.read(&mut [0]).await?, 0);
        io::Result::Ok(())
    });
    sim.after(3 * SECOND, meanwhile);
    sim.try_run().unwrap();
    sim.elapsed()
}

#[test]
fn a_program_that_is_killed_in_its_sleep_closes_what_it_would_have_closed_later() {
    let alone = closes_after_a_sleep(|_| ());
    assert_eq!(alone.as_secs(), 11);
    let killed = closes_after_a_sleep(|sim| sim.signal("server", libc::SIGKILL));
    assert_eq!(killed.as_secs(), 3);
}

#[test]
fn what_a_host_sends_after_its_sleep_keeps_its_time_through_a_short_pause() {
    for (goes_on, arrives) in [(5, 11), (20, 20)] {
        let sim = Sim::new(1);
        sim.host("sender", || async {
            let socket = UdpSocket::bind("0.0.0.0:0").await?;
            ws::time::sleep(SECOND).await;
            thread::sleep(10 * SECOND);
            socket.send_to(b"x", "10.0.0.2:7").await?;
            std::future::pending::<io::Result<()>>().await
        });
        sim.client("receiver", async {
            let socket = UdpSocket::bind("0.0.0.0:7").await?;
            socket.recv_from(&mut [0]).await.map(drop)
        });
        sim.after(3 * SECOND, |sim| sim.pause("sender"));
        sim.after(goes_on * SECOND, |sim| sim.resume("sender"));
        sim.try_run().unwrap();
        assert_eq!(sim.elapsed(), arrives * SECOND + LATENCY, "{goes_on}");
    }
}
