//! Control messages, as quinn asks for them: its own socket code runs on the kernel and in a host.
#![cfg(target_os = "linux")]

use std::{
    cell::RefCell,
    io::IoSliceMut,
    net::{IpAddr, SocketAddr, UdpSocket},
    rc::Rc,
    time::Duration,
};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use ws_sim::Sim;

struct End {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl End {
    fn new(ip: &str) -> Self {
        let ip: IpAddr = ip.parse().unwrap();
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        Self { socket, state }
    }

    fn addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn send(&self, to: SocketAddr, how: (Option<EcnCodepoint>, Option<IpAddr>, Option<usize>)) {
        let transmit = Transmit {
            destination: to,
            ecn: how.0,
            contents: b"0123456789",
            segment_size: how.2,
            src_ip: how.1,
        };
        self.state.send((&self.socket).into(), &transmit).unwrap();
    }

    /// What has arrived: length, stride, ECN, and the address that it was sent to.
    fn receive(&self, seen: &mut Vec<String>) {
        let mut buffers = vec![[0; 2048]; BATCH_SIZE];
        let mut slices: Vec<_> = buffers.iter_mut().map(|one| IoSliceMut::new(one)).collect();
        let mut metas = vec![RecvMeta::default(); BATCH_SIZE];
        while let Ok(count) = (self.state).recv((&self.socket).into(), &mut slices, &mut metas) {
            for meta in &metas[..count] {
                // The kernel may give segments together; here each is told on its own.
                for _ in 0..meta.len.div_ceil(meta.stride) {
                    let len = meta.len.min(meta.stride);
                    let (from, ecn, to) = (meta.addr.ip(), meta.ecn, meta.dst_ip);
                    seen.push(format!("{len} of {from} to {to:?}, {ecn:?}"));
                }
            }
        }
    }
}

async fn program(wait: impl AsyncFn()) -> Vec<String> {
    let mut seen = Vec::new();
    for (a, b) in [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "127.0.0.1"),
    ] {
        let (receiver, sender) = (End::new(a), End::new(b));
        let ip = match a {
            "0.0.0.0" | "::" => "127.0.0.1".parse().unwrap(),
            ip => ip.parse().unwrap(),
        };
        let to = SocketAddr::new(ip, receiver.addr().port());
        seen.push(format!(
            "more than one segment: {}",
            sender.state.max_gso_segments() > 1
        ));
        for ecn in [None, Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ce)] {
            sender.send(to, (ecn, None, None));
        }
        sender.send(to, (None, Some(ip), None));
        sender.send(to, (None, None, Some(5)));
        wait().await;
        receiver.receive(&mut seen);
    }
    seen
}

#[test]
fn quinns_sockets_see_the_same_on_both() {
    let runtime = ws::runtime::Runtime::new().unwrap();
    let real = runtime.block_on(program(async || ()));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = seen.clone();
    let sim = Sim::new(1);
    sim.client("host", async move {
        let wait = async || ws::time::sleep(Duration::from_millis(1)).await;
        *sees.borrow_mut() = program(wait).await;
    });
    sim.try_run().unwrap();
    assert!(real.len() > 20, "{real:?}");
    assert_eq!(
        seen.borrow().join("\n"),
        real.join("\n"),
        "simulated, and real"
    );
}
