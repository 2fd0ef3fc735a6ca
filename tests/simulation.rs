//! `#[ws::sim]`: the test that it writes. With the feature `sim` alone: see `Cargo.toml`.
#![cfg(target_os = "linux")]

use std::{future::pending, io, process::Command};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sim::{Disk, Failure, Sim, secs},
    time::{sleep, timeout},
};

/// Answers each client with its number.
async fn node(number: u8, disk: Disk) -> io::Result<()> {
    assert!(disk.path().is_absolute());
    let listener = TcpListener::bind("0.0.0.0:1").await?;
    loop {
        let (mut client, _) = listener.accept().await?;
        // A partition may come in between.
        let _ = client.write_all(&[number]).await;
    }
}

/// Goes to the next node if one does not answer. So it may find another one after 5 s.
async fn find_again() {
    let mut found = 0;
    while found < 20 {
        for i in 0..3 {
            let ask = async {
                let mut node = TcpStream::connect(format!("n{i}:1")).await?;
                let mut number = [0];
                node.read_exact(&mut number).await?;
                io::Result::Ok(number[0])
            };
            if let Ok(answer) = timeout(secs(1), ask).await {
                assert_eq!(answer.unwrap(), i);
                found += 1;
            }
        }
        sleep(secs(1)).await;
    }
}

#[ws::sim(seeds = 20)]
async fn a_leader_is_found_again(sim: ws::sim::Sim) {
    for i in 0..3 {
        sim.host(format!("n{i}"), move |disk| node(i, disk));
    }
    sim.client("c", find_again());
    sim.after(secs(5), |net| net.partition(["n0"], ["n1", "n2"]));
    sim.run().await
}

#[ws::sim(seeds = 3)]
fn what_is_not_run_is_run_at_the_end(sim: Sim) {
    sim.client("c", async { sleep(secs(1)).await });
}

#[ws::sim(seed = 7)]
async fn an_error_may_be_returned(sim: Sim) -> Result<(), Failure> {
    assert_eq!(sim.seed(), 7);
    sim.client("c", async { sleep(secs(1)).await });
    sim.try_run()?;
    assert_eq!(sim.elapsed(), secs(1));
    Ok(())
}

#[ws::sim(seeds = 5..7, workers = 2, builder = Sim::builder().time_limit(secs(1)), crate = ws)]
#[should_panic(expected = "the limit of 1s of simulated time is reached")]
async fn all_arguments(sim: Sim) {
    assert!((5..7).contains(&sim.seed()));
    sim.client("c", async {
        assert_eq!(ws::runtime::Handle::current().metrics().workers, 2);
        sleep(secs(2)).await;
    });
    sim.run().await;
}

#[ws::sim]
#[should_panic(expected = "await there `sim.run()` alone")]
async fn a_wait_outside_of_all_hosts_says_so(sim: Sim) {
    sim.client("c", async {});
    pending::<()>().await;
}

mod in_a_module {
    use super::*;

    #[ws::sim(seeds = 40)]
    #[ignore = "the next one runs it"]
    async fn fails_from_seed_17_on(sim: Sim) {
        let seed = sim.seed();
        let line = format!("seed {seed};\n");
        io::Write::write_all(&mut io::stdout(), line.as_bytes()).unwrap();
        sim.client("c", async move { assert!(seed < 17, "planted") });
        sim.run().await;
    }
}

/// Runs the test above in a process of its own. Its output, and whether it succeeded.
fn child(variables: &[(&str, &str)]) -> (String, bool) {
    let out = Command::new(std::env::current_exe().unwrap())
        .args([
            "in_a_module::fails_from_seed_17_on",
            "--exact",
            "--nocapture",
            "--include-ignored",
        ])
        .env("RUST_BACKTRACE", "0")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [out.stdout, out.stderr].concat();
    (String::from_utf8(text).unwrap(), out.status.success())
}

#[test]
fn the_last_line_is_the_command_that_replays_it() {
    let (text, succeeds) = child(&[]);
    assert!(!succeeds, "{text}");
    let command = "\nWS_SEED=17 cargo test in_a_module::fails_from_seed_17_on -- --exact\n";
    assert_eq!(text.matches(command).count(), 1, "{text}");
    let (_, rest) = text.split_once(command).unwrap();
    assert!(
        rest.starts_with("note: ") || rest.trim().is_empty(),
        "{text}"
    );
    // The program has panicked, and the test. The run itself says nothing of its own.
    assert_eq!(
        text.matches("its program panicked: planted").count(),
        1,
        "{text}"
    );

    let (text, succeeds) = child(&[("WS_SEED", "30")]);
    assert!(!succeeds, "{text}");
    assert!(
        text.contains("\nWS_SEED=30 cargo test in_a_module::"),
        "{text}"
    );
    assert_eq!(
        text.matches("seed ").count() - text.matches("'seed ").count(),
        1,
        "{text}"
    );
}

#[test]
fn the_environment_says_how_many_seeds() {
    let (text, succeeds) = child(&[("WS_SEEDS", "5")]);
    assert!(succeeds, "{text}");
    assert_eq!(text.matches("seed ").count(), 5, "{text}");
    let (text, succeeds) = child(&[("WS_SEEDS", "many")]);
    assert!(!succeeds, "{text}");
    assert!(
        text.contains("WS_SEEDS is \"many\": give a number from 1 to"),
        "{text}"
    );
}

/// The branches that are ready at once, in the order in which a `select!` takes them.
fn orders(seeds: std::ops::Range<u64>) -> Vec<String> {
    use std::future::ready;

    use futures::FutureExt;

    let orders = std::sync::Mutex::new(std::collections::BTreeMap::new());
    ws::sim::check(seeds, |sim| {
        let (told, tells) = (
            std::rc::Rc::new(std::cell::RefCell::new(String::new())),
            sim.seed(),
        );
        let order = told.clone();
        sim.client("client", async move {
            for _ in 0..20 {
                let first = ws::select! {
                    () = ready(()).fuse() => '1',
                    () = ready(()).fuse() => { '2' }
                    () = ready(()).fuse() => '3',
                };
                order.borrow_mut().push(first);
            }
        });
        sim.try_run().unwrap();
        orders.lock().unwrap().insert(tells, told.borrow().clone());
    });
    orders.into_inner().unwrap().into_values().collect()
}

#[test]
fn the_branch_of_a_select_is_drawn_by_the_seed() {
    let many = orders(0..12);
    assert_eq!(many, orders(0..12));
    assert_eq!(many[7..8], orders(7..8));
    assert_ne!(many[7], many[8]);
    assert!(
        "123".chars().all(|branch| many[7].contains(branch)),
        "{many:?}"
    );
}
