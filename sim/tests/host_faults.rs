//! Crashes without destructors, slow hosts, and clocks that jump and drift; and hosts and faults
//! that are added while the simulation runs.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    fs,
    future::pending,
    io,
    os::fd::{FromRawFd, OwnedFd},
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use ws_sim::{Sim, millis, secs};

/// Answers each connection with one byte.
async fn answer() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:1").await?;
    loop {
        let (mut peer, _) = listener.accept().await?;
        peer.write_all(b"x").await?;
    }
}

async fn ask(server: &str) -> io::Result<u8> {
    let mut server = TcpStream::connect(server).await?;
    let mut byte = [0];
    server.read_exact(&mut byte).await?;
    Ok(byte[0])
}

struct Counts(Rc<Cell<u32>>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// How many values of a server are dropped by its crash.
fn dropped_by(crash: fn(&Sim)) -> u32 {
    let dropped = Rc::new(Cell::new(0));
    let sim = Sim::new(3);
    let counts = dropped.clone();
    sim.host("server", move || {
        let counts = counts.clone();
        async move {
            let of_a_task = Counts(counts.clone());
            ws::spawn_local(async move {
                sleep(secs(9_999)).await;
                drop(of_a_task);
            });
            let _of_the_program = Counts(counts);
            answer().await
        }
    });
    let seen = Rc::new(Cell::new(0));
    let (counts, sees) = (dropped, seen.clone());
    sim.client("client", async move {
        assert_eq!(ask("server:1").await.unwrap(), b'x');
        sleep(secs(2)).await;
        // It is there again: its port is free.
        assert_eq!(ask("server:1").await.unwrap(), b'x');
        sees.set(counts.get());
    });
    sim.after(secs(1), move |sim| {
        crash(sim);
        sim.restart("server");
    });
    sim.try_run().unwrap();
    seen.get()
}

#[test]
fn a_hard_crash_runs_no_destructor() {
    assert_eq!(dropped_by(|sim| sim.crash("server")), 2);
    assert_eq!(dropped_by(|sim| sim.crash_hard("server")), 0);
}

#[test]
fn a_host_may_crash_hard_before_its_first_step() {
    let dropped = Rc::new(Cell::new(0));
    let sim = Sim::new(1);
    sim.client("waits", {
        let counts = Counts(dropped.clone());
        async move { drop(counts) }
    });
    sim.client("client", async { sleep(secs(1)).await });
    sim.crash_hard("waits");
    let failure = sim.try_run().unwrap_err().to_string();
    assert!(failure.contains("host \"waits\", crashed"), "{failure}");
    assert_eq!(dropped.get(), 1, "it is dropped with the run");
}

/// Its destructor asks for a file and for a thread.
struct Reaches(Rc<RefCell<Vec<(io::ErrorKind, bool)>>>);

impl Drop for Reaches {
    fn drop(&mut self) {
        let file = fs::write("of a destructor", "x").unwrap_err();
        let thread = std::thread::Builder::new().spawn(|| ());
        self.0.borrow_mut().push((file.kind(), thread.is_ok()));
    }
}

#[test]
fn a_program_that_never_began_is_dropped_in_its_host() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let eio = io::Error::from_raw_os_error(libc::EIO).kind();
    let crashes: [fn(&Sim); 2] = [|sim| sim.crash("victim"), |sim| sim.crash_hard("victim")];
    for crash in crashes {
        let sim = Sim::new(1);
        let reaches = Reaches(seen.clone());
        sim.client("victim", async move { drop(reaches) });
        crash(&sim);
        let _ = sim.begin().advance(secs(1));
        assert_eq!(seen.take(), [(eio, false)]);
    }
    // They are added just before the run ends.
    let sim = Sim::new(1);
    let (in_client, reaches) = (sim.clone(), seen.clone());
    sim.client("client", async move {
        let of_client = Reaches(reaches.clone());
        in_client.client("late", async move { drop(of_client) });
        let of_host = Reaches(reaches);
        in_client.host("later", move || {
            let _ = &of_host;
            pending::<()>()
        });
        panic!("planted");
    });
    sim.try_run().unwrap_err();
    assert_eq!(seen.take(), [(eio, false); 2]);
}

