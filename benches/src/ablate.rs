//! What is a heuristic worth? The same binary with and without it, turn by turn.
//!
//! The runtimes of such a run are `ws` and, for each heuristic, `ws` without it. A figure above 1
//! says that it is missed: the row takes so many times more without it.

use crate::measure::{Measure, Outcome};
use crate::record::{Results, SUBJECT, Turns};
use crate::report;
use crate::stats::{Spread, Verdict, ratios};

/// The variable that a build with `--cfg ws_ablate` reads; see `executor/src/policy/heuristic.rs`.
pub(crate) const VARIABLE: &str = "WS_WITHOUT";
/// What the name of such a runtime begins with.
pub(crate) const WITHOUT: &str = "without ";

/// Prints a line for each row, heuristic and figure.
pub(crate) fn table(all: &[Results]) {
    report::line("");
    report::line("the figure without it to the figure with it; above 1: it is missed\n");
    for results in all {
        let Some(whole) = results.turns_of(SUBJECT) else {
            continue;
        };
        for turns in &results.runtimes {
            let Some(heuristic) = turns.runtime.strip_prefix(WITHOUT) else {
                continue;
            };
            for line in lines(&results.name, heuristic, turns, whole) {
                report::line(&line);
            }
        }
    }
}

/// A figure of a turn, if its row has that.
type Figure = fn(&Measure) -> Option<f64>;

/// What is compared: the row's own figure, the CPU time, and a percentile if the row has one.
const FIGURES: &[(&str, Figure)] = &[
    ("figure", |measure| Some(measure.value)),
    ("cpu", |measure| Some(measure.cpu_ns)),
    ("p99", |measure| {
        let p99 = |name: &str| name.starts_with("p99_");
        let extra = measure.extras.iter().find(|extra| p99(&extra.name));
        extra.map(|extra| extra.value)
    }),
];

fn lines(row: &str, heuristic: &str, without: &Turns, with: &Turns) -> Vec<String> {
    let compared = FIGURES.iter().filter_map(|(name, figure)| {
        let of = |turns: &Turns| -> Vec<Option<f64>> {
            let value = |outcome: &Outcome| match outcome {
                Outcome::Measured(measure) => figure(measure),
                Outcome::Skipped(_) | Outcome::Failed(_) => None,
            };
            turns.outcomes.iter().map(value).collect()
        };
        let ratio = ratios(&of(without), &of(with))?;
        Some(format!(
            "| {heuristic} | {row} | {name} | {:.2} | {:.2} .. {:.2} | {} |",
            ratio.median,
            ratio.low,
            ratio.high,
            word(ratio)
        ))
    });
    compared.collect()
}

fn word(without: Spread) -> &'static str {
    match without.verdict() {
        Verdict::Ahead => "missed",
        Verdict::Level => "level",
        Verdict::Behind => "better without",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(name: &str, values: &[f64]) -> Turns {
        let measured = |value: &f64| {
            Outcome::Measured(Measure {
                value: *value,
                ops: 1,
                wall_ns: *value,
                cpu_ns: 1.0,
                voluntary: 0.0,
                involuntary: 0.0,
                peak_rss_kib: 0,
                extras: Vec::new(),
            })
        };
        Turns {
            runtime: name.into(),
            outcomes: values.iter().map(measured).collect(),
        }
    }

    #[test]
    fn a_heuristic_whose_lack_costs_is_missed() {
        let with = turns(SUBJECT, &[10.0, 10.0, 10.0, 10.0]);
        let without = turns("without it", &[20.0, 20.0, 20.0, 5.0]);
        let lines = lines("row", "it", &without, &with);
        assert_eq!(
            lines,
            [
                "| it | row | figure | 2.00 | 1.62 .. 2.00 | missed |",
                "| it | row | cpu | 1.00 | 1.00 .. 1.00 | level |",
            ]
        );
    }
}
