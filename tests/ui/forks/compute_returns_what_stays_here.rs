//! And its result goes to who awaits it.

use std::rc::Rc;

fn main() {
    drop(ws::compute(|| Rc::new(1)));
}
