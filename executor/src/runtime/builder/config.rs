//! From the knobs to what a runtime goes by: ranges, defaults and what the environment says.

use super::{super::environment, BuildError, Builder, Priorities, Sysmon, UnhandledPanic};
use crate::{
    given::ABOVE,
    recorder::{Level, recorder_bytes},
    sched::{config::Config, state::snapshot_files::Snapshots},
};

/// The least stack that a worker gets along with. In a debug build a task that only yields
/// overflows one of 24 KiB, and one that spawns, sleeps and blocks overflows one of 28, but not one
/// of 32 (measured on x86-64 Linux). The rest is for other systems and for what tasks call.
const STACK_SIZE_MIN: usize = 64 * 1024;
/// A stack beyond this is a mistake: the threads of a runtime would not fit into an address space.
const STACK_SIZE_MAX: usize = 1 << 30;
/// Closures of `spawn_blocking` that run at a time by default. As in tokio.
const BLOCKING: usize = 512;
/// Ps are numbered by 16 bits, and there are up to two for each thread.
const THREADS_MAX: usize = 1 << 15;
/// Workers beyond this are a mistake: the order of random victims, and the final look at all
/// queues, would cost more than the work.
pub(in crate::runtime) const WORKERS_MAX: usize = 1024;
/// The most bytes of a recorder for each P.
const RECORDER_MAX: usize = 1 << 30;

impl Builder {
    pub(super) fn into_config(self) -> Result<Config, BuildError> {
        let is_paused = self.is_paused();
        let workers = match self.workers {
            Some(1) | None if is_paused => 1,
            Some(workers) if is_paused => {
                return Err(BuildError::knob(
                    "workers",
                    format!(
                        "must be 1 in a paused runtime, where tasks run in one order: it is \
                         {workers}"
                    ),
                ));
            }
            Some(workers) => check_workers("workers", workers)?,
            None => environment::workers()?,
        };
        let seed = match self.seed {
            None if is_paused => environment::seed()?,
            seed => seed,
        };
        let max_threads = self.max_threads.unwrap_or(2 * workers + BLOCKING);
        if max_threads <= workers {
            return Err(BuildError::knob(
                "max_threads",
                format!(
                    "must be more than `workers`, which is {workers}, for there must be a thread \
                     for every worker that blocks: it is {max_threads}"
                ),
            ));
        }
        if max_threads > THREADS_MAX {
            return Err(BuildError::knob(
                "max_threads",
                format!("must be at most {THREADS_MAX}: it is {max_threads}"),
            ));
        }
        if let Some(bytes) = self.stack_size
            && !(STACK_SIZE_MIN..=STACK_SIZE_MAX).contains(&bytes)
        {
            return Err(BuildError::knob(
                "stack_size",
                format!(
                    "must be between {STACK_SIZE_MIN} and {STACK_SIZE_MAX} bytes: it is {bytes}"
                ),
            ));
        }
        if let Some(problem) = self.snapshots.as_ref().and_then(Snapshots::problem) {
            return Err(BuildError::knob("snapshots", problem));
        }
        let recorder = recorder(self.recorder, workers)?;
        if self.thread_name.contains('\0') {
            return Err(BuildError::knob(
                "thread_name",
                "must not contain a NUL character",
            ));
        }
        Ok(Config {
            workers,
            max_threads,
            name: self.thread_name,
            stack_size: self.stack_size,
            keep_alive: self.keep_alive,
            shutdown_grace: self.shutdown_grace,
            panic_stops_runtime: self.unhandled_panic == UnhandledPanic::ShutdownRuntime,
            strict_priorities: self.priorities == Priorities::Strict,
            seed: seed.unwrap_or_else(random_seed),
            paused: is_paused.then_some(self.deadlock_after),
            in_order: self.in_order,
            sysmon: self.sysmon == Sysmon::On && !is_paused,
            stall: self.stall,
            lost: self.lost,
            reports: self.reports,
            hooks: self.hooks,
            host: self.host,
            above: &ABOVE,
            recorder,
            snapshots: self.snapshots.or_else(environment::snapshots),
            nodes: self.nodes,
        })
    }
}

fn recorder(
    (bytes, level): (Option<usize>, Option<Level>),
    workers: usize,
) -> Result<(usize, Level), BuildError> {
    let bytes = bytes.unwrap_or_else(|| recorder_bytes(workers));
    if bytes > RECORDER_MAX {
        return Err(BuildError::knob(
            "recorder",
            format!("must be at most {RECORDER_MAX} bytes: it is {bytes}"),
        ));
    }
    let level = match level {
        Some(level) => level,
        None => environment::level()?,
    };
    Ok((bytes, level))
}

pub(in crate::runtime) fn check_workers(
    knob: &'static str,
    workers: usize,
) -> Result<usize, BuildError> {
    match workers {
        0 => Err(BuildError::knob(knob, "must be at least 1: it is 0")),
        1..=WORKERS_MAX => Ok(workers),
        _ => Err(BuildError::knob(
            knob,
            format!(
                "must be between 1 and {WORKERS_MAX}: it is {workers}; a larger machine is for \
                 several runtimes, each bound to some of its CPUs"
            ),
        )),
    }
}

/// A seed from the keys that std draws for its hash maps.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
