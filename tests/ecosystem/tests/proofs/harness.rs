//! What the proofs share: a process each, threads that are watched, and servers that are stopped.
//!
//! # A process for each proof
//!
//! A proof says that no thread of another runtime appears. Threads belong to the process, and all
//! tests of a binary share one. So each test starts the binary once more, with itself as the only
//! test, and waits for it, for a limited time. What the proof prints on stderr is seen, its stdout
//! is kept for the case that it fails.
//!
//! The threads that may be there are known one by one, by their numbers, and not by their names: a
//! thread without a name has that of the one that started it, and a library's would pass for a
//! worker.
//!
//! The child is the leader of a process group, in which the servers are too. When it has ended, or
//! its time is over, the group is killed, by the number that was started here. If the test itself
//! is killed, the system kills the child, and with that its servers.
//!
//! # Servers
//!
//! Each is started on a port of its own, in a folder of its own, and stopped by its own process id.
//! Where one is not installed, its proof is skipped, with a line that says so; in CI that is a
//! failure.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    future::Future,
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::{CommandExt, ExitStatusExt},
    panic,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

#[path = "../../../../executor/tests/common/skip.rs"]
mod skip;

use skip::skipped;

/// Longer than any proof takes, also on a busy machine. The whole of them has 14 minutes.
const LIMIT: Duration = Duration::from_secs(400);

/// How long a server may take to answer, or to stop.
const SERVER_LIMIT: Duration = Duration::from_secs(150);

/// Set in the process of a proof, to its name.
const IN_CHILD: &str = "WS_PROOF";

/// Makes a test of a proof, which runs as the root of a runtime with two workers, in a process of
/// its own.
macro_rules! proofs {
    ($($(#[doc = $doc:literal])* async fn $name:ident($env:ident) $body:block)*) => {$(
        $(#[doc = $doc])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            crate::harness::run(name, |$env: crate::harness::Env| async move {
                $body
                $env.done();
            });
        }
    )*};
}

pub(crate) use proofs;

/// Where a proof is, and what it knows of its process.
pub(crate) struct Env {
    /// A folder of this proof, removed at its end.
    pub(crate) dir: Arc<TempDir>,
    threads: Threads,
}

impl Env {
    /// Lets threads through whose names begin so: of a library that starts its own.
    pub(crate) fn allow_threads(&self, prefixes: &[&'static str]) {
        self.threads.allowed.lock().unwrap().extend(prefixes);
    }

    /// Says nothing of panics whose message has one of these: of a proof that has them on purpose,
    /// what it prints reads like that of one that fails.
    pub(crate) fn expect_panics(&self, messages: &'static [&'static str]) {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let message = info.payload_as_str().unwrap_or_default();
            if !messages.iter().any(|expected| message.contains(expected)) {
                others(info);
            }
        }));
    }

    /// The names of all threads so far that are neither of `ws` nor of the test, and were not let
    /// through.
    fn foreign_threads(&self) -> BTreeSet<String> {
        // One of ours that was started just now may not have come to saying so.
        for _ in 0..400 {
            self.threads.look();
            if self.threads.foreign().is_empty() {
                break;
            }
            thread::sleep(Threads::PERIOD);
        }
        self.threads.foreign()
    }

    /// The end of a proof: no foreign thread was seen.
    pub(crate) fn done(&self) {
        let foreign = self.foreign_threads();
        assert!(foreign.is_empty(), "foreign threads: {foreign:?}");
    }
}

/// Runs a proof: in a child, or as that child.
pub(crate) fn run<F>(name: &str, proof: impl FnOnce(Env) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    // The harness leaves out the name of the binary.
    let (_, name) = name.split_once("::").expect("a proof is in a module");
    match env::var(IN_CHILD) {
        Ok(child) => {
            assert_eq!(child, name);
            run_here(proof);
        }
        Err(_) => run_child(name),
    }
}

