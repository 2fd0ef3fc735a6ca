//! What the runtime under test has set itself, and whether a run kept it.

use crate::record::{REFERENCE, Results, Run, SUBJECT, Turns};
use crate::report::{self, short, show, time};
use crate::stats::{Spread, Verdict};
use crate::workloads::Group;

/// What the 99th percentile may be beside tasks that do not come back, in milliseconds.
const TAILS_MS: &[(&str, f64)] = &[
    ("echo_blocked", 1.0),
    ("ticks_blocked", 5.0),
    ("echo_computing", 15.0),
    ("ticks_computing", 15.0),
    ("echo_fork_join", 12.0),
    ("ticks_fork_join", 12.0),
];
/// The row of urgent tasks: at most twice what they wait for on the same runtime when it is idle,
/// and one poll of the crowd.
const URGENT: &str = "urgent_among_10k";
const URGENT_IDLE_US: &str = "idle_p99_us";
const CROWDS_POLL_US: f64 = 10.0;

/// What a join may take above plain calls, in nanoseconds of CPU.
const JOIN_NS: f64 = 2.5;
/// The fine-grained ones, which are held against chili.
const FINE: &[&str] = &[
    "join_fib",
    "join_nqueens",
    "join_treesum",
    "join_uts",
    "join_skynet",
];
/// What two workers reach at least, of the speed of two copies.
const OF_COPIES: f64 = 95.0;
/// Rows that wait for memory, which two copies share as two workers do, each in its own way.
const WAIT_FOR_MEMORY: &[&str] = &["join_quicksort_2w", "join_mergesort_2w", "join_treesum_2w"];
/// What a level of joins may take of the stack above a plain call, in bytes.
const STACK: f64 = 192.0;
/// How many times longer the reference takes at least for a spawn that is awaited than a fork.
const FORK: f64 = 2.0;
/// The geometric mean of the reference over the rows of the scheduler.
const MEAN: f64 = 1.5;

/// One of them.
struct Limit {
    what: String,
    figure: String,
    limit: String,
    /// None where there is no limit.
    kept: Option<bool>,
}

/// The section of the page, or nothing if no row has a limit.
pub(crate) fn section(run: &Run) -> String {
    let mut all: Vec<Limit> = mean(run).into_iter().collect();
    for results in &run.rows {
        if let Some(turns) = results.turns_of(SUBJECT) {
            all.extend(tail(results, turns));
            all.extend(joins(results, turns));
            all.extend(forks(results, turns));
        }
    }
    if all.is_empty() {
        return String::new();
    }
    let lines: String = all
        .iter()
        .map(|one| {
            let kept = match one.kept {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "-",
            };
            format!(
                "| {} | {} | {} | {kept} |\n",
                one.what, one.figure, one.limit
            )
        })
        .collect();
    format!(
        "\n## Its own limits\n\nThe 99th percentile beside tasks that block or compute: in `{URGENT}` the limit is twice that on the \
         same runtime without them, and one of their polls. The price of a join, in CPU above plain calls; what two workers \
         reach of the speed of two copies of a program, each on a thread of its own with a pool of one worker (beside copies with plain \
         calls, see `of_plain_%` in the tables, the price of the joins is missing as well); and how many times longer others take.\n\n\
         | what | figure | limit | kept |\n| --- | ---: | ---: | --- |\n{lines}"
    )
}

fn mean(run: &Run) -> Option<Limit> {
    let (mean, rows) = report::mean_to_reference(&run.rows)?;
    Some(Limit {
        what: format!("{REFERENCE}/{SUBJECT}, geometric mean over {rows} rows of the scheduler"),
        figure: short(mean),
        limit: format!("at least {MEAN}"),
        kept: Some(mean >= MEAN),
    })
}

fn tail(results: &Results, turns: &Turns) -> Option<Limit> {
    let limit = tail_limit(&results.name, turns)?;
    let value = turns.value()?.median;
    Some(Limit {
        what: format!("`{}`", results.name),
        figure: time(value),
        limit: time(limit),
        kept: Some(value <= limit),
    })
}

/// That of a row, in nanoseconds.
fn tail_limit(row: &str, turns: &Turns) -> Option<f64> {
    if row == URGENT {
        return Some((2.0 * extra(turns, URGENT_IDLE_US)? + CROWDS_POLL_US) * 1e3);
    }
    let fixed = TAILS_MS.iter().find(|(name, _)| row.starts_with(name));
    fixed.map(|(_, limit)| limit * 1e6)
}

