//! Clippy over the workspaces of proofs and examples: their libraries are checked for it once more,
//! which CI has no time for. Their tests run in CI.

use std::time::Duration;

use super::{Outcome, shop::Shop};
use crate::tokio;

/// The folders of these workspaces.
const WORKSPACES: &[&str] = &[
    "tests/ecosystem",
    "compat/tokio/proofs",
    "compat/tokio/simulated",
    "examples/kv",
];
const LIMIT: Duration = Duration::from_secs(20 * 60);

pub(super) fn clippy(shop: &Shop) -> Outcome {
    let environment = tokio::environment(&shop.root)?;
    for folder in WORKSPACES {
        let mut command = shop.cargo("clippy");
        command
            .current_dir(shop.root.join(folder))
            .envs(environment.clone())
            .args(["clippy", "--locked", "--workspace", "--all-targets"])
            .args(["--", "-D", "warnings"]);
        let name = format!("clippy-{}", folder.replace('/', "-"));
        let log = shop.run(&name, LIMIT, command)?;
        if !log.status.success() {
            return Err(format!("{folder}: see {name} in {}", shop.logs.display()));
        }
    }
    Ok(format!("{} workspaces without a warning", WORKSPACES.len()))
}
