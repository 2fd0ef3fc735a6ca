//! Programs of `ws` on simulated hosts, unmodified.
#![cfg(target_os = "linux")]

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, ErrorKind},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use ws_sim::{
    Sim,
    network::{Latency, Link},
};

const MS: u64 = 1_000_000;

fn link(ms: u64) -> Link {
    Link {
        latency: Latency::Constant(ms * MS),
        ..Link::default()
    }
}

/// Sends back what comes, to each peer.
async fn echo() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut peer, _) = listener.accept().await?;
        ws::spawn(async move {
            let mut buffer = [0; 1024];
            loop {
                match peer.read(&mut buffer).await? {
                    0 => return peer.close().await,
                    len => peer.write_all(&buffer[..len]).await?,
                }
            }
        });
    }
}

async fn ask(to: &str, text: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((to, 7)).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn an_echo_takes_two_round_trips() {
    let sim = Sim::new(1);
    sim.set_default_link(link(10));
    sim.host("server", echo);
    sim.client("client", async {
        let start = (Instant::now(), ws::time::Instant::now());
        assert_eq!(ask("server", "hello").await?, "hello");
        assert_eq!(start.0.elapsed(), Duration::from_millis(40));
        assert_eq!(start.1.elapsed(), Duration::from_millis(40));
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), Duration::from_millis(40));
}

#[test]
fn a_host_is_found_by_its_name_and_has_two_addresses() {
    let sim = Sim::new(1);
    sim.host("server", echo);
    sim.client("client", async {
        let all: Vec<SocketAddr> = ws::net::lookup_host("server:7").await?.collect();
        let wanted = [
            "10.0.0.1:7".parse().unwrap(),
            "[fd00::1]:7".parse().unwrap(),
        ];
        assert_eq!(all, wanted);
        let local: Vec<SocketAddr> = ws::net::lookup_host("localhost:7").await?.collect();
        assert_eq!(local[0], "127.0.0.1:7".parse().unwrap());
        assert!(ws::net::lookup_host("nobody:7").await.is_err());
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn over_ipv6_too() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("[::]:7").await?;
        let (mut peer, from) = listener.accept().await?;
        assert_eq!(from.ip(), "fd00::2".parse::<std::net::IpAddr>().unwrap());
        peer.write_all(b"six").await
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("[fd00::1]:7").await?;
        assert_eq!(stream.peer_addr()?, "[fd00::1]:7".parse().unwrap());
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert_eq!(text, "six");
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn nobody_listens() {
    let sim = Sim::new(1);
    sim.host("server", || sleep(Duration::MAX));
    sim.client("client", async {
        let error = TcpStream::connect("server:7").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(error.raw_os_error(), Some(111));
    });
    sim.try_run().unwrap();
    // A SYN and its RST, for each of the two addresses.
    assert_eq!(sim.elapsed(), Duration::from_micros(400));
}

#[test]
fn a_half_closed_stream_still_answers() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut peer, _) = listener.accept().await?;
        let mut question = Vec::new();
        peer.read_to_end(&mut question).await?;
        question.reverse();
        peer.write_all(&question).await?;
        peer.close().await
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        stream.write_all(b"abc").await?;
        stream.close().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        assert_eq!(answer, b"cba");
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn datagrams_are_cut_and_lost() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let socket = UdpSocket::bind("0.0.0.0:9").await?;
        let mut buffer = [0; 4];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await?;
            socket.send_to(&buffer[..len], from).await?;
        }
        #[allow(unreachable_code)]
        io::Result::Ok(())
    });
    let faults = sim.clone();
    sim.client("client", async move {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        let mut buffer = [0; 16];
        socket.send_to(b"longer than four", "10.0.0.1:9").await?;
        let (len, from) = socket.recv_from(&mut buffer).await?;
        assert_eq!((&buffer[..len], from.port()), (&b"long"[..], 9));
        faults.set_link(
            "client",
            "server",
            Link {
                loss_ppm: 1_000_000,
                ..link(1)
            },
        );
        socket.send_to(b"lost", "10.0.0.1:9").await?;
        let answer = timeout(Duration::from_secs(1), socket.recv_from(&mut buffer)).await;
        assert!(answer.is_err(), "{answer:?}");
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_partition_heals() {
    let sim = Sim::new(1);
    sim.set_default_link(link(1));
    sim.host("server", echo);
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        sleep(Duration::from_secs(2)).await;
        // In the partition.
        let begin = ws::time::Instant::now();
        stream.write_all(b"x").await?;
        stream.read_exact(&mut [0]).await?;
        let took = begin.elapsed();
        assert!(
            took > Duration::from_secs(8) && took < Duration::from_secs(20),
            "{took:?}"
        );
        io::Result::Ok(())
    });
    sim.after(Duration::from_secs(1), |sim| {
        sim.partition(["server"], ["client"])
    });
    sim.after(Duration::from_secs(10), Sim::heal);
    sim.try_run().unwrap();
}

