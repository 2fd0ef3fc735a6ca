//! The page for the docs: `benchmarks.md` and its charts, from the JSON of a run.
//!
//! What the runtime under test loses comes before what it wins, with the same figures. Nothing on
//! the page is written by hand, so nothing on it can be kinder than the run; but for the causes of
//! what is lost (`causes.rs`), and for a note that somebody adds to a run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::BoxError;
use crate::causes;
use crate::chart::{self, Line};
use crate::limits;
use crate::measure::{Measure, Outcome};
use crate::record::{Results, Run, SUBJECT, Turns};
use crate::report::{ratio, short, show, standing_of_subject, time};
use crate::stats::{Spread, Verdict, median};
use crate::workloads::{Figure, Group};

/// The sections of the page.
const SECTIONS: &[(Group, &str, &str)] = &[
    (Group::Scheduler, "scheduler", "The scheduler"),
    (Group::Channels, "channels", "Channels"),
    (Group::Suites, "suites", "The suites of tokio, Go and GHC"),
    (Group::ForkJoin, "fork-join", "Fork and join"),
    (Group::Priorities, "priorities", "Urgent tasks among others"),
    (
        Group::Stalls,
        "stalls",
        "Beside tasks that do not come back",
    ),
    (
        Group::Blocking,
        "blocking",
        "Calls that block, and the monitor",
    ),
    (Group::Timers, "timers", "Timers"),
    (Group::Network, "network", "Network"),
    (
        Group::Footprint,
        "footprint",
        "Memory, shutdown, doing nothing",
    ),
];

/// Writes the page and its charts into a folder.
pub(crate) fn write(json: &Path, folder: &Path) -> Result<(), BoxError> {
    let run = Run::read(json)?;
    let charts = folder.join("benchmarks");
    fs::create_dir_all(&charts)?;
    let mut page = head(&run);
    for judged in &JUDGED {
        page += &losses(&run, judged);
    }
    page += &failures(&run);
    page += &limits::section(&run);
    for (group, file, title) in SECTIONS {
        let rows: Vec<&Results> = run.rows.iter().filter(|row| row.group == *group).collect();
        if rows.is_empty() {
            continue;
        }
        write!(page, "\n## {title}\n\n")?;
        if let Some(svg) = chart(*group, &rows)? {
            fs::write(charts.join(format!("{file}.svg")), svg)?;
            write!(page, "![{title}](benchmarks/{file}.svg)\n\n")?;
        }
        page += &table(&rows);
    }
    fs::write(folder.join("benchmarks.md"), page)?;
    Ok(())
}

fn head(run: &Run) -> String {
    let host = &run.host;
    let versions: Vec<String> = host
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut text = format!(
        "# Benchmarks\n\n\
         Written by `cargo run --release -p ws-bench -- --report FILE` from one interleaved run; \
         [benches/README.md](../benches/README.md) says how it is measured and how to repeat it.\n\n\
         - {}, {} cores, {} GiB, Linux {}, load average {} at the start\n\
         - {} workers unless the row's name says otherwise\n\
         - {} rounds of each row, {} minutes in all\n\
         - {}\n",
        host.cpu,
        host.cores,
        host.memory,
        host.kernel,
        host.load,
        run.workers,
        rounds(run),
        run.seconds.div_ceil(60),
        versions.join(", "),
    );
    if run.quick {
        text += "- **a quick run: few rounds of small workloads, to see that it works, \
                 and no ground for a claim**\n";
    }
    for note in &run.notes {
        text += &format!("- {note}\n");
    }
    text += "\nA ratio is how many times longer the other one took, the median over the rounds of \
             neighbours in time: above 1, the first one is ahead. *Ahead* and *behind* mean that at \
             least three quarters of the rounds say so; otherwise a row is *level*.\n\n## In short\n\n";
    for sentence in standing_of_subject(&run.rows) {
        text += &format!("- {sentence}\n");
    }
    text
}

/// How many rounds a row got, as one number or two.
fn rounds(run: &Run) -> String {
    let of = |results: &Results| Some(results.turns_of(SUBJECT)?.measured().count());
    let rounds: Vec<usize> = run.rows.iter().filter_map(of).collect();
    match (rounds.iter().min(), rounds.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (_, most) => most.copied().unwrap_or_default().to_string(),
    }
}

/// What a row is judged by.
struct Judged {
    title: &'static str,
    /// What is said of a peer that is ahead, and of how much.
    better: &'static str,
    by: &'static str,
    ratio: fn(&Results, &str, &Turns) -> Option<Spread>,
    figure: fn(&Results, &Turns) -> String,
    cause: fn(&str, &str) -> Option<&'static str>,
}

const JUDGED: [Judged; 2] = [
    Judged {
        title: "loses",
        better: "faster",
        by: "times slower",
        ratio: Results::ratio,
        figure: |results, turns| {
            let value = turns.value();
            value.map_or_else(String::new, |value| show(results.figure, value.median))
        },
        cause: causes::of,
    },
    Judged {
        title: "takes more CPU time for",
        better: "cheaper",
        by: "times more",
        ratio: Results::cpu_ratio,
        figure: |_, turns| time(median(turns.measured().map(|measure| measure.cpu_ns))),
        cause: causes::of_cpu,
    },
];

