//! tower's middleware, tokio-util and tokio-stream.

use std::{convert::Infallible, time::Duration};

use futures_util::StreamExt;
use tokio::{sync::mpsc, time};
use tokio_util::{
    codec::{Framed, LinesCodec},
    sync::{CancellationToken, PollSender},
    task::{LocalPoolHandle, TaskTracker},
    time::DelayQueue,
};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_tracker_waits_for_all() {
    let tracker = TaskTracker::new();
    let token = CancellationToken::new();
    for _ in 0..100 {
        let token = token.clone();
        tracker.spawn(async move { token.cancelled().await });
    }
    tracker.close();
    token.cancel();
    tracker.wait().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_queue_is_in_order() {
    let mut queue = DelayQueue::new();
    for n in [3, 1, 2] {
        queue.insert(n, Duration::from_secs(n));
    }
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        order.push(expired.into_inner());
    }
    assert_eq!(order, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_pool_has_threads_of_its_own() {
    let pool = LocalPoolHandle::new(2);
    let here = std::thread::current().id();
    let there = pool
        .spawn_pinned(|| async { std::thread::current().id() })
        .await
        .unwrap();
    assert_ne!(there, here);
}

#[tokio::test]
async fn lines_go_through_a_frame() {
    let (here, there) = tokio::io::duplex(64);
    let mut here = Framed::new(here, LinesCodec::new());
    let mut there = Framed::new(there, LinesCodec::new());
    futures_util::SinkExt::send(&mut here, "hello")
        .await
        .unwrap();
    assert_eq!(there.next().await.unwrap().unwrap(), "hello");
}

#[tokio::test]
async fn a_poll_sender_waits_for_room() {
    let (sender, mut receiver) = mpsc::channel(1);
    let mut sender = PollSender::new(sender);
    let sends = async {
        for n in 0..10 {
            futures_util::SinkExt::send(&mut sender, n).await.unwrap();
        }
    };
    let receives = async {
        for n in 0..10 {
            assert_eq!(receiver.recv().await, Some(n));
        }
    };
    tokio::join!(sends, receives);
}

#[tokio::test(start_paused = true)]
async fn towers_layers_use_the_timers() {
    let slow = service_fn(|secs: u64| async move {
        time::sleep(Duration::from_secs(secs)).await;
        Ok::<_, Infallible>(secs)
    });
    let mut service = ServiceBuilder::new()
        .buffer(8)
        .concurrency_limit(4)
        .rate_limit(100, Duration::from_secs(1))
        .timeout(Duration::from_secs(5))
        .service(slow);
    assert_eq!(service.ready().await.unwrap().call(1).await.unwrap(), 1);
    assert!(service.ready().await.unwrap().call(60).await.is_err());
}

#[tokio::test]
async fn streams_of_tokio_stream() {
    let ticks =
        tokio_stream::wrappers::IntervalStream::new(time::interval(Duration::from_millis(1)));
    assert_eq!(ticks.take(5).count().await, 5);
    let (sender, receiver) = mpsc::unbounded_channel();
    (0..5).for_each(|n| sender.send(n).unwrap());
    drop(sender);
    let all: Vec<_> = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver)
        .collect()
        .await;
    assert_eq!(all, [0, 1, 2, 3, 4]);
}
