//! What links and hosts can do to packets: each fault does what its documentation says.

#[path = "faults/connections.rs"]
mod connections;

use std::net::SocketAddr;

use ws_sim::network::{HostId, KeepAlive, Latency, Link, Network, Ready, SocketId};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

fn at(addr: &str) -> SocketAddr {
    addr.parse().unwrap()
}

/// Two hosts, 10.0.0.1 and 10.0.0.2.
fn two_hosts() -> (Network, HostId, HostId) {
    let mut net = Network::new(3);
    let a = net.add_host("a", &["10.0.0.1".parse().unwrap()]).unwrap();
    let b = net.add_host("b", &["10.0.0.2".parse().unwrap()]).unwrap();
    (net, a, b)
}

/// Processes events until the socket is ready for any of `wanted`; gives the time.
#[track_caller]
fn wait(net: &mut Network, socket: SocketId, wanted: Ready) -> u64 {
    while net.readiness(socket).without(wanted) == net.readiness(socket) {
        let next = net.next_event();
        net.advance_to(next.unwrap_or_else(|| panic!("nothing will make it {wanted:?}")));
    }
    net.now()
}

fn run(net: &mut Network, time: u64) {
    let end = net.now() + time;
    net.advance_to(end);
}

fn number<T: std::fmt::Debug>(answer: std::io::Result<T>) -> i32 {
    answer.unwrap_err().raw_os_error().unwrap()
}

fn listen(net: &mut Network, host: HostId, addr: &str) -> SocketId {
    let listener = net.tcp_socket(host, false);
    net.bind(listener, at(addr)).unwrap();
    net.listen(listener, 8).unwrap();
    listener
}

/// A connection from `a` to `b`.
fn connection(net: &mut Network, a: HostId, b: HostId) -> (SocketId, SocketId) {
    let listener = listen(net, b, "10.0.0.2:80");
    let client = net.tcp_socket(a, false);
    assert_eq!(
        number(net.connect(client, at("10.0.0.2:80"))),
        libc::EINPROGRESS
    );
    wait(net, listener, Ready::READABLE);
    (client, net.accept(listener).unwrap().0)
}

/// A bound receiver at `b`, and a sender at `a`.
fn datagrams(net: &mut Network, a: HostId, b: HostId) -> (SocketId, SocketId) {
    let (from, to) = (net.udp_socket(a, false), net.udp_socket(b, false));
    net.bind(to, at("10.0.0.2:53")).unwrap();
    net.set_receive_buffer_size(to, 1 << 30).unwrap();
    (from, to)
}

/// Sends numbered datagrams, and gives the numbers in the order in which they arrive.
fn exchange(link: Link, count: u32) -> Vec<u32> {
    let (mut net, a, b) = two_hosts();
    net.set_link(a, b, link);
    let (from, to) = datagrams(&mut net, a, b);
    let (mut all, mut buffer) = (Vec::new(), [0; 4]);
    for n in 0..count {
        net.send_to(from, &n.to_le_bytes(), at("10.0.0.2:53"))
            .unwrap();
        run(&mut net, 10_000 + SECOND * u64::from(n + 1 == count));
        while net.recv(to, &mut buffer).is_ok() {
            all.push(u32::from_le_bytes(buffer));
        }
    }
    all
}

#[test]
fn datagrams_are_lost_doubled_and_reordered_at_their_rates() {
    let in_order = |all: &[u32]| all.is_sorted();
    let plain = exchange(Link::default(), 1_000);
    assert!(plain.len() == 1_000 && in_order(&plain));
    let lossy = exchange(
        Link {
            loss_ppm: 200_000,
            ..Link::default()
        },
        1_000,
    );
    assert!(
        (720..880).contains(&lossy.len()) && in_order(&lossy),
        "{}",
        lossy.len()
    );
    let corrupt = exchange(
        Link {
            corrupt_ppm: 200_000,
            ..Link::default()
        },
        1_000,
    );
    assert!((720..880).contains(&corrupt.len()), "{}", corrupt.len());
    let doubled = exchange(
        Link {
            duplicate_ppm: 200_000,
            ..Link::default()
        },
        1_000,
    );
    assert!((1_120..1_280).contains(&doubled.len()), "{}", doubled.len());
    let jitter = exchange(
        Link {
            jitter: MILLISECOND,
            ..Link::default()
        },
        1_000,
    );
    assert!(
        jitter.len() == 1_000 && in_order(&jitter),
        "jitter alone keeps the order"
    );
    let reordered = exchange(
        Link {
            reorder_ppm: 200_000,
            ..Link::default()
        },
        1_000,
    );
    assert!(reordered.len() == 1_000 && !in_order(&reordered));
}

