//! `main` has parameters. The body is still compiled, with the parameters in it.

async fn work(_: &str) {}

#[ws::main]
async fn main(name: String, count: usize) {
    for _ in 0..count {
        work(&name).await;
    }
}
