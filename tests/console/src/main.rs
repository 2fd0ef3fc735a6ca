//! A program on `ws` that tokio-console can look at: a task of each kind. It ends with its input.

use std::{future::pending, io::Read, time::Duration};

use ws::{
    runtime::Handle,
    task::{Builder, JoinSet, LocalSet, yield_now},
    time,
};

const TICK: Duration = Duration::from_millis(20);

#[ws::main]
async fn main() {
    console_subscriber::init();
    let named = |name| Builder::new().name(name);

    drop(named("ticks").spawn(async {
        let mut interval = time::interval(TICK);
        loop {
            interval.tick().await;
        }
    }));
    drop(named("sleeps").priority(1).spawn(sleeps()));
    drop(named("pinned").spawn_pinned(sleeps));
    drop(named("ends").spawn(time::sleep(TICK)));
    drop(named("blocks").spawn_blocking(|| std::thread::sleep(TICK)));
    drop(ws::spawn(pending::<()>()));

    let mut set = JoinSet::new();
    set.insert(named("of a set").spawn(sleeps()));

    let handle = Handle::current();
    std::thread::spawn(move || {
        handle.block_on(async {
            drop(named("local").spawn_local(sleeps()));
            let local = LocalSet::new();
            local.spawn_local(sleeps());
            local.await;
        });
    });

    let input = || std::io::stdin().read_to_end(&mut Vec::new());
    let input = named("input").spawn_blocking(input).await;
    input.expect("it does not panic").expect("a pipe");
}

/// Yields and sleeps, for ever.
async fn sleeps() {
    loop {
        yield_now().await;
        time::sleep(TICK).await;
    }
}
