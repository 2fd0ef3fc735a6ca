//! Random programs over bad links: a stream is whole or reset, nothing hangs, and the same seed
//! gives the same run.

use std::net::{Shutdown, SocketAddr};

use proptest::prelude::*;
use ws_sim::{
    network::{HostId, Latency, Link, Network, Ready, SocketId},
    rng::Rng,
};

const SECOND: u64 = 1_000_000_000;

fn server_addr() -> SocketAddr {
    "10.0.0.2:80".parse().unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(bool, usize),
    Read(bool, usize),
    Peek(bool),
    Shutdown(bool),
    Wait(u64),
    Partition(bool),
    Heal,
    Hold,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0..200_000_usize).prop_map(|(end, n)| Step::Write(end, n)),
        6 => (any::<bool>(), 0..100_000_usize).prop_map(|(end, n)| Step::Read(end, n)),
        1 => any::<bool>().prop_map(Step::Peek),
        1 => any::<bool>().prop_map(Step::Shutdown),
        6 => (0..3 * SECOND).prop_map(Step::Wait),
        3 => (0..3_000_000_u64).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Partition),
        1 => Just(Step::Heal),
        1 => Just(Step::Hold),
        1 => Just(Step::Release),
    ]
}

fn link() -> impl Strategy<Value = Link> {
    let latency = prop_oneof![
        (0..50_000_000_u64).prop_map(Latency::Constant),
        (0..1_000_000_u64).prop_map(|min| Latency::Uniform { min, max: 50 * min }),
        (0..1_000_000_u64).prop_map(|mean| Latency::Exponential { min: 1_000, mean }),
    ];
    let bandwidth = prop_oneof![Just(None), (100_000..10_000_000_u64).prop_map(Some)];
    (
        latency,
        0..5_000_000_u64,
        bandwidth,
        prop_oneof![Just(0), 0..300_000_u32],
    )
        .prop_map(|(latency, jitter, bandwidth, loss_ppm)| Link {
            latency,
            jitter,
            bandwidth,
            loss_ppm,
            ..Link::default()
        })
}

/// One end of a connection, and what went through it.
struct End {
    socket: SocketId,
    written: Vec<u8>,
    read: Vec<u8>,
    shut: bool,
    ended: bool,
    reset: bool,
}

impl End {
    fn new(socket: SocketId) -> Self {
        Self {
            socket,
            written: Vec::new(),
            read: Vec::new(),
            shut: false,
            ended: false,
            reset: false,
        }
    }

    fn write(&mut self, net: &mut Network, length: usize) {
        let start = self.written.len();
        let data: Vec<u8> = (start..start + length)
            .map(|n| (n ^ n >> 8) as u8)
            .collect();
        match net.write(self.socket, &data) {
            Ok(taken) => self.written.extend(&data[..taken]),
            Err(error) => self.failed(&error),
        }
    }

    fn read(&mut self, net: &mut Network, length: usize) -> usize {
        let mut buffer = vec![0; length];
        match net.read(self.socket, &mut buffer) {
            Ok(0) if length > 0 => self.ended = true,
            Ok(taken) => {
                self.read.extend(&buffer[..taken]);
                return taken;
            }
            Err(error) => self.failed(&error),
        }
        0
    }

    fn failed(&mut self, error: &std::io::Error) {
        match error.raw_os_error().unwrap() {
            libc::EAGAIN => {}
            libc::EPIPE if self.shut || self.ended => {}
            libc::ECONNRESET | libc::ETIMEDOUT | libc::EPIPE => self.reset = true,
            _ => panic!("{error}"),
        }
    }

    fn shutdown(&mut self, net: &mut Network) {
        self.shut = true;
        let _ = net.shutdown(self.socket, Shutdown::Write);
    }
}

/// Two hosts, and a connection between them over good links.
fn connected(seed: u64) -> (Network, [HostId; 2], [End; 2]) {
    let mut net = Network::new(seed);
    let a = net.add_host("a", &["10.0.0.1".parse().unwrap()]).unwrap();
    let b = net.add_host("b", &["10.0.0.2".parse().unwrap()]).unwrap();
    let listener = net.tcp_socket(b, false);
    net.bind(listener, server_addr()).unwrap();
    net.listen(listener, 1).unwrap();
    let client = net.tcp_socket(a, false);
    net.connect(client, server_addr()).unwrap_err();
    net.advance_to(SECOND);
    let (server, _) = net.accept(listener).unwrap();
    net.close(listener).unwrap();
    (net, [a, b], [End::new(client), End::new(server)])
}

fn run_step(net: &mut Network, [a, b]: [HostId; 2], ends: &mut [End; 2], step: Step) {
    match step {
        Step::Write(end, length) => ends[usize::from(end)].write(net, length),
        Step::Read(end, length) => drop(ends[usize::from(end)].read(net, length)),
        Step::Peek(end) => drop(net.peek(ends[usize::from(end)].socket, &mut [0; 10])),
        Step::Shutdown(end) => ends[usize::from(end)].shutdown(net),
        Step::Wait(time) => net.advance_to(net.now() + time),
        Step::Partition(true) => net.partition(&[a], &[b]),
        Step::Partition(false) => net.partition_one_way(&[a], &[b]),
        Step::Heal => net.heal(),
        Step::Hold => net.hold(&[a], &[b]),
        Step::Release => net.release(&[a], &[b]),
    }
}

