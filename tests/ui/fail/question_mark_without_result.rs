//! `?` where nothing is returned: the compiler's own advice, at the user's function.

#[ws::main]
async fn main() {
    let port: u16 = "8080".parse()?;
    drop(port);
}
