//! The bound on workers by default: the CPUs that the process may use, by affinity and by cgroup
//! quota, rounded up; `WS_WORKERS` overrides them.
//!
//! It fails when `cpus::available` does not read the quota itself (std rounds 1.5 CPUs down), or
//! not round up.
//!
//! The quota is a process's, so the test runs itself in a child within a group of its own. Only
//! root may make one, and only where the hierarchy can be written; elsewhere the test says that it
//! is skipped.

#![cfg(target_os = "linux")]

use crate::common;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use common::limited;
use ws_executor::runtime::Builder;

/// Tells the child how many workers there should be.
const CHILD: &str = "WS_TEST_WORKERS";

/// A group with a quota, which goes with its value.
struct Group(PathBuf);

impl Group {
    fn new(quota_us: u32, period_us: u32) -> io::Result<Self> {
        let name = format!("ws-test-{}-{quota_us}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let v1 = root.join("cpu");
        if v1.join("cpu.cfs_quota_us").exists() {
            let group = Self(v1.join(name));
            fs::create_dir(&group.0)?;
            fs::write(group.0.join("cpu.cfs_period_us"), period_us.to_string())?;
            fs::write(group.0.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            Ok(group)
        } else {
            let group = Self(root.join(name));
            fs::create_dir(&group.0)?;
            fs::write(group.0.join("cpu.max"), format!("{quota_us} {period_us}"))?;
            Ok(group)
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
    }
}

fn affinity() -> usize {
    let count = Command::new("nproc").output().unwrap();
    String::from_utf8(count.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn in_a_child(workers: usize, prelude: &str, variable: Option<&str>) {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{prelude} exec \"$0\" \"$@\"")])
        .arg(env::current_exe().unwrap())
        .args([
            "--exact",
            "workers_fit_the_quota::by_quota_and_by_variable",
            "--nocapture",
        ])
        .env_remove("WS_WORKERS")
        .env(CHILD, workers.to_string());
    if let Some(value) = variable {
        command.env("WS_WORKERS", value);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{prelude} {variable:?}: {said}");
}

#[test]
fn by_quota_and_by_variable() {
    if let Ok(workers) = env::var(CHILD) {
        let runtime = Builder::new().build().unwrap();
        assert_eq!(runtime.handle().metrics().workers.to_string(), workers);
        // And they work.
        assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
        return;
    }
    limited(|| {
        let cpus = affinity();
        in_a_child(cpus, "", None);
        in_a_child(3, "", Some("3"));
        in_a_child(1, "taskset -p 1 $$ >&2 &&", None);
        for (quota, most) in [(50_000, 1), (150_000, 2), (200_000, 2), (1_050_000, 11)] {
            let group = match Group::new(quota, 100_000) {
                Ok(group) => group,
                Err(error) => {
                    common::skipped(format!("a group with a quota of CPU: {error}"));
                    return;
                }
            };
            let procs = group.0.join("cgroup.procs");
            let prelude = format!("echo $$ >{} &&", procs.display());
            in_a_child(cpus.min(most), &prelude, None);
            in_a_child(5, &prelude, Some("5"));
        }
    });
}
