//! A node of the store:
//!
//! ```sh
//! kv 1 /tmp/kv1 1=127.0.0.1:9001 2=127.0.0.1:9002 3=127.0.0.1:9003
//! ```
use std::{collections::BTreeMap, env, io};

use kv::{
    NodeId,
    bug::Bug,
    node::{self, Options},
};

const USAGE: &str = "usage: kv NUMBER FOLDER NUMBER=HOST:PORT...";

fn options() -> Option<Options> {
    let mut words = env::args().skip(1);
    let id: NodeId = words.next()?.parse().ok()?;
    let folder = words.next()?.into();
    let nodes = words.map(|word| {
        let (id, address) = word.split_once('=')?;
        Some((id.parse().ok()?, address.to_owned()))
    });
    let nodes: BTreeMap<NodeId, String> = nodes.collect::<Option<_>>()?;
    Some(Options {
        id,
        listen: nodes.get(&id)?.clone(),
        nodes,
        folder,
        snapshot_every: 5_000,
        bug: Bug::None,
    })
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let options = options().ok_or_else(|| io::Error::other(USAGE))?;
    node::run(options).await
}