/// Those of a row with joins.
fn joins(results: &Results, turns: &Turns) -> Vec<Limit> {
    let row = &results.name;
    let mut all = Vec::new();
    if results.group != Group::ForkJoin {
        return all;
    }
    if row == "join_stack" {
        all.extend(turns.value().map(|value| Limit {
            what: format!("`{row}`"),
            figure: show(results.figure, value.median),
            limit: show(results.figure, STACK),
            kept: Some(value.median <= STACK),
        }));
        return all;
    }
    let fine = extra(turns, "ns_per_join");
    all.extend(fine.map(|ns| Limit {
        what: format!("`{row}`, a join"),
        figure: time(ns),
        limit: time(JOIN_NS),
        kept: Some(ns <= JOIN_NS),
    }));
    all.extend(extra(turns, "of_copies_%").map(|percent| {
        let waits = WAIT_FOR_MEMORY.contains(&row.as_str());
        let limit = if waits {
            "none: it waits for memory".to_owned()
        } else {
            format!("at least {OF_COPIES} %")
        };
        Limit {
            what: format!("`{row}`, of two copies"),
            figure: format!("{} %", short(percent)),
            limit,
            kept: (!waits).then_some(percent >= OF_COPIES),
        }
    }));
    let against = |peer: &str, limit: &str, kept: fn(Spread) -> bool| {
        let ratio = results.ratio(peer, turns)?;
        Some(Limit {
            what: format!("`{row}`, {peer}/{SUBJECT}"),
            figure: short(ratio.median),
            limit: limit.to_owned(),
            kept: Some(kept(ratio)),
        })
    };
    if row.starts_with("join_") {
        all.extend(against("rayon", "ahead", |ratio| {
            ratio.verdict() == Verdict::Ahead
        }));
    }
    if FINE.iter().any(|name| row.starts_with(name)) {
        all.extend(against("chili", "level or ahead", |ratio| {
            ratio.verdict() != Verdict::Behind
        }));
    }
    all
}

fn forks(results: &Results, turns: &Turns) -> Option<Limit> {
    if !results.name.starts_with("fork_") {
        return None;
    }
    let ratio = results.to_reference(turns)?.median;
    Some(Limit {
        what: format!("`{}`, {REFERENCE}/{SUBJECT}", results.name),
        figure: short(ratio),
        limit: format!("at least {FORK}"),
        kept: Some(ratio >= FORK),
    })
}

fn extra(turns: &Turns, name: &str) -> Option<f64> {
    let extras = turns.extras();
    let (_, value) = extras.iter().find(|(column, _)| *column == name)?;
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measure, Meter, Outcome};
    use crate::workloads::Figure;

    fn turns(runtime: &str, values: &[f64], extras: &[(&'static str, f64)]) -> Turns {
        let measure = |value: &f64| {
            let measure = Measure {
                value: *value,
                ..Meter::start().stop(1)
            };
            let with =
                |measure: Measure, (name, value): &(&'static str, f64)| measure.with(name, *value);
            Outcome::Measured(extras.iter().fold(measure, with))
        };
        Turns {
            runtime: runtime.into(),
            outcomes: values.iter().map(measure).collect(),
        }
    }

    fn row(name: &str, group: Group, runtimes: Vec<Turns>) -> Results {
        Results {
            name: name.into(),
            operation: "one".into(),
            figure: Figure::Time,
            group,
            runtimes,
        }
    }

    fn of(results: &Results) -> Vec<(String, Option<bool>)> {
        let this = results.turns_of(SUBJECT).expect("it was measured");
        let mut all = joins(results, this);
        all.extend(tail(results, this));
        all.extend(forks(results, this));
        all.into_iter().map(|one| (one.what, one.kept)).collect()
    }

    #[test]
    fn a_join_is_measured_by_its_price_and_by_its_peers() {
        let this = turns("ws", &[100.0; 4], &[("ns_per_join", 2.6)]);
        let rayon = turns("rayon", &[300.0; 4], &[]);
        let chili = turns("chili", &[90.0; 4], &[]);
        let results = row("join_fib_1w", Group::ForkJoin, vec![this, rayon, chili]);
        let expected = [
            ("`join_fib_1w`, a join", false),
            ("`join_fib_1w`, rayon/ws", true),
            ("`join_fib_1w`, chili/ws", false),
        ];
        let expected = expected.map(|(what, kept)| (what.to_owned(), Some(kept)));
        assert_eq!(of(&results), expected);
    }

    #[test]
    fn level_with_rayon_is_not_ahead_of_it() {
        let this = turns("ws", &[100.0, 100.0], &[("of_copies_%", 96.0)]);
        let rayon = turns("rayon", &[90.0, 110.0], &[]);
        let results = row("join_uts_2w", Group::ForkJoin, vec![this, rayon]);
        let expected = [
            ("`join_uts_2w`, of two copies", true),
            ("`join_uts_2w`, rayon/ws", false),
        ];
        let expected = expected.map(|(what, kept)| (what.to_owned(), Some(kept)));
        assert_eq!(of(&results), expected);
    }

    #[test]
    fn a_fork_is_measured_by_the_reference() {
        let this = turns("ws", &[100.0], &[]);
        let tokio = turns("tokio", &[199.0], &[]);
        let results = row("fork_fib_2w", Group::ForkJoin, vec![this, tokio]);
        assert_eq!(
            of(&results),
            [("`fork_fib_2w`, tokio/ws".to_owned(), Some(false))]
        );
    }

    #[test]
    fn an_urgent_task_is_measured_by_an_idle_runtime() {
        let waits = |ns| {
            let this = turns("ws", &[ns], &[("idle_p99_us", 20.0)]);
            row(URGENT, Group::Priorities, vec![this])
        };
        assert_eq!(of(&waits(50_000.0)), [(format!("`{URGENT}`"), Some(true))]);
        assert_eq!(of(&waits(50_001.0)), [(format!("`{URGENT}`"), Some(false))]);
    }

    #[test]
    fn one_that_waits_for_memory_has_no_limit_of_copies() {
        let this = turns("ws", &[100.0], &[("of_copies_%", 90.0)]);
        let results = row("join_mergesort_2w", Group::ForkJoin, vec![this]);
        let what = "`join_mergesort_2w`, of two copies".to_owned();
        assert_eq!(of(&results), [(what, None)]);
    }
}
