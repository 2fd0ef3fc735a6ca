//! A computation may outlive the task that awaits it, for a drop does not wait for its end.

async fn caller() -> i32 {
    let number = 1;
    ws::compute(|| number + 1).await.unwrap()
}

fn main() {
    drop(caller());
}
