//! A panic of the body reaches the caller with its payload, whether the root is stealable or pinned.

#![deny(warnings)]

use std::panic::{self, UnwindSafe};
use std::rc::Rc;

#[derive(Debug, PartialEq)]
struct Payload(u32);

#[ws::main(workers = 2)]
async fn stealable() {
    std::future::ready(()).await;
    panic::panic_any(Payload(1));
}

#[ws::main(workers = 2)]
async fn pinned() {
    let kept = Rc::new(2);
    std::future::ready(()).await;
    panic::panic_any(Payload(*kept));
}

fn payload(entry: impl FnOnce() + UnwindSafe) -> Payload {
    *panic::catch_unwind(entry).unwrap_err().downcast().unwrap()
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    assert_eq!(payload(stealable), Payload(1));
    assert_eq!(payload(pinned), Payload(2));
}
