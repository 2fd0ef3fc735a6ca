//! The examples of the root package on another system or processor, as a user runs them.
//!
//! Some end by themselves ([`ENDING`]), two are servers with a client here, and `graceful` ends
//! with a Ctrl-C. `serve` is not among them, since `tests/serve` runs it; nor are `soak`, which
//! takes minutes, and `kv`, which is a package of its own.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Failure,
    deep::shop::{Log, Shop},
    process,
    tree::at,
};

/// The name of an example, its arguments, and a part of what it says.
const ENDING: &[(&str, &[&str], &str)] = &[
    ("hello", &[], "hello from a task"),
    ("compute", &[], "batch 3: "),
    ("parallel", &[], "1000000 odd numbers"),
    ("priorities", &[], "health checks, 99 %"),
    ("incidents", &["forgets"], "\"inbox\""),
    ("incidents", &["ring"], "\"writer\""),
    ("incidents", &["leak"], "live_tasks 500"),
];
const SERVERS: [&str; 2] = ["echo", "chat"];
/// For each of them, with its build.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// For what a client waits for.
const ANSWER: Duration = Duration::from_secs(60);
/// Between two signals.
const PAUSE: Duration = Duration::from_secs(1);

/// How examples are built and run somewhere.
pub(super) struct Place<'a> {
    pub(super) shop: &'a Shop,
    /// The beginning of the names of the logs.
    pub(super) label: String,
    /// Cargo for the target, with a verb.
    pub(super) cargo: &'a dyn Fn(&str) -> Command,
    /// The program of an example that is built.
    pub(super) program: &'a dyn Fn(&str) -> Command,
}

impl Place<'_> {
    /// Runs those that end by themselves, and the servers. Returns how many runs that were.
    pub(super) fn check(&self) -> Result<usize, Failure> {
        for (name, arguments, said) in ENDING {
            let mut command = (self.cargo)("run");
            command.args(["--package=ws-runtime", "--example", name, "--"]);
            let what = [&[*name], *arguments].concat().join("-");
            command.args(*arguments);
            let log = self.run(&what, command)?;
            log.success()?;
            if !log.text.contains(said) {
                return Err(format!("{what} did not say {said:?}; see {}", log.path()));
            }
        }
        self.build(&SERVERS)?;
        self.serve("echo", echo)?;
        self.serve("chat", chat)?;
        Ok(ENDING.len() + SERVERS.len())
    }

    /// Ends `graceful` as a terminal does on a Ctrl-C.
    pub(super) fn interrupt(&self) -> Result<(), Failure> {
        self.build(&["graceful"])?;
        let mut child = self.start("graceful", &[])?;
        let told = self.end_by_signal(&mut child);
        self.stop("graceful", &mut child, told)
    }

    fn end_by_signal(&self, child: &mut Child) -> io::Result<()> {
        let mut said = said_by(child);
        let mut line = String::new();
        said.read_line(&mut line)?;
        // It may not listen yet when it says that it works. A second one ends it all the same.
        let id = child.id().to_string();
        let begin = Instant::now();
        let status = loop {
            if !Command::new("kill").args(["-INT", &id]).status()?.success() {
                return Err(io::Error::other("kill found no such process"));
            }
            let status = process::wait(child, PAUSE)?;
            if status.is_some() || begin.elapsed() > ANSWER {
                break status;
            }
        };
        let mut rest = String::new();
        if status.is_some() {
            said.read_to_string(&mut rest)?;
        }
        if status.is_some_and(|status| status.success()) && rest.contains("draining") {
            return Ok(());
        }
        Err(io::Error::other(format!("{status:?} after {line}{rest}")))
    }

    fn serve(&self, name: &str, ask: fn(&str) -> io::Result<()>) -> Result<(), Failure> {
        let mut server = self.start(name, &["127.0.0.1:0"])?;
        let mut line = String::new();
        let answer = said_by(&mut server)
            .read_line(&mut line)
            .and_then(|_| ask(line.trim().trim_start_matches("listening on ")));
        self.stop(name, &mut server, answer)
    }

    fn build(&self, names: &[&str]) -> Result<(), Failure> {
        let mut command = (self.cargo)("build");
        command.arg("--package=ws-runtime");
        for name in names {
            command.args(["--example", name]);
        }
        self.run(&names.join("-"), command)?.success()
    }

    fn run(&self, name: &str, command: Command) -> Result<Log, Failure> {
        self.shop
            .run(&format!("{}-{name}", self.label), LIMIT, command)
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Result<Child, Failure> {
        let mut command = (self.program)(name);
        command.args(arguments).stdout(Stdio::piped());
        command.spawn().map_err(at(command.get_program().as_ref()))
    }

    /// Ends a program, whatever became of the conversation with it.
    fn stop(&self, name: &str, child: &mut Child, told: io::Result<()>) -> Result<(), Failure> {
        let failed = |error: &dyn fmt::Display| format!("{name} of {}: {error}", self.label);
        process::wait_or_kill(child, Duration::ZERO).map_err(|error| failed(&error))?;
        told.map_err(|error| failed(&error))
    }
}

fn said_by(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().expect("it is a pipe"))
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    Ok(stream)
}

fn echo(address: &str) -> io::Result<()> {
    const WORDS: &[u8] = b"a few words";
    let mut stream = connect(address)?;
    stream.write_all(WORDS)?;
    let mut answer = [0; WORDS.len()];
    stream.read_exact(&mut answer)?;
    is(&answer, WORDS)
}

/// What the second one says, the first one reads.
fn chat(address: &str) -> io::Result<()> {
    let mut first = BufReader::new(connect(address)?);
    let mut line = String::new();
    first.read_line(&mut line)?;
    first.get_mut().write_all(b"first\n")?;
    // Nobody tells the first one that it is in. So the second one speaks until it is heard.
    let mut second = connect(address)?;
    second.write_all(b"second\n")?;
    while line != "second: hello\n" {
        second.write_all(b"hello\n")?;
        line.clear();
        if first.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn is(answer: &[u8], expected: &[u8]) -> io::Result<()> {
    if answer == expected {
        return Ok(());
    }
    Err(io::Error::other("it sent back something else"))
}
