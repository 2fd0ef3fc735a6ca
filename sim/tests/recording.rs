//! What is told of a run that failed, and its recording. `tests/ecosystem/tests/perfetto_hosts.rs`
//! reads the file with Perfetto's definitions.
#![cfg(target_os = "linux")]

use std::{
    cell::RefCell,
    collections::HashMap,
    env, fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use ws_sim::{
    FaultKind, Plan, Sim,
    network::{Latency, Link},
};

/// Answers each byte, in a task for each connection.
async fn server() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut peer, _) = listener.accept().await?;
        let echo = ws::task::Builder::new().name("echo");
        drop(echo.spawn(async move {
            let mut byte = [0];
            while let Ok(1) = peer.read(&mut byte).await {
                if peer.write_all(&byte).await.is_err() {
                    break;
                }
            }
        }));
    }
}

async fn asks(times: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect("server:7").await?;
    for n in 0..times {
        ws::trace::mark("asks");
        stream.write_all(&[n as u8]).await?;
        stream.read_exact(&mut [0]).await?;
    }
    Ok(())
}

/// A client asks ten times, also while the server is down for a second.
fn cluster(sim: &Sim) {
    let latency = Latency::Uniform {
        min: 0,
        max: 5_000_000,
    };
    let link = Link {
        latency,
        ..Link::default()
    };
    sim.set_default_link(link);
    sim.host("server", server);
    sim.client("client", async {
        while timeout(Duration::from_secs(1), asks(10)).await.is_err() {}
    });
    sim.after(Duration::from_millis(20), |sim| sim.crash("server"));
    sim.after(Duration::from_millis(500), |sim| sim.restart("server"));
}

/// The digest of a run, and its recording.
fn run(seed: u64, recording: bool) -> (u64, Vec<u8>) {
    // Fresh: its hash maps have no keys yet.
    let run = move || {
        let builder = Sim::builder().seed(seed).workers(3).recording(recording);
        let sim = builder.build();
        cluster(&sim);
        sim.try_run().unwrap();
        let mut file = Vec::new();
        if let Some(recording) = sim.recording() {
            recording.write_perfetto(&mut file).unwrap();
        }
        (sim.digest(), file)
    };
    std::thread::spawn(run).join().unwrap()
}

// Fails if the recorder or the log draws a random number, or changes a step.
#[test]
fn a_recorded_run_is_the_same_run() {
    for seed in 0..20 {
        let (plain, none) = run(seed, false);
        let (recorded, file) = run(seed, true);
        assert_eq!(plain, recorded, "seed {seed}");
        assert!(none.is_empty() && !file.is_empty());
    }
}

// Fails if a number of the process, the true time or the order of a hash map gets into the file.
#[test]
fn two_recordings_of_a_seed_are_the_same_bytes() {
    let (_, first) = run(7, true);
    assert!(first == run(7, true).1);
    assert!(first != run(8, true).1);
}

fn text_of_panic(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    *payload.downcast::<String>().expect("a text")
}

