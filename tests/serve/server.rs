//! The example `serve` as a process of its own.

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread,
    time::Instant,
};

use crate::client::{Client, LIMIT};

/// A folder for the files of a test. It is removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "serve-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Relaxed)
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(path.join("public")).unwrap();
        Self(path)
    }

    /// A path that is served.
    pub(crate) fn public(&self, name: &str) -> PathBuf {
        self.0.join("public").join(name)
    }

    /// A path beside what is served.
    pub(crate) fn private(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

pub(crate) struct Server {
    child: Arc<Mutex<Child>>,
    stdout: BufReader<ChildStdout>,
    stderr: PathBuf,
    folder: Folder,
    pub(crate) address: SocketAddr,
    _watchdog: Sender<()>,
}

/// How a server ended.
pub(crate) struct End {
    pub(crate) code: Option<i32>,
    /// What it had not said before.
    pub(crate) stdout: String,
    /// Without the runtime's reports of stalls: on a busy machine any task may wait long for a
    /// core.
    pub(crate) stderr: String,
}

impl Server {
    /// Starts it on a free port.
    pub(crate) fn start(folder: Folder, workers: u32, options: &[&str]) -> Self {
        let stderr = folder.private("stderr");
        Self::start_on(folder, workers, options, stderr)
    }

    /// The same, with its stderr there.
    pub(crate) fn start_on(
        folder: Folder,
        workers: u32,
        options: &[&str],
        stderr: impl Into<PathBuf>,
    ) -> Self {
        let stderr = stderr.into();
        let mut child = Command::new(example())
            .args(["--listen", "127.0.0.1:0", "--workers"])
            .arg(workers.to_string())
            .arg("--dir")
            .arg(folder.public(""))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let child = Arc::new(Mutex::new(child));
        let mut server = Self {
            _watchdog: watch(child.clone()),
            child,
            stdout,
            stderr,
            folder,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        let line = server.line();
        let address = line.split_once("http://").and_then(|(_, rest)| {
            let (address, _) = rest.split_once(',')?;
            address.parse().ok()
        });
        server.address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        server
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// A number of its metrics, without labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.client().get("/metrics").expect(200);
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// Asks until a number of its metrics is as it should be. Asking is itself a connection and a
    /// request.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str, value: u64) {
        let start = Instant::now();
        loop {
            let now = self.metric(name);
            if now == value {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{name} stays at {now} and is never {value}"
            );
        }
    }

    /// Asks until it has received as many requests from others.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: u64) {
        let start = Instant::now();
        for asked in 1.. {
            let others = self.metric("serve_requests_total") - asked;
            if others == count {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{others} requests came and never {count}"
            );
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let kill = ["-c", "kill -\"$0\" \"$1\"", name, &pid];
        assert!(Command::new("sh").args(kill).status().unwrap().success());
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) -> End {
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).unwrap();
        let code = self.child.lock().unwrap().wait().unwrap().code();
        // A device would have no end.
        let is_file = fs::metadata(&self.stderr).unwrap().is_file();
        let stderr = is_file.then(|| fs::read_to_string(&self.stderr).unwrap());
        let stderr = stderr.unwrap_or_default();
        let mut is_of_a_stall = false;
        let lines = stderr.split_inclusive('\n').filter(|line| {
            // The stack is below the sentence.
            is_of_a_stall = is_about_a_stall(line) || is_of_a_stall && line.starts_with("  ");
            !is_of_a_stall
        });
        let stderr = lines.collect();
        End {
            code,
            stdout,
            stderr,
        }
    }

    /// Ends it, and sees that all was well.
    #[track_caller]
    pub(crate) fn end(self) {
        self.signal("TERM");
        let end = self.wait();
        assert_eq!(
            (end.code, end.stderr.as_str()),
            (Some(0), ""),
            "{}",
            end.stdout
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // An error would mean that it has been waited for already.
        if child.kill().is_ok() {
            child.wait().unwrap();
        }
    }
}

fn is_about_a_stall(line: &str) -> bool {
    let holds_its_thread = line.contains(" its thread for ") || line.contains(" for a core for ");
    line.starts_with("ws: task ") && holds_its_thread
}

/// Kills a process that is still there when the time is over, unless the token is dropped before.
fn watch(child: Arc<Mutex<Child>>) -> Sender<()> {
    let (token, dropped) = channel();
    thread::spawn(move || {
        if dropped.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            child.lock().unwrap().kill().unwrap();
        }
    });
    token
}

/// Runs it with arguments that it does not get far with.
pub(crate) fn run(args: &[&str]) -> Output {
    Command::new(example()).args(args).output().unwrap()
}

/// The example's program, which is built if it has to be.
///
/// `cargo test` builds the examples, but `cargo test --test serve` does not.
fn example() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let test = env::current_exe().unwrap();
        let profile = test
            .ancestors()
            .nth(2)
            .expect("tests are in target/PROFILE/deps");
        let example = profile.join("examples/serve");
        if !is_fresh(&example) {
            build(profile);
        }
        example
    })
}

/// Whether it is newer than all that it was made of, which stands in the file that cargo puts
/// beside it.
fn is_fresh(example: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    let Ok(built) = modified(example) else {
        return false;
    };
    let Ok(sources) = fs::read_to_string(example.with_extension("d")) else {
        return false;
    };
    let mut sources = sources.split_whitespace().skip(1).map(Path::new);
    // A name with a space in it is not found so, and the example is built once too often.
    sources.all(|source| modified(source).is_ok_and(|changed| changed <= built))
}

fn build(profile: &Path) {
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--example", "serve", "--profile", name])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(profile.parent().expect("PROFILE is in the target folder"))
        .status()
        .unwrap();
    assert!(built.success(), "the example does not build");
}