/// Tells whether both ends have ended, or one was reset. The RST may be lost, and then the other
/// end waits for ever if it has nothing to send: so it is with TCP.
fn is_over(ends: &[End; 2]) -> bool {
    ends.iter().all(|end| end.ended) || ends.iter().any(|end| end.reset)
}

/// Ends all faults and both streams, and reads until the end of both.
fn finish(net: &mut Network, [a, b]: [HostId; 2], ends: &mut [End; 2]) {
    net.heal();
    net.release(&[a], &[b]);
    ends.iter_mut().for_each(|end| end.shutdown(net));
    let limit = net.now() + 3_600 * SECOND;
    while !is_over(ends) {
        let moved: usize = ends.iter_mut().map(|end| end.read(net, 50_000)).sum();
        if moved == 0 && !is_over(ends) {
            let Some(next) = net.next_event() else {
                // One end has read all, was reset after that, and its RST was lost.
                let gone = ends
                    .iter_mut()
                    .find(|end| net.peer_addr(end.socket).is_err());
                gone.expect("a stream that has not ended has an event")
                    .reset = true;
                return;
            };
            assert!(
                next < limit,
                "hangs: {:?}",
                ends.each_ref().map(|end| end.read.len())
            );
            net.advance_to(next);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn stream_is_whole_or_reset_and_never_hangs(
        seed: u64,
        there in link(),
        back in link(),
        corrupt in prop_oneof![4 => Just(0), 1 => 0..100_000_u32],
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let (mut net, hosts, mut ends) = connected(seed);
        net.set_link(hosts[0], hosts[1], Link { corrupt_ppm: corrupt, ..there });
        net.set_link(hosts[1], hosts[0], back);
        for step in steps {
            run_step(&mut net, hosts, &mut ends, step);
        }
        finish(&mut net, hosts, &mut ends);
        let [a, b] = &ends;
        for (from, to) in [(a, b), (b, a)] {
            prop_assert!(from.written.starts_with(&to.read), "wrong bytes");
            prop_assert!(to.reset || from.reset || to.read == from.written, "ended too soon");
            // No partition here lasts the 15 minutes after which a connection is given up.
            prop_assert!(corrupt > 0 || !to.reset, "reset without a cause");
        }
    }
}

/// A random program of three hosts with TCP and UDP sockets; gives a hash of all that happened.
fn random_program(seed: u64, program: u64) -> (u64, u64) {
    let mut net = Network::new(seed);
    let mut choose = Rng::new(program);
    let hosts: Vec<HostId> = (1..=3)
        .map(|n| {
            let addrs = [format!("10.0.0.{n}"), format!("fd00::{n}")];
            net.add_host(&format!("h{n}"), &addrs.map(|a| a.parse().unwrap()))
                .unwrap()
        })
        .collect();
    net.set_default_link(Link {
        latency: Latency::Exponential {
            min: 10_000,
            mean: 300_000,
        },
        jitter: 1_000,
        loss_ppm: 50_000,
        duplicate_ppm: 50_000,
        reorder_ppm: 50_000,
        corrupt_ppm: 5_000,
        ..Link::default()
    });
    let mut sockets = Vec::new();
    let mut answers = 0_u64;
    let mut buffer = [0; 5_000];
    for _ in 0..2_000 {
        let host = hosts[choose.below(3) as usize];
        let to = format!("10.0.0.{}:{}", 1 + choose.below(3), 80 + choose.below(3));
        let to: SocketAddr = to.parse().unwrap();
        let size = choose.below(5_000) as usize;
        if sockets.len() < 6 || choose.chance(100_000) {
            let (v6, udp) = (choose.chance(200_000), choose.chance(300_000));
            sockets.push(if udp {
                net.udp_socket(host, v6)
            } else {
                net.tcp_socket(host, v6)
            });
        }
        let index = choose.below(sockets.len() as u64) as usize;
        let socket = sockets[index];
        let number = |error: std::io::Error| error.raw_os_error().unwrap() as usize + 1_000_000;
        let answer = match choose.below(14) {
            0 | 1 => net.bind(socket, to).map(|()| 0),
            2 => net.listen(socket, 2).map(|()| 0),
            3 | 4 => net.connect(socket, to).map(|()| 0),
            5 | 6 => net.accept(socket).map(|(accepted, peer)| {
                sockets.push(accepted);
                usize::from(peer.port())
            }),
            7 | 8 => net.read(socket, &mut buffer[..size]),
            9 | 10 => net.write(socket, &buffer[..size]),
            11 => net.send_to(socket, &buffer[..size], to),
            12 if choose.chance(100_000) => {
                net.crash(host);
                net.restart(host);
                Ok(7)
            }
            12 => net.shutdown(socket, Shutdown::Write).map(|()| 0),
            _ => net.close(sockets.swap_remove(index)).map(|()| 0),
        };
        answers = answers.rotate_left(7) ^ answer.unwrap_or_else(number) as u64;
        net.advance_to(net.now() + choose.below(2_000_000));
        for (_, ready) in net.take_news() {
            answers = answers.rotate_left(7) ^ u64::from(ready.contains(Ready::READABLE));
        }
    }
    net.advance_to(net.now() + 10_000 * SECOND);
    (net.digest(), answers)
}

#[test]
fn same_seed_same_run() {
    for program in 0..20 {
        let first = random_program(1, program);
        assert_eq!(first, random_program(1, program));
        assert_ne!(first, random_program(2, program));
    }
}
