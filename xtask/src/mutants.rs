//! Mutants: each has to make its model fail.
//!
//! A patch in the `mutants/` of a package with models begins with the line `# model: NAME`, and
//! goes on as a unified diff from the workspace's root. Each is applied to a copy of the workspace,
//! and the model is run there. A mutant is *killed* if the model fails. What does not apply, does
//! not build, names no model, or does not end is an error, and so is a mutant that *survives*.
//!
//! The mutants are shared out to two *workshops*, each with a copy of the workspace and a build of
//! its own: the compiler and the models use one core most of the time. More workshops than two
//! would build everything once more each.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
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

/// How many mutants are tried at a time.
const WORKSHOPS: usize = 2;

/// Where mutants are tried, one after the other, below `target/mutants`.
struct Workshop {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    logs: PathBuf,
}

/// Tries all mutants, or those whose names contain `name`.
pub(crate) fn check(root: &Path, name: Option<&str>) -> Result<(), Failure> {
    let mutants = find(root, name)?;
    let place = root.join("target/mutants");
    let logs = place.join("logs");
    fs::create_dir_all(&logs).map_err(at(&logs))?;
    let next = AtomicUsize::new(0);
    let work = |number: usize| {
        let folder = place.join(number.to_string());
        let workshop = Workshop {
            root: root.to_path_buf(),
            copy: folder.join("tree"),
            target: folder.join("build"),
            logs: logs.clone(),
        };
        workshop.work_off(&mutants, &next)
    };
    let not_killed = thread::scope(|scope| {
        let workshops = 0..WORKSHOPS.min(mutants.len());
        let threads: Vec<_> = workshops
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("a workshop does not panic"));
        results.sum::<Result<usize, Failure>>()
    })?;
    if not_killed == 0 {
        println!("{} mutants, all killed", mutants.len());
        Ok(())
    } else {
        Err(format!(
            "{not_killed} of {} mutants were not killed; see {}",
            mutants.len(),
            logs.display()
        ))
    }
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
    /// Tries the next one until all have been tried. Returns how many of its own were not killed.
    fn work_off(&self, mutants: &[Mutant], next: &AtomicUsize) -> Result<usize, Failure> {
        mirror(&self.root, &self.copy)?;
        let mut models = BTreeSet::new();
        for folder in cargo::MODELLED {
            models.extend(self.models(folder)?);
        }
        let width = mutants.iter().map(|mutant| mutant.name.len()).max();
        let mut not_killed = 0;
        while let Some(mutant) = mutants.get(next.fetch_add(1, Relaxed)) {
            let began = Instant::now();
            let verdict = if models.contains(&(mutant.folder, mutant.model.clone())) {
                self.try_one(mutant)?
            } else {
                Verdict::NoSuchModel
            };
            not_killed += usize::from(verdict != Verdict::Killed);
            println!(
                "{:width$}  {verdict:14}  {:5.1} s  {}",
                mutant.name,
                began.elapsed().as_secs_f64(),
                mutant.model,
                width = width.unwrap_or(0),
            );
        }
        Ok(not_killed)
    }

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
        let mut apply = Command::new("patch");
        apply
            .current_dir(&self.copy)
            .args(["-p1", "--batch", "--fuzz=0", "--no-backup-if-mismatch"])
            .arg("--input")
            .arg(&mutant.patch);
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