fn run_here<F>(proof: impl FnOnce(Env) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let dir = Arc::new(TempDir::new());
    let threads = Threads::watch();
    let env = Env {
        dir: dir.clone(),
        threads,
    };
    runtime()
        .workers(2)
        .build()
        .expect("two threads can be had")
        .run(proof(env));
    drop(dir); // after all servers, which are in the proof
}

/// Builds a runtime whose threads are known as such.
pub(crate) fn runtime() -> ws::runtime::Builder {
    RUNTIMES.fetch_add(1, Ordering::SeqCst);
    ws::runtime::Builder::new()
        .on_thread_start(this_thread_is_ours)
        // A thread that ends takes the servers with it that it has started: see `bind_to_us`.
        .keep_alive(LIMIT)
}

fn run_child(name: &str) {
    let (status, printed) = child(name, |_| {});
    match status {
        Some(status) if status.success() && printed.contains("1 passed") => {}
        Some(status) => panic!("{name}: {status}\n{printed}"),
        None => panic!("{name} hangs\n{printed}"),
    }
}

/// Runs a test of this binary in a process of its own, which `with` prepares: how it ended, if it
/// did, and what it printed.
fn child(name: &str, with: impl FnOnce(&mut Command)) -> (Option<ExitStatus>, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(IN_CHILD, name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    with(&mut command);
    // This thread stays until the child has ended.
    let mut child = bind_to_us(&mut command).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let printed = thread::spawn(move || {
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).map(|_| printed)
    });
    let ended = ends(&child, LIMIT);
    // With all that it has left behind. A proof that is aborted has stopped no server.
    kill_group(&child);
    let status = child.wait().unwrap();
    // Servers have stdout of their own, so this ends with the child.
    let printed = printed.join().unwrap().unwrap();
    (ended.then_some(status), printed)
}

/// Waits until a process has ended, for a limited time. It is still to be waited for, so its number
/// stays its own.
fn ends(child: &Child, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if news(child, libc::WEXITED | libc::WNOHANG) != 0 {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// What has become of a child, as one of `CLD_*`, or 0 if none of what `how` asks for. It can be
/// asked again.
fn news(child: &Child, how: i32) -> i32 {
    // SAFETY: all zeros are a `siginfo_t`, which is numbers; the call writes to this one, which
    // outlives it.
    let (done, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let how = how | libc::WNOWAIT;
        (libc::waitid(libc::P_PID, child.id(), &mut info, how), info)
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    info.si_code
}

/// Has the system kill a process when the thread ends that has started it, which it does at the
/// latest with its process.
pub(crate) fn bind_to_us(command: &mut Command) -> &mut Command {
    // SAFETY: in the child of a process with threads no memory may be taken, and no lock. This is a
    // system call.
    unsafe {
        command.pre_exec(|| {
            let signal = libc::SIGKILL as libc::c_ulong;
            match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }
}

/// Waits for a process, for a limited time.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a system call without pointers. The child was not waited for, so that the number of
    // its group, which it leads, is still its own.
    let _gone_already = unsafe { libc::kill(-pid, libc::SIGKILL) };
}

/// Sends a signal to a process that was started here and not waited for yet.
pub(crate) fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a system call without pointers; the number is still this child's.
    let _gone_already = unsafe { libc::kill(pid, signal) };
}

/// A process that stands still, with all that it has open, until this is dropped: by a panic as
/// well.
pub(crate) struct Frozen<'a>(&'a Child);

/// Has a process stand still, and comes back when it does.
pub(crate) fn freeze(child: &Child) -> Frozen<'_> {
    let frozen = Frozen(child);
    signal(child, libc::SIGSTOP);
    let stopped = news(child, libc::WSTOPPED | libc::WEXITED);
    assert_eq!(stopped, libc::CLD_STOPPED, "it has ended");
    frozen
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        signal(self.0, libc::SIGCONT);
    }
}

