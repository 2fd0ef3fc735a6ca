//! A seed chooses the order of tasks under virtual time, and nothing else.

#[ws::test(seed = 7)]
async fn alone() {}

#[ws::test(paused, seed = -7)]
async fn negative() {}

#[ws::test(paused, seed = "7")]
async fn text() {}

#[ws::test(paused, seed)]
async fn bare() {}

#[ws::main(seed = 7)]
async fn program() {}

fn main() {
    program();
}
