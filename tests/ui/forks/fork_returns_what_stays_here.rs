//! Nor can that be its output.

use std::rc::Rc;

fn main() {
    drop(ws::fork(async { Rc::new(1) }));
}
