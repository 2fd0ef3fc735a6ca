//! The program of `benches/simulators` on turmoil.

// The checker of `examples/kv` names its own crate.
extern crate self as kv;

#[path = "../../../../examples/kv/src/api.rs"]
pub mod api;
#[path = "../../../../examples/kv/tests/support/checker.rs"]
pub mod checker;
pub mod seam;
#[path = "../../shared/mod.rs"]
pub mod shared;
