//! The table, the summary, and the JSON.
//!
//! A ratio is how many times longer the other one took: above 1 the runtime of this line is ahead.
//! It is the median of the ratios of each round, and not the ratio of the medians.

use serde::Serialize;

use crate::BoxError;
use crate::cli::Options;
use crate::host::Host;
use crate::measure::{Measure, Outcome};
use crate::stats::{self, Spread, Verdict};
use crate::suite::{Results, Turns};
use crate::workloads::{Figure, Row};

/// The runtime under test.
const SUBJECT: &str = "ws";
/// The peer that every ratio is taken to, beside the best.
const REFERENCE: &str = "tokio";

/// Prints a line for whoever runs the program.
#[expect(clippy::print_stdout, reason = "the report is this program's output")]
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Prints the rows and what they measure.
pub(crate) fn list(rows: &[Row]) {
    for row in rows {
        line(&format!(
            "{:26} {:34} {}",
            row.name,
            row.operation,
            row.figure.name()
        ));
    }
}

/// Prints what the numbers are made on, and the head of the table.
pub(crate) fn head(host: &Host, options: &Options) {
    line(&format!(
        "{}, {} cores, Linux {}",
        host.cpu, host.cores, host.kernel
    ));
    let versions: Vec<String> = host
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    line(&versions.join(", "));
    line(&format!(
        "{} workers, {} rounds ({} of the heavy rows), load average {} at the start",
        options.params.workers,
        options.rounds_of(false),
        options.rounds_of(true),
        host.load,
    ));
    line("median and quartiles; ratios above 1: this one is ahead\n");
    line(&format!(
        "{:26} {:8} {:>9} {:>19} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  also",
        "row",
        "runtime",
        "median",
        "quartiles",
        "cpu",
        "vol.sw",
        "invol.sw",
        "peak MiB",
        "tokio/it",
        "best/it",
    ));
}

/// Prints the lines of a row.
pub(crate) fn row(results: &Results) {
    for turns in &results.runtimes {
        line(&row_line(results, turns));
        if let Some(Outcome::Skipped(why)) = turns.gave_up() {
            line(&format!("{:26} {:8} skipped: {why}", "", ""));
        }
        if let Some(Outcome::Failed(why)) = turns.gave_up() {
            line(&format!("{:26} {:8} FAILED: {why}", "", ""));
        }
    }
}

fn row_line(results: &Results, turns: &Turns) -> String {
    let figure = results.row.figure;
    let name = format!("{:26} {:8}", results.row.name, turns.runtime);
    let Some(value) = Spread::of(turns.measured().map(|measure| measure.value)) else {
        return name;
    };
    let of = |part: fn(&Measure) -> f64| median(turns.measured().map(part));
    let extras: Vec<String> = extras(turns)
        .iter()
        .map(|(name, figure)| format!("{name} {}", short(*figure)))
        .collect();
    format!(
        "{name} {:>9} {:>19} {:>9} {:>8} {:>8} {:>8.1} {:>8} {:>8}  {}",
        show(figure, value.median),
        format!(
            "{} .. {}",
            show(figure, value.low),
            show(figure, value.high)
        ),
        time(of(|measure| measure.cpu_ns)),
        short(of(|measure| measure.voluntary)),
        short(of(|measure| measure.involuntary)),
        of(|measure| measure.peak_rss_kib as f64) / 1024.0,
        ratio(results.to_reference(turns)),
        ratio(results.to_best_peer(turns).map(|(_, spread)| spread)),
        extras.join(", "),
    )
}

/// Prints what it all comes to.
pub(crate) fn summary(all: &[Results]) {
    line("");
    let mut names: Vec<&str> = Vec::new();
    for turns in all.iter().flat_map(|results| &results.runtimes) {
        if turns.runtime != REFERENCE && !names.contains(&turns.runtime.as_str()) {
            names.push(&turns.runtime);
        }
    }
    for name in names {
        let standing = Standing::of(all, name, Results::to_reference);
        if let Some(mean) = standing.mean() {
            line(&format!(
                "geometric mean of {REFERENCE}/{name} over {} rows of speed: {mean:.2}",
                standing.speed.len()
            ));
            line(&standing.text(name, REFERENCE));
        }
        if name == SUBJECT {
            let best = |results: &Results, turns: &Turns| {
                results.to_best_peer(turns).map(|(_, spread)| spread)
            };
            line(&Standing::of(all, name, best).text(name, "the best peer"));
        }
    }
    if !all
        .iter()
        .flat_map(|results| &results.runtimes)
        .any(|turns| turns.runtime == SUBJECT)
    {
        line(&format!("{SUBJECT} was not measured"));
    }
}

/// How one runtime stands to another over all rows.
#[derive(Debug, Default)]
struct Standing {
    ahead: Vec<&'static str>,
    level: Vec<&'static str>,
    behind: Vec<&'static str>,
    /// The ratios of the rows that count in the mean.
    speed: Vec<f64>,
}

