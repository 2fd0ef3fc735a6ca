//! What a run says when it fails, and how mistakes in a test are told.
#![cfg(target_os = "linux")]

use std::{
    cell::Cell,
    future::pending,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use ws::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use ws_sim::{Failure, Sim};

fn text_of_panic(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

fn failure(sim: &Sim) -> Failure {
    sim.try_run().expect_err("it fails")
}

#[test]
fn a_client_that_waits_for_ever() {
    let sim = Sim::new(7);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        listener.accept().await.map(drop)
    });
    sim.client("client", async {
        sleep(Duration::from_secs(3)).await;
        pending::<()>().await;
    });
    let failure = failure(&sim);
    let text = failure.to_string();
    assert!(
        text.starts_with("nothing can go on, and a client is not done, after 3s"),
        "{text}"
    );
    let line = "    task 3 \"main\", spawned at sim/tests/failures.rs:";
    assert!(text.contains(&format!("host \"client\"\n{line}")), "{text}");
    // What the simulation has spawned for itself says nothing.
    assert!(!text.contains("sim/src/"), "{text}");
    assert!(
        text.contains("host \"server\"\n") && text.contains("waits for"),
        "{text}"
    );
    assert!(text.ends_with("\nseed: 7"), "{text}");
    assert_eq!((failure.seed(), failure.host()), (7, None));
    assert_eq!(failure.elapsed(), Duration::from_secs(3));
}

#[test]
fn an_error_of_a_client_and_of_a_host() {
    let sim = Sim::new(1);
    sim.client("client", async {
        sleep(Duration::from_secs(1)).await;
        Err::<(), _>(io::Error::other("no such key"))
    });
    let text = failure(&sim).to_string();
    assert!(
        text.starts_with("host \"client\": no such key, after 1s of"),
        "{text}"
    );

    let sim = Sim::new(1);
    sim.host("server", || async { Err::<(), _>("no disk") });
    sim.client("client", async { sleep(Duration::from_secs(1)).await });
    let failure = failure(&sim);
    assert_eq!(failure.host(), Some("server"));
    assert!(
        failure.to_string().contains("no disk, after 0ns"),
        "{failure}"
    );
}

#[test]
fn a_panic_of_a_program_and_of_a_task() {
    let sim = Sim::new(1);
    sim.client("client", async {
        sleep(Duration::from_secs(2)).await;
        assert_eq!(1, 2, "planted");
    });
    let text = failure(&sim).to_string();
    assert!(
        text.starts_with("host \"client\": its program panicked: "),
        "{text}"
    );
    assert!(
        text.contains("planted") && text.contains("after 2s of"),
        "{text}"
    );

    let sim = Sim::new(1);
    sim.host("server", || async {
        drop(ws::spawn(async {
            sleep(Duration::from_secs(5)).await;
            panic!("planted");
        }));
        pending::<()>().await;
    });
    sim.client("client", async { sleep(Duration::from_secs(60)).await });
    let failure = failure(&sim);
    let text = failure.to_string();
    assert_eq!(failure.host(), Some("server"));
    assert!(
        text.contains("panicked, and nobody joins it, after 5s of"),
        "{text}"
    );
    assert!(text.contains("sim/tests/failures.rs:"), "{text}");
}

#[test]
fn a_panic_that_somebody_joins_is_theirs() {
    let sim = Sim::new(1);
    sim.client("client", async {
        assert!(ws::spawn(async { panic!("planted") }).await.is_err());
    });
    sim.try_run().unwrap();
}

/// What a run fails with in which `what` happens to a server after a second. Its program does
/// `last` at the same time, has a task that panics then, or a destructor that panics.
fn ends_by(
    what: fn(&Sim),
    last: impl AsyncFn(&Sim) + Clone + 'static,
) -> (Option<String>, Option<String>) {
    let sim = Sim::new(1);
    let in_server = sim.clone();
    sim.host("server", move || {
        let (sim, last) = (in_server.clone(), last.clone());
        async move {
            sleep(Duration::from_secs(1)).await;
            last(&sim).await;
            what(&sim);
        }
    });
    sim.client("client", async { sleep(Duration::from_secs(3)).await });
    let failure = sim.try_run().err();
    let text = failure.as_ref().map(Failure::to_string);
    (failure.and_then(|it| it.host().map(str::to_owned)), text)
}

