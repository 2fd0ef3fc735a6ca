//! How long is the way from a spawn to the new task's first poll, when nothing else is to be done?
//!
//! A task spawns the next and ends, so many times; the last one answers.

use futures::channel::oneshot;

use super::{Figure, Row, in_task, twice};
use crate::rt::Rt;

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "chained_spawn",
        "a link of the chain",
        Figure::Time,
        |params| {
            let n = params.size(200_000, 100_000);
            in_task::<R, _>(params, twice(n, move || chain::<R>(n)))
        },
    )
    .also(super::TOKIO_MAIN)]
}

async fn chain<R: Rt>(n: usize) {
    let (done, ended) = oneshot::channel();
    link::<R>(n, done);
    ended.await.expect("the last link answers");
}

fn link<R: Rt>(left: usize, done: oneshot::Sender<()>) {
    R::detach(async move {
        if left == 0 {
            done.send(()).expect("the root waits for the answer");
        } else {
            link::<R>(left - 1, done);
        }
    });
}
