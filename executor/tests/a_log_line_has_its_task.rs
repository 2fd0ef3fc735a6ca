//! `trace::Layer`: whose lines of a log are in a recording, with which text, and when.
//!
//! It fails when a line has the task or the text of another one, when it lies outside of its poll,
//! when a thread outside of a runtime records something, and when code of the user's runs while a
//! ring is written.

use std::{
    fmt,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use tracing_log::log;
use tracing_subscriber::prelude::*;
use ws_executor::{
    runtime::{Builder, Runtime},
    task::{self, Id},
    trace::{self, Event, EventKind, Level},
};

/// A runtime, whose process listens.
fn runtime(workers: usize, level: Level) -> Runtime {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        tracing_subscriber::registry()
            .with(trace::Layer::new())
            .init()
    });
    let builder = Builder::new().workers(workers).record(level);
    builder.build().unwrap()
}

/// The lines of this test, which have a target of their own.
fn lines(runtime: &Runtime, target: &str) -> Vec<Event> {
    let events = runtime.handle().recording().events.into_iter();
    let lines = events.filter(|event| event.kind == EventKind::Log && event.name == Some(target));
    lines.collect()
}

fn texts(lines: &[Event]) -> Vec<&str> {
    let texts = lines.iter().map(|line| line.text.as_deref().unwrap());
    texts.collect()
}

#[test]
fn a_line_lies_within_the_poll_that_logs_it() {
    let runtime = runtime(2, Level::Full);
    let id = runtime.block_on(async {
        let task = ws_executor::spawn(async {
            task::yield_now().await;
            tracing::warn!(target: "polls", order = 7, who = "me", "it is {}", "priced");
            task::yield_now().await;
        });
        let id = task.id();
        task.await.unwrap();
        id
    });
    let events = runtime.handle().recording().events;
    use EventKind::{Log, Requeue, Run};
    let of_polls = |event: &&Event| [Run, Requeue, Log].contains(&event.kind);
    let own = events.iter().filter(|event| event.task == Some(id));
    let own: Vec<_> = own.filter(of_polls).collect();
    let kinds: Vec<_> = own.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Run, Requeue, Run, Log, Requeue, Run]);
    assert!(own.is_sorted_by_key(|event| event.time));
    let line = own[3];
    assert_eq!(line.processor, own[2].processor);
    assert_eq!((line.number, line.name), (2, Some("polls")));
    assert_eq!(
        line.text.as_deref(),
        Some(r#"it is priced order=7 who="me""#)
    );
    let shown = format!(r#"Log WARN "polls" "it is priced order=7 who=\"me\"" task {id}"#);
    assert!(line.to_string().ends_with(&shown), "{line}");
}

#[test]
fn a_line_has_the_task_that_logs_it() {
    let runtime = runtime(2, Level::Sparse);
    let log = |text: &str| {
        tracing::error!(target: "tasks", "{text}");
        task::try_id()
    };
    let ids: Vec<Option<Id>> = runtime.block_on(async {
        let root = log("root");
        let task = ws_executor::spawn(async move { log("task") });
        let task = task.await.unwrap();
        let blocking = ws_executor::spawn_blocking(move || log("blocking"));
        vec![root, task, blocking.await.unwrap()]
    });
    let entered = runtime.handle().enter();
    log("entered");
    drop(entered);
    log("outside");
    let lines = lines(&runtime, "tasks");
    assert_eq!(texts(&lines), ["root", "task", "blocking", "entered"]);
    let of_lines: Vec<_> = lines.iter().map(|line| line.task).collect();
    assert_eq!(of_lines, [&ids[..], &[None]].concat());
    assert!(ids[1].is_some() && ids[2].is_some());
    assert_eq!(lines[3].processor, None);
}

// Fails if a text has what `tracing-log` adds to a line of the crate `log`, or not its target. And
// if a line that `tracing-log` did not make loses a field.
#[test]
fn a_line_of_the_crate_log_has_its_own_target() {
    let runtime = runtime(1, Level::Sparse);
    runtime.block_on(async {
        // One statement, for as long as the arguments are there.
        tracing_log::format_trace(
            &log::Record::builder()
                .args(format_args!("it took {} s", 2))
                .level(log::Level::Warn)
                .target("sqlx::query")
                .module_path(Some("sqlx_core::logger"))
                .file(Some("src/logger.rs"))
                .line(Some(142))
                .build(),
        )
        .unwrap();
        tracing::info!(target: "log", { rows = 7 }, "by hand");
        tracing::info!(target: "another", { log.target = "a", log.file = "b" }, "by hand");
    });
    let own = lines(&runtime, "log");
    assert_eq!(texts(&own), ["sqlx::query: it took 2 s", "by hand rows=7"]);
    assert_eq!(own[0].number, 2, "a warning");
    let another = lines(&runtime, "another");
    let expected = [r#"by hand log.target="a" log.file="b""#];
    assert_eq!(texts(&another), expected);
}

/// What can be logged, and counts how often.
struct Counted<'a>(&'a AtomicUsize);

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fetch_add(1, Relaxed);
        f.write_str("counted")
    }
}

