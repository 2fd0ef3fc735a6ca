//! The arguments of tokio's attributes: the message says what to write here.

#[ws::main(worker_threads = 4)]
async fn main() {}

#[ws::main(flavor = "current_thread", start_paused = true)]
async fn second() {}

#[ws::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two() {}

#[ws::test(start_paused = true)]
async fn paused() {}
