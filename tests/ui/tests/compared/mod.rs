//! What the tests of programs that the compiler refuses share: whose words they compare.

use std::env;
use std::io::{self, Write};
use std::process::Command;

use trybuild::TestCases;

/// The compiler whose messages are compared: CI's.
const COMPARED: &str = "1.95.";

/// The version of the compiler that builds the programs.
fn compiler() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc)
        .arg("--version")
        .output()
        .expect("rustc can be run");
    assert!(
        output.status.success(),
        "rustc --version: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).expect("rustc speaks UTF-8");
    let version = text
        .split_whitespace()
        .nth(1)
        .expect("the version is the second word");
    version.to_owned()
}

/// Each of these programs is refused, with the messages of the file beside it, at the places that are marked there.
pub(crate) fn refused(cases: &TestCases, folder: &str) {
    let version = compiler();
    if version.starts_with(COMPARED) {
        cases.compile_fail(format!("{folder}/*.rs"));
    } else {
        let ci = env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(
            !ci,
            "{folder}: the messages are those of rustc {COMPARED}x, this is {version}, and CI leaves nothing out"
        );
        // Not by a print macro: the harness would keep that to itself.
        writeln!(
            io::stderr(),
            "{folder} is left out: its messages are those of rustc {COMPARED}x, this is {version}"
        )
        .expect("stderr takes a line");
    }
}
