//! Memory orderings: each file that uses one stronger than `Relaxed` has a row in
//! `docs/orderings.md`, with the loom models that check it or the reason why none does.
//!
//! Orderings are read from the text: one of the four names as an argument, an import, a value, or
//! behind `Ordering::`. Comments are passed over, and so is what follows `mod tests {`, which ends
//! a file. A name that an import gives to an ordering is not seen.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Failure,
    tree::{at, entries},
};

const PAGE: &str = "docs/orderings.md";
/// Folders of what ships.
const SOURCES: [&str; 10] = [
    "src",
    "queue/src",
    "executor/src",
    "reactor/src",
    "stack/src",
    "net/src",
    "sim/src",
    "compat/tokio/src",
    "macros/src",
    "inspect/src",
];
/// Files of these names, and folders, are no part of what ships.
const OF_TESTS: [&str; 3] = ["tests", "models", "steps"];
/// The driver of virtual workers: the file and its folder. (`executor/src/sim` and the package
/// `sim` are for users.)
const OF_TESTS_BY_PATH: &str = "executor/src/sched/sim";
const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

#[derive(Debug, PartialEq)]
struct Row {
    file: String,
    models: Vec<String>,
    reason: String,
}

/// Compares the page with the source.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let page = root.join(PAGE);
    let rows = rows(&fs::read_to_string(&page).map_err(at(&page))?);
    let mut files = BTreeSet::new();
    for folder in SOURCES {
        look(&root.join(folder), folder, &mut files)?;
    }
    let mut faults = faults(&rows, &files);
    for row in &rows {
        for model in &row.models {
            if !has_model(root, &row.file, model)? {
                faults.push(format!(
                    "{PAGE}: `{}` names the model `{model}`, which does not exist",
                    row.file
                ));
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    let alone = rows.iter().filter(|row| row.models.is_empty()).count();
    println!(
        "{} files with memory orderings; {alone} have a reason in place of a model",
        rows.len()
    );
    Ok(())
}

fn faults(rows: &[Row], files: &BTreeSet<String>) -> Vec<String> {
    let named: BTreeSet<_> = rows.iter().map(|row| &row.file).collect();
    let missing = files.iter().filter(|file| !named.contains(file));
    let missing = missing.map(|file| {
        format!("{file} uses an ordering stronger than Relaxed, and has no row in {PAGE}")
    });
    let stale = rows.iter().filter(|row| !files.contains(&row.file));
    let stale = stale.map(|row| format!("{PAGE} has a row for {}, which uses none", row.file));
    let bare = rows
        .iter()
        .filter(|row| row.models.is_empty() && row.reason.is_empty());
    let bare = bare.map(|row| format!("{PAGE}: {} has no model and no reason", row.file));
    missing.chain(stale).chain(bare).collect()
}

/// The rows of the table.
fn rows(page: &str) -> Vec<Row> {
    let cells = page.lines().filter(|line| line.starts_with("| `"));
    cells
        .filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let [_, file, _, models, reason, _] = cells[..] else {
                return None;
            };
            Some(Row {
                file: quoted(file).next()?.to_owned(),
                models: quoted(models).map(str::to_owned).collect(),
                reason: reason.to_owned(),
            })
        })
        .collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Notes the files below `folder`, which is `path` from the root, that use one.
fn look(folder: &Path, path: &str, found: &mut BTreeSet<String>) -> Result<(), Failure> {
    for entry in entries(folder)? {
        let file = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{path}/{name}");
        if is_of_tests(&path) {
            continue;
        }
        if file.is_dir() {
            look(&file, &path, found)?;
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&file).map_err(at(&file))?;
            if uses_a_strong_one(&text) {
                found.insert(path);
            }
        }
    }
    Ok(())
}

