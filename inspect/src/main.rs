//! Shows a snapshot of a program on `ws` in the browser: what it did last, its tasks and its
//! stalls.
//!
//! ```text
//! cargo run -p ws-inspect /var/log/orders/orders-17-1795822398-0001-stall.pftrace
//! ```
//!
//! The page is that of `ws::inspect`, and the file is one that `Builder::snapshots` names a folder
//! for, or that was downloaded from the page.
//!
//! With `--firefox` it shows no page, and writes a profile for <https://profiler.firefox.com>.
#![expect(
    clippy::print_stdout,
    reason = "a program that reports on its standard output"
)]

mod file;
mod firefox;

use std::{
    fmt::Display,
    fs::File,
    io,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use file::Snapshot;
use lexopt::{Arg, Parser, ValueExt};

const HELP: &str = "\
Shows a snapshot of a ws program in the browser.

  ws-inspect FILE.pftrace

  --listen ADDR   address of loopback, and port; port 0 takes a free one [127.0.0.1:0]
  --firefox OUT   write a profile for https://profiler.firefox.com into this file, and show no page
  --help          this text";

struct Args {
    file: PathBuf,
    listen: String,
    firefox: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = match parse(Parser::from_env()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            warn(format_args!(
                "{error}\n`ws-inspect --help` lists the options"
            ));
            return ExitCode::from(2);
        }
    };
    let done = match &args.firefox {
        Some(out) => convert(&args.file, out),
        None => serve(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(error);
            ExitCode::FAILURE
        }
    }
}

/// Nothing if help was asked for.
fn parse(mut parser: Parser) -> Result<Option<Args>, lexopt::Error> {
    let mut file = None;
    let mut firefox = None;
    let mut listen = "127.0.0.1:0".to_owned();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("listen") => listen = parser.value()?.string()?,
            Arg::Long("firefox") => firefox = Some(parser.value()?.into()),
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            Arg::Value(path) if file.is_none() => file = Some(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("a file is missing: a snapshot, which ends in .pftrace")?;
    Ok(Some(Args {
        file,
        listen,
        firefox,
    }))
}

/// An error of a file.
fn of_file(path: &Path) -> impl Fn(&dyn Display) -> io::Error {
    move |error| io::Error::other(format!("{}: {error}", path.display()))
}

fn tell_of_part(file: &Path) {
    let file = file.display();
    warn(format_args!(
        "{file} has more events than are shown: the oldest are left out"
    ));
}

/// Writes the snapshot as a profile.
fn convert(file: &Path, out: &Path) -> io::Result<()> {
    let fault = of_file(file);
    let opened = File::open(file).map_err(|error| fault(&error))?;
    let members = file::members(file::buffered(&opened));
    let (members, is_part) = members.map_err(|error| fault(&error))?;
    if is_part {
        tell_of_part(file);
    }
    let fault = of_file(out);
    let create = File::create(out).map_err(|error| fault(&error))?;
    let mut writer = io::BufWriter::new(create);
    serde_json::to_writer(&mut writer, &firefox::profile(&members)).map_err(|it| fault(&it))?;
    writer.flush().map_err(|error| fault(&error))?;
    println!(
        "{} is written: open it at https://profiler.firefox.com",
        out.display()
    );
    Ok(())
}

/// Serves until the process is ended.
fn serve(args: Args) -> io::Result<()> {
    let path = args.file.display();
    let fault = of_file(&args.file);
    let file = File::open(&args.file).map_err(|error| fault(&error))?;
    let snapshot = Snapshot::read(file).map_err(|error| fault(&error))?;
    if snapshot.is_part() {
        tell_of_part(&args.file);
    }
    let runtime = ws::runtime::Builder::new().workers(1).build()?;
    runtime.block_on(async move {
        let page = ws::inspect::serve_source(snapshot, args.listen).await?;
        println!("{path} is at http://{}", page.addr());
        std::future::pending().await
    })
}

fn warn(line: impl Display) {
    eprintln!("ws-inspect: {line}");
}
