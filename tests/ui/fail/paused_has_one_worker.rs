//! Virtual time goes with one worker.

#[ws::test(paused, workers = 4)]
async fn four() {}

#[ws::test(paused = true)]
async fn value() {}

#[ws::main(paused)]
async fn program() {}

fn main() {
    program();
}