#[test]
fn latency_is_within_its_distribution() {
    for (latency, least, most) in [
        (Latency::Constant(5), 5, 5),
        (Latency::Uniform { min: 100, max: 200 }, 100, 200),
        (
            Latency::Exponential {
                min: 1_000,
                mean: 100,
            },
            1_000,
            5_400,
        ),
    ] {
        let (mut net, a, b) = two_hosts();
        net.set_default_link(Link {
            latency,
            ..Link::default()
        });
        let (from, to) = datagrams(&mut net, a, b);
        let mut times = Vec::new();
        for _ in 0..500 {
            let sent = net.now();
            net.send_to(from, b"x", at("10.0.0.2:53")).unwrap();
            times.push(wait(&mut net, to, Ready::READABLE) - sent);
            net.recv(to, &mut [0; 1]).unwrap();
        }
        assert!(
            times.iter().all(|t| (least..=most).contains(t)),
            "{latency:?} {times:?}"
        );
        assert!(least == most || times.iter().min() < times.iter().max());
    }
}

#[test]
fn bandwidth_is_the_rate_of_a_transfer() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.set_link(
        a,
        b,
        Link {
            bandwidth: Some(1_000_000),
            ..Link::default()
        },
    );
    let (begin, mut received, mut sent) = (net.now(), 0, 0);
    while received < 2_000_000 {
        while sent < 2_000_000
            && let Ok(length) = net.write(client, &[0; 50_000])
        {
            sent += length;
        }
        wait(&mut net, server, Ready::READABLE);
        received += net.read(server, &mut [0; 100_000]).unwrap();
    }
    let time = net.now() - begin;
    assert!((2 * SECOND..22 * SECOND / 10).contains(&time), "{time}");
}

#[test]
fn syns_into_a_partition_time_out_after_127_seconds() {
    let (mut net, a, b) = two_hosts();
    listen(&mut net, b, "10.0.0.2:80");
    net.partition(&[a], &[b]);
    let client = net.tcp_socket(a, false);
    assert_eq!(
        number(net.connect(client, at("10.0.0.2:80"))),
        libc::EINPROGRESS
    );
    assert_eq!(wait(&mut net, client, Ready::ERROR), 127 * SECOND);
    assert_eq!(
        number(net.connect(client, at("10.0.0.2:80"))),
        libc::ETIMEDOUT
    );
    assert_eq!(net.next_event(), None);
}

#[test]
fn data_into_a_partition_times_out_and_heals_before() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.partition_one_way(&[a], &[b]);
    net.write(client, b"lost").unwrap();
    run(&mut net, 100 * SECOND);
    assert_eq!(number(net.read(server, &mut [0; 9])), libc::EAGAIN);
    net.heal();
    wait(&mut net, server, Ready::READABLE);
    assert_eq!(net.read(server, &mut [0; 9]).unwrap(), 4);

    run(&mut net, SECOND);
    net.partition_one_way(&[b], &[a]);
    let begin = net.now();
    net.write(client, b"heard, but not acknowledged").unwrap();
    let time = wait(&mut net, client, Ready::ERROR) - begin;
    assert!((924 * SECOND..1_100 * SECOND).contains(&time), "{time}");
    assert_eq!(number(net.read(client, &mut [0; 9])), libc::ETIMEDOUT);
    assert_eq!(number(net.write(client, b"x")), libc::EPIPE);
    assert_eq!(net.read(server, &mut [0; 99]).unwrap(), 27);
}

#[test]
fn keepalive_finds_a_crashed_peer_and_spares_a_live_one() {
    let (mut net, a, b) = two_hosts();
    let (client, _server) = connection(&mut net, a, b);
    let times = KeepAlive {
        idle: 10 * SECOND,
        interval: 2 * SECOND,
        retries: 3,
    };
    net.set_keepalive(client, Some(times)).unwrap();
    run(&mut net, 1_000 * SECOND);
    assert_eq!(net.readiness(client), Ready::WRITABLE);
    net.crash(b);
    let time = wait(&mut net, client, Ready::ERROR) - 1_000 * SECOND;
    assert!((6 * SECOND..17 * SECOND).contains(&time), "{time}");
    assert_eq!(number(net.read(client, &mut [0; 9])), libc::ETIMEDOUT);
}