impl Standing {
    fn of(
        all: &[Results],
        name: &str,
        compare: impl Fn(&Results, &Turns) -> Option<Spread>,
    ) -> Self {
        let mut standing = Standing::default();
        for results in all {
            let Some(spread) = results
                .turns_of(name)
                .and_then(|turns| compare(results, turns))
            else {
                continue;
            };
            let list = match spread.verdict() {
                Verdict::Ahead => &mut standing.ahead,
                Verdict::Level => &mut standing.level,
                Verdict::Behind => &mut standing.behind,
            };
            list.push(results.row.name);
            if results.row.figure.is_speed() {
                standing.speed.push(spread.median);
            }
        }
        standing
    }

    fn mean(&self) -> Option<f64> {
        stats::geometric_mean(&self.speed)
    }

    fn text(&self, name: &str, other: &str) -> String {
        let rows = self.ahead.len() + self.level.len() + self.behind.len();
        let mut text = format!(
            "{name} is ahead of {other} in {} of {rows} rows",
            self.ahead.len()
        );
        if !self.level.is_empty() {
            text += &format!("; level within the spread in: {}", self.level.join(", "));
        }
        if !self.behind.is_empty() {
            text += &format!("; behind beyond the spread in: {}", self.behind.join(", "));
        }
        text
    }
}

impl Results {
    fn turns_of(&self, runtime: &str) -> Option<&Turns> {
        self.runtimes.iter().find(|turns| turns.runtime == runtime)
    }

    /// How many times longer the reference took than this one. The reference itself has none.
    fn to_reference(&self, turns: &Turns) -> Option<Spread> {
        if turns.runtime == REFERENCE {
            return None;
        }
        stats::ratios(&self.turns_of(REFERENCE)?.values(), &turns.values())
    }

    /// The fastest of the others but the runtime under test, and how many times longer it took
    /// than this one.
    fn to_best_peer(&self, turns: &Turns) -> Option<(&str, Spread)> {
        let (_, best) = self
            .runtimes
            .iter()
            .filter(|other| other.runtime != turns.runtime && other.runtime != SUBJECT)
            .filter_map(|other| {
                let value = Spread::of(other.measured().map(|measure| measure.value))?;
                Some((value.median, other))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((
            &best.runtime,
            stats::ratios(&best.values(), &turns.values())?,
        ))
    }
}

/// The further columns, each with its median.
fn extras(turns: &Turns) -> Vec<(&str, f64)> {
    let Some(first) = turns.measured().next() else {
        return Vec::new();
    };
    let column = |name: &str| {
        median(turns.measured().filter_map(|measure| {
            Some(
                measure
                    .extras
                    .iter()
                    .find(|extra| extra.name == name)?
                    .value,
            )
        }))
    };
    first
        .extras
        .iter()
        .map(|extra| (extra.name.as_str(), column(&extra.name)))
        .collect()
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    Spread::of(figures).map_or(f64::NAN, |spread| spread.median)
}

fn ratio(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |spread| format!("{:.2}", spread.median))
}

fn show(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Time | Figure::Latency | Figure::IdleCpu => time(value),
        Figure::Bytes => format!("{value:.1} B"),
    }
}

/// A time with three digits and its unit.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{} ns", short(ns)),
        ns if ns < 1e6 => format!("{} us", short(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", short(ns / 1e6)),
        ns => format!("{} s", short(ns / 1e9)),
    }
}

/// A number with about three digits.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 0.001 => format!("{value:.0e}"),
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Everything, for programs.
#[derive(Serialize)]
struct Json<'a> {
    host: &'a Host,
    workers: usize,
    quick: bool,
    rows: Vec<JsonRow<'a>>,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    name: &'a str,
    operation: &'a str,
    figure: &'a str,
    runtimes: Vec<JsonTurns<'a>>,
}

#[derive(Serialize)]
struct JsonTurns<'a> {
    runtime: &'a str,
    value: Option<Spread>,
    /// Reference over this one.
    to_tokio: Option<Spread>,
    /// The best of the others, and it over this one.
    to_best_peer: Option<(&'a str, Spread)>,
    rounds: &'a [Outcome],
}

/// Writes every round and what it was reduced to.
pub(crate) fn json(host: &Host, options: &Options, all: &[Results]) -> Result<String, BoxError> {
    let rows = all
        .iter()
        .map(|results| JsonRow {
            name: results.row.name,
            operation: results.row.operation,
            figure: results.row.figure.name(),
            runtimes: results
                .runtimes
                .iter()
                .map(|each| JsonTurns {
                    runtime: &each.runtime,
                    value: Spread::of(each.measured().map(|measure| measure.value)),
                    to_tokio: results.to_reference(each),
                    to_best_peer: results.to_best_peer(each),
                    rounds: &each.outcomes,
                })
                .collect(),
        })
        .collect();
    let json = Json {
        host,
        workers: options.params.workers,
        quick: options.params.quick,
        rows,
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}
