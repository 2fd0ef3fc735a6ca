//! J5: what the branches of a `join` or a `scope`, a child of `fork` and a computation of `compute` may not borrow, and
//! what they may not take along, the compiler refuses: so nobody uses a frame that is gone, and nothing goes to another
//! thread that must not.
//!
//! Each program in `forks/` has to be refused, with the messages of the file beside it; see `macros.rs` for whose
//! messages these are. It fails when `Send` is taken away from a closure or a result of `join` in
//! `executor/src/fork_join.rs`, or from what `spawn` in `executor/src/fork_join/scope.rs` takes, and when the lifetime of a
//! `Scope` in `executor/src/fork_join/scope.rs` may shrink. (Without those bounds of `fork` and `compute` the library itself is
//! refused.)

mod compared;

#[test]
fn what_does_not_live_long_enough_or_may_not_be_sent_is_refused() {
    compared::refused(&trybuild::TestCases::new(), "forks");
}
