//! The arguments, checked here so that the rest can rely on them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
Serves /hello, /files/PATH, /fib/N, /sleep/MS and /metrics over HTTP, until Ctrl-C or SIGTERM.

  --listen ADDR     address and port; port 0 takes a free one [127.0.0.1:8080]
  --inspect ADDR    address of loopback, and port, of a page that shows what the scheduler does [none]
  --workers N       how many tasks run at a time [one for each CPU]
  --dir PATH        the folder whose files are served [.]
  --connections N   how many connections are open at a time; more wait in the listener's queue [10000]
  --write-time SECONDS
                    how long a client may take nothing of its answer [30]
  --ended-time SECONDS
                    how long an answer is worked on, with nothing written, for a client that has ended its sending
                    side, since it may be gone [2]
  --grace SECONDS   how long requests in flight may take at the end [10]
  --help            this text";

pub(crate) struct Args {
    pub(crate) listen: SocketAddr,
    /// Where the page of `ws::inspect` is.
    pub(crate) inspect: Option<SocketAddr>,
    /// As the runtime has it unless given.
    pub(crate) workers: Option<usize>,
    /// An absolute path without links, of a folder that was there when we looked.
    pub(crate) dir: PathBuf,
    pub(crate) connections: usize,
    pub(crate) write_time: Duration,
    pub(crate) ended_time: Duration,
    pub(crate) grace: Duration,
}

pub(crate) enum Parsed {
    Run(Args),
    Help,
}

impl Args {
    pub(crate) fn parse(mut parser: Parser) -> Result<Parsed, lexopt::Error> {
        let mut listen = SocketAddr::from(([127, 0, 0, 1], 8080));
        let mut inspect = None;
        let mut workers = None;
        let mut dir = PathBuf::from(".");
        let mut connections = 10_000;
        let mut write_time = 30;
        let mut ended_time = 2;
        let mut grace = 10;
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("listen") => {
                    let example = "an address and a port, such as 127.0.0.1:8080";
                    listen = value(&mut parser, "--listen", example)?;
                }
                Arg::Long("inspect") => {
                    let example = "an address of loopback and a port, such as 127.0.0.1:7070";
                    inspect = Some(value(&mut parser, "--inspect", example)?);
                }
                Arg::Long("workers") => {
                    let n = value(&mut parser, "--workers", "a number from 1 to 1024")?;
                    if !(1..=1024).contains(&n) {
                        return Err(
                            format!("--workers takes a number from 1 to 1024, not {n}").into()
                        );
                    }
                    workers = Some(n);
                }
                Arg::Long("connections") => {
                    connections = value(&mut parser, "--connections", "a number from 1 on")?;
                    if connections == 0 {
                        return Err("--connections takes a number from 1 on, not 0".into());
                    }
                }
                Arg::Long("write-time") => {
                    // Bounded, as the grace is.
                    write_time = value(&mut parser, "--write-time", "whole seconds from 1 on")?;
                    if write_time == 0_u32 {
                        return Err("--write-time takes whole seconds from 1 on, not 0".into());
                    }
                }
                Arg::Long("ended-time") => {
                    let seconds: u32 = value(&mut parser, "--ended-time", "whole seconds")?;
                    ended_time = seconds;
                }
                Arg::Long("dir") => dir = parser.value()?.into(),
                Arg::Long("grace") => {
                    // Bounded, so that it can be added to any moment.
                    let seconds: u32 = value(&mut parser, "--grace", "whole seconds")?;
                    grace = seconds;
                }
                Arg::Long("help") | Arg::Short('h') => return Ok(Parsed::Help),
                other => return Err(other.unexpected()),
            }
        }
        Ok(Parsed::Run(Self {
            listen,
            inspect,
            workers,
            dir: folder(&dir)?,
            connections,
            write_time: Duration::from_secs(write_time.into()),
            ended_time: Duration::from_secs(ended_time.into()),
            grace: Duration::from_secs(grace.into()),
        }))
    }
}

/// The value of an option, or an error that says what it should be.
fn value<T: FromStr>(parser: &mut Parser, option: &str, what: &str) -> Result<T, lexopt::Error> {
    let text = parser.value()?.string()?;
    text.parse()
        .map_err(|_| format!("{option} takes {what}, not {text:?}").into())
}

fn folder(path: &Path) -> Result<PathBuf, lexopt::Error> {
    let fault = |what: &dyn std::fmt::Display| format!("--dir {}: {what}", path.display());
    let real = path.canonicalize().map_err(|error| fault(&error))?;
    if !real.is_dir() {
        return Err(fault(&"not a folder").into());
    }
    Ok(real)
}
