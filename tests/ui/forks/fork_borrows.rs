//! A forked task may outlive the task that forked it.

async fn parent() -> i32 {
    let number = 1;
    let borrowed = &number;
    let child = ws::fork(async move { *borrowed }).await;
    child.await.unwrap()
}

fn main() {
    drop(parent());
}