#[test]
fn a_crash_is_silent_and_its_restart_answers_with_a_reset() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.take_news();
    net.crash(b);
    run(&mut net, 3_600 * SECOND);
    assert_eq!(net.take_news(), []);
    assert_eq!(number(net.read(server, &mut [0; 9])), libc::EBADF);
    net.restart(b);
    net.write(client, b"are you there?").unwrap();
    wait(&mut net, client, Ready::ERROR);
    assert_eq!(number(net.read(client, &mut [0; 9])), libc::ECONNRESET);
    listen(&mut net, b, "10.0.0.2:80");
}

#[test]
#[should_panic(expected = "call restart before its next socket")]
fn a_crashed_host_has_no_sockets() {
    let (mut net, a, _) = two_hosts();
    net.crash(a);
    net.udp_socket(a, false);
}

#[test]
fn held_packets_wait_and_arrive_in_order() {
    let (mut net, a, b) = two_hosts();
    let (from, to) = datagrams(&mut net, a, b);
    net.send_to(from, b"0", at("10.0.0.2:53")).unwrap(); // on its way when the hold begins
    net.hold(&[a], &[b]);
    net.send_to(from, b"1", at("10.0.0.2:53")).unwrap();
    net.send_to(from, b"2", at("10.0.0.2:53")).unwrap();
    run(&mut net, 10 * SECOND);
    assert_eq!(net.readiness(to), Ready::WRITABLE);
    net.release(&[a], &[b]);
    run(&mut net, SECOND);
    let mut all = Vec::new();
    let mut byte = [0];
    while net.recv(to, &mut byte).is_ok() {
        all.push(byte[0]);
    }
    all.sort_unstable(); // The one that was on its way joins the others behind them.
    assert_eq!(all, *b"012");
}

#[test]
fn corruption_of_a_stream_is_a_reset() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.set_link(
        a,
        b,
        Link {
            corrupt_ppm: 300_000,
            ..Link::default()
        },
    );
    let data: Vec<u8> = (0..200_000_u32).map(|n| (n ^ n >> 8) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let error = loop {
        if let Ok(length) = net.write(client, &data[sent..]) {
            sent += length;
        }
        wait(&mut net, server, Ready::READABLE);
        let mut buffer = [0; 4_096];
        match net.read(server, &mut buffer) {
            Ok(length) => received.extend(&buffer[..length]),
            error => break number(error),
        }
    };
    assert_eq!(error, libc::ECONNRESET);
    assert!(!received.is_empty() && data.starts_with(&received));
    wait(&mut net, client, Ready::ERROR);
}

#[test]
fn a_closed_window_opens_although_its_news_is_lost() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    while net.write(client, &[1; 100_000]).is_ok() {
        run(&mut net, SECOND);
    }
    net.take_news();
    net.partition_one_way(&[b], &[a]);
    let mut total = 0;
    while let Ok(length) = net.read(server, &mut [0; 1_000]) {
        total += length;
        run(&mut net, MILLISECOND);
    }
    assert!(total > 100_000, "{total}");
    net.heal();
    wait(&mut net, client, Ready::WRITABLE);
    wait(&mut net, server, Ready::READABLE);
}

#[test]
fn news_are_edges_in_a_fixed_order() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.take_news();
    net.write(client, b"one").unwrap();
    run(&mut net, SECOND);
    assert_eq!(net.take_news(), [(server, Ready::READABLE)]);
    assert_eq!(net.take_news(), []);
    net.write(client, b"two").unwrap();
    net.write(server, b"three").unwrap();
    run(&mut net, SECOND);
    assert_eq!(
        net.take_news(),
        [(server, Ready::READABLE), (client, Ready::READABLE)]
    );
    net.close(client).unwrap();
    run(&mut net, SECOND);
    let [(id, ready)] = net.take_news()[..] else {
        panic!("one socket is left")
    };
    assert!(
        id == server && ready.contains(Ready::READ_CLOSED | Ready::ERROR),
        "{ready:?}"
    );
}

