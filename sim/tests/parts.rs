//! A run by parts: what is between them, and that they change nothing.
#![cfg(target_os = "linux")]

use std::{cell::Cell, future::pending, rc::Rc, time::Duration};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};
use ws_sim::{FaultKind, Order, Plan, Sim, millis, secs};

/// A server that echoes, and a client that asks it for ten seconds.
fn echoes(sim: &Sim) {
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        loop {
            let (mut peer, _) = listener.accept().await?;
            ws::spawn_local(async move {
                let mut byte = [0];
                while peer.read_exact(&mut byte).await.is_ok() {
                    let _ = peer.write_all(&byte).await;
                }
            });
        }
        #[allow(unreachable_code)]
        std::io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        for _ in 0..100 {
            stream.write_all(b"x").await?;
            stream.read_exact(&mut [0]).await?;
            sleep(millis(100)).await;
        }
        std::io::Result::Ok(())
    });
    let plan = Plan::new().only([FaultKind::Pause, FaultKind::SlowLink]);
    sim.faults(plan.lasts(millis(10), millis(300)));
}

/// Clients whose sleeps are as long as each other's, or nearly so, for ten seconds.
fn sleepers(sim: &Sim) {
    for name in ["a", "b", "c"] {
        sim.client(name, async {
            for i in 0..100 {
                sleep(millis(50 + i)).await;
                ws::task::yield_now().await;
            }
        });
    }
}

#[test]
fn parts_are_the_same_run_as_the_whole() {
    let orders = [Order::Pos, Order::Random, Order::Production];
    let set_ups: [fn(&Sim); 2] = [echoes, sleepers];
    for (order, set_up) in orders
        .into_iter()
        .flat_map(|it| set_ups.map(|set_up| (it, set_up)))
    {
        let make = || {
            let sim = Sim::builder().seed(3).order(order).build();
            set_up(&sim);
            sim
        };
        let whole = make();
        whole.try_run().unwrap();
        let parts = make();
        let mut run = parts.begin();
        let mut count = 0;
        while !run.advance(millis(70)).unwrap() {
            count += 1;
            assert_eq!(parts.elapsed(), count * millis(70));
        }
        assert!(count > 100, "{count}");
        let end = |sim: &Sim| (sim.elapsed(), sim.events(), sim.digest());
        assert_eq!(end(&parts), end(&whole), "{order:?}");
    }
}

#[test]
fn a_test_acts_between_parts() {
    let (sim, starts) = (Sim::new(1), Rc::new(Cell::new(0)));
    let counted = starts.clone();
    sim.host("server", move || {
        counted.set(counted.get() + 1);
        pending::<()>()
    });
    let mut run = sim.begin();
    // Without a client, and with nothing that could go on, the time passes.
    assert!(!run.advance(secs(5)).unwrap());
    assert_eq!((sim.elapsed(), starts.get()), (secs(5), 1));
    sim.restart("server");
    assert_eq!(starts.get(), 1, "between two steps");
    assert!(!run.advance(Duration::ZERO).unwrap());
    assert_eq!((sim.elapsed(), starts.get()), (secs(5), 2));
    sim.client("client", async { sleep(secs(3)).await });
    assert!(!run.advance(secs(2)).unwrap());
    assert!(run.advance(secs(60)).unwrap());
    assert_eq!(sim.elapsed(), secs(8));
    // It is over, and stays so.
    assert!(run.advance(secs(60)).unwrap());
    run.finish().unwrap();
    assert_eq!(sim.elapsed(), secs(8));
}

#[test]
fn a_failure_ends_the_run_and_is_told_again() {
    let sim = Sim::builder().time_limit(secs(60)).build();
    sim.client("client", async {
        sleep(secs(2)).await;
        panic!("planted")
    });
    let mut run = sim.begin();
    assert!(!run.advance(secs(1)).unwrap());
    for _ in 0..2 {
        let failure = run.advance(secs(5)).unwrap_err();
        assert_eq!(
            (failure.host(), failure.elapsed()),
            (Some("client"), secs(2))
        );
    }
    drop(run);
    let sim = Sim::builder().time_limit(secs(60)).build();
    let text = sim.begin().advance(secs(61)).unwrap_err().to_string();
    assert!(
        text.starts_with("the limit of 60s of simulated time"),
        "{text}"
    );
    assert_eq!(sim.elapsed(), secs(60));
}

#[test]
fn steps_of_one_part_are_not_in_the_moment_of_another() {
    let sim = Sim::builder().moment_limit(1_000).build();
    sim.host("server", pending::<()>);
    sim.client("client", pending::<()>());
    let mut run = sim.begin();
    for _ in 0..2_000 {
        sim.restart("server");
        assert!(!run.advance(secs(1)).unwrap());
    }
}

#[test]
fn its_drop_ends_the_hosts_and_frees_the_thread() {
    let (sim, owned) = (Sim::new(1), Rc::new(()));
    let of_host = owned.clone();
    sim.host("server", move || {
        let owned = of_host.clone();
        async move {
            let _listener = TcpListener::bind("0.0.0.0:7").await.unwrap();
            pending::<()>().await;
            drop(owned);
        }
    });
    let mut run = sim.begin();
    run.advance(secs(1)).unwrap();
    assert_eq!(Rc::strong_count(&owned), 3);
    drop(run);
    assert_eq!(Rc::strong_count(&owned), 1);
    let sim = Sim::new(2);
    echoes(&sim);
    sim.try_run().unwrap();
}

#[test]
fn after_the_run_nothing_happens_to_hosts() {
    let dropped = Rc::new(());
    let sim = Sim::builder().recording(true).build();
    sim.host("server", pending::<()>);
    sim.client("client", async {});
    assert!(sim.begin().advance(secs(1)).unwrap());
    let text = || sim.recording().unwrap().to_string();
    let (before, digest) = (text(), sim.digest());
    for name in ["server", "client"] {
        sim.crash(name);
        sim.crash_hard(name);
        sim.restart(name);
        sim.pause(name);
        sim.resume(name);
        sim.signal(name, libc::SIGTERM);
        sim.skew(name, 1);
        sim.jump(name, secs(1));
        sim.drift(name, 1);
        sim.slow(name, secs(1));
    }
    let in_closure = dropped.clone();
    sim.after(secs(1), move |_| drop(in_closure));
    assert_eq!(Rc::strong_count(&dropped), 1);
    assert_eq!((text(), sim.digest()), (before, digest));
}