// Fails if a text is made that nobody keeps.
#[test]
fn what_is_not_recorded_is_not_even_made() {
    let count = AtomicUsize::new(0);
    let log = || tracing::info!(target: "off", "{}", Counted(&count));
    let runtime = runtime(1, Level::Off);
    log();
    runtime.block_on(async { log() });
    assert_eq!(count.load(Relaxed), 0);
    runtime.handle().record(Level::Sparse);
    runtime.block_on(async { log() });
    assert_eq!(count.load(Relaxed), 1);
    assert_eq!(texts(&lines(&runtime, "off")), ["counted"]);
    let none = Builder::new().workers(1).recorder(0).build().unwrap();
    none.block_on(async { log() });
    assert_eq!(lines(&none, "off"), []);
    assert_eq!(count.load(Relaxed), 1);
}

/// Logs while it is logged, records a mark, and panics if it is told to.
struct Logs(bool);

impl fmt::Display for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        tracing::debug!(target: "inside", "inner");
        trace::mark("of the inner one");
        assert!(!self.0, "as it was told to");
        f.write_str("outer")
    }
}

#[test]
fn a_text_may_log_and_panic() {
    let runtime = runtime(2, Level::Sparse);
    let log = |panics| move || tracing::info!(target: "inside", "{}", Logs(panics));
    runtime.block_on(async {
        for panics in [false, true] {
            let log = log(panics);
            // On the thread of a P, and on one without.
            let task = ws_executor::spawn(async move { log() }).await;
            assert_eq!(task.is_err(), panics);
            let blocking = ws_executor::spawn_blocking(log).await;
            assert_eq!(blocking.is_err(), panics);
        }
    });
    let entered = runtime.handle().enter();
    log(false)();
    drop(entered);
    let lines = lines(&runtime, "inside");
    let expected = [
        "inner", "outer", "inner", "outer", "inner", "inner", "inner", "outer",
    ];
    assert_eq!(texts(&lines), expected);
}

/// Texts of all lengths, by many threads with small rings, while somebody reads. Each says whose it
/// is and how long.
#[test]
fn no_line_has_the_text_of_another_one() {
    const TASKS: usize = 8;
    runtime(1, Level::Off);
    let builder = Builder::new().workers(2).record(Level::Full);
    let runtime = builder.recorder(128 * 16).build().unwrap();
    let over = AtomicBool::new(false);
    let check = || {
        let lines = lines(&runtime, "many");
        for line in &lines {
            let text = line.text.as_deref().unwrap();
            let mut words = text.splitn(3, ' ');
            let mut number = || words.next().unwrap().parse::<u64>().unwrap();
            let (id, length) = (number(), number());
            assert_eq!(line.task.map(Id::as_u64), Some(id), "{line}");
            let rest = words.next().unwrap();
            assert!(rest.len() as u64 == length || rest.ends_with('…'), "{line}");
        }
        lines.len()
    };
    thread::scope(|threads| {
        let reads = threads.spawn(|| {
            let mut seen = 0;
            while !over.load(Relaxed) || seen == 0 {
                seen += check();
            }
        });
        runtime.block_on(async {
            let tasks = (0..TASKS).map(|task| {
                ws_executor::spawn(async move {
                    for n in 0..500 {
                        let (id, length) = (task::id(), (n * 7 + task) % 300);
                        tracing::trace!(target: "many", "{id} {length} {}", "x".repeat(length));
                        task::yield_now().await;
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        over.store(true, Relaxed);
        reads.join().unwrap();
    });
    assert!(check() > 0);
    // The rings are those that there were.
    assert!(runtime.handle().recording().overwritten > 0);
}
