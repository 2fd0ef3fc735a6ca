//! `crate` names a crate that is not there: the error points at the path.

#[ws::main(crate = absent::ws)]
async fn main() {}
