//! `crate` takes a path, bare or in a string.

#[ws::main(crate = 4)]
async fn number() {}

#[ws::main(crate = "not a path")]
async fn text() {}

#[ws::main(crate)]
async fn bare() {}

fn main() {}
