//! What tasks of the default priority pay for the others (O5).
//!
//! The tree is copied and `ws-count` built twice there, the second time with
//! `benches/no_ordered_look.patch`, which takes away every look at the ordered queues that a step
//! of the scheduler has for tasks that are in none. The same folder and the same target folder for
//! both: names and paths have a part in how code is laid out.
//!
//! The difference of the counts is divided by the polls, since a step looks once before each. The
//! look is four instructions: the address of what all workers share, the load, its test and its
//! branch. With a branch more the compiler orders what follows in another way, which costs the way
//! from the LRQ a jump. So what fails is more than [`LOOK_MAX`].

use std::{fs, path::Path, process::Command};

use super::{Counter, OF_ONE_WORKER};
use crate::{
    Failure, process,
    tree::{at, mirror},
};

/// Instructions of a poll: the four of the look, and one for what the compiler makes of the rest.
const LOOK_MAX: f64 = 5.0;
/// A count is of whole runs, and what they print differs in length.
const ROUNDING: f64 = 0.05;

/// Takes that look away.
const WITHOUT: &str = "benches/no_ordered_look.patch";

/// Compares the tree with itself without the look.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let place = root.join("target/counts");
    let copy = place.join("tree");
    mirror(root, &copy)?;
    let with = build(root, &copy, &place.join("with"))?;
    patch(&copy, &root.join(WITHOUT))?;
    let without = build(root, &copy, &place.join("without"))?;
    let mut failed = Vec::new();
    for path in OF_ONE_WORKER {
        let (with, polls) = with.count_and_polls(path)?;
        let (without, _) = without.count_and_polls(path)?;
        let look = (with - without) / polls;
        println!(
            "{path:12} {without:9.2} instructions without the look, {with:9.2} with it, {polls:5.2} polls: {look:+.2} a poll"
        );
        if look > LOOK_MAX + ROUNDING {
            failed.push(*path);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "priorities cost more than {LOOK_MAX} instructions a poll in: {}",
            failed.join(", ")
        ))
    }
}

/// Builds the copy with the target folder of the workspace, where what it depends on is built
/// already, and keeps the program where the next build does not replace it.
fn build(root: &Path, copy: &Path, kept: &Path) -> Result<Counter, Failure> {
    let counter = Counter::build_in(copy, &crate::cargo::target(root))?;
    fs::copy(&counter.program, kept).map_err(at(kept))?;
    Ok(Counter {
        program: kept.to_path_buf(),
        ..counter
    })
}

fn patch(copy: &Path, patch: &Path) -> Result<(), Failure> {
    let mut command = Command::new("patch");
    command
        .current_dir(copy)
        .args(["-p1", "--batch", "--fuzz=0", "--no-backup-if-mismatch"])
        .arg("--input")
        .arg(patch);
    process::output(&mut command).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
        process,
    };

    use super::{WITHOUT, patch};

    /// A folder that is gone with it.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let gone = fs::remove_dir_all(&self.0);
            assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
        }
    }

    /// The check itself runs when somebody asks for it, and not before each merge.
    #[test]
    fn the_patch_applies() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let text = fs::read_to_string(root.join(WITHOUT)).unwrap();
        let files = text
            .lines()
            .filter_map(|line| line.strip_prefix("--- a/")?.split('\t').next());
        let files: BTreeSet<_> = files.collect();
        assert!(!files.is_empty(), "it says which files it changes");
        let copy = Folder(std::env::temp_dir().join(format!("ws-ordered-{}", process::id())));
        for file in files {
            let to = copy.0.join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root.join(file), to).unwrap();
        }
        patch(&copy.0, &root.join(WITHOUT)).unwrap();
    }
}
