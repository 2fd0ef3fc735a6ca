//! `const`, `unsafe` and `extern` are not for an entry.

#[ws::main]
async unsafe fn unchecked() {}

#[ws::main]
async extern "C" fn foreign() {}

#[ws::main]
const fn constant() {}

fn main() {}
