//! A branch of a scope is for others to take.

use std::rc::Rc;

fn main() {
    let shared = Rc::new(1);
    ws::scope(|scope| scope.spawn(|_| assert_eq!(*shared, 1)));
}