#[test]
fn a_seed_that_fails_tells_its_faults_and_the_last_events() {
    let text = text_of_panic(|| {
        ws_sim::check(3..4, |sim| {
            sim.host("server", server);
            sim.client("client", async {
                let other = ws::task::Builder::new().name("sends");
                let sent = other.spawn(async {
                    sleep(Duration::from_secs(4)).await;
                    let socket = UdpSocket::bind("0.0.0.0:9").await.unwrap();
                    socket.send_to(b"12", "server:9").await.unwrap();
                });
                sleep(Duration::from_secs(2)).await;
                drop(asks(1).await);
                sent.await.unwrap();
                sleep(Duration::from_secs(2)).await;
                assert_eq!(1, 2, "planted");
            });
            sim.after(Duration::from_secs(1), |sim| {
                sim.crash("server");
                sim.skew("client", -5);
                sim.partition(["server"], ["client"]);
                sim.heal();
                sim.restart("server");
                sim.pause("server");
                sim.resume("server");
                sim.hold(["client"], ["server"]);
                sim.release(["client"], ["server"]);
                sim.partition_one_way(["server"], ["client"]);
            });
            sim.after(Duration::from_millis(2_500), Sim::heal);
        });
    });
    let told = text.split_once("the faults:\n");
    let (head, told) = told.expect(&text);
    assert!(
        head.starts_with("host \"client\": its program panicked: "),
        "{text}"
    );
    let lines: Vec<_> = told.lines().collect();
    let expected = [
        r#"       1.000000 s  host "client" has a calendar that is -5 ns ahead"#,
        r#"       1.000000 s  a partition cut ["server"] from ["client"]"#,
        r#"       1.000000 s  all partitions ended"#,
        r#"       1.000000 s  was held: what is sent from ["client"] to ["server"]"#,
        r#"       1.000000 s  was let go: what is sent from ["client"] to ["server"]"#,
        r#"       1.000000 s  a partition cut the ways of ["server"] to ["client"]"#,
        r#"       1.000000 s  host "server" crashed"#,
        r#"       1.000001 s  host "server" restarted"#,
        r#"       1.000001 s  host "server" was paused"#,
        r#"       1.000001 s  host "server" went on"#,
        r#"       2.500000 s  all partitions ended"#,
        r#"the last events:"#,
        r#"  host "server""#,
    ];
    assert_eq!(lines[..expected.len()], expected, "{text}");
    for line in [
        r#" s  polled task "echo""#,
        r#" s  task "echo" has ended"#,
        " s  sent a datagram of 2 bytes to server:9",
        "       4.000100 s  got a datagram of 2 bytes from client:9",
        "       4.000100 s  refused a datagram of client:9",
        "       4.000200 s  heard that server:9 takes no datagrams",
        "       6.000000 s  a timer fired",
        r#" s  task "main" has ended"#,
    ] {
        assert!(told.contains(line), "{line}: {text}");
    }
    let end = "\nseed: 3\n\nreplay it:\nWS_SEED=3 cargo test \
               a_seed_that_fails_tells_its_faults_and_the_last_events -- --exact";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn what_becomes_of_a_message_is_told() {
    let sim = Sim::builder().recording(true).build();
    sim.host("server", server);
    sim.client("client", async {
        sleep(Duration::from_secs(1)).await;
        asks(1).await
    });
    sim.partition_one_way(["server"], ["client"]);
    sim.after(Duration::from_millis(1_500), Sim::heal);
    sim.try_run().unwrap();
    let text = sim.recording().unwrap().to_string();
    for line in [
        " s  asked server:7 for a connection\n",
        " s  was asked by client:",
        " s  lost in a partition: the answer to the request of client:",
        " s  heard that server:7 took the connection\n",
        " s  mark \"asks\", by task \"main\"\n",
        " s  sent 1 byte to server:7\n",
        " s  got 1 byte from client:",
        " s  sent the end of the stream to server:7\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_is_lost_is_named() {
    let lost = [
        "a datagram of 1 byte to server:9",
        "2 bytes to server:7",
        "the end of the stream to server:7",
        "the request for a connection to server:7",
    ];
    for (case, what) in lost.into_iter().enumerate() {
        let sim = Sim::builder().recording(true).build();
        sim.host("server", server);
        let cuts = sim.clone();
        sim.client("client", async move {
            let socket = UdpSocket::bind("0.0.0.0:1").await?;
            let mut stream = TcpStream::connect("10.0.0.1:7").await?;
            cuts.partition(["client"], ["server"]);
            match case {
                0 => drop(socket.send_to(b"x", "10.0.0.1:9").await?),
                1 => stream.write_all(b"xy").await?,
                2 => drop(stream),
                _ => {
                    let asks = TcpStream::connect("10.0.0.1:7");
                    let asked = timeout(Duration::from_millis(10), asks).await;
                    assert!(asked.is_err());
                }
            }
            io::Result::Ok(())
        });
        sim.try_run().unwrap();
        let text = sim.recording().unwrap().to_string();
        let line = format!(" s  lost in a partition: {what}\n");
        assert!(text.contains(&line), "{line}: {text}");
    }
}

// Fails if each of a thousand polls is a line.
#[test]
fn what_comes_many_times_is_one_line() {
    let sim = Sim::builder().recording(true).build();
    sim.client("client", async {
        for _ in 0..50 {
            ws::task::yield_now().await;
        }
    });
    sim.try_run().unwrap();
    let text = sim.recording().unwrap().to_string();
    assert!(
        text.contains(" s  polled task \"main\", 51 times\n"),
        "{text}"
    );
}

#[test]
fn a_run_that_depends_on_more_than_its_seed_is_told() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let text = text_of_panic(|| {
        ws_sim::check(0..1, |sim| {
            let is_first = RUNS.fetch_add(1, Relaxed) == 0;
            sim.client("client", async move { assert!(!is_first, "planted") });
        });
    });
    assert!(text.contains("planted"), "{text}");
    let told = "The seed ran once more, to be recorded, and it did not fail.\n";
    assert!(text.contains(told), "{text}");
}

#[test]
#[ignore = "it is the child of the next one"]
fn fails_with_seed_2() {
    ws_sim::check(0..9, |sim| {
        let seed = sim.seed();
        sim.client("client", async move { assert!(seed < 2, "planted") });
    });
}

#[test]
fn the_recording_goes_into_the_folder_that_is_named() {
    let folder = env::temp_dir().join(format!("ws-sim-recording-{}", std::process::id()));
    let child = |seed: Option<&str>, folder: &std::path::Path| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["fails_with_seed_2", "--exact", "--nocapture", "--ignored"]);
        child
            .env("WS_SIM_TRACE", folder)
            .envs(seed.map(|seed| ("WS_SEED", seed)));
        let out = child.output().unwrap();
        assert!(!out.status.success());
        String::from_utf8([out.stdout, out.stderr].concat()).unwrap()
    };
    let path = folder.join("fails_with_seed_2-2.pftrace");
    let line = format!("\nrecording: {}\nseed: 2\n", path.display());
    // All seeds, and the one that is named.
    let files = [None, Some("2")].map(|seed| {
        let text = child(seed, &folder);
        assert!(text.contains(&line), "{text}");
        let file = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file
    });
    assert!(!files[0].is_empty() && files[0] == files[1]);
    fs::remove_dir(&folder).unwrap();
    // A file is no folder.
    let file = env::current_exe().unwrap();
    let text = child(Some("2"), &file);
    let line = format!("\nno recording: WS_SIM_TRACE is {}: ", file.display());
    assert!(text.contains(&line), "{text}");
}

