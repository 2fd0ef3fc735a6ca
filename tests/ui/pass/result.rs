//! `?`, an early `return` and borrowed locals in a body whose error type is not `Send`.

#![deny(warnings)]

use std::error::Error;

async fn parse(text: &str) -> Result<u16, std::num::ParseIntError> {
    text.parse()
}

#[ws::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let texts = ["80".to_owned(), "443".to_owned()];
    let borrowed = &texts;
    for text in borrowed {
        if parse(text).await? == 443 {
            return Ok(());
        }
    }
    Err("443 was not found")?
}
