//! Nor can it be what a branch returns.

use std::rc::Rc;

fn main() {
    ws::join(|| (), || Rc::new(1));
    ws::join(|| Rc::new(1), || ());
}