#[test]
fn a_closed_socket_is_forgotten_in_time() {
    let (mut net, a, b) = two_hosts();
    let (client, server) = connection(&mut net, a, b);
    net.close(client).unwrap();
    run(&mut net, SECOND);
    assert!(
        net.next_event().is_some_and(|at| at > 59 * SECOND),
        "the end of FIN_WAIT2"
    );
    run(&mut net, 60 * SECOND);
    net.write(server, b"too late").unwrap();
    wait(&mut net, server, Ready::ERROR);
    assert_eq!(number(net.close(client)), libc::EBADF);
    assert_eq!(net.next_event(), None);
}

#[test]
fn a_full_receive_queue_drops_datagrams() {
    let (mut net, a, b) = two_hosts();
    let (from, to) = datagrams(&mut net, a, b);
    net.set_receive_buffer_size(to, 5_000).unwrap();
    for _ in 0..20 {
        net.send_to(from, &[0; 1_000], at("10.0.0.2:53")).unwrap();
    }
    run(&mut net, SECOND);
    let received = (0..20)
        .filter(|_| net.recv(to, &mut [0; 9]).is_ok())
        .count();
    assert_eq!(received, 5, "1768 of 10000 for each");
}

#[test]
fn ephemeral_ports_run_out() {
    let (mut net, a, _) = two_hosts();
    listen(&mut net, a, "10.0.0.1:80");
    let mut clients = Vec::new();
    let error = loop {
        let client = net.tcp_socket(a, false);
        let error = number(net.connect(client, at("10.0.0.1:80")));
        if error != libc::EINPROGRESS {
            break error;
        }
        clients.push(client);
    };
    assert_eq!(
        (error, clients.len()),
        (libc::EADDRNOTAVAIL, 60_999 - 32_768 + 1)
    );
    let other = net.tcp_socket(a, false);
    assert_eq!(
        number(net.connect(other, at("10.0.0.1:81"))),
        libc::EINPROGRESS
    );
}

#[test]
fn addresses_that_nobody_has() {
    let (mut net, a, _) = two_hosts();
    let (tcp, udp) = (net.tcp_socket(a, false), net.udp_socket(a, false));
    let nobody = at("10.0.0.9:80");
    assert_eq!(number(net.connect(tcp, nobody)), libc::EINPROGRESS);
    net.connect(udp, nobody).unwrap();
    net.send(udp, b"lost").unwrap();
    for socket in [net.tcp_socket(a, false), net.udp_socket(a, false)] {
        let far = net.connect(socket, at("11.0.0.9:80"));
        assert_eq!(number(far), libc::ENETUNREACH);
    }
    let v6 = net.tcp_socket(a, true);
    assert_eq!(
        number(net.connect(v6, at("[fd00::9]:80"))),
        libc::ENETUNREACH
    );
    assert!(net.lookup("nobody").is_empty());
    assert_eq!(net.lookup("a"), [at("10.0.0.1:0").ip()]);
}

#[test]
fn a_host_twice_says_what_to_do() {
    let (mut net, _, _) = two_hosts();
    let name = net.add_host("a", &[]).unwrap_err();
    assert!(
        name.is_name_taken() && name.to_string().contains("another name"),
        "{name}"
    );
    let addr = net
        .add_host("c", &["10.0.0.1".parse().unwrap()])
        .unwrap_err();
    assert!(
        addr.is_address_taken() && addr.to_string().contains("another address"),
        "{addr}"
    );
    let own = ["10.0.0.7".parse().unwrap(); 2];
    assert!(net.add_host("c", &own).unwrap_err().is_address_taken());
    let loopback = net
        .add_host("c", &["127.0.0.1".parse().unwrap()])
        .unwrap_err();
    assert!(
        loopback.to_string().contains("cannot be the address"),
        "{loopback}"
    );
    net.add_host("c", &["10.0.0.7".parse().unwrap()]).unwrap();
}

