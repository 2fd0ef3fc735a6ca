//! `ExitCode`, nested in a `Result` as std allows, with the number of workers in hexadecimal.

#![deny(warnings)]

use std::process::ExitCode;

#[ws::main(workers = 0x2)]
async fn main() -> Result<ExitCode, std::fmt::Error> {
    std::future::ready(()).await;
    Ok(ExitCode::SUCCESS)
}
