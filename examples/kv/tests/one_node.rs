//! One node, one client, on two simulated hosts.
use std::{collections::BTreeMap, time::Duration};

use kv::{
    api::{Answer, Op},
    bug::Bug,
    client::Client,
    node::{self, Options},
};

#[test]
fn a_client_reads_what_it_wrote() {
    ws_sim::check(0..3, |sim| {
        let options = Options {
            id: 1,
            nodes: BTreeMap::from([(1, "n1:80".to_owned())]),
            listen: "0.0.0.0:80".to_owned(),
            folder: "data".into(),
            snapshot_every: 100,
            bug: Bug::None,
        };
        sim.host("n1", move || node::run(options.clone()));
        sim.client("client", async {
            let mut client = Client::new(1, vec!["n1:80".to_owned()]).unwrap();
            let patience = Duration::from_secs(10);
            let written = client.op("key", Op::Write(7), patience).await;
            assert_eq!(written, Ok(Answer::Done));
            let read = client.op("key", Op::Read, patience).await;
            assert_eq!(read, Ok(Answer::Value(Some(7))));
        });
        sim.try_run().unwrap();
    });
}
