//! Values that make no sense: each has a meaning or a message, and none an overflow.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{self, ErrorKind},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant, SystemTime},
};

use ws::{
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use ws_sim::{
    DiskFaults, FaultKind, Plan, Sim,
    network::{Latency, Link},
    secs,
};

const MAX: u64 = u64::MAX;

/// The text of a run that fails, or nothing.
fn text_of(sim: &Sim) -> String {
    sim.try_run()
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default()
}

fn text_of_panic(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

/// A client that sends by TCP and UDP, and waits for neither.
fn sends(link: Link) -> Sim {
    let sim = Sim::new(1);
    sim.set_default_link(link);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:1").await?;
        listener.accept().await.map(drop)
    });
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        for _ in 0..3 {
            socket.send_to(b"x", "server:2").await?;
        }
        let connected = timeout(secs(5), TcpStream::connect("server:1")).await;
        assert!(connected.is_err());
        std::io::Result::Ok(())
    });
    sim
}

#[test]
fn a_packet_may_take_any_time() {
    let latencies = [
        Latency::Constant(MAX),
        Latency::Uniform { min: 1, max: MAX },
        Latency::Uniform { min: 0, max: MAX },
        Latency::Uniform { min: MAX, max: MAX },
        Latency::Exponential { min: MAX, mean: 1 },
        Latency::Exponential { min: 1, mean: MAX },
        Latency::Exponential {
            min: MAX,
            mean: MAX,
        },
    ];
    for latency in latencies {
        for (bandwidth, reorder_ppm) in [(None, 0), (Some(1), 0), (None, 1_000_000)] {
            let duplicate_ppm = reorder_ppm;
            let link = Link {
                latency,
                bandwidth,
                reorder_ppm,
                duplicate_ppm,
                ..Link::default()
            };
            let text = text_of(&sends(link));
            assert_eq!(text, "", "{link:?}");
        }
    }
    let link = Link {
        jitter: MAX,
        ..Link::default()
    };
    assert_eq!(text_of(&sends(link)), "");
}

#[test]
fn a_slow_link_of_a_plan_may_be_slow_already() {
    for latency in [
        Latency::Constant(MAX),
        Latency::Uniform { min: MAX, max: MAX },
        Latency::Exponential {
            min: MAX,
            mean: MAX,
        },
    ] {
        let sim = sends(Link {
            latency,
            ..Link::default()
        });
        let plan = Plan::new()
            .only([FaultKind::SlowLink])
            .hosts(["client", "server"]);
        sim.faults(plan.every(Duration::from_millis(200)));
        assert_eq!(text_of(&sim), "");
    }
}

#[test]
fn a_call_of_a_disk_may_take_any_time() {
    for latency in [
        Latency::Constant(MAX),
        Latency::Uniform { min: 0, max: MAX },
    ] {
        for is_blocking in [false, true] {
            let sim = Sim::new(1);
            sim.client("client", async move {
                if is_blocking {
                    ws::fs::write("x", "y").await
                } else {
                    std::fs::write("x", "y")
                }
            });
            sim.set_disk(
                "client",
                DiskFaults {
                    latency,
                    ..DiskFaults::default()
                },
            );
            let text = text_of(&sim);
            let says = "the limit of 86400s of simulated time is reached";
            assert!(text.starts_with(says), "{text}");
        }
    }
}

#[test]
fn clocks_jump_as_far_as_one_likes_and_go_on() {
    for (by, times) in [(Duration::MAX, 3), (secs(10_000_000_000), 50)] {
        let sim = Sim::new(1);
        sim.client("client", async {
            let (begin, calendar) = (Instant::now(), SystemTime::now());
            sleep(secs(2)).await;
            assert!(begin.elapsed() > secs(4_000_000_000));
            assert!(calendar.elapsed().unwrap() > secs(4_000_000_000));
            let begin = Instant::now();
            sleep(secs(2)).await;
            assert_eq!(begin.elapsed(), secs(2));
        });
        for _ in 0..times {
            sim.after(secs(1), move |sim| sim.jump("client", by));
        }
        sim.try_run().unwrap();
        assert_eq!(sim.elapsed(), secs(3));
    }
}