#[test]
fn one_way_is_cut_and_held() {
    let sim = Sim::new(1);
    sim.set_default_link(link(1));
    sim.host("server", echo);
    let faults = sim.clone();
    sim.client("client", async move {
        faults.hold(["server"], ["client"]);
        let asked = timeout(Duration::from_secs(20), ask("server", "x")).await;
        assert!(asked.is_err(), "{asked:?}");
        faults.release(["server"], ["client"]);
        assert_eq!(ask("server", "x").await?, "x");
        faults.partition_one_way(["client"], ["server"]);
        let asked = timeout(Duration::from_secs(20), ask("server", "x")).await;
        assert!(asked.is_err(), "{asked:?}");
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_client_retries_until_the_server_is_back() {
    let sim = Sim::new(1);
    sim.set_default_link(link(1));
    let starts = Rc::new(RefCell::new(0));
    sim.host("server", {
        let starts = starts.clone();
        move || {
            *starts.borrow_mut() += 1;
            echo()
        }
    });
    let seen = Rc::new(RefCell::new(Vec::new()));
    sim.client("client", {
        let seen = seen.clone();
        async move {
            let mut stream = TcpStream::connect("server:7").await.unwrap();
            sleep(Duration::from_secs(4)).await;
            // It comes from the new server, which knows no such connection.
            stream.write_all(b"x").await.unwrap();
            let error = stream.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            while seen.borrow().len() < 2 {
                match ask("server", "again").await {
                    Ok(answer) => seen.borrow_mut().push(answer),
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        }
    });
    sim.after(Duration::from_secs(1), |sim| sim.crash("server"));
    sim.after(Duration::from_secs(3), |sim| sim.restart("server"));
    sim.try_run().unwrap();
    assert_eq!(*seen.borrow(), ["again", "again"]);
    assert_eq!(*starts.borrow(), 2);
}

#[test]
fn what_a_crash_drops_reaches_nobody() {
    struct Says(Rc<RefCell<Vec<String>>>);
    impl Drop for Says {
        fn drop(&mut self) {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0");
            let error = socket.unwrap_err().raw_os_error();
            self.0.borrow_mut().push(format!("{error:?}"));
        }
    }
    let said = Rc::new(RefCell::new(Vec::new()));
    let sim = Sim::new(1);
    sim.host("server", {
        let said = said.clone();
        move || {
            let says = Says(said.clone());
            async move {
                let listener = TcpListener::bind("0.0.0.0:7").await.unwrap();
                let peer = listener.accept().await.unwrap();
                sleep(Duration::MAX).await;
                drop((peer, says));
            }
        }
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await.unwrap();
        let mut byte = [0];
        let read = timeout(Duration::from_secs(60), stream.read(&mut byte)).await;
        assert!(read.is_err(), "no FIN and no RST came: {read:?}");
    });
    sim.after(Duration::from_secs(1), |sim| sim.crash("server"));
    sim.try_run().unwrap();
    assert_eq!(*said.borrow(), ["Some(100)"], "ENETDOWN");
}

#[test]
fn a_paused_host_stands_still() {
    let sim = Sim::new(1);
    sim.set_default_link(link(1));
    sim.host("server", echo);
    sim.client("client", async {
        sleep(Duration::from_secs(2)).await;
        let begin = Instant::now();
        assert_eq!(ask("server", "x").await?, "x");
        assert!(
            begin.elapsed() > Duration::from_secs(7),
            "{:?}",
            begin.elapsed()
        );
        io::Result::Ok(())
    });
    sim.after(Duration::from_secs(1), |sim| sim.pause("server"));
    sim.after(Duration::from_secs(10), |sim| sim.resume("server"));
    sim.try_run().unwrap();
}

#[test]
fn a_skewed_host_has_another_calendar_and_the_same_clock() {
    let sim = Sim::new(1);
    let calendar = |name: &'static str, seen: &Rc<RefCell<Vec<SystemTime>>>| {
        let seen = seen.clone();
        sim.client(name, async move {
            let begin = (SystemTime::now(), Instant::now());
            sleep(Duration::from_secs(1)).await;
            assert_eq!(begin.0.elapsed().unwrap(), Duration::from_secs(1));
            assert_eq!(begin.1.elapsed(), Duration::from_secs(1));
            seen.borrow_mut().push(begin.0);
        });
    };
    let (right, late) = (Rc::default(), Rc::default());
    calendar("right", &right);
    calendar("late", &late);
    sim.skew("late", -5_000_000_000);
    sim.try_run().unwrap();
    let apart = right.borrow()[0].duration_since(late.borrow()[0]);
    assert_eq!(apart.unwrap(), Duration::from_secs(5));
}

#[test]
fn a_thousand_connections() {
    let sim = Sim::new(1);
    sim.host("server", echo);
    sim.client("client", async {
        let all: Vec<_> = (0..1_000)
            .map(|n| ws::spawn(async move { ask("server", &n.to_string()).await }))
            .collect();
        for (n, task) in all.into_iter().enumerate() {
            assert_eq!(task.await.unwrap()?, n.to_string());
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn much_data_with_a_slow_reader() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut peer, _) = listener.accept().await?;
        let mut sum = 0_u64;
        let mut buffer = vec![0; 10_000];
        loop {
            match peer.read(&mut buffer).await? {
                0 => break,
                len => sum += buffer[..len].iter().map(|&b| u64::from(b)).sum::<u64>(),
            }
            sleep(Duration::from_millis(1)).await;
        }
        peer.write_all(&sum.to_le_bytes()).await
    });
    sim.client("client", async {
        let data: Vec<u8> = (0..1_000_000).map(|n| (n % 251) as u8).collect();
        let mut stream = TcpStream::connect("server:7").await?;
        stream.write_all(&data).await?;
        stream.close().await?;
        let mut sum = [0; 8];
        stream.read_exact(&mut sum).await?;
        let wanted: u64 = data.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(u64::from_le_bytes(sum), wanted);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_blocking_call_runs_in_simulated_time() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = (Instant::now(), ws::time::Instant::now());
        let slept = ws::spawn_blocking(|| {
            let begin = Instant::now();
            std::thread::sleep(Duration::from_secs(3600));
            begin.elapsed()
        });
        assert_eq!(slept.await.unwrap(), Duration::from_secs(3600));
        assert_eq!(begin.0.elapsed(), Duration::from_secs(3600));
        assert_eq!(begin.1.elapsed(), Duration::from_secs(3600));
    });
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), Duration::from_secs(3600));
}

#[test]
fn a_socket_that_would_block_its_thread_says_so() {
    let sim = Sim::new(1);
    sim.host("server", echo);
    sim.client("client", async {
        let stream = std::net::TcpStream::connect("10.0.0.1:7");
        assert_eq!(stream.unwrap_err().raw_os_error(), Some(35), "EDEADLK");
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        let received = socket.recv(&mut [0]);
        assert_eq!(received.unwrap_err().raw_os_error(), Some(35), "EDEADLK");
        let (pair, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let read = std::io::Read::read(&mut &pair, &mut [0]);
        assert_eq!(read.unwrap_err().raw_os_error(), Some(35), "EDEADLK");
    });
    sim.try_run().unwrap();
}

#[test]
fn a_real_thread_is_refused() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let thread = std::thread::Builder::new().spawn(|| {});
        assert_eq!(thread.unwrap_err().raw_os_error(), Some(11), "EAGAIN");
    });
    sim.try_run().unwrap();
    // And outside it works.
    std::thread::spawn(|| {}).join().unwrap();
}

