//! What cannot be sent to another thread cannot be used in the second branch, which is for others to take.

use std::rc::Rc;

fn main() {
    let shared = Rc::new(1);
    ws::join(|| (), || assert_eq!(*shared, 1));
}
