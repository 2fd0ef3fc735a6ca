//! On what the numbers were made: a claim of speed without its machine is none.

use std::fs;
use std::io;

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

/// The machine and the software.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Load average over one minute before the first row: how quiet the machine was.
    pub(crate) load: String,
    pub(crate) versions: Vec<(String, String)>,
}

impl Host {
    /// Looks around.
    pub(crate) fn here() -> io::Result<Self> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let load = fs::read_to_string("/proc/loadavg")?;
        Ok(Host {
            cpu: model(&cpus).unwrap_or("unknown").into(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: kernel.trim().into(),
            load: load.split(' ').next().unwrap_or("unknown").into(),
            versions: COMPARED
                .iter()
                .filter_map(|name| Some((name.to_string(), version(name)?)))
                .collect(),
        })
    }
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
    use super::{COMPARED, version};

    #[test]
    fn lock_file_knows_every_version() {
        for name in COMPARED {
            assert!(version(name).is_some(), "{name}");
        }
        assert_eq!(version("no-such-crate"), None);
    }
}
