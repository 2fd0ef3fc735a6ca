//! What a run leaves: every round of every row, as it is written to and read from JSON.
//!
//! Nothing is stored that can be computed from the rounds. So a run can be gone on with, and a
//! report be made of it on another day, and neither has to trust a figure that it cannot check.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::BoxError;
use crate::host::Host;
use crate::measure::{Measure, Outcome};
use crate::stats::{self, Spread};
use crate::workloads::{Figure, Group};

/// The runtime under test.
pub(crate) const SUBJECT: &str = "ws";
/// The peer that every ratio is taken to, beside the best.
pub(crate) const REFERENCE: &str = "tokio";
/// Peers that are no Rust runtimes, and have a garbage collector and a preemptive scheduler.
pub(crate) const FOREIGN: &[&str] = &["go", "ghc"];

/// A run of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) host: Host,
    pub(crate) workers: usize,
    pub(crate) quick: bool,
    /// How long it took so far.
    #[serde(default)]
    pub(crate) seconds: u64,
    /// What was left out, and why; and what else a reader has to know.
    pub(crate) notes: Vec<String>,
    pub(crate) rows: Vec<Results>,
}

/// All rounds of one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) name: String,
    pub(crate) operation: String,
    pub(crate) figure: Figure,
    pub(crate) group: Group,
    pub(crate) runtimes: Vec<Turns>,
}

/// All rounds of one runtime at one row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turns {
    pub(crate) runtime: String,
    /// One for each round, or one fewer from where it gave up.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Run {
    /// Reads a run.
    pub(crate) fn read(path: &Path) -> Result<Self, BoxError> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Writes a run, so that a run that is cut short leaves the last whole file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), BoxError> {
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_string(self)? + "\n")?;
        Ok(fs::rename(&unfinished, path)?)
    }
}

impl Turns {
    /// The rounds that were measured.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measure> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(measure) => Some(measure),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        })
    }

    /// Where its figure lies, if it has any.
    pub(crate) fn value(&self) -> Option<Spread> {
        Spread::of(self.measured().map(|measure| measure.value))
    }

    /// A figure of each round, to be paired with those of another runtime.
    fn each(&self, figure: fn(&Measure) -> f64) -> Vec<Option<f64>> {
        let value = |outcome: &Outcome| match outcome {
            Outcome::Measured(measure) => Some(figure(measure)),
            Outcome::Skipped(_) | Outcome::Failed(_) => None,
        };
        self.outcomes.iter().map(value).collect()
    }

    /// Why it gave up, if it did, and whether that is a failure.
    pub(crate) fn gave_up(&self) -> Option<&Outcome> {
        self.outcomes
            .last()
            .filter(|outcome| !matches!(outcome, Outcome::Measured(_)))
    }

    /// The further columns, each with its median.
    pub(crate) fn extras(&self) -> Vec<(&str, f64)> {
        let Some(first) = self.measured().next() else {
            return Vec::new();
        };
        let column = |name: &str| {
            stats::median(self.measured().filter_map(|measure| {
                let extra = measure.extras.iter().find(|extra| extra.name == name)?;
                Some(extra.value)
            }))
        };
        first
            .extras
            .iter()
            .map(|extra| (extra.name.as_str(), column(&extra.name)))
            .collect()
    }
}

impl Results {
    /// The rounds of this runtime, if it ran.
    pub(crate) fn turns_of(&self, runtime: &str) -> Option<&Turns> {
        self.runtimes.iter().find(|turns| turns.runtime == runtime)
    }

    /// How many times longer the other one took than this one.
    pub(crate) fn ratio(&self, other: &str, this: &Turns) -> Option<Spread> {
        self.ratio_of(|measure| measure.value, other, this)
    }

    /// How many times the CPU time of this one the other one took, in a row of time. Such a row is
    /// judged by both.
    pub(crate) fn cpu_ratio(&self, other: &str, this: &Turns) -> Option<Spread> {
        if !self.figure.is_wall_time() {
            return None;
        }
        self.ratio_of(|measure| measure.cpu_ns, other, this)
    }

    fn ratio_of(&self, figure: fn(&Measure) -> f64, other: &str, this: &Turns) -> Option<Spread> {
        if this.runtime == other {
            return None;
        }
        stats::ratios(&self.turns_of(other)?.each(figure), &this.each(figure))
    }

    /// How many times longer the reference took than this one. The reference itself has none.
    pub(crate) fn to_reference(&self, turns: &Turns) -> Option<Spread> {
        self.ratio(REFERENCE, turns)
    }

    /// The fastest of the peers that are written in Rust, and how many times longer it took than
    /// this one.
    pub(crate) fn to_best_rust_peer(&self, turns: &Turns) -> Option<(&str, Spread)> {
        self.to_best(turns, |name| !FOREIGN.contains(&name))
    }

    /// The CPU time of the peer that is written in Rust and takes the least, to that of this one.
    pub(crate) fn cpu_to_best_rust_peer(&self, turns: &Turns) -> Option<Spread> {
        let cpu = |other: &Turns| stats::median(other.measured().map(|measure| measure.cpu_ns));
        let peers = self.runtimes.iter().filter(|other| {
            let name = other.runtime.as_str();
            name != turns.runtime && !is_subject(name) && !FOREIGN.contains(&name)
        });
        let best = peers
            .filter(|other| other.measured().next().is_some())
            .min_by(|a, b| cpu(a).total_cmp(&cpu(b)))?;
        self.cpu_ratio(&best.runtime, turns)
    }

    /// The fastest of all peers likewise.
    pub(crate) fn to_best_peer(&self, turns: &Turns) -> Option<(&str, Spread)> {
        self.to_best(turns, |_| true)
    }

    /// The runtime under test and its variants are nobody's peers.
    fn to_best(&self, turns: &Turns, counts: impl Fn(&str) -> bool) -> Option<(&str, Spread)> {
        let (_, best) = self
            .runtimes
            .iter()
            .filter(|other| other.runtime != turns.runtime && !is_subject(&other.runtime))
            .filter(|other| counts(&other.runtime))
            .filter_map(|other| Some((other.value()?.median, other)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((&best.runtime, self.ratio(&best.runtime, turns)?))
    }
}

/// Whether this is the runtime under test, in one form or another.
pub(crate) fn is_subject(runtime: &str) -> bool {
    runtime
        .strip_prefix(SUBJECT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::is_subject;

    #[test]
    fn variants_of_the_subject_are_no_peers() {
        assert!(is_subject("ws"));
        assert!(is_subject("ws-nosysmon"));
        assert!(!is_subject("wsx"));
        assert!(!is_subject("tokio"));
    }
}
