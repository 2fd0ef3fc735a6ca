//! What the harness promises: nothing is left of a proof that is aborted, a server that is missing
//! is noticed, and so is a thread without a name; and what stands still goes on after a panic.

use super::*;

/// The letter that the system has for the state of a process, as long as there is one.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").unwrap().1.chars().next()
}

/// Whether a process has ended. Nobody may have waited for it yet.
fn has_ended(pid: &str) -> bool {
    matches!(state(pid), Some('Z') | None)
}

/// A proof that is aborted leaves no process behind: none in its group, by the kill of that, and
/// none that it has started itself, by the system.
#[test]
fn an_aborted_proof_leaves_nothing_behind() {
    const NAME: &str = "harness::tests::an_aborted_proof_leaves_nothing_behind";
    let log = |parent: u32| {
        env::temp_dir()
            .join(format!("ws-proof-{parent}"))
            .join("log")
    };
    if env::var(IN_CHILD).is_ok() {
        let log = log(std::os::unix::process::parent_id());
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut shell = Server::start(&mut shell, libc::SIGTERM, log.clone());
        shell.ready(|| fs::read_to_string(&log).unwrap().ends_with('\n'));
        let mut alone = Command::new("sleep");
        alone.arg("1000").process_group(0);
        let alone = Server::start(&mut alone, libc::SIGTERM, log);
        println!("\nleft {}\nleft {}", shell.log().trim(), alone.child.id());
        std::process::abort();
    }
    let _dir = TempDir::new();
    let (status, printed) = child(NAME, |_| {});
    assert_eq!(status.unwrap().signal(), Some(libc::SIGABRT));
    let left: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("left "))
        .collect();
    assert_eq!(left.len(), 2, "{printed}");
    let start = Instant::now();
    for pid in left {
        while !has_ended(pid) {
            assert!(start.elapsed() < Duration::from_secs(60), "{pid} is left");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A process that a proof has standing still goes on when the proof panics.
#[test]
fn a_frozen_process_goes_on_after_a_panic() {
    let mut child = bind_to_us(Command::new("sleep").arg("1000"))
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let panicked = panic::catch_unwind(|| {
        let _frozen = freeze(&child);
        assert_ne!(state(&pid), Some('T'), "stands still");
    });
    let said = panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("stands still"), "{said}");
    let after = state(&pid);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(after, Some('T'));
}

/// A proof whose server is missing fails in CI. Elsewhere it succeeds, and a line says that it was
/// skipped.
#[test]
fn a_missing_server_fails_in_ci_and_is_skipped_elsewhere() {
    const NAME: &str = "harness::tests::a_missing_server_fails_in_ci_and_is_skipped_elsewhere";
    if env::var(IN_CHILD).is_ok() {
        let found = require!("ws-no-such-server");
        panic!("{} is there", found.display());
    }
    let (status, _, said) = child_with_stderr(NAME, |command| command.env("CI", "true"));
    assert_eq!(status.unwrap().code(), Some(101), "{said}");
    assert!(
        said.contains("ws-no-such-server is not installed, and this is CI"),
        "{said}"
    );
    assert!(!said.contains("SKIPPED"), "{said}");

    let (status, printed, said) = child_with_stderr(NAME, |command| {
        // This one is not left out of the run that CI counts.
        command.env_remove("CI").env_remove("WS_SKIPS")
    });
    assert_eq!(status.unwrap().code(), Some(0), "{said}");
    assert!(printed.contains("1 passed"), "{printed}");
    let skip = "SKIPPED: ws-no-such-server is not installed";
    assert!(said.lines().any(|line| line.starts_with(skip)), "{said}");
}

/// As `child`, with what it said on stderr, which has to fit into a pipe.
fn child_with_stderr(
    name: &str,
    with: impl FnOnce(&mut Command) -> &mut Command,
) -> (Option<ExitStatus>, String, String) {
    let (mut pipe, stderr) = io::pipe().unwrap();
    let (status, printed) = child(name, |command| {
        with(command).stderr(stderr);
    });
    // The other end went with the command and the child.
    let mut said = String::new();
    pipe.read_to_string(&mut said).unwrap();
    (status, printed, said)
}

proofs! {
    /// A thread that a task starts without a name is seen, although it has the name of the one that
    /// runs the task.
    async fn a_thread_without_a_name_is_foreign(env) {
        let (end, ended) = std::sync::mpsc::channel();
        let nameless = thread::spawn(move || {
            ended.recv().unwrap();
            this_thread_is_ours();
        });
        // One that was seen once passes for the thread that joins the others.
        let foreign = loop {
            let foreign = env.foreign_threads();
            if !foreign.is_empty() {
                break foreign;
            }
            thread::yield_now();
        };
        assert_eq!(foreign.len(), 1, "{foreign:?}");
        end.send(()).unwrap();
        nameless.join().unwrap();
    }
}
