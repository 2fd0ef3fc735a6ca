//! An output that only its trait names.

#![deny(warnings)]

use std::process::{ExitCode, Termination};

#[ws::main()]
async fn main() -> impl Termination {
    ExitCode::SUCCESS
}
