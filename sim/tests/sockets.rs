//! Random programs of socket calls see the same on Linux and in a simulated host.
//!
//! A seed draws a program over TCP, UDP and Unix sockets. It runs once on the system's loopback and
//! once in a host. After each call nothing is under way any more, so what the calls answer and what
//! the sockets are ready for does not depend on time: both transcripts have to be equal. A program
//! that differs is made as short as it can be, and shown.
//!
//! `WS_SOCKET_SEEDS=1000..5000 cargo test -p ws-sim --test sockets` runs other seeds. A difference
//! that was mended has a program of its own, in `sockets/fixed.rs`.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "sockets/ask.rs"]
mod ask;
#[path = "sockets/calls.rs"]
mod calls;
#[path = "sockets/fixed.rs"]
mod fixed;
#[path = "sockets/machine.rs"]
mod machine;

use std::{
    cell::RefCell,
    env, fs, io, mem,
    net::{Ipv4Addr, Shutdown, TcpListener, UdpSocket},
    ops::Range,
    rc::Rc,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use calls::Call;
use machine::{Machine, Place};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestError, TestRng, TestRunner},
};
use socket2::SockRef;
use ws_sim::Sim;

/// Calls of a random program at most.
const LONGEST: usize = 50;

/// A place of its own for each program: an address of the loopback, and a folder.
fn place() -> Place {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    let [_, _, high, low] = process.to_be_bytes();
    Place {
        ip: Ipv4Addr::new(127, high | 0x80, low, 1 + (number % 250) as u8),
        port: 10_000 + (number / 250 % 2_000 * 10) as u16,
        folder: env::temp_dir().join(format!("ws-sim-{process}-sockets-{number}")),
    }
}

/// Waits until no packet is under way on the loopback.
///
/// The thread stays on one CPU, which handles the packets of its loopback in their order. So when a
/// datagram comes that was sent last, all before it were handled. What these have sent in turn is
/// before the next datagram.
struct Barrier(UdpSocket);

impl Barrier {
    /// Longest chain of packets, where each is sent when the one before it comes.
    const ROUNDS: usize = 6;

    fn new() -> Self {
        // SAFETY: it is plain data, which the calls read and write.
        unsafe {
            let mut set: libc::cpu_set_t = mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
            let bound = libc::sched_setaffinity(0, mem::size_of_val(&set), &set);
            assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        Self(socket)
    }

    fn wait(&self) {
        for _ in 0..Self::ROUNDS {
            self.0.send(b"x").unwrap();
            self.0.recv(&mut [0]).unwrap();
        }
    }
}

/// Whether this Linux lets no socket of TCP both listen and connect, one after the other
/// (`EINVAL`). Some builds of Linux 6.18 refuse that; others, and the simulated kernel, allow it.
fn is_one_role() -> bool {
    static IS_ONE_ROLE: OnceLock<bool> = OnceLock::new();
    *IS_ONE_ROLE.get_or_init(|| {
        let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let one = SockRef::from(&one);
        one.shutdown(Shutdown::Read).unwrap();
        let connected = one.connect(&other.local_addr().unwrap().into());
        connected.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    })
}

fn on_the_system(calls: &[Call], place: Place, is_one_role: bool) -> Vec<String> {
    let calls = calls.to_vec();
    // A thread of its own, which may be bound to a CPU.
    let run = thread::spawn(move || {
        fs::create_dir_all(&place.folder).unwrap();
        let barrier = Barrier::new();
        let mut machine = Machine::new(place.clone(), is_one_role);
        futures::executor::block_on(machine.run(&calls, async || barrier.wait()));
        fs::remove_dir_all(&place.folder).unwrap();
        machine.lines
    });
    run.join().unwrap()
}

fn in_a_host(calls: &[Call], place: Place, is_one_role: bool) -> Vec<String> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (sees, calls) = (seen.clone(), calls.to_vec());
    let sim = Sim::new(1);
    sim.client("host", async move {
        fs::create_dir_all(&place.folder).unwrap();
        let mut machine = Machine::new(place, is_one_role);
        machine
            .run(&calls, async || {
                ws::time::sleep(Duration::from_millis(2)).await
            })
            .await;
        *sees.borrow_mut() = machine.lines;
    });
    sim.try_run().unwrap();
    seen.take()
}

/// The first difference, with what led to it. None if both are the same.
fn difference(calls: &[Call]) -> Option<String> {
    let place = place();
    let is_one_role = is_one_role();
    let real = on_the_system(calls, place.clone(), is_one_role);
    let simulated = in_a_host(calls, place, is_one_role);
    let same = real
        .iter()
        .zip(&simulated)
        .take_while(|(a, b)| a == b)
        .count();
    if same == real.len() && same == simulated.len() {
        return None;
    }
    let none = String::new();
    let line = |lines: &[String]| lines.get(same).unwrap_or(&none).clone();
    Some(format!(
        "{}\nLinux:     {}\nsimulated: {}\n",
        real[..same].join("\n"),
        line(&real),
        line(&simulated)
    ))
}

/// Runs the program of a seed. A failure is a short program that differs.
fn run(seed: u64) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = ProptestConfig {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let programs = prop::collection::vec(calls::call(), 1..LONGEST);
    let ran =
        TestRunner::new_with_rng(config, rng).run(&programs, |calls| match difference(&calls) {
            None => Ok(()),
            Some(text) => Err(TestCaseError::fail(text)),
        });
    ran.map_err(|error| match error {
        TestError::Fail(text, calls) => format!("seed {seed}: {calls:?}\n{text}"),
        TestError::Abort(text) => panic!("{text}"),
    })
}

fn seeds() -> Range<u64> {
    let Ok(text) = env::var("WS_SOCKET_SEEDS") else {
        return 0..300;
    };
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (from < to).then_some(from..to)
    });
    parsed.unwrap_or_else(|| panic!("WS_SOCKET_SEEDS is {text:?}, and not as in 1000..5000"))
}

#[test]
fn random_programs_see_the_same() {
    let failed: Vec<String> = seeds().filter_map(|seed| run(seed).err()).take(3).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Makes a test of each program.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let found = difference(&fixed::$name());
                assert!(found.is_none(), "{}", found.unwrap());
            }
        )*
    };
}

tests! {
    disconnects datagrams_of_a_disconnected_end families options_that_are_kept
    connected_to_itself ports_after_the_end listener_after_an_error both_families_of_udp
    nowhere_is_here abstract_names_of_each_kind nothing_to_do lengths_of_datagrams
    shut_down_too_early datagrams_in_parts ports_that_are_shared
}
