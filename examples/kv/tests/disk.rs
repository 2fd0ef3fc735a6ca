//! What a node makes of its disk: errors, and what a program that was killed has left there.
use std::{collections::BTreeMap, time::Duration};

use kv::{
    api::Op,
    bug::Bug,
    client::Client,
    files,
    node::{self, Options},
};
use ws_sim::{DiskFaults, Sim, millis, secs};

const PATIENCE: Duration = Duration::from_secs(10);

fn one_node(sim: &Sim) {
    let options = Options {
        id: 1,
        nodes: BTreeMap::from([(1, "n1:80".to_owned())]),
        listen: "0.0.0.0:80".to_owned(),
        folder: "data".into(),
        snapshot_every: 100,
        bug: Bug::None,
    };
    sim.host("n1", move || node::run(options.clone()));
}

#[test]
fn a_node_ends_when_its_disk_fails() {
    for seed in 0..3 {
        let sim = Sim::new(seed);
        one_node(&sim);
        sim.client("client", async {
            let mut client = Client::new(1, vec!["n1:80".to_owned()]).unwrap();
            while client.op("key", Op::Add(1), PATIENCE).await.is_ok() {}
        });
        sim.after(secs(2), |sim| {
            let faults = DiskFaults {
                sync_error_ppm: 1_000_000,
                ..DiskFaults::default()
            };
            sim.set_disk("n1", faults);
        });
        let failure = sim.try_run().unwrap_err().to_string();
        assert!(failure.starts_with("host \"n1\": "), "{failure}");
        assert!(sim.elapsed() < secs(3), "{failure}");
    }
}

#[test]
fn what_is_read_from_a_file_outlives_a_crash() {
    ws_sim::check(0..50, |sim| {
        sim.host("n1", || async {
            let folder = std::env::current_dir().unwrap().join("data");
            // A program was killed before its syncs.
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("vote"), "a vote").unwrap();
            files::make_folder(&folder).await.unwrap();
            let read = files::read(&folder, "vote").await.unwrap();
            assert_eq!(read.as_deref(), Some(&b"a vote"[..]));
        });
        sim.after(millis(100), |sim| sim.crash("n1"));
        sim.client("client", async { tokio::time::sleep(millis(200)).await });
        sim.try_run().unwrap();
        assert_eq!(sim.disk("n1").read("data/vote").unwrap(), b"a vote");
    });
}
