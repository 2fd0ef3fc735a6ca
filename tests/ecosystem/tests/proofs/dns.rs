//! Proof 6: hickory-resolver against dnsmasq: A, AAAA, TXT with 20 answers, which do not fit into a
//! datagram, NXDOMAIN, and a server that does not answer.

use std::{
    collections::BTreeSet,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use hickory_resolver::{
    Resolver,
    config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig},
    net::NetError,
    proto::rr::RData,
};
use ws::{
    hickory::{RuntimeProvider, Spawner, Time},
    net::{TcpStream, UdpSocket},
};

use crate::harness::{Env, Server, free_port, proofs};

/// A socket that a resolver has made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Made {
    Udp,
    Tcp,
}

use Made::{Tcp, Udp};

/// The provider of `ws`, which keeps a list of the sockets that it has made.
#[derive(Clone)]
struct Listing {
    provider: RuntimeProvider,
    made: Arc<Mutex<Vec<Made>>>,
}

impl hickory_resolver::net::runtime::RuntimeProvider for Listing {
    type Handle = Spawner;
    type Timer = Time;
    type Udp = UdpSocket;
    type Tcp = TcpStream;

    fn create_handle(&self) -> Spawner {
        self.provider.create_handle()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        local: Option<SocketAddr>,
        limit: Option<Duration>,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<TcpStream>>>> {
        self.made.lock().unwrap().push(Tcp);
        self.provider.connect_tcp(server, local, limit)
    }

    fn bind_udp(
        &self,
        local: SocketAddr,
        server: SocketAddr,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<UdpSocket>>>> {
        self.made.lock().unwrap().push(Udp);
        self.provider.bind_udp(local, server)
    }
}

/// A resolver that asks the server at `port`, and the sockets that it makes.
fn resolver(port: u16, timeout: Duration) -> (Resolver<Listing>, Arc<Mutex<Vec<Made>>>) {
    let connections = [ProtocolConfig::Udp, ProtocolConfig::Tcp].map(|protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = port;
        connection
    });
    let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, connections.into());
    let made = Arc::default();
    let provider = Listing {
        provider: RuntimeProvider::current(),
        made: Arc::clone(&made),
    };
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let mut builder = Resolver::builder_with_config(config, provider);
    let options = builder.options_mut();
    options.timeout = timeout;
    options.attempts = 1;
    options.cache_size = 0;
    (builder.build().unwrap(), made)
}

/// Texts of 80 bytes each, so that 20 of them are more than any datagram that is asked for.
fn text(n: usize) -> String {
    format!("{n:02} {}", "x".repeat(77))
}

fn dnsmasq(env: &Env) -> Option<(Server, u16)> {
    let dnsmasq = crate::harness::find("dnsmasq")?;
    let port = free_port();
    let mut command = Command::new(dnsmasq);
    command
        .args([
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--no-daemon",
            "--user=root",
        ])
        .args([
            "--conf-file=/dev/null",
            "--listen-address=127.0.0.1",
            "--bind-interfaces",
        ])
        .arg(format!("--port={port}"))
        .arg("--local=/test/")
        .args([
            "--host-record=both.test,192.0.2.1,2001:db8::1",
            "--host-record=both.test,192.0.2.2",
        ]);
    for n in 0..20 {
        command.arg(format!("--txt-record=many.test,{}", text(n)));
    }
    let server = Server::start(&mut command, libc::SIGTERM, env.dir.join("dnsmasq.log"));
    Some((server.listening(port), port))
}

proofs! {
    /// Addresses of both kinds, and names that do not exist, by datagrams alone.
    async fn addresses(env) {
        let Some((_dnsmasq, port)) = dnsmasq(&env) else { return };
        let (resolver, made) = resolver(port, Duration::from_secs(30));
        let addresses = |answer: &[hickory_resolver::proto::rr::Record]| -> BTreeSet<IpAddr> {
            answer.iter().filter_map(|record| record.data.ip_addr()).collect()
        };
        for _ in 0..200 {
            let v4 = resolver.ipv4_lookup("both.test.").await.unwrap();
            assert_eq!(addresses(v4.answers()), ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap()).into());
            let v6 = resolver.ipv6_lookup("both.test.").await.unwrap();
            assert_eq!(addresses(v6.answers()), ["2001:db8::1"].map(|ip| ip.parse().unwrap()).into());
            let none = resolver.lookup_ip("nobody.test.").await.unwrap_err();
            assert!(none.is_nx_domain(), "{none}");
        }
        assert!(!made.lock().unwrap().contains(&Tcp));
    }

    /// Twenty texts come by TCP, after a datagram that says that they do not fit.
    async fn many_texts_come_by_tcp(env) {
        let Some((_dnsmasq, port)) = dnsmasq(&env) else { return };
        let (resolver, made) = resolver(port, Duration::from_secs(30));
        let answer = resolver.txt_lookup("many.test.").await.unwrap();
        let texts: BTreeSet<String> = answer
            .answers()
            .iter()
            .map(|record| match &record.data {
                RData::TXT(text) => text.to_string(),
                other => panic!("not a text: {other}"),
            })
            .collect();
        assert_eq!(texts, (0..20).map(text).collect());
        assert_eq!(*made.lock().unwrap(), [Udp, Tcp]);
    }

    /// A server that takes questions and answers none is a timeout.
    async fn silence_is_a_timeout(env) {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let (resolver, _) = resolver(port, Duration::from_millis(200));
        let error = resolver.ipv4_lookup("both.test.").await.unwrap_err();
        assert!(matches!(error, NetError::Timeout), "{error:?}");
        let mut question = [0; 512];
        let (len, _) = silent.recv_from(&mut question).await.unwrap();
        assert!(len > 12, "it was asked");
    }
}