#[test]
fn options_are_those_of_linux() {
    use std::os::fd::AsFd;

    let sim = Sim::new(1);
    sim.host("server", echo);
    sim.client("client", async {
        let stream = TcpStream::connect("server:7").await?;
        let socket = socket2::SockRef::from(&stream);
        assert!(!socket.tcp_nodelay()?);
        socket.set_tcp_nodelay(true)?;
        assert!(socket.tcp_nodelay()?);
        let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(30));
        socket.set_tcp_keepalive(&keepalive)?;
        assert!(socket.keepalive()?);
        assert_eq!(socket.tcp_keepalive_time()?, Duration::from_secs(30));
        assert_eq!(socket.r#type()?, socket2::Type::STREAM);
        assert_eq!(socket.domain()?, socket2::Domain::IPV4);
        assert_eq!(socket.protocol()?, Some(socket2::Protocol::TCP));
        socket.set_linger(Some(Duration::ZERO))?;
        assert_eq!(socket.linger()?, Some(Duration::ZERO));
        assert_eq!(socket.ttl_v4()?, 64);
        assert!(socket.take_error()?.is_none());
        assert!(socket.recv_buffer_size()? > 0);
        assert!(socket.nonblocking()?);
        // A second descriptor of the same file.
        let again = AsFd::as_fd(&stream).try_clone_to_owned()?;
        drop(stream);
        let again = std::net::TcpStream::from(again);
        assert_eq!(again.peer_addr()?.port(), 7);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn hosts_share_nothing_but_the_network() {
    // A port of one host is free on the other.
    let sim = Sim::new(1);
    for name in ["a", "b"] {
        sim.host(name, echo);
    }
    sim.client("client", async {
        assert_eq!(ask("a", "1").await?, "1");
        assert_eq!(ask("b", "2").await?, "2");
        let twice = TcpListener::bind("0.0.0.0:7").await;
        assert!(twice.is_ok());
        let twice = TcpListener::bind("0.0.0.0:7").await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::AddrInUse);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

/// What a program can see of the run.
fn seen(seed: u64) -> (u64, u64, Vec<String>) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let digest = std::sync::Mutex::new((0, 0));
    ws_sim::check(seed..seed + 1, |sim| {
        sim.set_default_link(Link {
            jitter: 5 * MS,
            ..link(1)
        });
        sim.host("server", echo);
        let seen = seen.clone();
        sim.client("client", async move {
            let mut lines = Vec::new();
            let set: HashMap<u32, ()> = (0..20).map(|n| (n, ())).collect();
            lines.push(format!("{:?}", set.keys().collect::<Vec<_>>()));
            lines.push(format!("{:?}", SystemTime::now()));
            let tasks: Vec<_> = (0..5)
                .map(|n: u32| ws::spawn(async move { ask("server", &n.to_string()).await }))
                .collect();
            for task in tasks {
                lines.push(task.id().to_string());
                task.await.unwrap()?;
                lines.push(format!("{:?}", Instant::now()));
            }
            let stream = TcpStream::connect("server:7").await?;
            lines.push(stream.local_addr()?.to_string());
            *seen.lock().unwrap() = lines;
            io::Result::Ok(())
        });
        sim.try_run().unwrap();
        *digest.lock().unwrap() = (sim.digest(), sim.events());
    });
    let (digest, events) = *digest.lock().unwrap();
    let seen = seen.lock().unwrap().clone();
    (digest, events, seen)
}

#[test]
fn the_same_seed_is_the_same_run() {
    let mut digests = Vec::new();
    for seed in 0..50 {
        let first = seen(seed);
        assert_eq!(first, seen(seed), "seed {seed}");
        digests.push(first.0);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 50, "and other seeds are other runs");
}

/// Digests of a few seeds with several workers a host, and what the program saw.
fn digests() -> String {
    let mut text = String::new();
    for seed in 0..10 {
        let sim = Sim::builder().seed(seed).workers(3).build();
        sim.set_default_link(Link {
            loss_ppm: 10_000,
            jitter: 5 * MS,
            ..link(1)
        });
        sim.host("server", echo);
        sim.client("client", async {
            let tasks: Vec<_> = (0..20)
                .map(|n: u32| ws::spawn(async move { ask("server", &n.to_string()).await }))
                .collect();
            for task in tasks {
                task.await.unwrap()?;
            }
            io::Result::Ok(())
        });
        sim.try_run().unwrap();
        text += &format!(
            "{seed} {:x} {} {:?}\n",
            sim.digest(),
            sim.events(),
            sim.elapsed()
        );
    }
    text
}

/// Another process has other addresses of memory, other ids of threads and another environment.
#[test]
fn another_process_has_the_same_runs() {
    const CHILD: &str = "WS_SIM_TEST_CHILD";
    const MARK: &str = "digests:\n";

    let digests = digests();
    if std::env::var_os(CHILD).is_some() {
        let mut out = io::stdout().lock();
        io::Write::write_all(&mut out, format!("{MARK}{digests}").as_bytes()).unwrap();
        return;
    }
    let test = "another_process_has_the_same_runs";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "a value of some length")
        .output()
        .unwrap();
    let out = String::from_utf8(child.stdout).unwrap();
    let (_, theirs) = out.split_once(MARK).expect("the child tells its digests");
    assert!(
        theirs.starts_with(&digests),
        "{digests}\nand another process:\n{theirs}"
    );
}
