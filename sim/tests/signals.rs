//! Signals of hosts, and the child processes that they do not have.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    fs,
    future::pending,
    io::{self, Write},
    rc::Rc,
    time::Duration,
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, timeout},
};
use ws_sim::{DiskFaults, Sim, secs};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_signal_reaches_the_listeners_of_its_host_and_no_other() {
    let sim = Sim::new(1);
    let heard = Rc::new(RefCell::new(Vec::new()));
    for name in ["a", "b"] {
        let heard = heard.clone();
        sim.host(name, move || {
            let heard = heard.clone();
            async move {
                let begin = Instant::now();
                let mut terminate = signal(SignalKind::terminate())?;
                let mut again = signal(SignalKind::terminate())?;
                let mut hangup = signal(SignalKind::hangup())?;
                terminate.recv().await?;
                again.recv().await?;
                heard.borrow_mut().push((name, begin.elapsed()));
                assert!(timeout(SECOND, hangup.recv()).await.is_err());
                ws::signal::ctrl_c().await?;
                heard.borrow_mut().push((name, begin.elapsed()));
                io::Result::Ok(())
            }
        });
    }
    sim.client("client", async { sleep(10 * SECOND).await });
    let number = SignalKind::terminate().as_raw();
    sim.after(2 * SECOND, move |sim| sim.signal("a", number));
    let number = SignalKind::interrupt().as_raw();
    sim.after(5 * SECOND, move |sim| sim.signal("a", number));
    sim.try_run().unwrap();
    assert_eq!(*heard.borrow(), [("a", 2 * SECOND), ("a", 5 * SECOND)]);
}

#[test]
fn a_signal_that_nobody_listens_for_ends_the_program_and_its_connections() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"hello").await?;
            sleep(3600 * SECOND).await;
        }
        #[expect(unreachable_code, reason = "the type of the result")]
        io::Result::Ok(())
    });
    sim.client("client", async {
        let begin = Instant::now();
        let mut stream = TcpStream::connect("server:7").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        assert_eq!(text, "hello");
        assert!(begin.elapsed() >= 2 * SECOND, "SIGCHLD ends nothing");
        let gone = TcpStream::connect("server:7").await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionRefused);
        io::Result::Ok(())
    });
    sim.after(SECOND, |sim| sim.signal("server", libc::SIGCHLD));
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGTERM));
    sim.try_run().unwrap();
}

#[test]
fn a_kill_ends_also_a_program_that_listens_for_all() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let _listens = signal(SignalKind::terminate())?;
        assert!(signal(SignalKind::from_raw(libc::SIGKILL)).is_err());
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (_stream, _) = listener.accept().await?;
        sleep(3600 * SECOND).await;
        io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        assert_eq!(stream.read(&mut [0]).await?, 0);
        io::Result::Ok(())
    });
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGKILL));
    sim.try_run().unwrap();
}

/// Sends more than a window, and waits.
async fn sends_much() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    let (mut stream, _) = listener.accept().await?;
    std::fs::write("written", "x")?;
    loop {
        stream.write_all(&[7; 1000]).await?;
    }
}

// Fails if what is in the send buffer goes with the program, or the end behind it; or if a restart
// after it loses what was not synced.
#[test]
fn the_kernel_of_a_program_that_ends_goes_on() {
    let sim = Sim::new(1);
    sim.host("server", sends_much);
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        sleep(5 * SECOND).await;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await?;
        assert!(all.len() > 100_000, "{}", all.len());
        sleep(5 * SECOND).await;
        io::Result::Ok(())
    });
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGKILL));
    sim.after(8 * SECOND, |sim| sim.restart("server"));
    let disk = sim.disk("server");
    sim.after(9 * SECOND, move |_| {
        assert_eq!(disk.read("written").unwrap(), b"x")
    });
    sim.try_run().unwrap();
}

/// A server whose client sees its end after so many seconds.
fn server_that_ends_after(seconds: u64) -> Sim {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let _stream = listener.accept().await?;
        sleep(3600 * SECOND).await;
        io::Result::Ok(())
    });
    sim.client("client", async move {
        let begin = Instant::now();
        let mut stream = TcpStream::connect("server:7").await?;
        stream.read_to_end(&mut Vec::new()).await?;
        assert_eq!(begin.elapsed().as_secs(), seconds);
        io::Result::Ok(())
    });
    sim
}

#[test]
fn a_host_that_stands_still_hears_of_it_when_it_goes_on() {
    let sim = server_that_ends_after(5);
    sim.after(SECOND, |sim| sim.signal("server", libc::SIGTSTP));
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGTERM));
    sim.after(5 * SECOND, |sim| sim.signal("server", libc::SIGCONT));
    sim.try_run().unwrap();
}

#[test]
fn a_host_that_stands_still_is_killed_at_once() {
    let sim = server_that_ends_after(2);
    sim.after(SECOND, |sim| sim.pause("server"));
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGKILL));
    sim.after(5 * SECOND, |sim| sim.resume("server"));
    sim.try_run().unwrap();
}

