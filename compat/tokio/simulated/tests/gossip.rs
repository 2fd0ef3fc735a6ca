//! The gossip library chitchat, in five hosts that tell each other by UDP which of them are alive.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use chitchat::{
    ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, ProtocolVersion,
    spawn_chitchat, transport::UdpTransport,
};
use futures::StreamExt;
use tokio::net::lookup_host;
use tokio_simulated::{Error, slow_network, twice, wrong};
use ws_sim::Sim;

const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const SECOND: Duration = Duration::from_secs(1);

/// Which nodes each node takes for alive.
type Seen = Arc<Mutex<BTreeMap<&'static str, BTreeSet<String>>>>;

fn config(
    name: &str,
    generation: u64,
    address: SocketAddr,
    seed: String,
    interval: Duration,
) -> ChitchatConfig {
    ChitchatConfig {
        chitchat_id: ChitchatId::new(name.to_owned(), generation, address),
        cluster_id: "five".to_owned(),
        gossip_interval: interval,
        listen_addr: address,
        seed_nodes: vec![seed],
        failure_detector_config: FailureDetectorConfig {
            initial_interval: interval,
            ..FailureDetectorConfig::default()
        },
        marked_for_deletion_grace_period: 3600 * SECOND,
        catchup_callback: None,
        extra_liveness_predicate: None,
        protocol_version: ProtocolVersion::V1,
    }
}

/// Writes down what a node sees, as long as it lives.
async fn watch(name: &'static str, node: &ChitchatHandle, seen: &Seen) {
    let mut lives = node
        .with_chitchat(|node| node.live_nodes_watch_stream())
        .await;
    while let Some(live) = lives.next().await {
        let names = live.keys().map(|id| id.node_id.to_string()).collect();
        seen.lock().unwrap().insert(name, names);
    }
}

/// A node in a host. It is known by its own address, and starts with that of `n0`.
async fn node(name: &'static str, seen: Seen) -> Result<(), Error> {
    let mut own = lookup_host((name, 7280)).await?;
    let own = own
        .find(SocketAddr::is_ipv4)
        .ok_or_else(|| wrong("no IPv4"))?;
    let generation = std::time::UNIX_EPOCH.elapsed()?.as_millis() as u64;
    let config = config(name, generation, own, "n0:7280".to_owned(), SECOND);
    let node = spawn_chitchat(config, Vec::new(), &UdpTransport).await?;
    watch(name, &node, &seen).await;
    Ok(())
}

/// What each of these nodes sees is these nodes.
#[track_caller]
fn see_each_other(seen: &Seen, nodes: &[&str]) {
    let wanted: BTreeSet<String> = nodes.iter().map(|&name| name.to_owned()).collect();
    let seen = seen.lock().unwrap();
    for node in nodes {
        assert_eq!(seen[node], wanted, "as {node} sees it");
    }
}

/// What happens at one time of the test.
type Step = Box<dyn Fn(&Sim, &Seen)>;

/// All find each other. One crashes and comes again. Two are cut off from three, and are not.
fn cluster(sim: &Sim) {
    slow_network(sim);
    let seen = Seen::default();
    for name in NODES {
        let seen = seen.clone();
        sim.host(name, move || node(name, seen.clone()));
    }
    let at = |seconds: u32, what: Step| {
        let seen = seen.clone();
        sim.after(seconds * SECOND, move |sim| what(sim, &seen));
    };
    let crashed = sim.below(5) as usize;
    let (others, crashed) = (others_than(crashed), NODES[crashed]);
    let (two, three) = NODES.split_at(2);
    at(
        30,
        Box::new(move |sim, seen| {
            see_each_other(seen, &NODES);
            sim.crash(crashed);
        }),
    );
    at(
        90,
        Box::new(move |sim, seen| {
            see_each_other(seen, &others);
            sim.restart(crashed);
        }),
    );
    at(
        120,
        Box::new(move |sim, seen| {
            see_each_other(seen, &NODES);
            sim.partition(two.iter().copied(), three.iter().copied());
        }),
    );
    at(
        180,
        Box::new(move |sim, seen| {
            see_each_other(seen, two);
            see_each_other(seen, three);
            sim.heal();
        }),
    );
    at(240, Box::new(|_, seen| see_each_other(seen, &NODES)));
    sim.client("clock", async { tokio::time::sleep(250 * SECOND).await });
}

fn others_than(one: usize) -> Vec<&'static str> {
    let (before, after) = (&NODES[..one], &NODES[one + 1..]);
    [before, after].concat()
}

#[test]
fn members_find_each_other_and_who_is_gone_is_found_out() {
    // A run takes a second of a processor in a debug build.
    twice(0..8, cluster);
}

/// The same on sockets of this machine, faster: four of five see that one is gone.
#[tokio::test]
async fn on_sockets_members_find_each_other_too() -> Result<(), Error> {
    let seen = Seen::default();
    let ports: Vec<_> = (0..5)
        .map(|_| std::net::UdpSocket::bind("127.0.0.1:0"))
        .collect();
    let addresses: Vec<_> = ports
        .iter()
        .map(|port| port.as_ref().unwrap().local_addr())
        .collect();
    drop(ports);
    let seed = addresses[0].as_ref().unwrap().to_string();
    let mut nodes = Vec::new();
    for (name, address) in NODES.into_iter().zip(addresses) {
        let config = config(name, 0, address?, seed.clone(), Duration::from_millis(20));
        let node = Arc::new(spawn_chitchat(config, Vec::new(), &UdpTransport).await?);
        let (watched, seen) = (node.clone(), seen.clone());
        tokio::spawn(async move { watch(name, &watched, &seen).await });
        nodes.push(node);
    }
    let until = async |wanted: &[&str]| {
        let all = |seen: &Seen| {
            let seen = seen.lock().unwrap();
            let is_right = |name: &&str| {
                seen.get(name)
                    .is_some_and(|names| names.iter().eq(wanted.iter()))
            };
            wanted.iter().all(is_right)
        };
        while !all(&seen) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    until(&NODES).await;
    nodes[4].abort();
    until(&NODES[..4]).await;
    Ok(())
}
