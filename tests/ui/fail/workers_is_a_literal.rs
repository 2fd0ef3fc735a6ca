//! `workers` takes an integer literal and nothing else.

const COUNT: usize = 4;

#[ws::main(workers = COUNT)]
async fn constant() {}

#[ws::main(workers = "4")]
async fn text() {}

#[ws::main(workers = -1)]
async fn negative() {}

#[ws::main(workers = 4u8)]
async fn suffixed() {}

#[ws::main(workers = 99999999999999999999999)]
async fn huge() {}

#[ws::main(workers)]
async fn bare() {}

fn main() {
    let _ = COUNT;
}
