//! An argument that does not exist: the message lists those that do.

#[ws::main(worker_thread = 4)]
async fn main() {}

#[ws::test(workers = 2, flavour = "current_thread")]
async fn flavoured() {}
