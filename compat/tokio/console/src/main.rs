//! A program that tokio-console can look at: a task of each kind. It ends with its input.

use std::{io::Read, sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{Mutex, mpsc},
    task::{self, JoinSet, LocalSet},
    time,
};

const TICK: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() {
    console_subscriber::init();
    let named = |name| task::Builder::new().name(name);

    let (sender, mut receiver) = mpsc::channel(1);
    let receives = async move { while receiver.recv().await.is_some() {} };
    named("receives").spawn(receives).unwrap();
    let ticks = async move {
        let mut interval = time::interval(TICK);
        loop {
            interval.tick().await;
            sender.send(()).await.unwrap();
        }
    };
    named("ticks").spawn(ticks).unwrap();
    named("ends").spawn(time::sleep(TICK)).unwrap();
    named("blocks")
        .spawn_blocking(|| std::thread::sleep(TICK))
        .unwrap();
    tokio::spawn(std::future::pending::<()>());

    let lock = Arc::new(Mutex::new(()));
    let mut set = JoinSet::new();
    for name in ["first of a set", "second of a set"] {
        let lock = lock.clone();
        let turns = async move {
            loop {
                let _locked = lock.lock().await;
                time::sleep(TICK).await;
            }
        };
        set.build_task().name(name).spawn(turns).unwrap();
    }

    let handle = Handle::current();
    std::thread::spawn(move || {
        let local = LocalSet::new();
        let yields = async {
            loop {
                task::yield_now().await;
                time::sleep(TICK).await;
            }
        };
        named("local").spawn_local_on(yields, &local).unwrap();
        handle.block_on(local);
    });

    let input = || std::io::stdin().read_to_end(&mut Vec::new());
    named("input")
        .spawn_blocking(input)
        .unwrap()
        .await
        .unwrap()
        .unwrap();
}