/// The threads that a runtime of `ws` or the test has started, by their numbers.
static OURS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// How many runtimes of `ws` there were. Each has a thread for its monitor, and one that joins the
/// others when the runtime is dropped. Neither calls a hook.
static RUNTIMES: AtomicUsize = AtomicUsize::new(0);

/// The names of the two threads of a runtime that call no hook: the monitor, and the thread that
/// joins all others at the end.
const WITHOUT_HOOKS: [&str; 2] = ["ws-worker-mon", "ws-worker-end"];
/// The place of the second one there.
const JOINER: usize = 1;
/// The name of the threads that tell of stalls, one after the other, where the machine is so busy
/// that there are any. The monitor starts them, and they have its name until they give themselves
/// their own.
const TELLER: &str = "ws-worker-stall";

/// Says of the thread that calls it that it is not a library's.
fn this_thread_is_ours() {
    // SAFETY: a system call without arguments.
    let number = unsafe { libc::gettid() };
    OURS.lock().unwrap().insert(number);
}

/// Starts a thread of the test's own.
pub(crate) fn thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(move || {
        this_thread_is_ours();
        f()
    })
}

/// Looks every few milliseconds which threads there are.
#[derive(Clone)]
struct Threads {
    seen: Arc<Mutex<BTreeMap<i32, Seen>>>,
    allowed: Arc<Mutex<Vec<&'static str>>>,
    end: Arc<AtomicBool>,
}

/// A thread, as the last look found it.
#[derive(Default)]
struct Seen {
    name: String,
    looks: u32,
}

impl Threads {
    const PERIOD: Duration = Duration::from_millis(5);

    fn watch() -> Self {
        let threads = Self {
            seen: Arc::default(),
            allowed: Arc::default(),
            end: Arc::default(),
        };
        // Those that are there now are the test's.
        threads.look();
        OURS.lock()
            .unwrap()
            .extend(threads.seen.lock().unwrap().keys());
        let watched = threads.clone();
        thread(move || {
            while !watched.end.load(Ordering::Relaxed) {
                watched.look();
                thread::sleep(Self::PERIOD);
            }
        });
        threads
    }

    fn look(&self) {
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap();
            // It may have ended between the two looks.
            if let Ok(name) = fs::read_to_string(task.path().join("comm")) {
                let number = task.file_name().to_str().unwrap().parse().unwrap();
                let mut seen = self.seen.lock().unwrap();
                let seen = seen.entry(number).or_default();
                seen.name = name.trim_end().to_owned();
                seen.looks += 1;
            }
        }
    }

    fn foreign(&self) -> BTreeSet<String> {
        let seen = self.seen.lock().unwrap();
        let ours = OURS.lock().unwrap();
        let allowed = self.allowed.lock().unwrap();
        let mut left = [RUNTIMES.load(Ordering::SeqCst); WITHOUT_HOOKS.len()];
        seen.iter()
            .filter(|(number, _)| !ours.contains(number))
            .filter(|(_, seen)| !allowed.iter().any(|prefix| seen.name.starts_with(prefix)))
            // A thread has the name of the one that started it until it gives itself its own. One
            // that is let through for its name may have ended soon after that, and no look have
            // come between.
            .filter(|(_, seen)| allowed.is_empty() || seen.looks > 20)
            .filter(|(_, seen)| seen.name != TELLER)
            .filter(|(_, seen)| {
                let place = WITHOUT_HOOKS.iter().position(|name| *name == seen.name);
                // The thread that joins the others is mostly gone at the next look, and may not
                // have come to its name at this one.
                let place = place.or((seen.looks == 1).then_some(JOINER));
                let is_ours = place.is_some_and(|place| left[place] > 0);
                if is_ours && let Some(place) = place {
                    left[place] -= 1;
                }
                let is_teller = seen.name == WITHOUT_HOOKS[0] && seen.looks <= 2;
                !is_ours && !is_teller
            })
            .map(|(number, seen)| format!("{} ({number})", seen.name))
            .collect()
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        self.threads.end.store(true, Ordering::Relaxed);
    }
}