/// A program that sets a timer, and waits for ever.
async fn sets_a_timer() {
    let second = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let every_second = libc::itimerspec {
        it_interval: second,
        it_value: second,
    };
    // SAFETY: the times are valid.
    let _timer = unsafe {
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK);
        let no_old = std::ptr::null_mut();
        assert_eq!(
            libc::timerfd_settime(timer, 0, &raw const every_second, no_old),
            0
        );
        OwnedFd::from_raw_fd(timer)
    };
    std::future::pending().await
}

#[test]
fn a_timer_rings_no_more_when_its_host_is_gone() {
    let gone: [fn(&Sim); 3] = [
        |sim| sim.crash("server"),
        |sim| sim.crash_hard("server"),
        |sim| sim.signal("server", libc::SIGKILL),
    ];
    for is_gone in gone {
        let sim = Sim::new(1);
        sim.host("server", sets_a_timer);
        sim.client("client", std::future::pending::<()>());
        sim.after(millis(1_500), is_gone);
        // The timers of a host whose clock is set are set anew.
        sim.after(secs(3), |sim| sim.jump("server", secs(10)));
        let failure = sim.try_run().unwrap_err().to_string();
        assert!(failure.starts_with("nothing can go on"), "{failure}");
        assert_eq!(sim.elapsed(), secs(3));
    }
}

#[test]
fn hard_crashes_open_no_descriptor_of_the_system() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let sim = Sim::new(1);
    sim.host("server", answer);
    let faults = sim.clone();
    sim.client("client", async move {
        let begin = open();
        for _ in 0..1_000 {
            sleep(millis(1)).await;
            assert_eq!(ask("server:1").await.unwrap(), b'x');
            faults.crash_hard("server");
            faults.restart("server");
        }
        // Other tests of this process may have one each.
        assert!(open() < begin + 100, "{begin}");
    });
    sim.try_run().unwrap();
}

#[test]
fn a_slow_host_slows_nobody_else() {
    let times = Rc::new(RefCell::new(Vec::new()));
    let sees = times.clone();
    let sim = Sim::new(1);
    for name in ["fast", "slow"] {
        sim.host(name, answer);
    }
    sim.slow("slow", millis(10));
    let faults = sim.clone();
    sim.client("client", async move {
        sleep(secs(1)).await;
        for server in ["fast:1", "slow:1", "fast:1", "slow:1"] {
            let begin = Instant::now();
            ask(server).await.unwrap();
            sees.borrow_mut().push(begin.elapsed());
            if sees.borrow().len() == 3 {
                faults.slow("slow", Duration::ZERO);
                sleep(secs(1)).await;
            }
        }
    });
    sim.try_run().unwrap();
    // Four times over a link of 100 us.
    let fast = Duration::from_micros(400);
    let times = times.borrow();
    assert_eq!([times[0], times[2], times[3]], [fast; 3]);
    // It accepts in one step at least.
    assert!(times[1] > millis(10) && times[1] < secs(1), "{times:?}");
}

// Fails if what a step sends leaves at the begin of the step.
#[test]
fn what_a_slow_host_sends_leaves_at_the_end_of_the_step() {
    let sim = Sim::new(1);
    sim.client("fast", async {
        let socket = UdpSocket::bind("0.0.0.0:9").await.unwrap();
        let begin = Instant::now();
        socket.recv_from(&mut [0]).await.unwrap();
        // The link takes 0.1 ms. The step begins after those that made the socket.
        let steps = begin.elapsed() - Duration::from_micros(100);
        assert_eq!(steps.as_nanos() % millis(10).as_nanos(), 0, "{steps:?}");
        assert!(steps >= secs(1) + millis(10), "{steps:?}");
    });
    sim.client("slow", async {
        let socket = UdpSocket::bind("0.0.0.0:9").await.unwrap();
        sleep(secs(1)).await;
        socket.send_to(b"x", "fast:9").await.unwrap();
    });
    sim.slow("slow", millis(10));
    sim.try_run().unwrap();
}

