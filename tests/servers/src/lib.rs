//! Real servers for tests and comparisons: each is a process in a folder and on a port of its own.
//!
//! A server ends when its [`Server`] is dropped, and when the process that started it ends, however
//! that happens. Nothing here needs a runtime: waits block the thread.

use std::{
    env,
    fs::{self, File, Permissions},
    io, iter,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a server may take until it answers, or until it has stopped.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    command: Command,
    port: u16,
    folder: TempDir,
    /// A server that this one needs.
    beside: Option<Box<Self>>,
}

impl Server {
    /// Starts the program that `command` makes of a folder and a port, and waits until something
    /// listens on the port.
    ///
    /// # Panics
    ///
    /// If the program is not installed, ends, or does not listen in time.
    pub fn start(command: impl FnOnce(&Path, u16) -> Command) -> Self {
        let folder = folder();
        let port = free_port();
        let mut command = command(folder.path(), port);
        end_with_this_thread(&mut command);
        let child = spawn(&mut command, folder.path());
        let mut server = Self {
            child,
            command,
            port,
            folder,
            beside: None,
        };
        server.listening();
        server
    }

    /// Starts it again, with the same folder and port, once it was killed.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&mut self.command, self.folder.path());
        self.listening();
    }

    /// Ends it at once, as a machine that loses its power.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until `ready` says so.
    ///
    /// # Panics
    ///
    /// If the server ends, or takes too long.
    pub fn wait_until(&mut self, mut ready: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !ready(self) {
            let ended = self.child.try_wait().expect("it was started here");
            assert!(
                ended.is_none() && began.elapsed() < LIMIT,
                "{:?} does not answer ({ended:?}):\n{}",
                self.command,
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn listening(&mut self) {
        self.wait_until(|server| TcpStream::connect(server.address()).is_ok());
    }

    /// The port of this machine that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its own folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it has said on stdout and stderr.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &mut Command, folder: &Path) -> Child {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .expect("the folder is ours");
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// The system kills the process when the thread that started it ends: a test's thread, with its
/// test.
fn end_with_this_thread(command: &mut Command) {
    let bind = || {
        // SAFETY: a system call without pointers.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec there is a system call alone, and no allocation.
    unsafe { command.pre_exec(bind) };
}

/// A folder that every user may enter: some servers refuse to run as root.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("ws-server-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir();
    folder.expect("a folder for temporary files")
}

/// A port of this machine that nothing listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// The path of an installed program, also of those that Debian keeps off the path.
///
/// # Panics
///
/// If it is not there.
pub fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let path = env::var_os("PATH").unwrap_or_default();
    // RabbitMQ itself comes before the script of its name on the path, which changes the user.
    iter::once(PathBuf::from("/usr/lib/rabbitmq/bin"))
        .chain(env::split_paths(&path))
        .chain([PathBuf::from("/usr/sbin")])
        .chain(versions)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed"))
}

/// A Redis that keeps nothing.
pub fn redis() -> Server {
    Server::start(|folder, port| {
        let mut command = Command::new(program("redis-server"));
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--dir"]).arg(folder);
        command
    })
}

/// A new PostgreSQL. Its user is `ws`, without a password, and its database is `postgres`.
pub fn postgres() -> Server {
    let mut server = Server::start(|folder, port| {
        let data = folder.join("data");
        fs::create_dir(&data).expect("the folder is ours");
        let user = postgres_user();
        if let Some((user, group)) = user {
            chown(&data, Some(user), Some(group)).expect("root may");
        }
        let by_user = |name| {
            let mut command = Command::new(program(name));
            command.current_dir("/");
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let mut init = by_user("initdb");
        init.args(["--no-sync", "--auth=trust", "--username=ws"]);
        init.args(["--encoding=UTF8", "--locale=C"]).arg(&data);
        let init = init.stdin(Stdio::null()).output().expect("initdb runs");
        assert!(init.status.success(), "{init:?}");

        let mut command = by_user("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(&data);
        command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-F"]);
        command
    });
    // It listens before it lets anybody in.
    server.wait_until(|server| server.log().contains("ready to accept connections"));
    server
}

/// The numbers of user and group `postgres`, if this is root: PostgreSQL refuses to run as root.
fn postgres_user() -> Option<(u32, u32)> {
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let user = users.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = user.expect("its package makes the user").split(':').skip(2);
    let mut number = || {
        fields
            .next()
            .and_then(|number| number.parse().ok())
            .expect("a number")
    };
    Some((number(), number()))
}

/// A NATS with JetStream, which keeps its streams when it is started again.
pub fn nats() -> Server {
    Server::start(|folder, port| {
        let mut command = Command::new(program("nats-server"));
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--jetstream").arg("--store_dir").arg(folder);
        command
    })
}

/// A Mosquitto that lets everybody in, and keeps nothing.
pub fn mosquitto() -> Server {
    Server::start(|folder, port| {
        let file = folder.join("conf");
        let conf = format!("listener {port} 127.0.0.1\nallow_anonymous true\n");
        fs::write(&file, conf).expect("the folder is ours");
        let mut command = Command::new(program("mosquitto"));
        command.arg("-c").arg(file);
        command
    })
}

/// A RabbitMQ with the user `guest`, whose password is `guest`. It keeps what is durable.
pub fn rabbitmq() -> Server {
    // RabbitMQ would start a daemon of its own, which outlives it.
    let epmd = Server::start(|_, port| {
        let mut command = Command::new(program("epmd"));
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        command
    });
    let epmd_port = epmd.port().to_string();
    let mut server = Server::start(|folder, port| {
        fs::write(folder.join("plugins"), "[].").expect("the folder is ours");
        let mut command = Command::new(program("rabbitmq-server"));
        command
            .current_dir(folder)
            .env("HOME", folder)
            .env("RABBITMQ_NODENAME", format!("ws-{port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", free_port().to_string())
            .env("ERL_EPMD_PORT", epmd_port)
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_PID_FILE", folder.join("pid"))
            // One process, instead of a shell and a process.
            .env("RUNNING_UNDER_SYSTEMD", "1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            );
        command
    });
    server.beside = Some(Box::new(epmd));
    // It listens before it lets anybody in.
    server.wait_until(|server| server.log().contains("Server startup complete"));
    server
}
