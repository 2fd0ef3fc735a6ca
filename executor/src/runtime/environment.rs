//! What the environment says of a runtime, where its builder says nothing.

use std::{env::VarError, str::FromStr};

use super::{
    BuildError,
    builder::{WORKERS_MAX, check_workers},
    cpus,
};
use crate::{recorder::Level, sched::state::snapshot_files::Snapshots};

/// The environment's word on the number of workers.
const WORKERS_VARIABLE: &str = "WS_WORKERS";
/// The environment's word on the seed of a runtime with virtual time.
const SEED_VARIABLE: &str = "WS_TEST_SEED";

/// What `WS_SNAPSHOTS` says.
pub(super) fn snapshots() -> Option<Snapshots> {
    let dir = std::env::var_os("WS_SNAPSHOTS").filter(|dir| !dir.is_empty())?;
    Some(Snapshots::to(dir))
}

/// What `WS_RECORD` says.
pub(super) fn level() -> Result<Level, BuildError> {
    const VARIABLE: &str = "WS_RECORD";
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    if text.is_empty() {
        return Ok(Level::default());
    }
    text.to_string_lossy()
        .parse()
        .map_err(|error| BuildError::knob(VARIABLE, format!("{error}: it is {text:?}")))
}

/// What the variable of the workers says, or the system.
pub(super) fn workers() -> Result<usize, BuildError> {
    match from_environment(WORKERS_VARIABLE, "must be a number")? {
        None => Ok(cpus::available().min(WORKERS_MAX)),
        Some(workers) => check_workers(WORKERS_VARIABLE, workers),
    }
}

/// What the variable of the seed says.
pub(super) fn seed() -> Result<Option<u64>, BuildError> {
    from_environment(SEED_VARIABLE, "must be a number below 2^64")
}

/// A number from the environment. A variable that is empty is one that is not set.
fn from_environment<T: FromStr>(
    variable: &'static str,
    shape: &str,
) -> Result<Option<T>, BuildError> {
    let text = match std::env::var(variable) {
        Err(VarError::NotPresent) => return Ok(None),
        Err(VarError::NotUnicode(_)) => return Err(BuildError::knob(variable, shape)),
        Ok(text) => text,
    };
    match text.trim() {
        "" => Ok(None),
        number => number
            .parse()
            .map(Some)
            .map_err(|_| BuildError::knob(variable, format!("{shape}: it is {text:?}"))),
    }
}
