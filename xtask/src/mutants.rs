//! Mutants: each has to make its model fail.
//!
//! A patch in the `mutants/` of a package with models begins with the line `# model: NAME`, and
//! goes on as a unified diff from the workspace's root. Each is applied to a copy of the workspace,
//! and the model is run there. A mutant is *killed* if the model fails. What does not apply, does
//! not build, names no model, or does not end is an error, and so is a mutant that *survives*.
//!
//! CI has the time for every twelfth one. Which ones these are follows from the commit, so that a
//! dozen commits try all of them, and the same commit gives the same answer again. Of all of them
//! it asks whether they apply: that takes a second, and a patch that nobody tries grows stale.
//!
//! Rejected: two at a time. On two cores it is no faster, since the compiler uses both.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Failure, cargo, process,
    tree::{at, entries, mirror},
};

/// A model that a mutant keeps from ending is stopped after this. The slowest takes a fifth of it.
const TIME_LIMIT: Duration = Duration::from_secs(300);

struct Mutant {
    name: String,
    patch: PathBuf,
    /// That of the package whose model has to fail.
    folder: &'static str,
    model: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Killed,
    Survived,
    DoesNotApply,
    DoesNotBuild,
    NoSuchModel,
    DoesNotEnd,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Killed => "killed",
            Self::Survived => "SURVIVED",
            Self::DoesNotApply => "DOES NOT APPLY",
            Self::DoesNotBuild => "DOES NOT BUILD",
            Self::NoSuchModel => "NO SUCH MODEL",
            Self::DoesNotEnd => "DOES NOT END",
        })
    }
}

/// Where all of it happens, below `target/mutants`.
struct Workshop {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    logs: PathBuf,
}

/// Which mutants are tried.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    All,
    /// Those whose names contain this.
    Named(&'a str),
    /// The twelfth part that CI tries at this commit.
    Twelfth,
}

/// Tries mutants.
pub(crate) fn check(root: &Path, which: Which<'_>) -> Result<(), Failure> {
    let mutants = match which {
        Which::All => find(root, None)?,
        Which::Named(name) => find(root, Some(name))?,
        Which::Twelfth => {
            let all = find(root, None)?;
            each_applies(root, all.iter().map(|mutant| mutant.patch.as_path()))?;
            let mut git = Command::new("git");
            let commit = process::output(git.current_dir(root).args(["rev-parse", "HEAD"]))?;
            twelfth(all, &commit)?
        }
    };
    let place = root.join("target/mutants");
    let workshop = Workshop {
        root: root.to_path_buf(),
        copy: place.join("tree"),
        target: place.join("build"),
        logs: place.join("logs"),
    };
    fs::create_dir_all(&workshop.logs).map_err(at(&workshop.logs))?;
    mirror(&workshop.root, &workshop.copy)?;
    let mut models = BTreeSet::new();
    for folder in cargo::MODELLED {
        models.extend(workshop.models(folder)?);
    }
    let width = mutants.iter().map(|mutant| mutant.name.len()).max();
    let mut failed = 0;
    for mutant in &mutants {
        let began = Instant::now();
        let verdict = if models.contains(&(mutant.folder, mutant.model.clone())) {
            workshop.try_one(mutant)?
        } else {
            Verdict::NoSuchModel
        };
        failed += usize::from(verdict != Verdict::Killed);
        println!(
            "{:width$}  {verdict:14}  {:5.1} s  {}",
            mutant.name,
            began.elapsed().as_secs_f64(),
            mutant.model,
            width = width.unwrap_or(0),
        );
    }
    if failed == 0 {
        println!("{} mutants, all killed", mutants.len());
        Ok(())
    } else {
        Err(format!(
            "{failed} of {} mutants were not killed; see {}",
            mutants.len(),
            workshop.logs.display()
        ))
    }
}

/// Every twelfth of them, beginning with the one that follows from the commit.
fn twelfth<T>(all: Vec<T>, commit: &str) -> Result<Vec<T>, Failure> {
    let first = commit
        .get(..8)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or_else(|| format!("git names no commit: {commit}"))?;
    Ok(all
        .into_iter()
        .skip(first as usize % 12)
        .step_by(12)
        .collect())
}

/// Fails with the names of the patches that do not apply to the tree. It changes nothing there.
fn each_applies<'a>(tree: &Path, patches: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut stale = Vec::new();
    for patch in patches {
        let mut apply = patch_command(tree, patch);
        if process::output(apply.args(["--dry-run", "--force"])).is_err() {
            stale.push(patch.display().to_string());
        }
    }
    match stale.as_slice() {
        [] => Ok(()),
        stale => Err(format!("these do not apply any more: {}", stale.join(", "))),
    }
}

/// The program `patch`. It applies a patch only if the lines around each change are as it says.
fn patch_command(tree: &Path, patch: &Path) -> Command {
    let mut command = Command::new("patch");
    command
        .current_dir(tree)
        .args(["-p1", "--batch", "--fuzz=0", "--no-backup-if-mismatch"])
        .arg("--input")
        .arg(patch);
    command
}

fn find(root: &Path, name: Option<&str>) -> Result<Vec<Mutant>, Failure> {
    let mut mutants = Vec::new();
    for folder in cargo::MODELLED {
        find_in(root, folder, name, &mut mutants)?;
    }
    match name {
        Some(name) if mutants.is_empty() => Err(format!("no mutant's name contains `{name}`")),
        _ => Ok(mutants),
    }
}