#[test]
fn a_limit_of_time_and_a_step_may_be_of_any_length() {
    let sim = Sim::builder().time_limit(Duration::MAX).build();
    sim.client("client", async { sleep(Duration::MAX).await });
    let text = text_of(&sim);
    assert!(text.starts_with("nothing can go on"), "{text}");

    let sim = Sim::builder().time_limit(Duration::MAX).build();
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:0").await?;
        loop {
            socket.send_to(b"x", "client:2").await?;
            ws::task::yield_now().await;
            if false {
                break std::io::Result::Ok(());
            }
        }
    });
    sim.slow("client", Duration::MAX);
    let text = text_of(&sim);
    assert!(text.contains("of simulated time is reached"), "{text}");
}

#[test]
fn a_plan_may_be_of_any_length() {
    let sim = Sim::new(1);
    sim.host("server", std::future::pending::<()>);
    sim.client("client", async { sleep(secs(10)).await });
    for drift in [i32::MAX, -999_999] {
        sim.drift("server", drift);
    }
    sim.skew("server", i64::MAX);
    let long = Plan::new()
        .swarm()
        .every(Duration::MAX)
        .quiet_after(Duration::MAX);
    sim.faults(long.lasts(Duration::MAX, Duration::MAX));
    sim.faults(
        Plan::new()
            .lasts(Duration::ZERO, Duration::MAX)
            .begin(Duration::MAX),
    );
    let heavy = Plan::new()
        .weight(FaultKind::Pause, u32::MAX)
        .weight(FaultKind::Jump, u32::MAX);
    sim.faults(heavy.lasts(Duration::ZERO, Duration::ZERO));
    assert_eq!(text_of(&sim), "");
}

#[test]
fn a_range_without_a_value_is_told() {
    let sim = Sim::new(1);
    sim.client("client", async {});
    let latency = Latency::Uniform { min: 10, max: 1 };
    let link = Link {
        latency,
        ..Link::default()
    };
    let disk = DiskFaults {
        latency,
        ..DiskFaults::default()
    };
    let synced = DiskFaults {
        sync_latency: latency,
        ..DiskFaults::default()
    };
    let texts = [
        text_of_panic(|| sim.set_default_link(link)),
        text_of_panic(|| sim.set_link("client", "client", link)),
        text_of_panic(|| sim.set_disk("client", disk)),
        text_of_panic(|| sim.set_disk("client", synced)),
    ];
    for text in texts {
        assert!(text.contains("from 10 to 1 ns has no time in it"), "{text}");
    }
    let text = text_of_panic(|| drop(Plan::new().lasts(secs(5), secs(1))));
    assert!(text.contains("from 5s to 1s has no time"), "{text}");
    assert_eq!(text_of(&sim), "");
}

#[test]
fn a_calendar_and_the_times_of_files_begin_with_1970() {
    let sim = Sim::new(1);
    sim.client("client", async {
        fs::write("file", "x")?;
        assert_eq!(SystemTime::now(), SystemTime::UNIX_EPOCH);
        assert_eq!(fs::metadata("file")?.modified()?, SystemTime::now());
        io::Result::Ok(())
    });
    sim.skew("client", i64::MIN);
    sim.try_run().unwrap();
}

#[test]
fn a_file_that_is_larger_than_the_memory_is_read_by_nobody() {
    let sim = Sim::new(1);
    sim.client("client", async {
        fs::File::create("file")?.set_len(1 << 43)?;
        let read = fs::read("file").expect_err("it is too large");
        assert_eq!(read.kind(), ErrorKind::OutOfMemory);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
    let read = sim.disk("client").read("file").expect_err("here too");
    assert_eq!(read.kind(), ErrorKind::OutOfMemory);
}
