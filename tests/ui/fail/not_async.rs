//! `async` is missing: the message says where it goes, and `.await` in the body is no second error.

async fn work() {}

#[ws::main]
fn main() {
    work().await;
}
