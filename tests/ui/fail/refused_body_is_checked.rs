//! A refused function is compiled all the same: its body's errors stand beside the refusal.

#[ws::main]
async fn main(port: u16) {
    let text: String = port;
    drop(text);
}
