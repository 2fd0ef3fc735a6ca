//! The table and the summary, as they are printed while the suite runs.
//!
//! A ratio is how many times longer the other one took: above 1 the runtime of this line is ahead.
//! It is the median of the ratios of each round, and not the ratio of the medians.

use crate::cli::Options;
use crate::measure::{Measure, Outcome};
use crate::record::{FOREIGN, REFERENCE, Results, Run, SUBJECT, Turns};
use crate::stats::{self, Spread, Verdict, median};
use crate::workloads::{Figure, Group, Row};

/// Prints a line for whoever runs the program.
#[expect(clippy::print_stdout, reason = "the report is this program's output")]
pub(crate) fn line(text: &str) {
    println!("{text}");
}

/// Says what takes its time, beside the report.
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
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
pub(crate) fn head(run: &Run, options: &Options) {
    let host = &run.host;
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
    for note in &run.notes {
        line(note);
    }
    line("median and quartiles; ratios above 1: this one is ahead\n");
    line(&format!(
        "{:26} {:13} {:>9} {:>19} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}  also",
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
            line(&format!("{:26} {:13} skipped: {why}", "", ""));
        }
        if let Some(Outcome::Failed(why)) = turns.gave_up() {
            line(&format!("{:26} {:13} FAILED: {why}", "", ""));
        }
    }
}

fn row_line(results: &Results, turns: &Turns) -> String {
    let figure = results.figure;
    let name = format!("{:26} {:13}", results.name, turns.runtime);
    let Some(value) = turns.value() else {
        return name;
    };
    let of = |part: fn(&Measure) -> f64| median(turns.measured().map(part));
    let extras: Vec<String> = turns
        .extras()
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

/// Prints what it all comes to, for the runtime under test first.
pub(crate) fn summary(all: &[Results]) {
    line("");
    for text in standing_of_subject(all) {
        line(&text);
    }
    for name in names(all) {
        if name != REFERENCE && name != SUBJECT {
            for text in standing_to_reference(all, name) {
                line(&text);
            }
        }
    }
}

/// How the runtime under test stands to its peers, a sentence for each thing to be said.
pub(crate) fn standing_of_subject(all: &[Results]) -> Vec<String> {
    if !names(all).contains(&SUBJECT) {
        return vec![format!("{SUBJECT} was not measured")];
    }
    let best = |results: &Results, turns: &Turns| {
        results.to_best_rust_peer(turns).map(|(_, spread)| spread)
    };
    let mut texts = standing_to_reference(all, SUBJECT);
    let to_best = Standing::of(all, SUBJECT, best);
    texts.extend(to_best.mean_text(SUBJECT, "the best Rust peer"));
    texts.extend(to_best.text(SUBJECT, "the best Rust peer"));
    for peer in FOREIGN {
        let standing = Standing::of(all, SUBJECT, |results, turns| results.ratio(peer, turns));
        texts.extend(standing.text(SUBJECT, peer));
    }
    let cpu = Standing::of(all, SUBJECT, Results::cpu_to_best_rust_peer);
    texts.extend(cpu.mean_text(SUBJECT, "the least CPU time of a Rust peer"));
    texts.extend(cpu.text(SUBJECT, "the least CPU time of a Rust peer"));
    texts
}

/// The geometric mean of the reference over the runtime under test, and of how many rows.
pub(crate) fn mean_to_reference(all: &[Results]) -> Option<(f64, usize)> {
    let standing = Standing::of(all, SUBJECT, Results::to_reference);
    Some((standing.mean()?, standing.scheduler.len()))
}

fn standing_to_reference(all: &[Results], name: &str) -> Vec<String> {
    let standing = Standing::of(all, name, Results::to_reference);
    let mean = standing.mean_text(name, REFERENCE);
    mean.into_iter()
        .chain(standing.text(name, REFERENCE))
        .collect()
}

/// The runtimes that have a row.
fn names(all: &[Results]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for turns in all.iter().flat_map(|results| &results.runtimes) {
        if !names.contains(&turns.runtime.as_str()) {
            names.push(&turns.runtime);
        }
    }
    names
}

/// How one runtime stands to another over all rows.
#[derive(Debug, Default)]
pub(crate) struct Standing<'a> {
    pub(crate) ahead: Vec<&'a Results>,
    pub(crate) level: Vec<&'a Results>,
    pub(crate) behind: Vec<&'a Results>,
    /// The ratios of the rows that count in the mean.
    scheduler: Vec<f64>,
}

impl<'a> Standing<'a> {
    pub(crate) fn of(
        all: &'a [Results],
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
            list.push(results);
            if results.figure.is_speed() && results.group == Group::Scheduler {
                standing.scheduler.push(spread.median);
            }
        }
        standing
    }

    fn mean(&self) -> Option<f64> {
        stats::geometric_mean(&self.scheduler)
    }

    /// The sentence about the mean, unless they have no row of the scheduler in common.
    fn mean_text(&self, name: &str, other: &str) -> Option<String> {
        let mean = self.mean()?;
        Some(format!(
            "geometric mean of {other}/{name} over {} rows of the scheduler: {mean:.2}; the median \
             of these ratios, which a few large ones do not move: {:.2}",
            self.scheduler.len(),
            median(self.scheduler.iter().copied())
        ))
    }

    /// The sentence about it, unless they have no row in common.
    fn text(&self, name: &str, other: &str) -> Option<String> {
        let rows = self.ahead.len() + self.level.len() + self.behind.len();
        if rows == 0 {
            return None;
        }
        let names = |list: &[&Results]| {
            let names: Vec<&str> = list.iter().map(|results| results.name.as_str()).collect();
            names.join(", ")
        };
        let mut text = format!(
            "{name} is ahead of {other} in {} of {rows} rows",
            self.ahead.len()
        );
        if !self.level.is_empty() {
            text += &format!("; level within the spread in: {}", names(&self.level));
        }
        if !self.behind.is_empty() {
            text += &format!("; behind beyond the spread in: {}", names(&self.behind));
        }
        Some(text)
    }
}

pub(crate) fn ratio(spread: Option<Spread>) -> String {
    spread.map_or("-".into(), |spread| format!("{:.2}", spread.median))
}

/// A figure with its unit.
pub(crate) fn show(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Time | Figure::Latency | Figure::Tail | Figure::Cpu | Figure::IdleCpu => {
            time(value)
        }
        Figure::Bytes => format!("{value:.1} B"),
    }
}

/// A time with three digits and its unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{} ns", short(ns)),
        ns if ns < 1e6 => format!("{} us", short(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", short(ns / 1e6)),
        ns => format!("{} s", short(ns / 1e9)),
    }
}

/// A number with about three digits.
pub(crate) fn short(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 0.001 => format!("{value:.0e}"),
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
