//! PostgreSQL and Redis, in a folder that is removed, on ports of their own.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Options, Program, Round, interleaved};

/// How long a server may take to answer, or to stop.
const LIMIT: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    stop: i32,
    dir: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: a system call without pointers; the child was not waited for, so the number is
        // its own.
        let _gone_already = unsafe { libc::kill(pid, self.stop) };
        self.child.wait().expect("it was started here");
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{} stays: {error}", self.dir.display());
        }
    }
}

fn folder(name: &str) -> PathBuf {
    let dir = env::temp_dir().join(format!("ws-compare-{name}-{}", std::process::id()));
    fs::create_dir(&dir).expect("a new folder");
    // PostgreSQL runs as another user.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("it is ours");
    dir
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Starts a server, and waits until `ready`.
fn start(command: &mut Command, stop: i32, dir: PathBuf, ready: impl Fn(&str) -> bool) -> Server {
    let log = dir.join("log");
    let out = fs::File::create(&log).expect("a new file");
    let child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a descriptor"))
        .stderr(out)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let server = Server { child, stop, dir };
    let begin = Instant::now();
    loop {
        let said = fs::read_to_string(&log).unwrap_or_default();
        if ready(&said) {
            return server;
        }
        assert!(
            begin.elapsed() < LIMIT,
            "the server does not answer:\n{said}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn with_redis(program: &Program, options: &Options, rounds: &mut Vec<Round>) {
    let (dir, port) = (folder("redis"), free_port());
    let mut command = Command::new("redis-server");
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
    ]);
    command.arg(&dir);
    let answers = |_: &str| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    let _server = start(&mut command, libc::SIGTERM, dir, answers);
    interleaved(program, options, &[port.to_string()], rounds);
}

/// The numbers of user and group `postgres`: PostgreSQL refuses to run as root.
fn postgres_ids() -> Option<(u32, u32)> {
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("there are users");
    let entry = passwd.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = entry
        .expect("its package makes the user")
        .split(':')
        .skip(2);
    let mut id = || {
        fields
            .next()
            .and_then(|id| id.parse().ok())
            .expect("a number")
    };
    Some((id(), id()))
}

fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((user, group)) = postgres_ids() {
        command.uid(user).gid(group);
    }
    command
}

pub(crate) fn with_postgres(program: &Program, options: &Options, rounds: &mut Vec<Round>) {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let versions = versions.map(|version| version.expect("it can be read").path().join("bin"));
    let programs = versions.max().expect("a version");
    let (dir, port) = (folder("postgres"), free_port());
    let data = dir.join("data");
    fs::create_dir(&data).expect("a new folder");
    if let Some((user, group)) = postgres_ids() {
        chown(&data, Some(user), Some(group)).expect("root may");
    }
    let mut init = as_postgres(&programs.join("initdb"));
    init.args([
        "--no-sync",
        "--auth=trust",
        "--username=ws",
        "--encoding=UTF8",
        "--locale=C",
    ]);
    let init = init.arg(&data).stdout(Stdio::null()).status();
    assert!(init.is_ok_and(|status| status.success()), "initdb failed");

    let mut command = as_postgres(&programs.join("postgres"));
    command.arg("-D").arg(&data).arg("-k").arg(&data);
    command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-F"]);
    let ready = |said: &str| said.contains("ready to accept connections");
    let _server = start(&mut command, libc::SIGINT, dir, ready);
    interleaved(program, options, &[port.to_string()], rounds);
}