/// A server that is sent `SIGKILL` after a second, and restarts after two. Its program begins
/// twice.
fn runs_again_after_a_kill(disk: DiskFaults, program: impl AsyncFn() -> io::Result<()> + 'static) {
    let sim = Sim::new(1);
    let (program, begins) = (Rc::new(program), Rc::new(Cell::new(0)));
    let counted = begins.clone();
    sim.host("server", move || {
        counted.set(counted.get() + 1);
        let program = program.clone();
        async move { program().await }
    });
    sim.client("client", async { sleep(secs(3)).await });
    sim.set_disk("server", disk);
    sim.after(secs(1), |sim| sim.signal("server", libc::SIGKILL));
    sim.after(secs(2), |sim| sim.restart("server"));
    sim.try_run().unwrap();
    assert_eq!(begins.get(), 2);
}

#[test]
fn a_program_begins_with_a_folder_and_a_umask_of_its_own_after_a_kill() {
    runs_again_after_a_kill(DiskFaults::default(), async || {
        assert_eq!(std::env::current_dir()?.to_str(), Some("/home/host"));
        fs::create_dir_all("sub")?;
        std::env::set_current_dir("sub")?;
        // SAFETY: it takes no pointer.
        assert_eq!(unsafe { libc::umask(0o77) }, 0o22);
        pending().await
    });
}

#[test]
fn a_kill_closes_files_that_nothing_else_closes() {
    let disk = DiskFaults {
        capacity: Some(8192),
        ..DiskFaults::default()
    };
    runs_again_after_a_kill(disk, async || {
        let locked = fs::File::create("locked")?;
        locked.try_lock()?;
        let mut removed = fs::File::create("removed")?;
        fs::remove_file("removed")?;
        removed.write_all(&[1; 8192])?;
        // As descriptors in a static.
        std::mem::forget((locked, removed));
        pending().await
    });
}

#[test]
fn a_signal_of_the_life_before_does_not_end_the_next_one() {
    let sim = Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut peer, _) = listener.accept().await?;
        peer.write_all(b"x").await
    });
    sim.client("client", async {
        sleep(9 * SECOND).await;
        let mut stream = TcpStream::connect("server:7").await?;
        stream.read_exact(&mut [0]).await
    });
    sim.after(SECOND, |sim| sim.pause("server"));
    sim.after(2 * SECOND, |sim| sim.signal("server", libc::SIGTERM));
    sim.after(3 * SECOND, |sim| {
        sim.crash("server");
        sim.restart("server");
    });
    sim.after(4 * SECOND, |sim| sim.pause("server"));
    sim.after(5 * SECOND, |sim| sim.resume("server"));
    sim.try_run().unwrap();
}

#[test]
#[should_panic(expected = "there is no signal 0")]
fn a_wrong_number_is_refused() {
    let sim = Sim::new(1);
    sim.client("client", async {});
    sim.signal("client", 0);
}

#[test]
fn a_host_starts_no_process() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let mut command = std::process::Command::new("true");
        let error = ws::process::spawn(&mut command).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let piped = command.stdout(std::process::Stdio::null()).spawn();
        assert_eq!(piped.unwrap_err().kind(), io::ErrorKind::Unsupported);
    });
    sim.try_run().unwrap();
    assert!(
        std::process::Command::new("true")
            .status()
            .unwrap()
            .success()
    );
}

/// Fails if a handler is gone with its last listener.
#[test]
fn a_second_interrupt_spares_a_program_that_listened_for_one() {
    let sim = Sim::new(1);
    sim.client("once", async {
        ws::signal::ctrl_c().await.unwrap();
        sleep(2 * SECOND).await;
    });
    for second in [1, 2] {
        let number = SignalKind::interrupt().as_raw();
        sim.after(second * SECOND, move |sim| sim.signal("once", number));
    }
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed(), 3 * SECOND);
}

/// How many rounds of a second a host does of ten, if it gets a signal after some of them.
fn rounds_with(signal: i32) -> (u32, bool) {
    let rounds = Rc::new(Cell::new(0));
    let counts = rounds.clone();
    let sim = Sim::new(1);
    sim.host("host", move || {
        let counts = counts.clone();
        async move {
            loop {
                sleep(SECOND).await;
                counts.set(counts.get() + 1);
            }
        }
    });
    sim.client("client", async { sleep(10 * SECOND).await });
    sim.after(3 * SECOND + SECOND / 2, move |sim| {
        sim.signal("host", signal)
    });
    let before = rounds.clone();
    let goes_on = Rc::new(Cell::new(false));
    let went = goes_on.clone();
    sim.after(7 * SECOND + SECOND / 2, move |sim| {
        went.set(before.get() > 3);
        sim.signal("host", libc::SIGCONT);
    });
    sim.try_run().unwrap();
    (rounds.get(), goes_on.get())
}

#[test]
fn signals_that_nobody_listens_for_stop_end_or_do_nothing() {
    for stops in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        let (rounds, goes_on) = rounds_with(stops);
        assert!(!goes_on && (4..9).contains(&rounds), "{stops}: {rounds}");
    }
    let ignored = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGPIPE];
    for ignored in ignored.into_iter().chain([libc::SIGCONT]) {
        let (rounds, goes_on) = rounds_with(ignored);
        assert!(goes_on && rounds >= 9, "{ignored}: {rounds}");
    }
    for ends in [libc::SIGHUP, libc::SIGUSR2, libc::SIGALRM] {
        assert_eq!(rounds_with(ends), (3, false), "{ends}");
    }
}
