//! The least program: a task is spawned, and awaited.
//!
//! ```text
//! cargo run --example hello
//! ```

#![expect(clippy::print_stdout, reason = "a program that prints")]

use ws::task::JoinError;

#[ws::main]
async fn main() -> Result<(), JoinError> {
    let greeting = ws::spawn(async { "hello from a task" });
    println!("{}", greeting.await?);
    Ok(())
}
