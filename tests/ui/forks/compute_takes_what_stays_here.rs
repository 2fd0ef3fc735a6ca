//! A computation runs on some worker.

use std::rc::Rc;

fn main() {
    let shared = Rc::new(1);
    drop(ws::compute(move || assert_eq!(*shared, 1)));
}
