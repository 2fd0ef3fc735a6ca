//! A body that does not come back.

#![deny(warnings)]

#[ws::main]
async fn main() -> ! {
    std::process::exit(0)
}
