//! Nor in the first: which of the two stays here is no matter of its bounds.

use std::rc::Rc;

fn main() {
    let shared = Rc::new(1);
    ws::join(|| assert_eq!(*shared, 1), || ());
}
