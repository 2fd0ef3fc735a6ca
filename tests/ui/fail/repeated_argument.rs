//! An argument is given twice: refused at the second.

#[ws::main(workers = 2, crate = ws, workers = 3, crate = ws)]
async fn main() {}
