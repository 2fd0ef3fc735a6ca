//! `#[ws::main]` and `#[ws::test]` as a user meets them: programs that run, and programs that are refused.
//!
//! Each program in `pass/` is built and run, and has to end well. Each one in `fail/` has to be
//! refused, with the messages of the file beside it, at the places that are marked there. The compiler
//! words and draws its messages anew in every release, so the comparison is made with the one that
//! CI has and is left out with any other, which is then said on stderr; in CI itself that is a failure.
//!
//! After a change of the messages, `TRYBUILD=overwrite cargo test -p ws-ui` writes them anew.

mod compared;

#[test]
fn programs() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    compared::refused(&cases, "fail");
}
