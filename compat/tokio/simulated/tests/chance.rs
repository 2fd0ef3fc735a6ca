//! What a program draws by chance follows from the seed, and what it may do in one poll has a
//! limit.

use std::{
    collections::{HashMap, hash_map::RandomState},
    future::ready,
    hash::BuildHasher,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::{LocalSet, spawn_local},
    time::{sleep, timeout},
};
use tokio_simulated::twice;
use ws_sim::Sim;

/// A client that sends a text to a server, so that the digest has it.
fn tells<F>(sim: &Sim, text: impl FnOnce() -> F + 'static)
where
    F: Future<Output = String> + 'static,
{
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:80").await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        }
        #[expect(unreachable_code, reason = "it gives the type")]
        io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:80").await?;
        stream.write_all(text().await.as_bytes()).await?;
        stream.shutdown().await
    });
}

#[test]
fn the_branch_that_is_polled_first_follows_from_the_seed() {
    twice(0..50, |sim| {
        tells(sim, || async {
            let mut firsts = String::new();
            for _ in 0..100 {
                firsts.push(tokio::select! {
                    _ = ready(()) => '1',
                    _ = ready(()) => '2',
                    _ = ready(()) => '3',
                });
            }
            assert!(['1', '2', '3'].iter().all(|&n| firsts.contains(n)));
            firsts
        });
    });
}

#[test]
fn the_tenth_simulation_of_a_thread_is_as_the_first() {
    let run = |seed| {
        let sim = Sim::new(seed);
        tells(&sim, || async {
            let mut firsts = String::new();
            for n in 0..100 {
                let map: HashMap<u32, ()> = (0..9).map(|n| (n, ())).collect();
                firsts += &tokio::select! {
                    _ = ready(()) => format!("1 {:?}", map.keys()),
                    _ = ready(()) => format!("2 {n}"),
                    _ = ready(()) => format!("3 {:?}", RandomState::new().hash_one(n)),
                };
            }
            firsts
        });
        sim.try_run().unwrap();
        sim.digest()
    };
    let first = std::thread::spawn(move || run(7)).join().unwrap();
    for seed in 0..10 {
        run(seed);
    }
    assert_eq!(run(7), first);
}

#[test]
fn random_numbers_of_libraries_follow_from_the_seed() {
    twice(0..50, |sim| {
        tells(sim, || async {
            let map: HashMap<u32, ()> = (0..100).map(|n| (n, ())).collect();
            let order: Vec<_> = map.keys().collect();
            let mut old = [0; 8];
            getrandom_02::getrandom(&mut old).unwrap();
            let mut new = [0; 8];
            getrandom_03::fill(&mut new).unwrap();
            let hash = RandomState::new().hash_one(1);
            let (now, calendar) = (Instant::now(), SystemTime::now());
            let fast = fastrand::u64(..);
            let id = tokio::spawn(async { tokio::task::id() }).await.unwrap();
            format!("{order:?} {old:?} {new:?} {hash} {now:?} {calendar:?} {fast} {id}")
        });
    });
}

#[test]
fn the_order_in_which_receivers_of_a_watch_are_woken_follows_from_the_seed() {
    twice(0..50, |sim| {
        tells(sim, || async {
            let (sender, receiver) = watch::channel(0);
            let woken = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..20)
                .map(|n| {
                    let (mut receiver, woken) = (receiver.clone(), woken.clone());
                    tokio::spawn(async move {
                        receiver.changed().await.unwrap();
                        woken.lock().unwrap().push(n);
                    })
                })
                .collect();
            sleep(Duration::from_millis(1)).await;
            sender.send(1).unwrap();
            for task in tasks {
                task.await.unwrap();
            }
            format!("{:?}", woken.lock().unwrap())
        });
    });
}

/// Without a budget the loop would not give way to the timeout.
#[test]
fn what_is_always_ready_gives_way() {
    twice(0..10, |sim| {
        tells(sim, || async {
            let (send, mut receive) = mpsc::unbounded_channel();
            let endless = async {
                loop {
                    send.send(()).unwrap();
                    receive.recv().await;
                    ws_sim_step().await;
                }
            };
            let ended = timeout(Duration::from_secs(1), endless).await;
            assert!(ended.is_err());
            format!("{ended:?}")
        });
    });
}

/// So that the clock moves in the loop: a blocking call of the program.
async fn ws_sim_step() {
    std::thread::sleep(Duration::from_millis(10));
}

#[test]
fn contexts_are_those_of_the_host() {
    twice(0..10, |sim| {
        tells(sim, || async {
            let handle = tokio::runtime::Handle::current();
            let blocking = tokio::task::spawn_blocking(|| {
                tokio::runtime::Handle::current().block_on(async { 1 })
            });
            let spawned = handle.spawn(async { tokio::task::try_id().is_some() });
            let local = LocalSet::new();
            let local = local.run_until(async { spawn_local(async { 2 }).await.unwrap() });
            let in_place = tokio::task::block_in_place(|| 3);
            let text = format!(
                "{} {} {} {in_place}",
                blocking.await.unwrap(),
                spawned.await.unwrap(),
                local.await,
            );
            assert_eq!(text, "1 true 2 3");
            text
        });
    });
}
