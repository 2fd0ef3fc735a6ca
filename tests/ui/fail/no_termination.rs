//! `main` returns what no process can end with: the declared type is what has to change.

#[ws::main]
async fn main() -> u32 {
    7
}