/// Every row and peer to which the runtime under test is behind.
fn losses(run: &Run, judged: &Judged) -> String {
    let mut lines = String::new();
    let mut known: Vec<(&str, Vec<String>)> = Vec::new();
    let mut unknown = Vec::new();
    for results in &run.rows {
        let Some(this) = results.turns_of(SUBJECT) else {
            continue;
        };
        for other in &results.runtimes {
            let Some(spread) = (judged.ratio)(results, &other.runtime, this) else {
                continue;
            };
            if spread.verdict() != Verdict::Behind || crate::record::is_subject(&other.runtime) {
                continue;
            }
            lines += &format!(
                "| `{}` | {} | {} | {} | {} | {} |\n",
                results.name,
                results.operation,
                (judged.figure)(results, this),
                other.runtime,
                (judged.figure)(results, other),
                short(1.0 / spread.median),
            );
            let lost = format!("`{}` to {}", results.name, other.runtime);
            let Some(cause) = (judged.cause)(&results.name, &other.runtime) else {
                unknown.push(lost);
                continue;
            };
            match known.iter_mut().find(|(text, _)| *text == cause) {
                Some((_, rows)) => rows.push(lost),
                None => known.push((cause, vec![lost])),
            }
        }
    }
    let mut text = format!("\n## What `{SUBJECT}` {}\n\n", judged.title);
    if lines.is_empty() {
        return text + "Nothing, in this run.\n";
    }
    text += &format!(
        "| row | operation | {SUBJECT} | {} | takes | {} |\n\
         | --- | --- | ---: | --- | ---: | ---: |\n{lines}\nWhy:\n\n",
        judged.better, judged.by
    );
    for (cause, rows) in known {
        text += &format!("- {}: {cause}\n", rows.join(", "));
    }
    if !unknown.is_empty() {
        text += &format!("- Not looked into: {}.\n", unknown.join(", "));
    }
    text
}

/// The rows that some runtime did not come through.
fn failures(run: &Run) -> String {
    let mut text = String::new();
    let failed: Vec<String> = run
        .rows
        .iter()
        .flat_map(|results| results.runtimes.iter().map(move |turns| (results, turns)))
        .filter_map(|(results, turns)| match turns.gave_up()? {
            Outcome::Failed(why) | Outcome::Skipped(why) => Some(format!(
                "- `{}` on {}: {why}\n",
                results.name, turns.runtime
            )),
            Outcome::Measured(_) => None,
        })
        .collect();
    if !failed.is_empty() {
        text += &format!("\nNot measured:\n\n{}", failed.concat());
    }
    text
}

/// Ratios to the runtime under test or, where tails are compared, the tails themselves.
fn chart(group: Group, rows: &[&Results]) -> Result<Option<String>, BoxError> {
    let absolute = group == Group::Stalls;
    let mut lines = Vec::with_capacity(rows.len());
    for results in rows {
        let subject = results.turns_of(SUBJECT).and_then(Turns::value);
        let base = match (absolute, subject) {
            (true, _) => 1e6,
            (false, Some(value)) => value.median,
            (false, None) => continue,
        };
        let marks: Vec<(&str, f64)> = results
            .runtimes
            .iter()
            .filter_map(|turns| Some((turns.runtime.as_str(), turns.value()?.median / base)))
            // Nothing is no point on a logarithmic axis: an idle runtime may use no CPU at all.
            .filter(|(_, value)| *value > 0.0 && value.is_finite())
            .collect();
        if !marks.is_empty() {
            let name = results.name.as_str();
            lines.push(Line { name, marks });
        }
    }
    let axis = if absolute {
        "99th percentile, ms; further left is better".to_owned()
    } else {
        format!("times the figure of {SUBJECT}; right of 1 is worse than it, left is better")
    };
    chart::draw(&axis, &lines)
}

fn table(rows: &[&Results]) -> String {
    let mut text = String::from(
        "| row | runtime | median | quartiles | cpu | vol.sw | invol.sw | peak MiB | tokio/it | best/it | also |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for results in rows {
        for turns in &results.runtimes {
            text += &table_line(results, turns);
        }
    }
    text += "\n";
    for results in rows {
        text += &format!(
            "- `{}`: {}, in {}\n",
            results.name,
            results.operation,
            results.figure.name()
        );
    }
    text
}

fn table_line(results: &Results, turns: &Turns) -> String {
    let Some(value) = turns.value() else {
        return String::new();
    };
    let of = |part: fn(&Measure) -> f64| median(turns.measured().map(part));
    let extras: Vec<String> = turns
        .extras()
        .iter()
        .map(|(name, figure)| format!("{name} {}", short(*figure)))
        .collect();
    let figure: Figure = results.figure;
    format!(
        "| `{}` | {} | {} | {} .. {} | {} | {} | {} | {:.1} | {} | {} | {} |\n",
        results.name,
        turns.runtime,
        show(figure, value.median),
        show(figure, value.low),
        show(figure, value.high),
        time(of(|measure| measure.cpu_ns)),
        short(of(|measure| measure.voluntary)),
        short(of(|measure| measure.involuntary)),
        of(|measure| measure.peak_rss_kib as f64) / 1024.0,
        ratio(results.to_reference(turns)),
        ratio(results.to_best_peer(turns).map(|(_, spread)| spread)),
        extras.join(", "),
    )
}
