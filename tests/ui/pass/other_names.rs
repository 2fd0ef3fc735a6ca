//! A function that is not called `main` becomes a plain function of the declared type, which is
//! called from outside any runtime and may be called again.

#![deny(warnings)]

use std::rc::Rc;

#[ws::main(workers = 2)]
async fn answer() -> u32 {
    std::future::ready(42).await
}

#[ws::main(workers = 1)]
async fn not_send() -> Result<Rc<str>, Rc<str>> {
    let text: Rc<str> = Rc::from("text");
    std::future::ready(()).await;
    Ok(text)
}

#[ws::main]
async fn items() -> impl Iterator<Item = u32> {
    [1, 2, 3].into_iter()
}

#[ws::main]
async fn r#try() {}

fn main() {
    assert_eq!(answer(), 42);
    assert_eq!(answer(), 42);
    assert_eq!(not_send().as_deref(), Ok("text"));
    assert_eq!(items().sum::<u32>(), 6);
    r#try();
}