#[test]
fn a_panic_in_the_moment_of_the_end_is_told() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("planted");
        }
    }
    let ends: [fn(&Sim); 4] = [
        |sim| sim.crash("server"),
        |sim| sim.crash_hard("server"),
        |sim| sim.restart("server"),
        |sim| sim.signal("server", 15),
    ];
    for end in ends {
        let tells = |(host, text): (Option<String>, Option<String>), words: &str| {
            let text = text.expect("it fails");
            assert_eq!(host.as_deref(), Some("server"), "{text}");
            assert!(text.contains(words) && text.contains("after 1s"), "{text}");
        };
        let of_program = ends_by(|_| panic!("planted"), async move |sim| end(sim));
        tells(of_program, "its program panicked: planted");
        let of_task = ends_by(end, async |_| {
            let has_begun = Rc::new(Cell::new(false));
            let begins = has_begun.clone();
            drop(ws::spawn_local(async move {
                begins.set(true);
                panic!("planted")
            }));
            while !has_begun.get() {
                ws::task::yield_now().await;
            }
        });
        tells(of_task, "panicked, and nobody joins it");
    }
    for (end, fails) in [(ends[0], true), (ends[1], false), (ends[3], true)] {
        let of_destructor = ends_by(end, async |_| {
            let panics = Panics;
            drop(ws::spawn_local(async move {
                let _panics = panics;
                pending::<()>().await;
            }));
        });
        assert_eq!(of_destructor.1.is_some(), fails, "{of_destructor:?}");
    }
}

#[test]
fn a_panic_of_a_destructor_at_the_end_of_the_run_is_told() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("planted");
        }
    }
    let sim = Sim::new(1);
    sim.host("server", || async {
        let _panics = Panics;
        pending::<()>().await;
    });
    sim.client("client", async { sleep(Duration::from_secs(1)).await });
    let mut run = sim.begin();
    let failure = run.advance(Duration::from_secs(2)).expect_err("it fails");
    assert_eq!(failure.host(), Some("server"));
    let text = failure.to_string();
    assert!(
        text.contains("its program panicked: planted, after 1s"),
        "{text}"
    );
    assert_eq!(run.finish().expect_err("again").to_string(), text);
}

#[test]
fn a_client_that_ends_by_its_own_crash_is_done() {
    let sim = Sim::new(1);
    let in_client = sim.clone();
    sim.client("client", async move { in_client.crash("client") });
    sim.try_run().unwrap();
}

#[test]
fn a_panic_of_a_fault_ends_all_hosts() {
    let dropped = Rc::new(());
    let sim = Sim::new(1);
    sim.host("server", {
        let dropped = dropped.clone();
        move || {
            let dropped = dropped.clone();
            async move {
                let _listener = TcpListener::bind("0.0.0.0:7").await.unwrap();
                pending::<()>().await;
                drop(dropped);
            }
        }
    });
    sim.client("client", pending::<()>());
    sim.after(Duration::from_secs(1), |_| panic!("planted"));
    let text = text_of_panic(|| drop(sim.try_run()));
    assert_eq!(text, "planted");
    assert_eq!(Rc::strong_count(&dropped), 1, "nothing is left of the host");
    // And the thread is free for another one.
    let sim = Sim::new(2);
    sim.client("client", async {});
    sim.try_run().unwrap();
}

