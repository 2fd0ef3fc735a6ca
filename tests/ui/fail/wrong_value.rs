//! A type error in the body points into the body, and is the only error.

#[ws::main(workers = 2)]
async fn main() {
    let port: u16 = "8080";
    std::future::ready(port).await;
}