fn find_in(
    root: &Path,
    folder: &'static str,
    name: Option<&str>,
    mutants: &mut Vec<Mutant>,
) -> Result<(), Failure> {
    for entry in entries(&root.join(folder).join("mutants"))? {
        let patch = entry.path();
        if patch
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        let stem = patch.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy().into_owned();
        if name.is_some_and(|name| !stem.contains(name)) {
            continue;
        }
        let text = fs::read_to_string(&patch).map_err(at(&patch))?;
        let model = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# model: "))
            .ok_or_else(|| format!("{}: it does not begin with `# model: `", patch.display()))?;
        mutants.push(Mutant {
            name: stem,
            folder,
            model: model.trim().to_owned(),
            patch,
        });
    }
    Ok(())
}

impl Workshop {
    /// The names of a package's models, from a build without any mutant.
    fn models(&self, folder: &'static str) -> Result<BTreeSet<(&'static str, String)>, Failure> {
        let list = cargo::models(&self.copy, &self.target, &[folder])
            .args(["--", "--list"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo could not be started: {error}"))?;
        if !list.status.success() {
            return Err("the models do not build without a mutant".into());
        }
        Ok(String::from_utf8_lossy(&list.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(|model| (folder, model.to_owned()))
            .collect())
    }

    fn try_one(&self, mutant: &Mutant) -> Result<Verdict, Failure> {
        mirror(&self.root, &self.copy)?;
        let apply = patch_command(&self.copy, &mutant.patch);
        if !self
            .run(apply, mutant, "patch")?
            .is_some_and(|it| it.success())
        {
            return Ok(Verdict::DoesNotApply);
        }
        let mut build = cargo::models(&self.copy, &self.target, &[mutant.folder]);
        build.arg("--no-run");
        match self.run(build, mutant, "build")? {
            None => return Ok(Verdict::DoesNotEnd),
            Some(status) if !status.success() => return Ok(Verdict::DoesNotBuild),
            Some(_) => {}
        }
        // Not by way of cargo, so that it can be stopped.
        let mut model = Command::new(self.executable(mutant)?);
        model
            .current_dir(self.copy.join(mutant.folder))
            .args(["--exact", &mutant.model]);
        Ok(match self.run(model, mutant, "model")? {
            None => Verdict::DoesNotEnd,
            Some(status) if status.success() => Verdict::Survived,
            Some(_) => Verdict::Killed,
        })
    }

    /// The program that cargo said it has built.
    fn executable(&self, mutant: &Mutant) -> Result<PathBuf, Failure> {
        let log = self.log(mutant, "build");
        let text = fs::read_to_string(&log).map_err(at(&log))?;
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("Executable "))
            .find_map(|line| line.split_once('(')?.1.strip_suffix(')'))
            .map(|path| self.copy.join(path))
            .ok_or_else(|| format!("{}: cargo names no program", log.display()))
    }

    fn log(&self, mutant: &Mutant, step: &str) -> PathBuf {
        self.logs.join(format!("{}.{step}.log", mutant.name))
    }

    /// Runs one step, with its output in a log. None if it was stopped at the time limit.
    fn run(
        &self,
        mut command: Command,
        mutant: &Mutant,
        step: &str,
    ) -> Result<Option<ExitStatus>, Failure> {
        let path = self.log(mutant, step);
        let log = File::create(&path).map_err(at(&path))?;
        let both = log.try_clone().map_err(at(&path))?;
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(both)
            .spawn()
            .map_err(|error| format!("`{program}` could not be started: {error}"))?;
        process::wait_or_kill(&mut child, TIME_LIMIT)
            .map_err(|error| format!("`{program}` could not be waited for: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_commits_try_all_mutants() {
        let mut tried = Vec::new();
        for first in 12..24 {
            let commit = format!("{first:08x}ab\n");
            let part = twelfth((0..14).collect(), &commit).unwrap();
            assert_eq!(part, twelfth((0..14).collect(), &commit).unwrap());
            tried.extend(part);
        }
        tried.sort_unstable();
        assert_eq!(tried, (0..14).collect::<Vec<_>>());
        assert!(twelfth(vec![0], "fatal").is_err());
    }

    #[test]
    fn a_patch_whose_line_has_changed_does_not_apply() {
        let tree = std::env::temp_dir().join(format!("ws-xtask-stale-{}", std::process::id()));
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("file"), "kept\nfirst\n").unwrap();
        let patch = |name: &str, before: &str| {
            let path = tree.join(name);
            let head = "# model: any\n--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@\n kept\n";
            fs::write(&path, format!("{head}-{before}\n+second\n")).unwrap();
            path
        };
        let (fresh, stale) = (
            patch("fresh.patch", "first"),
            patch("stale.patch", "zeroth"),
        );
        each_applies(&tree, [fresh.as_path()].into_iter()).unwrap();
        let failure = each_applies(&tree, [fresh.as_path(), &stale].into_iter()).unwrap_err();
        assert!(
            failure.contains("stale.patch") && !failure.contains("fresh"),
            "{failure}"
        );
        assert_eq!(
            fs::read_to_string(tree.join("file")).unwrap(),
            "kept\nfirst\n"
        );
        fs::remove_dir_all(&tree).unwrap();
    }
}