// Fails if the clock of one host moves the times of the others, or of the network.
#[test]
fn a_clock_that_jumps_moves_no_time_of_a_recording() {
    let sim = Sim::builder().recording(true).build();
    for name in ["a", "b"] {
        sim.client(name, async {
            for _ in 0..3 {
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    sim.after(Duration::from_millis(1_500), |sim| {
        sim.jump("a", Duration::from_secs(3600));
    });
    sim.try_run().unwrap();
    let text = sim.recording().unwrap().to_string();
    let is_late = |line: &&str| line.contains(" s  ") && line.trim_start().starts_with("36");
    assert_eq!(text.lines().find(is_late), None, "{text}");
    assert!(text.contains("3.000000 s  a timer fired"), "{text}");
}

#[test]
fn what_a_test_finds_after_its_run_is_told_with_the_run() {
    let text = text_of_panic(|| {
        ws_sim::check(0..3, |sim| {
            sim.host("server", server);
            sim.client("client", async { sleep(Duration::from_secs(20)).await });
            sim.faults(Plan::new().only([FaultKind::Pause]));
            sim.try_run().unwrap();
            panic!("planted");
        });
    });
    assert!(text.starts_with("seed 0: planted\n"), "{text}");
    assert!(text.contains("the last events:\n"), "{text}");
    let end = "WS_SEED=0 WS_FAULTS=none cargo test \
               what_a_test_finds_after_its_run_is_told_with_the_run -- --exact";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn what_is_done_to_a_disk_is_told() {
    let sim = Sim::builder().recording(true).build();
    sim.client("host", async {
        fs::create_dir("d")?;
        let mut file = fs::File::create("d/new")?;
        io::Write::write_all(&mut file, b"hello")?;
        io::Write::write_all(&mut file, b"!")?;
        file.sync_all()?;
        fs::rename("d/new", "d/it")?;
        file.set_len(3)?;
        fs::File::open("d")?.sync_all()?;
        fs::remove_file("d/it")?;
        file.sync_data()
    });
    // What the test does itself is not the host's.
    sim.disk("host").write("of the test", "x").unwrap();
    sim.try_run().unwrap();
    let text = sim.recording().unwrap().to_string();
    let lines = text.lines().filter_map(|line| line.split_once(" s  "));
    let told: Vec<_> = lines.map(|(_, text)| text).collect();
    let wanted = [
        "created /home/host/d/new",
        "wrote 5 bytes at 0 to /home/host/d/new",
        "wrote 1 byte at 5 to /home/host/d/new",
        "synced /home/host/d/new",
        "renamed /home/host/d/new to /home/host/d/it",
        "set the length of /home/host/d/it to 3",
        "synced /home/host/d",
        "removed /home/host/d/it",
        "synced a file without a name",
    ];
    assert!(
        told.windows(wanted.len()).any(|all| all == wanted),
        "{text}"
    );
}

/// Fails if it is enough that the first line is the same.
#[test]
fn a_second_run_that_ends_later_is_told() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let text = text_of_panic(|| {
        ws_sim::check(0..1, |sim| {
            sim.client("client", async {
                let run = RUNS.fetch_add(1, Relaxed);
                sleep(Duration::from_secs(1 + run)).await;
                assert_eq!(run, 1000);
            });
        });
    });
    assert!(text.contains("it ended otherwise"), "{text}");
}

/// Fails if the recorder draws keys for hash maps of its own from those of the thread.
#[test]
fn the_hash_maps_of_a_program_are_the_same_if_it_is_recorded() {
    let order = |recording| {
        let sim = Sim::builder().seed(3).recording(recording).build();
        sim.host("host", std::future::pending::<()>);
        let order = Rc::new(RefCell::new(Vec::new()));
        let told = order.clone();
        sim.client("client", async move {
            sleep(Duration::from_secs(3)).await;
            let map: HashMap<u32, ()> = (0..30).map(|n| (n, ())).collect();
            told.borrow_mut().extend(map.into_keys());
        });
        sim.after(Duration::from_secs(1), |sim| {
            sim.crash("host");
            sim.restart("host");
        });
        sim.after(Duration::from_secs(2), |sim| drop(sim.recording()));
        sim.try_run().unwrap();
        order.take()
    };
    let fresh = |recording| thread::spawn(move || order(recording)).join().unwrap();
    assert_eq!(fresh(true), fresh(false));
}
