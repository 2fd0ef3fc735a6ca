//! What tokio-console reads from a program with console-subscriber.

mod support;

use support::{Missing, Told, assert_ids_differ, is_of_the_program, tokio_console_shows, told_by};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shown");
/// The kinds of the program's tasks, by their names.
const TASKS: [(&str, &str); 8] = [
    ("receives", "task"),
    ("ticks", "task"),
    ("ends", "task"),
    ("first of a set", "task"),
    ("second of a set", "task"),
    ("local", "local"),
    ("blocks", "blocking"),
    ("input", "blocking"),
];

fn missing(told: &Told) -> Missing {
    let mut missing = told.missing(&TASKS);
    told.need_wakes(
        &["receives", "ticks", "local", "first of a set"],
        &mut missing,
    );
    told.need_ends(&["ends", "blocks"], &mut missing);
    missing.need("a block_on", told.has_kind("block_on"));
    for resource in ["Sleep", "Interval", "Mutex", "Semaphore"] {
        missing.need(resource, told.has_resource(resource));
    }
    missing
}

#[tokio::test]
async fn tasks_are_shown() {
    let told = told_by(PROGRAM, missing).await;
    // Of a task: the span of a thread that enters the budget is none.
    let strangers = told.tasks.values().filter(|task| !is_of_the_program(task));
    let strangers: Vec<_> = strangers.map(|task| &task.location).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert_ids_differ(&told);
}

/// The program itself, with a terminal that `script` makes.
#[test]
#[ignore = "needs the path of tokio-console in TOKIO_CONSOLE: cargo xtask tokio-console"]
fn tokio_console_shows_them() {
    tokio_console_shows(PROGRAM, &TASKS);
}