#[test]
fn what_a_host_sends_after_it_becomes_slow_leaves_at_the_end_of_the_step() {
    let sim = Sim::new(1);
    sim.host("slow", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(secs(10)).await;
        socket.send_to(b"x", "client:1").await?;
        io::Result::Ok(())
    });
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        let begin = Instant::now();
        socket.recv_from(&mut [0]).await?;
        let took = begin.elapsed();
        // Three steps: the sleep ends, the name is found, and it sends.
        assert!(took >= secs(16), "{took:?}");
        io::Result::Ok(())
    });
    sim.after(secs(9), |sim| sim.slow("slow", secs(2)));
    sim.try_run().unwrap();
}

/// A slow host sends one byte by UDP and one by TCP, in one step. Gives when a client gets each of
/// them, and when it sees the end of the stream. `what` happens at `at`.
fn sent_by_a_slow_host(at: Duration, what: fn(&Sim)) -> [Option<Duration>; 3] {
    let sim = Sim::new(1);
    sim.host("slow", || async {
        let mut stream = TcpStream::connect("client:1").await?;
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        socket.connect("client:1").await?;
        sleep(secs(20)).await;
        socket.send(b"x").await?;
        stream.write_all(b"x").await?;
        drop((stream, socket));
        io::Result::Ok(())
    });
    let seen = Rc::new(Cell::new([None; 3]));
    let (sees, clock) = (seen.clone(), sim.clone());
    sim.client("client", async move {
        let note = move |place: usize| {
            let mut all = sees.get();
            all[place] = Some(clock.elapsed());
            sees.set(all);
        };
        let of_datagrams = note.clone();
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        drop(ws::spawn_local(async move {
            if socket.recv_from(&mut [0]).await.is_ok() {
                of_datagrams(0);
            }
        }));
        let of_stream = async {
            let listener = TcpListener::bind("0.0.0.0:1").await?;
            let (mut stream, _) = listener.accept().await?;
            if stream.read(&mut [0]).await? == 1 {
                note(1);
                assert_eq!(stream.read(&mut [0]).await?, 0);
            }
            note(2);
            pending::<io::Result<()>>().await
        };
        timeout(secs(60), of_stream).await.unwrap_or(Ok(()))
    });
    sim.slow("slow", secs(2));
    sim.after(at, what);
    sim.try_run().unwrap();
    seen.get()
}

#[test]
fn a_slow_step_that_is_cut_off_sends_nothing() {
    let [datagram, byte, end] = sent_by_a_slow_host(secs(1), |_| ());
    let at = datagram.unwrap();
    assert!(byte == Some(at) && end >= byte, "{at:?} {byte:?} {end:?}");
    let middle = at - secs(1);
    let soon = at - millis(900);
    let killed = sent_by_a_slow_host(middle, |sim| sim.signal("slow", libc::SIGKILL));
    assert_eq!((killed[0], killed[1]), (None, None));
    assert!(killed[2].unwrap() < soon, "{killed:?}");
    let crashed = sent_by_a_slow_host(middle, |sim| sim.crash("slow"));
    assert_eq!(crashed, [None; 3]);
    let paused = sent_by_a_slow_host(middle, |sim| {
        sim.pause("slow");
        sim.after(secs(5), |sim| sim.resume("slow"));
    });
    let later = Some(middle + secs(5) + Duration::from_micros(100));
    assert_eq!((paused[0], paused[1]), (later, later));
    // It goes on before its step would have ended.
    let soon = sent_by_a_slow_host(middle, |sim| {
        sim.signal("slow", libc::SIGSTOP);
        sim.after(millis(100), |sim| sim.signal("slow", libc::SIGCONT));
    });
    assert_eq!(soon, [datagram, byte, end]);
    let killed = sent_by_a_slow_host(middle, |sim| {
        sim.pause("slow");
        sim.after(millis(50), |sim| sim.signal("slow", libc::SIGKILL));
    });
    assert_eq!((killed[0], killed[1]), (None, None));
}

