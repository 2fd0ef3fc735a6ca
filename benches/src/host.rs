//! On what the numbers were made: a claim of speed without its machine is none.

use std::fs;
use std::io;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The lock file that this program was built from, which knows the versions. Read when it runs: a
/// packaged crate does not bring its workspace's.
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");

/// The crates that make up what is compared.
const COMPARED: &[&str] = &[
    "ws-runtime",
    "tokio",
    "async-executor",
    "async-io",
    "blocking",
    "async-channel",
    "futures",
    "hyper",
    "rayon",
    "chili",
];

/// What follows a commit if there are changes besides, which do not tell two builds apart.
const CHANGED: &str = "-dirty";

/// The machine and the software.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Memory, in GiB.
    #[serde(default)]
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// Load average over one minute before the first row: how quiet the machine was.
    pub(crate) load: String,
    pub(crate) versions: Vec<(String, String)>,
}

impl Host {
    /// Whether a later run can be of the same build.
    pub(crate) fn is_known(&self) -> bool {
        let versions = &self.versions;
        !versions
            .iter()
            .any(|(name, version)| name == "commit" && version.ends_with(CHANGED))
    }

    /// Looks around.
    pub(crate) fn here() -> io::Result<Self> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let memory = fs::read_to_string("/proc/meminfo")?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let load = fs::read_to_string("/proc/loadavg")?;
        Ok(Host {
            cpu: model(&cpus).unwrap_or("unknown").into(),
            cores: std::thread::available_parallelism()?.get(),
            memory: gibibytes(&memory).unwrap_or_default(),
            kernel: kernel.trim().into(),
            load: load.split(' ').next().unwrap_or("unknown").into(),
            versions: compared().chain(built()).collect(),
        })
    }
}

/// The versions of what is compared.
fn compared() -> impl Iterator<Item = (String, String)> {
    COMPARED
        .iter()
        .filter_map(|name| Some((name.to_string(), version(name)?)))
}

/// The tree where this runs, since it changes while the version of the runtime stays, and the
/// compiler. Where a tool is missing, so is its line.
fn built() -> impl Iterator<Item = (String, String)> {
    let commit = says("git", &["rev-parse", "--short", "HEAD"]);
    // Where a run is kept, and what is made of it.
    let changes = ["status", "--porcelain", "--", "..", ":!../docs"];
    let changes = says("git", &changes).unwrap_or_default();
    let tree = commit.map(|commit| match changes.as_str() {
        "" => commit,
        _ => commit + CHANGED,
    });
    let compiler = says("rustc", &["--version"]);
    let compiler = compiler.and_then(|text| Some(text.split(' ').nth(1)?.to_owned()));
    let named = [("commit", tree), ("rustc", compiler)];
    named
        .into_iter()
        .filter_map(|(name, version)| Some((name.to_owned(), version?)))
}

/// What a tool prints, asked in the folder of this package.
fn says(tool: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(tool);
    let output = command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

fn gibibytes(memory: &str) -> Option<u64> {
    let line = memory.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    // What the kernel keeps for itself is missing there.
    Some(kib.div_ceil(1 << 20))
}

fn model(cpus: &str) -> Option<&str> {
    let line = cpus.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

fn version(name: &str) -> Option<String> {
    let lock = fs::read_to_string(LOCK).ok()?;
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.trim_start().lines().next() == Some(&format!("name = \"{name}\"")))?;
    let line = entry
        .lines()
        .find_map(|line| line.strip_prefix("version = \""))?;
    line.strip_suffix('"').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{COMPARED, built, gibibytes, version};

    #[test]
    fn lock_file_knows_every_version() {
        for name in COMPARED {
            assert!(version(name).is_some(), "{name}");
        }
        assert_eq!(version("no-such-crate"), None);
    }

    #[test]
    fn two_builds_can_be_told_apart() {
        let compiler = built().find(|(name, _)| name == "rustc");
        let version = compiler.map(|(_, version)| version);
        assert!(version.is_some_and(|version| version.starts_with("1.")));
    }

    #[test]
    fn memory_is_read_in_gibibytes() {
        let text = "MemTotal:       24652320 kB\nMemFree: 1 kB\n";
        assert_eq!(gibibytes(text), Some(24));
        assert_eq!(gibibytes(""), None);
    }
}
