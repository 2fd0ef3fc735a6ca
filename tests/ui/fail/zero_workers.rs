//! No workers: refused at the number.

#[ws::main(workers = 0)]
async fn main() {}