#[test]
fn a_datagram_is_lost_with_any_of_its_fragments() {
    let (mut net, a, b) = two_hosts();
    let link = Link {
        loss_ppm: 200_000,
        ..Link::default()
    };
    net.set_link(a, b, link);
    let (from, to) = datagrams(&mut net, a, b);
    let mut came = 0;
    for _ in 0..1_000 {
        net.send_to(from, &[0; 5_000], at("10.0.0.2:53")).unwrap();
        run(&mut net, MILLISECOND);
        came += u32::from(net.recv(to, &mut [0; 5_000]).is_ok());
    }
    // It has four, and 0.8 to the fourth is 0.41.
    assert!((340..480).contains(&came), "{came}");
}

#[test]
fn what_is_under_way_when_a_partition_begins_is_lost() {
    let (mut net, a, b) = two_hosts();
    let (from, to) = datagrams(&mut net, a, b);
    net.send_to(from, b"lost", at("10.0.0.2:53")).unwrap();
    run(&mut net, 50_000);
    net.partition(&[a], &[b]);
    run(&mut net, SECOND);
    net.heal();
    run(&mut net, SECOND);
    assert_eq!(number(net.recv(to, &mut [0; 4])), libc::EAGAIN);
}

#[test]
fn a_peer_of_any_port_is_one_of_its_address() {
    let (mut net, a, b) = two_hosts();
    let c = net.add_host("c", &["10.0.0.3".parse().unwrap()]).unwrap();
    let socket = net.udp_socket(b, false);
    net.bind(socket, at("10.0.0.2:53")).unwrap();
    net.connect(socket, at("10.0.0.1:0")).unwrap();
    for (host, byte) in [(c, b"c"), (a, b"a")] {
        let from = net.udp_socket(host, false);
        net.send_to(from, byte, at("10.0.0.2:53")).unwrap();
    }
    run(&mut net, SECOND);
    let mut byte = [0];
    assert_eq!(net.recv(socket, &mut byte).unwrap(), 1);
    assert_eq!(&byte, b"a");
    assert_eq!(number(net.recv(socket, &mut byte)), libc::EAGAIN);
}

#[test]
fn jitter_is_any_time_up_to_what_is_told() {
    let (mut net, a, b) = two_hosts();
    let link = Link {
        jitter: MILLISECOND,
        ..Link::default()
    };
    net.set_link(a, b, link);
    let (from, to) = datagrams(&mut net, a, b);
    let mut times = Vec::new();
    for _ in 0..200 {
        let sent = net.now();
        net.send_to(from, b"x", at("10.0.0.2:53")).unwrap();
        times.push(wait(&mut net, to, Ready::READABLE) - sent - 100_000);
        net.recv(to, &mut [0; 1]).unwrap();
    }
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*least < MILLISECOND / 20, "{least}");
    assert!(
        (MILLISECOND * 19 / 20..=MILLISECOND).contains(most),
        "{most}"
    );
}

#[test]
fn a_receive_queue_has_the_size_that_it_is_told() {
    let (mut net, a, b) = two_hosts();
    let (from, to) = datagrams(&mut net, a, b);
    // Linux doubles it. A datagram is charged with some more bytes than it has.
    net.set_receive_buffer_size(to, 10_000).unwrap();
    for _ in 0..100 {
        net.send_to(from, &[0; 232], at("10.0.0.2:53")).unwrap();
    }
    run(&mut net, SECOND);
    let count = (0..100)
        .filter(|_| net.recv(to, &mut [0; 232]).is_ok())
        .count();
    assert_eq!(count, 20);
}

/// Fails if the lowest bits of a sender's port do not matter.
#[test]
fn two_sockets_that_share_a_port_share_the_senders() {
    let (mut net, a, b) = two_hosts();
    let sockets = [(); 2].map(|()| {
        let socket = net.udp_socket(b, false);
        net.set_reuse_port(socket, true).unwrap();
        net.bind(socket, at("10.0.0.2:53")).unwrap();
        socket
    });
    let mut counts = [0; 2];
    for _ in 0..40 {
        let from = net.udp_socket(a, false);
        net.send_to(from, b"x", at("10.0.0.2:53")).unwrap();
        run(&mut net, MILLISECOND);
        for (socket, count) in sockets.into_iter().zip(&mut counts) {
            *count += u32::from(net.recv(socket, &mut [0]).is_ok());
        }
    }
    assert!(counts[0] > 5 && counts[1] > 5, "{counts:?}");
    assert_eq!(counts[0] + counts[1], 40);
}
