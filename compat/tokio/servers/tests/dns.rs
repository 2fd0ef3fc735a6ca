//! hickory-resolver with tokio's provider, and a dnsmasq.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    process::Command,
    time::Duration,
};

use hickory_resolver::{
    Resolver, TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::RData,
};
use tokio::{net::UdpSocket, runtime::Runtime};
use ws_test_servers::{Server, program};

/// A resolver that asks the server at `port`, and remembers nothing.
fn resolver(port: u16, protocols: &[ProtocolConfig], timeout: Duration) -> TokioResolver {
    let connections = protocols.iter().map(|protocol| {
        let mut connection = ConnectionConfig::new(protocol.clone());
        connection.port = port;
        connection
    });
    let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, connections.collect());
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    options.timeout = timeout;
    options.attempts = 1;
    options.cache_size = 0;
    builder.build().unwrap()
}

const BOTH: &[ProtocolConfig] = &[ProtocolConfig::Udp, ProtocolConfig::Tcp];

const PATIENT: Duration = Duration::from_secs(30);

/// Twenty of these do not fit into a datagram.
fn text(n: usize) -> String {
    format!("{n:02} {}", "x".repeat(77))
}

fn dnsmasq() -> Server {
    Server::start(|_, port| {
        let mut command = Command::new(program("dnsmasq"));
        command.args(["--no-daemon", "--no-resolv", "--no-hosts", "--user=root"]);
        command.args(["--conf-file=/dev/null", "--bind-interfaces"]);
        command.args(["--listen-address=127.0.0.1", "--local=/test/"]);
        command.arg(format!("--port={port}"));
        command.args([
            "--host-record=both.test,192.0.2.1,2001:db8::1",
            "--host-record=both.test,192.0.2.2",
        ]);
        command.args((0..20).map(|n| format!("--txt-record=many.test,{}", text(n))));
        command
    })
}

fn addresses(addresses: &[&str]) -> BTreeSet<IpAddr> {
    let addresses = addresses.iter().map(|address| address.parse().unwrap());
    addresses.collect()
}

async fn addresses_come(resolver: &TokioResolver) {
    let all = resolver.lookup_ip("both.test.").await.unwrap();
    let all: BTreeSet<IpAddr> = all.iter().collect();
    let v4 = ["192.0.2.1", "192.0.2.2"];
    assert!(all.is_superset(&addresses(&v4)), "{all:?}");
    let lookup = resolver.ipv4_lookup("both.test.").await.unwrap();
    let found = lookup.answers().iter();
    let found: BTreeSet<_> = found.filter_map(|record| record.data.ip_addr()).collect();
    assert_eq!(found, addresses(&v4));
    let lookup = resolver.ipv6_lookup("both.test.").await.unwrap();
    let found = lookup.answers().iter();
    let found: BTreeSet<_> = found.filter_map(|record| record.data.ip_addr()).collect();
    assert_eq!(found, addresses(&["2001:db8::1"]));
    let none = resolver.lookup_ip("nobody.test.").await.unwrap_err();
    assert!(none.is_nx_domain(), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_come_by_datagrams_and_by_tcp() {
    let server = dnsmasq();
    for protocol in BOTH {
        let resolver = resolver(server.port(), std::slice::from_ref(protocol), PATIENT);
        for _ in 0..50 {
            addresses_come(&resolver).await;
        }
        let lookups = (0..50).map(|_| {
            let resolver = resolver.clone();
            tokio::spawn(async move { addresses_come(&resolver).await })
        });
        for lookup in lookups.collect::<Vec<_>>() {
            lookup.await.unwrap();
        }
    }
}

/// As in the documentation: a runtime, and a lookup that blocks on it.
#[test]
fn a_runtime_of_the_program() {
    let server = dnsmasq();
    let io_loop = Runtime::new().unwrap();
    let resolver = resolver(server.port(), BOTH, PATIENT);
    io_loop.block_on(addresses_come(&resolver));
}

/// The answer does not fit into a datagram, and so the resolver asks again by TCP.
#[tokio::test]
async fn a_long_answer_comes_by_tcp() {
    let server = dnsmasq();
    let resolver = resolver(server.port(), BOTH, PATIENT);
    let answer = resolver.txt_lookup("many.test.").await.unwrap();
    let texts = answer.answers().iter().map(|record| match &record.data {
        RData::TXT(text) => text.to_string(),
        other => panic!("not a text: {other}"),
    });
    assert_eq!(texts.collect::<BTreeSet<_>>(), (0..20).map(text).collect());
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let resolver = resolver(port, &[ProtocolConfig::Udp], Duration::from_millis(200));
    let error = resolver.ipv4_lookup("both.test.").await.unwrap_err();
    assert!(matches!(error, NetError::Timeout), "{error:?}");
    let mut question = [0; 512];
    let (length, _) = silent.recv_from(&mut question).await.unwrap();
    assert!(length > 12, "it was asked");
}
