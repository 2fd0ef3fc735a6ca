//! And its result goes to the task that awaits it.

use std::rc::Rc;

fn main() {
    drop(ws::compute(|| Rc::new(1)));
}
