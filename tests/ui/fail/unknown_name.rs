//! A name that does not exist is not found in what the macro emits either.

#[ws::main]
async fn main() {
    runtime.spawn(builder);
}