#[test]
fn a_program_that_never_ends() {
    let limit = Duration::from_millis(60_500);
    let sim = Sim::builder().time_limit(limit).build();
    sim.client("client", async {
        loop {
            sleep(Duration::from_secs(1)).await;
        }
    });
    let failure_ = failure(&sim);
    let text = failure_.to_string();
    assert!(
        text.starts_with("the limit of 60.5s of simulated time is reached: `Builder::time_limit`"),
        "{text}"
    );
    assert_eq!(failure_.elapsed(), limit);

    let sim = Sim::builder().event_limit(1_000).build();
    sim.client("client", async {
        loop {
            ws::task::yield_now().await;
        }
        #[allow(unreachable_code)]
        ()
    });
    let text = failure(&sim).to_string();
    assert!(
        text.starts_with("the limit of 1000 steps is reached: `Builder::event_limit` sets it"),
        "{text}"
    );
    assert!(text.contains("\"main\""), "{text}");
}

#[test]
fn mistakes_are_told() {
    let sim = Sim::new(1);
    sim.host("a", || async {});
    let text = text_of_panic(|| sim.host("a", || async {}));
    assert!(
        text.contains("\"a\" exists already: give this one another name"),
        "{text}"
    );
    let text = text_of_panic(|| sim.crash("b"));
    assert_eq!(text, "no host is named \"b\": the hosts are [\"a\"]");
    // As in the network, small and capital letters are the same.
    sim.host("Big", || async {});
    sim.skew("bIG", 0);
    let text = text_of_panic(|| sim.crash("b"));
    assert_eq!(
        text,
        "no host is named \"b\": the hosts are [\"a\", \"Big\"]"
    );
    let text = text_of_panic(|| sim.partition(["a"], ["c"]));
    assert_eq!(
        text,
        "no host is named \"c\": the hosts are [\"a\", \"Big\"]"
    );
    let text = failure(&sim).to_string();
    assert!(text.contains("add one with `Sim::client`"), "{text}");
    let text = text_of_panic(|| drop(sim.try_run()));
    assert!(text.contains("runs once: make another `Sim`"), "{text}");
    let text = text_of_panic(|| sim.client("late", async {}));
    assert!(text.contains("comes after the run"), "{text}");

    let sim = Sim::new(1);
    sim.client("c", async {});
    let text = text_of_panic(|| sim.restart("c"));
    assert!(
        text.contains("is a client, whose program runs once"),
        "{text}"
    );

    for workers in [0, 1025, usize::MAX] {
        let text = text_of_panic(|| drop(Sim::builder().workers(workers).build()));
        let wanted = format!("have {workers} workers: give a number from 1 to 1024");
        assert!(text.contains(&wanted), "{text}");
    }
    let sim = Sim::builder().workers(1024).build();
    sim.client("client", async {});
    sim.try_run().unwrap();
}

#[test]
fn what_no_host_has_is_an_error_of_the_program() {
    for (to, wanted) in [
        ("servr:80", "Name or service not known"),
        ("10.0.0.9:80", "No route to host"),
        ("[fd00::9]:80", "No route to host"),
    ] {
        let sim = Sim::new(1);
        sim.host("server", || async {});
        sim.client(
            "client",
            async move { TcpStream::connect(to).await.map(drop) },
        );
        let failure = failure(&sim);
        assert_eq!(failure.host(), Some("client"));
        assert!(failure.to_string().contains(wanted), "{failure}");
    }
}

#[test]
fn a_simulation_in_a_simulation() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let inner = Sim::new(2);
        inner.client("client", async {});
        let _ = inner.try_run();
    });
    let text = failure(&sim).to_string();
    assert!(text.contains("start another one after its end"), "{text}");
}

#[test]
fn a_seed_that_fails_is_named() {
    let check = || {
        ws_sim::check(0..1_000, |sim| {
            let seed = sim.seed();
            sim.client("client", async move { assert!(seed < 17, "planted") });
        });
    };
    let text = text_of_panic(check);
    assert!(text.contains("planted"), "{text}");
    let line = "\n\nreplay it:\nWS_SEED=17 cargo test a_seed_that_fails_is_named -- --exact";
    assert!(text.ends_with(line), "{text}");
}

#[test]
fn no_seed_is_a_mistake() {
    let text = text_of_panic(|| ws_sim::check(3..3, |_| {}));
    assert!(text.contains("there is no seed in 3..3"), "{text}");
}

