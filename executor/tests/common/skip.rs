//! How a test says what it leaves out; the tests of the root package and the proofs have this file
//! too.

use std::{
    env,
    fmt::Display,
    fs::OpenOptions,
    io::{self, Write},
};

/// Says that a test, or a part of it, does not run here, and why.
///
/// The test harness keeps what `eprintln!` prints in a test that passes. This writes to standard
/// error itself, so everybody sees it. `cargo xtask ci` also names a file in `WS_SKIPS`, and
/// repeats its lines at the end.
pub(crate) fn skipped(why: impl Display) {
    let line = format!("SKIPPED: {why}\n");
    // A closed standard error is not the test's business.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(path) = env::var_os("WS_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("WS_SKIPS names a file that can be written");
    }
}