/// Whether a file or folder, by its path from the root, is no part of what ships.
fn is_of_tests(path: &str) -> bool {
    let path = path.trim_end_matches(".rs");
    let name = path.rsplit('/').next().unwrap_or_default();
    OF_TESTS.contains(&name) || path == OF_TESTS_BY_PATH
}

fn uses_a_strong_one(text: &str) -> bool {
    let mut code = text
        .lines()
        .take_while(|line| *line != "mod tests {")
        .map(|line| line.split("//").next().unwrap_or_default());
    code.any(|line| {
        STRONG.iter().any(|name| {
            line.match_indices(name)
                .any(|(from, _)| is_one(line, from, name))
        })
    })
}

/// Whether the name at `from` is an ordering, by what stands around it.
fn is_one(line: &str, from: usize, name: &str) -> bool {
    let (before, after) = (
        line[..from].trim_end(),
        line[from + name.len()..].trim_start(),
    );
    let opens = before.is_empty() || before.ends_with(['(', ',', '{', '=', '>']);
    let closes = after.is_empty() || after.starts_with([',', ')', '}', ';']);
    closes && (opens || before.ends_with("Ordering::"))
}

/// Whether the package of `file` has the model: `FILE::NAME`, or `FILE::*`.
fn has_model(root: &Path, file: &str, model: &str) -> Result<bool, Failure> {
    let package = file.split('/').next().unwrap_or_default();
    let Some((of, name)) = model.split_once("::") else {
        return Ok(false);
    };
    let path = root.join(format!("{package}/src/models/{of}.rs"));
    if !path.is_file() {
        return Ok(false);
    }
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    Ok(name == "*" || text.contains(&format!("fn {name}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orderings_are_seen_where_they_are_used() {
        for code in [
            "self.word.load(Acquire)",
            "x.compare_exchange(a, b, Ordering::AcqRel, Ordering::Relaxed)",
            "    Ordering::{Acquire, Relaxed},",
            "fence(SeqCst);",
            "        Release,",
            "let order = if last { AcqRel } else { Relaxed };",
            "const ORDER: Ordering = SeqCst;",
            "Side::Owner => Acquire,",
        ] {
            assert!(uses_a_strong_one(code), "{code}");
        }
        for other in [
            "// Ordering: Acquire, as above",
            "struct Release(u8);",
            "impl Drop for Release {",
            "let release = Release(reserved);",
            "x.load(Relaxed)",
            "#[cfg(test)]\nmod tests {\n    x.load(SeqCst);\n}",
        ] {
            assert!(!uses_a_strong_one(other), "{other}");
        }
    }

    // Fails if the simulator that users have passes for the driver of the scheduler's tests.
    #[test]
    fn what_ships_is_told_from_tests() {
        for path in ["sim/src/sim.rs", "sim/src/sim", "executor/src/sim.rs"] {
            assert!(!is_of_tests(path), "{path}");
        }
        for path in [
            "executor/src/sched/sim.rs",
            "executor/src/sched/sim",
            "queue/src/steps",
            "executor/src/timer/shard/tests.rs",
        ] {
            assert!(is_of_tests(path), "{path}");
        }
    }

    #[test]
    fn a_file_without_a_row_and_a_row_without_a_file_are_faults() {
        let page = "| `a.rs` | p | `m::x` | |\n| `b.rs` | p | | |\n";
        let files = BTreeSet::from(["a.rs".to_owned(), "c.rs".to_owned()]);
        let faults = faults(&rows(page), &files);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("c.rs uses"), "{faults:?}");
        assert!(faults[1].contains("row for b.rs"), "{faults:?}");
        assert!(faults[2].contains("b.rs has no model"), "{faults:?}");
    }

    #[test]
    fn a_model_that_does_not_exist_is_seen() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is a folder of the workspace");
        let has = |model| has_model(root, "queue/src/local.rs", model).expect("it can be read");
        assert!(has("queue::two_thieves") && has("queue::*"));
        assert!(!has("queue::no_such_model") && !has("no_such_file::*") && !has("queue"));
    }
}