// One plans the next for the same time, for ever.
#[test]
fn actions_at_one_time_have_a_limit_too() {
    fn again(sim: &Sim) {
        sim.after(Duration::ZERO, again);
    }
    let sim = Sim::builder().event_limit(1000).build();
    sim.client("client", async { sleep(Duration::from_secs(1)).await });
    sim.after(Duration::ZERO, again);
    let text = failure(&sim).to_string();
    assert!(
        text.contains("the limit of 1000 steps is reached"),
        "{text}"
    );
}

#[test]
fn a_mistake_in_the_set_up_names_its_seed() {
    let text = text_of_panic(|| {
        ws_sim::check(3..4, |sim| {
            sim.client("a", async {});
            sim.client("a", async {});
        });
    });
    assert!(text.contains("exists already"), "{text}");
    assert!(text.contains("WS_SEED=3 cargo test a_mistake"), "{text}");
}

/// Runs a test of this file in a process of its own, with `WS_SEED`. Its output, and whether it
/// succeeded.
fn child(test: &str, seed: &str) -> (String, bool) {
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env("WS_SEED", seed)
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (String::from_utf8(text).unwrap(), out.status.success())
}

#[test]
#[ignore = "it is the child of the next one"]
fn tells_its_seeds_and_starts_a_thread() {
    ws_sim::check(0..3, |sim| {
        let line = format!("seed: {};\n", sim.seed());
        sim.client("client", async move {
            io::Write::write_all(&mut io::stdout(), line.as_bytes()).unwrap();
            std::thread::Builder::new()
                .spawn(|| {})
                .expect_err("it is refused");
        });
    });
}

#[test]
#[ignore = "it is the child of the next one"]
fn waits_in_blocking_calls() {
    ws_sim::check(0..1, |sim| {
        sim.client("client", async {
            let socket = std::net::UdpSocket::bind("0.0.0.0:1").unwrap();
            let number = |error: io::Error| error.raw_os_error();
            for _ in 0..2 {
                let received = socket.recv(&mut [0]).map_err(number);
                assert_eq!(received, Err(Some(libc::EDEADLK)));
            }
            let stream = std::net::TcpStream::connect("10.0.0.1:7").map_err(number);
            assert_eq!(stream.unwrap_err(), Some(libc::EDEADLK));
        });
    });
}

#[test]
fn a_blocking_call_is_told_once() {
    let (text, succeeds) = child("waits_in_blocking_calls", "5");
    assert!(succeeds, "{text}");
    let told = "ws-sim: host \"client\" waits in a blocking call, which would last for ever, since \
                all hosts share one thread (seed 5): set the socket nonblocking, or use ws::net";
    assert_eq!(text.matches(told).count(), 1, "{text}");
    let place = text.split_once("It does so here:\n").expect("it is told").1;
    assert!(place.contains("tests/failures.rs"), "{text}");
}

#[test]
fn ws_seed_replays_one_seed() {
    let test = "tells_its_seeds_and_starts_a_thread";
    let (text, succeeds) = child(test, "1234567");
    assert!(succeeds, "{text}");
    assert_eq!(text.matches("seed: ").count(), 1, "{text}");
    assert!(text.contains("seed: 1234567;"), "{text}");
    let refused = "ws-sim: host \"client\" starts a thread, which seed 1234567 could not repeat: \
                   use ws::spawn_blocking";
    assert!(text.contains(refused), "{text}");
    // The place is that of this file, and no other one.
    let place = text.split_once("It does so here:\n").expect("it is told").1;
    let file = place.lines().nth(1).expect("a frame and its file");
    assert!(file.contains("tests/failures.rs"), "{text}");
    // Also the last one that there is.
    let (text, succeeds) = child(test, &u64::MAX.to_string());
    assert!(
        succeeds && text.contains("seed: 18446744073709551615;"),
        "{text}"
    );
    let (text, succeeds) = child(test, "seven");
    assert!(!succeeds, "{text}");
    assert!(
        text.contains("WS_SEED is \"seven\": give a number from 0 to"),
        "{text}"
    );
}
