//! Futures that are `Send` for some lifetimes only. Such a root is pinned, either by the compiler's
//! choice, or, where the condition is a bound that it does not look into, behind a `Box`.

#![deny(warnings)]

use std::pin::Pin;
use std::ptr;

struct ForStatic<T>(T, *const ());

// SAFETY: nothing reads through the pointer.
unsafe impl Send for ForStatic<&'static str> {}

struct IfStatic<T>(T, *const ());

// SAFETY: nothing reads through the pointer.
unsafe impl<T: 'static> Send for IfStatic<T> {}

#[ws::main(workers = 2)]
async fn pinned() -> usize {
    let text = "text".to_owned();
    let held = ForStatic(&*text, ptr::null());
    std::future::ready(()).await;
    assert!(held.1.is_null());
    held.0.len()
}

async fn bounded() -> usize {
    let text = "text".to_owned();
    let held = IfStatic(&*text, ptr::null());
    std::future::ready(()).await;
    assert!(held.1.is_null());
    held.0.len()
}

#[ws::main(workers = 2)]
async fn boxed() -> usize {
    let bounded: Pin<Box<dyn Future<Output = usize>>> = Box::pin(bounded());
    bounded.await
}

fn main() {
    assert_eq!(pinned(), 4);
    assert_eq!(boxed(), 4);
}
