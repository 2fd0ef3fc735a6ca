//! The body ends without the declared value: the error is the one of a plain function.

#[ws::main]
async fn main() -> Result<(), std::io::Error> {
    let ready = std::future::ready(1);
    ready.await;
}