#[test]
fn a_paused_host_runs_no_task_that_was_ready() {
    let runs = Rc::new(Cell::new(0));
    let counts = runs.clone();
    let sim = Sim::new(1);
    sim.host("busy", move || {
        for _ in 0..50 {
            let counts = counts.clone();
            ws::spawn_local(async move {
                for _ in 0..1_000 {
                    counts.set(counts.get() + 1);
                    ws::task::yield_now().await;
                }
            });
        }
        std::future::pending::<()>()
    });
    let faults = sim.clone();
    sim.client("client", async move {
        while runs.get() < 100 {
            ws::task::yield_now().await;
        }
        faults.pause("busy");
        ws::task::yield_now().await;
        let before = runs.get();
        sleep(secs(1)).await;
        assert_eq!(runs.get(), before);
    });
    sim.try_run().unwrap();
}

// Fails if the clock of the new machine stands still until the time of the old one's sleep.
#[test]
fn a_restart_after_a_jump_in_a_sleep_has_a_clock_that_goes_on() {
    let sim = Sim::new(1);
    let starts = Rc::new(Cell::new(0));
    let ended = Rc::new(Cell::new(Duration::ZERO));
    let (counts, ends, clock) = (starts.clone(), ended.clone(), sim.clone());
    sim.host("a", move || {
        counts.set(counts.get() + 1);
        let (is_first, ends, clock) = (counts.get() == 1, ends.clone(), clock.clone());
        async move {
            if is_first {
                std::thread::sleep(secs(10));
            }
            sleep(secs(1)).await;
            ends.set(clock.elapsed());
        }
    });
    sim.client("client", async { sleep(secs(20)).await });
    sim.after(secs(1), |sim| sim.jump("a", secs(5)));
    sim.after(secs(2), |sim| sim.restart("a"));
    sim.try_run().unwrap();
    assert_eq!((starts.get(), ended.get()), (2, secs(3)));
}

#[test]
fn a_jump_is_seen_by_all_clocks_of_its_host_and_by_no_other() {
    fn clocks() -> (Instant, ws::time::Instant, SystemTime) {
        (Instant::now(), ws::time::Instant::now(), SystemTime::now())
    }
    let sim = Sim::builder().seed(1).workers(2).build();
    for (name, jump) in [("jumps", secs(1_000)), ("stays", Duration::ZERO)] {
        sim.client(name, async move {
            let begin = clocks();
            sleep(secs(2)).await;
            let passed = secs(2) + jump;
            let end = clocks();
            assert_eq!(end.0 - begin.0, passed);
            assert_eq!(end.1 - begin.1, passed);
            assert_eq!(end.2.duration_since(begin.2).unwrap(), passed);
            // A timer keeps to the new clock.
            sleep(secs(1)).await;
            assert_eq!(begin.0.elapsed(), passed + secs(1));
        });
    }
    sim.after(secs(2), |sim| sim.jump("jumps", secs(1_000)));
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), secs(3));
}

#[test]
fn a_jump_fires_the_timers_that_it_passes() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let begin = Instant::now();
        sleep(secs(50)).await;
        assert_eq!(begin.elapsed(), secs(61));
        // And those of a blocking call.
        std::thread::sleep(secs(1));
        assert_eq!(begin.elapsed(), secs(62));
    });
    sim.after(secs(1), |sim| sim.jump("client", secs(60)));
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), secs(2));
}

#[test]
fn clocks_drift_apart_and_timers_with_them() {
    for (drift, elapsed) in [(250_000, 16_000), (-200_000, 25_000), (0, 20_000)] {
        let sim = Sim::new(1);
        sim.client("client", async {
            let (begin, calendar) = (Instant::now(), SystemTime::now());
            sleep(secs(10)).await;
            std::thread::sleep(secs(5));
            // The runtime knows of it at its next step.
            ws::task::yield_now().await;
            sleep(secs(5)).await;
            assert_eq!(begin.elapsed(), secs(20));
            assert_eq!(calendar.elapsed().unwrap(), secs(20));
        });
        sim.drift("client", drift);
        sim.try_run().unwrap();
        assert_eq!(sim.elapsed(), millis(elapsed));
    }
}

