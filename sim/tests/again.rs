//! A run is a function of its seed alone: also the second and the tenth simulation of a thread, and
//! those of several threads at the same time.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    collections::{HashMap, HashSet, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime},
};

use ws::{net::UdpSocket, time::sleep};
use ws_sim::{
    Plan, Sim,
    network::{Latency, Link},
};

/// A program that tells all that a program can draw by chance: in the digest, and as text.
fn run(seed: u64) -> (u64, u64, String) {
    let sim = Sim::new(seed);
    let latency = Latency::Uniform {
        min: 1_000,
        max: 9_000_000,
    };
    sim.set_default_link(Link {
        latency,
        loss_ppm: 100_000,
        ..Link::default()
    });
    // A map of the test's own, from before the run.
    let before: HashSet<u32> = (0..50).collect();
    let text = Arc::new(Mutex::new(format!("{before:?}")));
    for name in ["n0", "n1"] {
        sim.host(name, move || async move {
            let socket = UdpSocket::bind("0.0.0.0:7").await?;
            let mut bytes = [0; 9_000];
            loop {
                let (len, from) = socket.recv_from(&mut bytes).await?;
                socket.send_to(&bytes[..len], from).await?;
            }
            #[expect(unreachable_code, reason = "it gives the type")]
            std::io::Result::Ok(())
        });
    }
    let told = text.clone();
    sim.client("client", async move {
        let socket = UdpSocket::bind("0.0.0.0:7").await.unwrap();
        for n in 0..20 {
            let map: HashMap<u32, ()> = (0..30).map(|n| (n, ())).collect();
            let order: Vec<_> = map.keys().collect();
            let hash = RandomState::new().hash_one(n);
            let fast = fastrand::u64(..);
            let (now, calendar) = (Instant::now(), SystemTime::now());
            let id = ws::spawn(async { ws::task::id() }).await.unwrap();
            let said = format!("{order:?} {hash} {fast} {now:?} {calendar:?} {id:?}\n");
            for host in ["n0", "n1"] {
                socket.send_to(said.as_bytes(), (host, 7)).await.unwrap();
            }
            told.lock().unwrap().push_str(&said);
            sleep(Duration::from_millis(10 + fastrand::u64(..300))).await;
        }
    });
    sim.faults(Plan::new().swarm().every(Duration::from_millis(500)));
    sim.try_run().unwrap();
    let text = text.lock().unwrap().clone();
    (sim.digest(), sim.events(), text)
}

fn on_a_fresh_thread(seed: u64) -> (u64, u64, String) {
    thread::spawn(move || run(seed)).join().unwrap()
}

#[test]
fn the_tenth_simulation_of_a_thread_is_as_the_first() {
    let firsts: Vec<_> = (0..3).map(on_a_fresh_thread).collect();
    assert_ne!(firsts[0], firsts[1]);
    // Maps of the thread's own, and other simulations between.
    let maps: Vec<HashSet<u32>> = (0..5).map(|_| (0..9).collect()).collect();
    for _ in 0..4 {
        for seed in 0..3 {
            assert_eq!(run(seed), firsts[seed as usize], "seed {seed}");
        }
    }
    drop(maps);
}

#[test]
fn threads_at_the_same_time_change_nothing() {
    let firsts: Vec<_> = (0..4).map(on_a_fresh_thread).collect();
    let again: Vec<_> = (0..4)
        .map(|seed| thread::spawn(move || (run(seed), run(seed))))
        .collect();
    for (thread, first) in again.into_iter().zip(firsts) {
        let (one, two) = thread.join().unwrap();
        assert_eq!((&one, &two), (&first, &first));
    }
}

#[test]
fn a_simulation_that_is_built_before_another_one_runs_as_if_alone() {
    let first = on_a_fresh_thread(2);
    let _other = Sim::new(5);
    assert_eq!(run(2), first);
}

/// What a check sees: the numbers of descriptors, and what the test draws where no host runs.
#[test]
fn a_seed_of_many_is_as_alone() {
    let told = |seeds: std::ops::Range<u64>| {
        let told = Mutex::new(Vec::new());
        ws_sim::check(seeds, |sim| {
            let of_body = RandomState::new().hash_one(0) ^ random();
            let text = Arc::new(Mutex::new(format!("{} {of_body}", sim.seed())));
            let (in_host, later) = (text.clone(), text.clone());
            sim.after(Duration::from_millis(1), move |_| {
                *later.lock().unwrap() += &format!(" {}", random());
            });
            sim.client("client", async move {
                let socket = std::net::UdpSocket::bind("0.0.0.0:7").unwrap();
                sleep(Duration::from_millis(2)).await;
                *in_host.lock().unwrap() += &format!(" {socket:?} {}", random());
            });
            sim.try_run().unwrap();
            told.lock().unwrap().push(text.lock().unwrap().clone());
        });
        let mut told = told.into_inner().unwrap();
        told.sort();
        told
    };
    let many = told(10..20);
    assert_eq!(many, told(10..20));
    assert_eq!(many[5], told(15..16)[0]);
    assert_ne!(many[5], many[6]);
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the pointer is valid for a write of so many bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 8);
    u64::from_le_bytes(bytes)
}
