//! Limits of a run, what its failure tells of them, and what is in its digest.
#![cfg(target_os = "linux")]

use std::{
    future::pending,
    io::{self, Seek, Write},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use ws::time::sleep;
use ws_sim::{DiskFaults, FaultKind, Plan, Sim, millis, network::Latency, secs};

fn failure(sim: &Sim) -> String {
    sim.try_run().expect_err("it fails").to_string()
}

/// A simulation whose client fails after so many seconds, beside a server that waits.
fn fails_after(seconds: u64) -> Sim {
    let sim = Sim::new(1);
    sim.host("server", pending::<()>);
    sim.client("client", async move {
        sleep(secs(seconds)).await;
        Err::<(), _>(io::Error::other("planted"))
    });
    sim
}

async fn yields(count: u32) {
    for _ in 0..count {
        ws::task::yield_now().await;
    }
}

#[test]
fn a_run_takes_a_day_of_simulated_time_at_most() {
    let sim = Sim::new(1);
    sim.client("client", async { sleep(secs(86_401)).await });
    let text = failure(&sim);
    assert!(text.contains("the limit of 86400s"), "{text}");
}

#[test]
fn a_run_may_have_more_than_a_million_steps() {
    let sim = Sim::new(1);
    sim.client("client", async {
        for _ in 0..2 {
            yields(550_000).await;
            sleep(secs(1)).await;
        }
    });
    sim.try_run().unwrap();
}

#[test]
fn a_move_of_the_clock_is_an_event() {
    let sleeps = Sim::new(1);
    sleeps.client("client", async {
        for _ in 0..10 {
            sleep(secs(1)).await;
        }
    });
    sleeps.try_run().unwrap();
    let sim = Sim::new(1);
    sim.client("client", yields(10));
    sim.try_run().unwrap();
    assert_eq!(sleeps.events(), sim.events() + 10);
}

/// The digest of a run that writes one byte so often to a disk that takes no time.
fn digest_of_writes(count: usize) -> u64 {
    let sim = Sim::new(1);
    sim.client("host", async move {
        let mut file = std::fs::File::create("f")?;
        for _ in 0..count {
            file.write_all(b"x")?;
            file.rewind()?;
        }
        io::Result::Ok(())
    });
    let faults = DiskFaults {
        latency: Latency::Constant(0),
        ..DiskFaults::default()
    };
    sim.set_disk("host", faults);
    sim.try_run().unwrap();
    sim.digest()
}

#[test]
fn what_a_disk_draws_for_writes_is_in_the_digest() {
    assert_eq!(digest_of_writes(2), digest_of_writes(2));
    assert_ne!(digest_of_writes(2), digest_of_writes(9));
}

#[test]
fn the_last_forty_faults_are_told() {
    let sim = fails_after(29);
    let plan = Plan::new().only([FaultKind::Pause]).every(millis(100));
    sim.faults(plan.lasts(millis(1), millis(1)));
    let text = failure(&sim);
    assert_eq!(text.matches(": pause \"server\"").count(), 40, "{text}");
    assert!(text.contains(" before these\n"), "{text}");
}

#[test]
fn a_fault_that_has_not_begun_is_not_told() {
    let sim = fails_after(5);
    sim.faults(Plan::new().only([FaultKind::Pause]).begin(secs(6)));
    let text = failure(&sim);
    assert!(!text.contains("pause \"server\""), "{text}");
}

#[test]
fn the_first_tasks_of_a_host_are_named_and_the_others_counted() {
    let sim = Sim::new(1);
    sim.client("client", async {
        for _ in 0..29 {
            ws::spawn_local(pending::<()>());
        }
        pending::<()>().await;
    });
    let text = failure(&sim);
    assert!(text.contains("\n    and 14 more"), "{text}");
    assert_eq!(text.matches("\n    ").count(), 17, "{text}");
}

#[test]
#[should_panic(expected = "it ended otherwise:")]
fn a_seed_that_fails_otherwise_the_next_time_is_told() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    ws_sim::check(0..1, |_| {
        let words = ["first", "second", "third"];
        panic!("planted {}", words[RUNS.fetch_add(1, Relaxed) as usize % 3]);
    });
}