#[test]
fn clocks_go_on_through_a_restart() {
    let sim = Sim::new(1);
    let shown = Rc::new(RefCell::new(Vec::new()));
    let sees = shown.clone();
    sim.host("server", move || {
        let sees = sees.clone();
        async move {
            sees.borrow_mut().push(Instant::now());
            sleep(secs(3)).await;
            sees.borrow_mut().push(Instant::now());
        }
    });
    sim.client("client", async { sleep(secs(20)).await });
    sim.after(secs(4), |sim| sim.jump("server", secs(100)));
    sim.after(secs(10), |sim| sim.restart("server"));
    sim.try_run().unwrap();
    let shown = shown.borrow();
    let since: Vec<_> = shown.iter().map(|time| *time - shown[0]).collect();
    assert_eq!(since, [0, 3, 110, 113].map(secs));
}

#[test]
fn hosts_and_faults_may_come_while_it_runs() {
    let sim = Sim::new(1);
    // By a closure,
    sim.after(secs(1), |sim| {
        sim.host("late", answer);
        sim.after(secs(1), |sim| sim.partition(["late"], ["client"]));
        sim.after(secs(3), Sim::heal);
    });
    // and by a program.
    let adds = sim.clone();
    sim.client("client", async move {
        ask("late:1").await.expect_err("it is not there yet");
        sleep(millis(1_500)).await;
        assert_eq!(ask("late:1").await.unwrap(), b'x');
        adds.host("later", answer);
        adds.client("second", async {
            sleep(millis(1)).await;
            assert_eq!(ask("later:1").await.unwrap(), b'x');
            sleep(secs(9)).await;
        });
        sleep(secs(1)).await;
        let begin = Instant::now();
        assert_eq!(ask("late:1").await.unwrap(), b'x');
        assert!(begin.elapsed() > secs(1), "it was cut off");
    });
    sim.try_run().unwrap();
    // The run waits also for a client that was added later.
    assert_eq!(sim.elapsed(), millis(10_501) + Duration::from_micros(800));
}

fn digest() -> (u64, u64) {
    let sim = Sim::builder().seed(5).workers(2).build();
    sim.host("server", answer);
    sim.slow("server", Duration::from_micros(70));
    sim.drift("server", 1_234);
    for i in 0..3 {
        sim.client(format!("c{i}"), async {
            for _ in 0..50 {
                // A crash resets some.
                let _ = ws::time::timeout(secs(1), ask("server:1")).await;
                sleep(millis(10)).await;
            }
        });
    }
    for i in 1..5 {
        sim.after(millis(100 * i), |sim| {
            sim.jump("server", millis(sim.below(500)));
            sim.crash_hard("server");
            sim.restart("server");
        });
    }
    sim.try_run().unwrap();
    (sim.digest(), sim.events())
}

#[test]
fn the_same_seed_is_the_same_run_with_these_faults() {
    let once = digest();
    assert_eq!(digest(), once);
}

#[test]
fn a_clock_cannot_go_back() {
    let sim = Sim::new(1);
    sim.host("a", || async {});
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sim.drift("a", -1_000_000);
    }));
    let text = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(text.ends_with("give a number from -999999 on"), "{text}");
}

#[test]
fn a_host_that_stands_still_runs_after_its_restart() {
    let starts = Rc::new(Cell::new(0));
    let counts = starts.clone();
    let sim = Sim::new(1);
    sim.host("server", move || {
        let counts = counts.clone();
        async move {
            sleep(secs(1)).await;
            counts.set(counts.get() + 1);
        }
    });
    sim.client("client", async { sleep(secs(9)).await });
    sim.after(secs(2), |sim| sim.pause("server"));
    sim.after(secs(3), |sim| sim.restart("server"));
    sim.try_run().unwrap();
    assert_eq!(starts.get(), 2);
}
