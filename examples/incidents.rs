//! Programs with a fault each, for docs/seeing.md: `cargo run --example incidents slow`, or
//! `forgets`, `ring`, `leak`, `queue`.

#![expect(clippy::print_stdout, reason = "what a program says")]

use std::{
    collections::HashMap,
    future::poll_fn,
    hint::black_box,
    io,
    task::Poll,
    time::{Duration, Instant},
};

use futures::channel::oneshot;
use ws::{
    runtime::{Builder, Handle, Runtime},
    task,
    time::sleep,
};

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("slow") => slow(),
        Some("forgets") => forgets(),
        Some("ring") => ring(),
        Some("leak") => leak(),
        Some("queue") => queue(),
        _ => {
            eprintln!("which one? slow, forgets, ring, leak or queue");
            std::process::exit(2);
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new().workers(2).build().map_err(io::Error::other)
}

/// A request computes for a third of a second in one poll.
fn slow() -> io::Result<()> {
    #[inline(never)]
    fn checksum(bytes: u64) -> u64 {
        let end = Instant::now() + Duration::from_millis(350);
        let mut sum = bytes;
        while Instant::now() < end {
            sum = black_box(sum.rotate_left(5) ^ 0x9e37);
        }
        sum
    }

    let runtime = runtime()?;
    let request = task::Builder::new().name("request");
    let request = request.spawn_on(async { checksum(4096) }, runtime.handle());
    runtime.block_on(request).map_err(io::Error::other)?;
    // What the report says comes from a thread of its own.
    drop(runtime);
    Ok(())
}

/// A future that somebody wrote by hand does not keep its waker.
fn forgets() -> io::Result<()> {
    async fn next_message(queue: &mut Vec<String>) -> String {
        poll_fn(|_cx| match queue.pop() {
            Some(message) => Poll::Ready(message),
            None => Poll::Pending,
        })
        .await
    }

    let (tell, told) = std::sync::mpsc::channel();
    let runtime = Builder::new()
        .workers(2)
        .on_lost_task(move |lost| {
            println!("{lost}");
            let _ = tell.send(());
        })
        .build()
        .map_err(io::Error::other)?;
    let inbox = task::Builder::new().name("inbox");
    let _inbox = inbox.spawn_on(
        async {
            let mut queue = vec!["first".to_owned()];
            loop {
                next_message(&mut queue).await;
            }
        },
        runtime.handle(),
    );
    told.recv().map_err(io::Error::other)
}

/// Two tasks wait for each other to end.
fn ring() -> io::Result<()> {
    let runtime = runtime()?;
    let (send, receive) = oneshot::channel::<task::JoinHandle<()>>();
    let writer = task::Builder::new().name("writer").spawn_on(
        async move {
            if let Ok(reader) = receive.await {
                let _ = reader.await;
            }
        },
        runtime.handle(),
    );
    let reader = async move { _ = writer.await };
    let reader = task::Builder::new()
        .name("reader")
        .spawn_on(reader, runtime.handle());
    let _ = send.send(reader);
    loop {
        let lost = runtime.handle().lost_tasks();
        if lost.len() == 2 {
            lost.iter().for_each(|lost| println!("{lost}"));
            return Ok(());
        }
        std::thread::yield_now();
    }
}

/// Sessions whose clients have gone stay in a map, and so do their tasks.
fn leak() -> io::Result<()> {
    async fn session(number: u32, closed: oneshot::Receiver<()>) {
        sleep(Duration::from_millis(u64::from(number % 7))).await;
        let _ = closed.await;
    }

    let runtime = runtime()?;
    runtime.block_on(async {
        let mut sessions = HashMap::new();
        for number in 0..500 {
            let (close, closed) = oneshot::channel();
            sessions.insert(number, close);
            drop(ws::spawn(session(number, closed)));
        }
        sleep(Duration::from_millis(50)).await;
        let handle = Handle::current();
        println!("live_tasks {}", handle.metrics().live_tasks);
        let mut places = HashMap::new();
        for task in handle.dump() {
            *places.entry(task.location.to_string()).or_insert(0) += 1;
        }
        println!("{places:?}");
        let dump = handle.dump_awaits(Duration::from_secs(1)).await;
        println!("{}", dump[0]);
        if let Some(tree) = &dump[0].awaits {
            println!("{tree}");
        }
        drop(sessions);
    });
    Ok(())
}

/// More work comes in than two workers can do.
fn queue() -> io::Result<()> {
    fn work() {
        let end = Instant::now() + Duration::from_micros(50);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    for _ in 0..5 {
        // A thread of another library.
        for _ in 0..2_000 {
            handle.spawn(async {
                work();
                task::yield_now().await;
                work();
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        let metrics = handle.metrics();
        let local: usize = metrics.processors.iter().map(|p| p.local_queue).sum();
        println!(
            "live_tasks {}, global_queue {}, local queues {local}, free_permits {}",
            metrics.live_tasks, metrics.global_queue, metrics.free_permits
        );
    }
    println!("poll: {}", handle.metrics().poll_time);
    Ok(())
}
