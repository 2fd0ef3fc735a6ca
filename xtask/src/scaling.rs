//! Writes the tables of `docs/scaling.md`.
//!
//! Each stands between `<!-- table: NAME -->` and `<!-- end -->`. `simulated` comes of a test of
//! the executor, which has the driver, with the costs that `ws-scaling costs` measures; the others
//! of `ws-scaling NAME`. Below each stands what it was measured with.

use std::{env, fs, path::Path, process::Command};

use crate::{Failure, cargo, process::output};

const PAGE: &str = "docs/scaling.md";
const SIMULATED: &str = "simulated";
const MEASURED: &[&str] = &["tasks", "workers", "timers", "connections"];

/// Writes one table anew, or all.
pub(crate) fn write(root: &Path, only: Option<&str>) -> Result<(), Failure> {
    let known = |name: &str| name == SIMULATED || MEASURED.contains(&name);
    if let Some(name) = only.filter(|name| !known(name)) {
        return Err(format!("no table `{name}`"));
    }
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let with = measured_with(root, PAGE)?;
    let costs = env::var("WS_SIM_COSTS").ok();
    let program = cargo::target(root).join("release/ws-scaling");
    if costs.is_none() || MEASURED.iter().any(|name| wanted(name)) {
        cargo::run(
            root,
            "build --quiet --release --package ws-bench --bin ws-scaling",
        )?;
    }
    for name in MEASURED.iter().filter(|name| wanted(name)) {
        println!("measures {name}");
        let table = output(Command::new(&program).arg(name))?;
        put(root, PAGE, name, &format!("{}\n\n{with}", table.trim_end()))?;
    }
    if wanted(SIMULATED) {
        let costs = match costs {
            Some(costs) => costs,
            None => output(Command::new(&program).arg("costs"))?,
        };
        println!("simulates with {}", costs.trim());
        let table = simulate(root, costs.trim())?;
        put(
            root,
            PAGE,
            SIMULATED,
            &format!("{}\n\n{with}", table.trim_end()),
        )?;
    }
    Ok(())
}

/// The commit, the compiler and the machine. `page` is what is being written.
pub(crate) fn measured_with(root: &Path, page: &str) -> Result<String, Failure> {
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(root).args(arguments));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let but_page = format!(":!{page}");
    let changed = git(&["diff", "--name-only", "HEAD", "--", ".", &but_page])?;
    let changed = if changed.is_empty() {
        ""
    } else {
        " with changes"
    };
    let compiler = output(Command::new("rustc").arg("--version"))?;
    let path = "/proc/cpuinfo";
    let cpus = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let models: Vec<&str> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    Ok(format!(
        "At {}{changed}, {}, {} CPUs ({}).",
        commit.trim(),
        compiler.trim(),
        models.len(),
        models.first().unwrap_or(&"of an unknown kind")
    ))
}

fn simulate(root: &Path, costs: &str) -> Result<String, Failure> {
    let path = cargo::target(root).join("scaling.md");
    output(
        cargo::command(root)
            .args(["test", "--release", "--package", "ws-executor", "--lib"])
            .arg("sched::sim::scaling::the_same_seed_gives_the_same_row")
            .env("WS_SIM_TABLE", &path)
            .env("WS_SIM_COSTS", costs),
    )?;
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts a table into its place on a page.
pub(crate) fn put(root: &Path, page: &str, name: &str, table: &str) -> Result<(), Failure> {
    let path = root.join(page);
    let fails = |error: std::io::Error| format!("{}: {error}", path.display());
    let page = fs::read_to_string(&path).map_err(fails)?;
    fs::write(&path, replaced(&page, name, table)?).map_err(fails)
}

pub(crate) fn replaced(page: &str, name: &str, table: &str) -> Result<String, Failure> {
    let begin = format!("<!-- table: {name} -->\n");
    let place = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once("<!-- end -->")?;
        Some((before, after))
    });
    let (before, after) = place.ok_or_else(|| format!("the page has no place for `{name}`"))?;
    Ok(format!(
        "{before}{begin}\n{}\n\n<!-- end -->{after}",
        table.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::{MEASURED, SIMULATED, replaced};

    #[test]
    fn a_table_goes_where_it_belongs() {
        let page = "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n";
        let new = replaced(page, "x", "| new |\n").unwrap();
        let expected =
            "a\n<!-- table: x -->\n\n| new |\n\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n";
        assert_eq!(new, expected);
        assert_eq!(replaced(&new, "x", "| new |").unwrap(), expected);
        assert!(replaced(page, "z", "").is_err());
    }

    #[test]
    fn the_page_has_a_place_for_each() {
        let page = include_str!("../../docs/scaling.md");
        for name in MEASURED.iter().chain([&SIMULATED]) {
            replaced(page, name, "").unwrap();
        }
    }
}
