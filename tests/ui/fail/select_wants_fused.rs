//! A future that is not fused is refused, with the word that is missing: in place, and by name.
use std::future::{pending, ready};

#[ws::main]
async fn main() {
    let mut named = pending::<u32>();
    ws::select! {
        n = ready(1) => drop::<u32>(n),
        n = named => drop::<u32>(n),
        () = ready(()) => (),
    }
}
