//! A scope cannot be used when it has ended.

fn main() {
    let mut kept = None;
    ws::scope(|scope| kept = Some(scope));
    kept.unwrap().spawn(|_| ());
}
