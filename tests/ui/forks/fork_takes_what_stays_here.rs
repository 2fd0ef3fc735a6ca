//! A forked task goes on wherever it is woken, so it cannot have what stays on one thread.

use std::rc::Rc;

fn main() {
    let shared = Rc::new(1);
    drop(ws::fork(async move { assert_eq!(*shared, 1) }));
}
