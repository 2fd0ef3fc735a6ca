//! Writes the tables of `docs/large-machines.md` that a simulation counts: the lines of cache that
//! go from CPU to CPU (`executor/src/sched/sim/lines.rs`).

use std::{fs, path::Path};

use crate::{Failure, cargo, process::output, scaling};

const PAGE: &str = "docs/large-machines.md";
const NAME: &str = "moved-lines";

/// Counts, and writes what came of it.
pub(crate) fn write(root: &Path) -> Result<(), Failure> {
    let target = cargo::target(root).join("lines");
    let path = target.join("moved-lines.md");
    output(
        cargo::command(root)
            .env("RUSTFLAGS", "--cfg ws_lines")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .args(["test", "--package", "ws-executor", "--lib", "--target-dir"])
            .arg(&target)
            .arg("sched::sim::lines::")
            .env("WS_SIM_TABLE", &path),
    )?;
    let table =
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let with = scaling::measured_with(root, PAGE)?;
    scaling::put(root, PAGE, NAME, &format!("{}\n\n{with}", table.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::{NAME, scaling};

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = include_str!("../../docs/large-machines.md");
        scaling::replaced(page, NAME, "").unwrap();
    }
}
