//! Plans of faults: they happen, they are over in time, and the smallest one is told.
#![cfg(target_os = "linux")]

use std::{
    cell::Cell,
    env,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    rc::Rc,
    time::Duration,
};

use ws::{net::UdpSocket, time::sleep};
use ws_sim::{FaultKind, Plan, Sim};

const SECOND: Duration = Duration::from_secs(1);

fn text_of_panic(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

/// Adds the host `n1`. How often it has begun.
fn counted(sim: &Sim) -> Rc<Cell<u32>> {
    let starts = Rc::new(Cell::new(0));
    let counts = starts.clone();
    sim.host("n1", move || {
        counts.set(counts.get() + 1);
        pending::<()>()
    });
    starts
}

/// Crashes alone, and many.
fn crashes() -> Plan {
    Plan::new().every(SECOND).only([FaultKind::Crash])
}

/// Three hosts and many faults. In a crash, `n1` forgets what it counted.
fn forgets(sim: &Sim) {
    for name in ["n0", "n2"] {
        sim.host(name, pending::<()>);
    }
    let starts = counted(sim);
    sim.client("client", async move {
        sleep(SECOND * 35).await;
        // It is no limit of the run, whatever its words are.
        assert_eq!(starts.get(), 1, "no limit of steps is reached, after all");
    });
    let others = [FaultKind::HardCrash, FaultKind::Kill, FaultKind::PowerCut];
    let plan = others
        .into_iter()
        .fold(Plan::new(), |plan, kind| plan.weight(kind, 0));
    let plan = plan.every(SECOND);
    let hosts = plan.hosts(["n0", "n1", "n2", "client"]);
    sim.faults(hosts);
}

#[test]
#[ignore = "it is the child of the next one"]
fn forgets_after_a_crash() {
    ws_sim::check(0..50, forgets);
}

/// Runs one of these tests in a process of its own. Its output, and whether it succeeded.
fn child(test: &str, variables: &[(&str, &str)]) -> (String, bool) {
    let out = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env_remove("WS_SEED")
        .env_remove("WS_FAULTS")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (String::from_utf8(text).unwrap(), out.status.success())
}

/// The faults that a failure tells.
fn told(text: &str) -> Vec<&str> {
    let (_, faults) = text
        .split_once("faults of its plan:\n")
        .expect("it has a plan");
    let lines = faults.lines();
    lines.take_while(|line| line.contains(". at ")).collect()
}

#[test]
fn the_one_fault_of_many_that_matters_is_told() {
    let (text, succeeds) = child("forgets_after_a_crash", &[]);
    assert!(!succeeds, "{text}");
    let faults = told(&text);
    assert_eq!(faults.len(), 1, "{text}");
    assert!(
        faults[0].contains("crash \"n1\", and restart it at"),
        "{text}"
    );
    assert!(text.contains("planned faults 1 made it fail"), "{text}");
    // The line that replays it has that fault alone.
    let line = text.lines().find(|line| line.starts_with("WS_SEED="));
    let line = line.expect("it tells how to replay it");
    let words: Vec<_> = line.split(' ').collect();
    let seed = words[0].strip_prefix("WS_SEED=").unwrap();
    let fault = words[1].strip_prefix("WS_FAULTS=").unwrap();
    assert_eq!(
        words[2..],
        ["cargo", "test", "forgets_after_a_crash", "--", "--exact"]
    );
    let (again, succeeds) = child(
        "forgets_after_a_crash",
        &[("WS_SEED", seed), ("WS_FAULTS", fault)],
    );
    assert!(!succeeds && again.contains(line), "{again}");
    assert_eq!(told(&again), faults);
    // All faults of that seed are many, and none is not enough.
    let (all, succeeds) = child("forgets_after_a_crash", &[("WS_SEED", seed)]);
    assert!(!succeeds && told(&all).len() > 15, "{all}");
    let (none, succeeds) = child(
        "forgets_after_a_crash",
        &[("WS_SEED", seed), ("WS_FAULTS", "none")],
    );
    assert!(succeeds, "{none}");
}

/// Another simulation than that of the check fails, and both have a plan.
#[test]
#[ignore = "it is the child of the next one"]
fn a_second_simulation_fails_by_its_plan() {
    ws_sim::check(0..1, |sim| {
        sim.host("first", pending::<()>);
        sim.client("client", async { sleep(SECOND * 60).await });
        sim.faults(Plan::new().only([FaultKind::Pause]));
        sim.try_run().unwrap();
        let second = Sim::new(sim.seed());
        let starts = Rc::new(Cell::new(0));
        let counts = starts.clone();
        second.host("second", move || {
            counts.set(counts.get() + 1);
            pending::<()>()
        });
        second.client("client", async move {
            sleep(SECOND * 60).await;
            assert!(starts.get() < 3, "it was restarted");
        });
        second.faults(Plan::new().only([FaultKind::Crash]));
        second.try_run().unwrap();
    });
}

#[test]
fn a_plan_of_another_simulation_keeps_its_faults() {
    let test = "a_second_simulation_fails_by_its_plan";
    let (text, succeeded) = child(test, &[]);
    assert!(!succeeded && !text.contains("more than the seed"), "{text}");
    assert_eq!(text.matches("the last events:").count(), 1, "{text}");
    assert!(text.contains("planned faults 0 made it fail"), "{text}");
    let replay = format!("WS_SEED=0 WS_FAULTS=none cargo test {test} -- --exact");
    assert!(text.contains(&replay), "{text}");
    let faults = told(&text);
    assert!(
        faults.iter().all(|line| line.contains("crash \"second\"")),
        "{faults:?}"
    );
    let (again, _) = child(test, &[("WS_SEED", "0"), ("WS_FAULTS", "none")]);
    assert_eq!(told(&again), faults);
}

/// A program that does not bear clocks that jump by a second at once.
#[test]
#[ignore = "it is the child of the next one"]
fn fails_when_clocks_jump() {
    ws_sim::check(0..50, |sim| {
        sim.host("n0", pending::<()>);
        sim.client("client", async {
            let end = ws::time::Instant::now() + 12 * SECOND;
            while ws::time::Instant::now() < end {
                let before = ws::time::Instant::now();
                sleep(SECOND / 50).await;
                assert!(before.elapsed() < SECOND, "the clocks have jumped");
            }
        });
        let plan = Plan::new().only([FaultKind::Jump, FaultKind::Pause]);
        let plan = plan.quiet_after(10 * SECOND);
        sim.faults(plan.hosts(["n0", "client"]));
    });
}

#[test]
fn what_is_told_of_a_jump_is_how_far_it_has_to_be() {
    let (text, succeeds) = child("fails_when_clocks_jump", &[]);
    assert!(!succeeds, "{text}");
    let faults = told(&text);
    assert_eq!(faults.len(), 1, "{text}");
    let (_, by) = faults[0].split_once("\"client\" jump by ").expect(&text);
    let by: f64 = by.strip_suffix(" s").expect(&text).parse().expect(&text);
    assert!((0.97..2.0).contains(&by), "{text}");
}

#[test]
fn mistakes_in_the_variable_are_told() {
    let problem = |variables: &[(&str, &str)]| {
        let (text, succeeds) = child("forgets_after_a_crash", variables);
        assert!(!succeeds, "{text}");
        text
    };
    let text = problem(&[("WS_SEED", "1"), ("WS_FAULTS", "many")]);
    assert!(
        text.contains("give the numbers of faults, such as \"3,7\""),
        "{text}"
    );
    let text = problem(&[("WS_FAULTS", "1")]);
    assert!(text.contains("give WS_SEED too"), "{text}");
    let text = problem(&[("WS_SEED", "1"), ("WS_FAULTS", "900")]);
    assert!(
        text.contains("names fault 900, and this seed has "),
        "{text}"
    );
}

#[test]
fn a_plan_is_given_before_the_run() {
    let sim = Sim::new(1);
    sim.client("client", async {});
    sim.try_run().unwrap();
    let text = text_of_panic(|| sim.faults(Plan::new()));
    assert!(text.contains("call `Sim::faults` before it"), "{text}");
    let sim = Sim::new(1);
    sim.client("client", async {});
    sim.faults(Plan::new().hosts(["n7"]));
    let text = text_of_panic(|| drop(sim.try_run()));
    assert!(
        text.contains("names \"n7\": the hosts are [\"client\"]"),
        "{text}"
    );
}

/// Hosts that send datagrams to each other, which are lost and late in the faults.
fn talks(sim: &Sim) -> Rc<Cell<u32>> {
    let received = Rc::new(Cell::new(0));
    for name in ["n0", "n1", "n2"] {
        let received = received.clone();
        sim.host(name, move || {
            let received = received.clone();
            async move {
                let socket = Rc::new(UdpSocket::bind("0.0.0.0:7").await.unwrap());
                let sender = socket.clone();
                ws::spawn_local(async move {
                    loop {
                        for other in ["n0", "n1", "n2"] {
                            let to = format!("{other}:7");
                            sender.send_to(b"hello", to).await.unwrap();
                        }
                        sleep(SECOND / 10).await;
                    }
                });
                while socket.recv_from(&mut [0; 9]).await.is_ok() {
                    received.set(received.get() + 1);
                }
            }
        });
    }
    received
}

#[test]
fn it_is_quiet_after_the_faults() {
    for seed in 0..4 {
        let sim = Sim::new(seed);
        let received = talks(&sim);
        sim.client("client", async move {
            sleep(SECOND * 30).await;
            let before = received.get();
            // 1% for what is under way.
            assert!(before < 10 * 30 * 9 * 99 / 100, "no fault: {before}");
            sleep(SECOND * 10).await;
            let after = received.get() - before;
            assert!(
                (10 * 10 * 9 - 20..=10 * 10 * 9 + 20).contains(&after),
                "{after}"
            );
        });
        let plan = Plan::new().every(SECOND).quiet_after(SECOND * 28);
        sim.faults(plan.weight(FaultKind::FailingDisk, 1));
        sim.try_run().unwrap();
        assert!(sim.planned_faults().len() > 10);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let sim = Sim::new(seed);
        talks(&sim);
        sim.client("client", async { sleep(SECOND * 20).await });
        sim.faults(Plan::new());
        sim.try_run().unwrap();
        (sim.digest(), sim.planned_faults())
    };
    for seed in 0..2 {
        let first = run(seed);
        assert_eq!(first, run(seed));
        assert_ne!(first.1, run(seed + 2).1);
    }
}

/// Fails if two asserts of one kind count as the same failure.
#[test]
fn the_smallest_plan_fails_at_the_same_place() {
    let text = text_of_panic(|| {
        ws_sim::check(0..1, |sim| {
            let starts = counted(sim);
            sim.faults(crashes());
            sim.client("client", async move {
                for _ in 0..100 {
                    sleep(SECOND / 3).await;
                    assert_eq!(starts.get(), 1);
                }
                assert_eq!(2 + 2, 5);
            });
        });
    });
    assert!(text.contains("left: 2\n right: 1"), "{text}");
    assert!(text.contains("1 made it fail"), "{text}");
}

/// Fails if the closure's panic is caught outside of the run.
#[test]
fn what_a_planned_closure_finds_is_told_with_the_run() {
    let text = text_of_panic(|| {
        ws_sim::check(0..1, |sim| {
            let starts = counted(sim);
            sim.faults(crashes());
            sim.client("client", async { sleep(SECOND * 40).await });
            sim.after(SECOND * 35, move |_| {
                assert!(starts.get() < 2, "n1 has begun again")
            });
        });
    });
    for part in [
        "n1 has begun again",
        "faults of its plan:",
        "the last events:",
        "1 made it fail",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
