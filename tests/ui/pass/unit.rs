//! The plain case: nothing declared, and nothing printed.

#![deny(warnings)]

#[ws::main]
async fn main() {
    let mut sum = 0;
    for n in 1..=4 {
        sum += std::future::ready(n).await;
    }
    assert_eq!(sum, 10);
}
