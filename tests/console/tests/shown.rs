//! What tokio-console reads from a program on `ws` with console-subscriber and without tokio.
//!
//! Seen to fail with `task.name` misspelt in `cell/console/on.rs` of the executor, with the feature
//! `console` left out, and with the target of the wakers' events misspelt.

#[path = "../../../compat/tokio/console/tests/support/mod.rs"]
mod support;

use support::{Missing, Told, assert_ids_differ, is_of_the_program, tokio_console_shows, told_by};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shown");
/// The kinds of the program's tasks, by their names.
const TASKS: [(&str, &str); 8] = [
    ("ticks", "task"),
    ("sleeps", "task"),
    ("pinned", "local"),
    ("ends", "task"),
    ("blocks", "blocking"),
    ("of a set", "task"),
    ("local", "local"),
    ("input", "blocking"),
];

fn missing(told: &Told) -> Missing {
    let mut missing = told.missing(&TASKS);
    told.need_wakes(
        &["ticks", "sleeps", "pinned", "of a set", "local"],
        &mut missing,
    );
    told.need_ends(&["ends", "blocks"], &mut missing);
    missing.need("a block_on", told.has_kind("block_on"));
    missing
}

#[tokio::test]
async fn tasks_are_shown() {
    let told = told_by(PROGRAM, missing).await;
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