/// A folder that everybody may enter, removed when it is dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;

        let dir = env::temp_dir().join(format!("ws-proof-{}", std::process::id()));
        if dir.exists() {
            // The number is ours, so whoever left it is gone.
            fs::remove_dir_all(&dir).unwrap();
        }
        fs::create_dir(&dir).unwrap();
        // Servers may run as other users.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }
}

impl TempDir {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl std::ops::Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// A port of this machine that nobody listens on.
///
/// The system's own choice is for ports above 32767, which connections of other tests take at any
/// moment. So these are below, and each process has a range of its own to look in.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);

    let range = 12_000 + (std::process::id() % 1_200) as u16 * 16;
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(next < 16, "no port is free from {range} on");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, range + next)).is_ok() {
            return range + next;
        }
    }
}

/// Finds a program, or says that the proof is skipped. In CI that is a failure.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    // Debian keeps RabbitMQ itself in a folder of its own, and on the path a script that changes
    // the user.
    let mut places: Vec<PathBuf> = ["/usr/lib/rabbitmq/bin", "/usr/sbin"]
        .map(PathBuf::from)
        .into();
    places.extend(env::split_paths(&env::var("PATH").unwrap_or_default()));
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        places.extend(versions.map(|version| version.unwrap().path().join("bin")));
    }
    let found = places
        .iter()
        .map(|place| place.join(program))
        .find(|path| path.is_file());
    if found.is_none() {
        let ci = env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{program} is not installed, and this is CI");
        skipped(format!(
            "{program} is not installed; `cargo xtask ci ecosystem` installs it"
        ));
    }
    found
}

/// Takes the path of a program, or ends the proof as skipped.
macro_rules! require {
    ($program:literal) => {
        match crate::harness::find($program) {
            Some(path) => path,
            None => return,
        }
    };
}

pub(crate) use require;

/// A server, as a process.
pub(crate) struct Server {
    child: Child,
    /// The signal that it takes as a wish to stop.
    stop: i32,
    log: PathBuf,
}

impl Server {
    /// Starts a server; what it says goes into `log`.
    pub(crate) fn start(command: &mut Command, stop: i32, log: PathBuf) -> Self {
        let out = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = bind_to_us(command)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, stop, log }
    }

    /// Waits until somebody listens on a port.
    pub(crate) fn listening(mut self, port: u16) -> Self {
        self.ready(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        self
    }

    /// Waits until `ready` says so.
    pub(crate) fn ready(&mut self, mut ready: impl FnMut() -> bool) {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the server ended ({status}):\n{}", self.log());
            }
            assert!(
                start.elapsed() < SERVER_LIMIT,
                "the server does not answer:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn freeze(&self) -> Frozen<'_> {
        freeze(&self.child)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.child, self.stop);
        if wait(&mut self.child, SERVER_LIMIT).is_none() {
            eprintln!("a server does not stop, so it is killed:\n{}", self.log());
            signal(&self.child, libc::SIGKILL);
            self.child.wait().unwrap();
        }
    }
}

/// Runs a program to its end, off the workers, and gives back what it printed.
pub(crate) async fn output(mut command: Command) -> Output {
    let shown = format!("{command:?}");
    let output = ws::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let output = output.await.unwrap();
    output.unwrap_or_else(|error| panic!("cannot run {shown}: {error}"))
}

/// Runs a program that has to succeed, and gives back its stdout.
pub(crate) async fn stdout(command: Command) -> String {
    let shown = format!("{command:?}");
    let output = output(command).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{shown}: {}\n{}",
        output.status,
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Bytes that look like nothing else, the same for the same seed.
pub(crate) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    // Knuth's multiplier for a linear congruential generator of 64 bits; the high bits are the good
    // ones.
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// An address of this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

mod tests;
