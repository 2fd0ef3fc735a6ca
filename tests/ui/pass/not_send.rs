//! A root that is not `Send` is pinned: each of its polls is on the thread that called `main`.

#![deny(warnings)]

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::thread;

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

thread_local! {
    static CALLED_MAIN: Cell<bool> = const { Cell::new(false) };
}

#[ws::main(workers = 4)]
async fn pinned() -> u32 {
    let polls = Rc::new(Cell::new(0));
    for _ in 0..1000 {
        assert!(CALLED_MAIN.get(), "polled on {:?}", thread::current().id());
        yield_once().await;
        polls.set(polls.get() + 1);
    }
    polls.get()
}

fn main() {
    CALLED_MAIN.set(true);
    assert_eq!(pinned(), 1000);
}
