//! Proof 10: libraries that do nothing but poll and wake: caches, channels, locks, `tokio::sync`,
//! all traits of `futures` that face an executor, and what of tokio-util, tokio-stream and tower
//! needs no runtime of tokio's. And two that bring threads of their own, which are shown to be
//! theirs alone: async-fs and async-process.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_process::{Command, Stdio};
use futures::{
    AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt, TryStreamExt,
    channel::oneshot,
    future::{Either, FutureExt, RemoteHandle, Shared, select_all},
    join, select, stream,
    stream::FuturesUnordered,
    task::{FutureObj, LocalSpawn, LocalSpawnExt, Spawn, SpawnExt},
};
use tokio_stream::wrappers::{BroadcastStream, ReceiverStream, WatchStream};
use tokio_util::{
    codec::{Framed, LinesCodec, LinesCodecError},
    compat::{FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt},
};
use tower::{Service, ServiceExt, buffer::Buffer, service_fn};
use ws::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
};

use crate::harness::{bytes, proofs};

/// Sends 10,000 numbers by each of four tasks, receives them by four others, and sees that each
/// came once.
macro_rules! each_message_comes_once {
    ($channel:expr, $send:ident, $recv:ident) => {{
        let (sender, receiver) = $channel;
        let senders: Vec<_> = (0..4)
            .map(|task| {
                let sender = sender.clone();
                ws::spawn(async move {
                    for n in 0..10_000 {
                        sender.$send(task * 10_000 + n).await.unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let receiver = receiver.clone();
                ws::spawn(async move {
                    let mut got: Vec<usize> = Vec::new();
                    while let Ok(n) = receiver.$recv().await {
                        got.push(n);
                    }
                    got
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        let mut all = Vec::new();
        for receiver in receivers {
            all.extend(receiver.await.unwrap());
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..40_000));
    }};
}

/// Two ends of a connection.
async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = join!(client, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// What `f` returns on a thread that is none of the runtime's.
async fn foreign_thread<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = oneshot::channel();
    crate::harness::thread(move || drop(send.send(f())));
    receive.await.expect("the thread does not panic")
}

proofs! {
    /// flume, kanal and async-channel, bounded to 16: each message comes once.
    async fn channels(env) {
        each_message_comes_once!(flume::bounded(16), send_async, recv_async);
        each_message_comes_once!(kanal::bounded_async(16), send, recv);
        each_message_comes_once!(async_channel::bounded(16), send, recv);
    }

    /// 32 tasks ask moka for the same 100 keys at once; each value is computed once.
    async fn moka_computes_each_value_once(env) {
        let cache: moka::future::Cache<u64, Arc<Vec<u8>>> = moka::future::Cache::new(1_000);
        let computed = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let (cache, computed) = (cache.clone(), computed.clone());
                ws::spawn(async move {
                    for key in 0..100 {
                        let computed = computed.clone();
                        let value = cache.get_with(key, async move {
                            ws::task::yield_now().await;
                            computed.fetch_add(1, Ordering::SeqCst);
                            Arc::new(bytes(100, key))
                        });
                        assert_eq!(*value.await, bytes(100, key));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(computed.load(Ordering::SeqCst), 100);
        cache.run_pending_tasks().await;
        assert_eq!(cache.entry_count(), 100);
    }

    /// async-lock: a mutex counts, a barrier lets all through, a semaphore lets two, a once-cell is
    /// set once.
    async fn async_lock(env) {
        let counter = Arc::new(async_lock::Mutex::new(0));
        let barrier = Arc::new(async_lock::Barrier::new(8));
        let semaphore = Arc::new(async_lock::Semaphore::new(2));
        let inside = Arc::new(AtomicUsize::new(0));
        let once = Arc::new(async_lock::OnceCell::new());
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let (counter, barrier) = (counter.clone(), barrier.clone());
                let (semaphore, inside, once) = (semaphore.clone(), inside.clone(), once.clone());
                ws::spawn(async move {
                    for _ in 0..1_000 {
                        let mut counter = counter.lock().await;
                        let before = *counter;
                        ws::task::yield_now().await;
                        *counter = before + 1;
                    }
                    let leader = barrier.wait().await.is_leader();
                    for _ in 0..100 {
                        let _permit = semaphore.acquire().await;
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        ws::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                    (leader, *once.get_or_init(async move || n).await)
                })
            })
            .collect();
        let mut leaders = 0;
        let mut first = BTreeSet::new();
        for task in tasks {
            let (leader, value) = task.await.unwrap();
            leaders += usize::from(leader);
            first.insert(value);
        }
        assert_eq!((*counter.lock().await, leaders, first.len()), (8_000, 1, 1));
    }

    /// tokio::sync: mpsc, oneshot, broadcast, watch, Mutex, RwLock, Notify, Semaphore and Barrier.
    async fn tokio_sync(env) {
        use tokio::sync::{Barrier, Mutex, Notify, RwLock, Semaphore, broadcast, mpsc, oneshot, watch};

        let (send, mut receive) = mpsc::channel(16);
        let (publish, _) = broadcast::channel(2_000);
        let mut subscribers: Vec<_> = (0..3).map(|_| publish.subscribe()).collect();
        let producer = ws::spawn(async move {
            for n in 0..1_000 {
                let (answer, answered) = oneshot::channel();
                send.send((n, answer)).await.unwrap();
                assert_eq!(answered.await.unwrap(), n * 2);
                publish.send(n).unwrap();
            }
        });
        for expected in 0..1_000 {
            let (n, answer) = receive.recv().await.unwrap();
            assert_eq!(n, expected);
            answer.send(n * 2).unwrap();
        }
        assert!(receive.recv().await.is_none());
        producer.await.unwrap();
        for subscriber in &mut subscribers {
            for n in 0..1_000 {
                assert_eq!(subscriber.recv().await.unwrap(), n);
            }
            assert_eq!(subscriber.recv().await, Err(broadcast::error::RecvError::Closed));
        }

        let (state, mut watched) = watch::channel(0);
        let watcher = ws::spawn(async move { *watched.wait_for(|state| *state == 500).await.unwrap() });
        for n in 1..=500 {
            state.send(n).unwrap();
            ws::task::yield_now().await;
        }
        assert_eq!(watcher.await.unwrap(), 500);

        let counter = Arc::new((Mutex::new(0), RwLock::new(0), Semaphore::new(2), Notify::new(), Barrier::new(8)));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let counter = counter.clone();
                ws::spawn(async move {
                    let (mutex, rwlock, semaphore, notify, barrier) = &*counter;
                    barrier.wait().await;
                    for _ in 0..1_000 {
                        let _permit = semaphore.acquire().await.unwrap();
                        *mutex.lock().await += 1;
                        *rwlock.write().await += 1;
                        assert!(*rwlock.read().await > 0);
                    }
                    notify.notify_one();
                })
            })
            .collect();
        counter.3.notified().await;
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((*counter.0.lock().await, *counter.1.read().await), (8_000, 8_000));
    }

    /// tokio-util's `Framed` on a stream of ours, with the feature `tokio-io`: 2,000 lines of many
    /// lengths come back in order, and one that is too long is an error of the codec.
    async fn tokio_util_codec(env) {
        let line = |n: usize| format!("{n} {}", "x".repeat(n % 500));
        let (client, server) = tcp_pair().await;
        let echo = ws::spawn(async move {
            let (mut sink, lines) = Framed::new(server, LinesCodec::new_with_max_length(600)).split();
            let mut lines = lines.map_ok(|line| line.to_uppercase());
            let end = loop {
                match lines.next().await {
                    Some(Ok(line)) => SinkExt::send(&mut sink, line).await.unwrap(),
                    end => break end,
                }
            };
            // The client waits for this. The rest of that line may have come or not, so the socket
            // stays.
            sink.close().await.unwrap();
            (end, sink, lines)
        });
        let (mut sink, lines) = Framed::new(client, LinesCodec::new()).split();
        let sending = ws::spawn(async move {
            let all = stream::iter((0..2_000).map(line).chain(["y".repeat(601)]));
            sink.send_all(&mut all.map(Ok)).await.unwrap();
            sink
        });
        let got: Vec<String> = lines.try_collect().await.unwrap();
        assert!(got.into_iter().eq((0..2_000).map(|n| line(n).to_uppercase())));
        let (end, ..) = echo.await.unwrap();
        assert!(matches!(end, Some(Err(LinesCodecError::MaxLineLengthExceeded))), "{end:?}");
        drop(sending.await.unwrap());
    }

    /// tokio-util's compat: 300 KB from a stream of tokio's traits to one of `futures::io`, through
    /// the sockets of `ws`, and back from there the other way.
    async fn tokio_util_compat(env) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let data = bytes(300_000, 1);
        let (mut tokios, inner) = tokio::io::duplex(1_000);
        let (client, server) = tcp_pair().await;
        // tokio's duplex speaks the traits of `futures` here.
        let there = ws::spawn(async move {
            let mut client = client;
            let copied = ws::io::copy(inner.compat(), &mut client).await.unwrap();
            futures::AsyncWriteExt::close(&mut client).await.unwrap();
            (copied, client)
        });
        // And what is around our stream speaks those of tokio here.
        let back = ws::spawn(async move {
            let mut got = Vec::new();
            let mut wrapped = ws::io::BufReader::new(server).compat();
            wrapped.read_to_end(&mut got).await.unwrap();
            got
        });
        tokios.write_all(&data).await.unwrap();
        tokios.shutdown().await.unwrap();
        let (copied, _client) = there.await.unwrap();
        assert_eq!(copied, 300_000);
        assert!(back.await.unwrap() == data);
    }

    /// tokio-stream's wrappers of channels: each message of four tasks comes once, those of a
    /// broadcast in order, and the last state of a watch.
    async fn tokio_stream_wrappers(env) {
        use tokio::sync::{broadcast, mpsc, watch};

        let (send, receive) = mpsc::channel(16);
        for task in 0..4 {
            let send = send.clone();
            ws::spawn(async move {
                for n in 0..1_000 {
                    send.send(task * 1_000 + n).await.unwrap();
                }
            });
        }
        drop(send);
        let mut all: Vec<usize> = ReceiverStream::new(receive).collect().await;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..4_000));

        let (publish, subscribed) = broadcast::channel(1_000);
        let got = ws::spawn(BroadcastStream::new(subscribed).try_collect::<Vec<usize>>());
        for n in 0..1_000 {
            publish.send(n).unwrap();
        }
        drop(publish);
        assert!(got.await.unwrap().unwrap().into_iter().eq(0..1_000));

        let (state, watched) = watch::channel(0);
        let got = ws::spawn(WatchStream::new(watched).collect::<Vec<usize>>());
        for n in 1..=500 {
            state.send(n).unwrap();
            ws::task::yield_now().await;
        }
        drop(state);
        let got = got.await.unwrap();
        assert!(got.is_sorted() && got.last() == Some(&500), "{got:?}");
    }

    /// tower's `Buffer::pair`, whose worker is a task of ours: 4,000 calls of four tasks are each
    /// answered, and the worker ends with the last handle.
    async fn tower_buffer(env) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let service = service_fn(move |n: usize| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                ws::task::yield_now().await;
                Ok::<_, Infallible>(n * 2)
            }
        });
        let (buffer, worker) = Buffer::pair(service, 16);
        let worker = ws::spawn(worker);
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let mut buffer = buffer.clone();
                ws::spawn(async move {
                    for n in 0..1_000 {
                        let n = task * 1_000 + n;
                        let answer = buffer.ready().await.unwrap().call(n);
                        assert_eq!(answer.await.unwrap(), n * 2);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(calls.load(Ordering::SeqCst), 4_000);
        drop(buffer);
        worker.await.unwrap();
    }

    /// The traits of `futures` that face an executor: `Spawn` and its extensions on a `Handle`,
    /// from a worker and from a foreign thread, as an object too; `block_on` of futures beside
    /// ours; combinators that poll for themselves.
    async fn futures_traits(env) {
        let handle = Handle::current();
        handle.status().unwrap();
        let spawned: RemoteHandle<u32> = SpawnExt::spawn_with_handle(&handle, async { 6 * 7 }).unwrap();
        assert_eq!(spawned.await, 42);

        let (send, receive) = oneshot::channel();
        let object: &dyn Spawn = &handle;
        object.spawn_obj(FutureObj::new(Box::new(async move { send.send(1).unwrap() }))).unwrap();
        assert_eq!(receive.await, Ok(1));

        let foreign = handle.clone();
        let result = foreign_thread(move || {
            let (send, receive) = oneshot::channel();
            foreign.spawn(async move { send.send("from a task").unwrap() });
            // The executor of `futures`, whose waker ours has to wake.
            futures::executor::block_on(receive)
        });
        assert_eq!(result.await, Ok("from a task"));

        // Not `Send`, on a thread that waits in a `block_on` of its own.
        let local = handle.clone();
        let fourteen = foreign_thread(move || {
            let inner = local.clone();
            local.block_on(async move {
                inner.status_local().unwrap();
                let rc = Rc::new(7);
                let kept = rc.clone();
                let task = LocalSpawnExt::spawn_local_with_handle(&inner, async move { *kept });
                task.unwrap().await + *rc
            })
        });
        assert_eq!(fourteen.await, 14);

        let mut unordered: FuturesUnordered<_> = (0..1_000)
            .map(|n| async move {
                ws::task::yield_now().await;
                n
            })
            .collect();
        let mut sum = 0;
        while let Some(n) = unordered.next().await {
            sum += n;
        }
        assert_eq!(sum, 499_500);

        let shared: Shared<_> = ws::spawn(async { 5 }).map(Result::unwrap).shared();
        assert_eq!(join!(shared.clone(), shared.clone()), (5, 5));
        let buffered: Vec<usize> = futures::stream::iter(0..1_000)
            .map(|n| ws::spawn(async move { n * 2 }).map(Result::unwrap))
            .buffered(16)
            .collect()
            .await;
        assert!(buffered.into_iter().eq((0..1_000).map(|n| n * 2)));

        let never = futures::future::pending::<u32>();
        let first = select! { n = shared.fuse() => n, n = never.fuse() => n };
        assert_eq!(first, 5);
        let (either, ..) = select_all([
            Either::Left(futures::future::pending()),
            Either::Right(futures::future::ready(3)),
        ])
        .await;
        assert_eq!(either, 3);
    }

    /// async-fs reads what it wrote. Its threads, of the `blocking` crate, are the only foreign
    /// ones.
    async fn async_fs(env) {
        env.allow_threads(&["blocking-"]);
        let path = env.dir.join("file");
        let data = bytes(3_000_000, 1);
        let mut file = async_fs::File::create(&path).await.unwrap();
        file.write_all(&data).await.unwrap();
        file.sync_all().await.unwrap();
        drop(file);
        assert!(fs::read(&path).unwrap() == data);
        let mut file = async_fs::File::open(&path).await.unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).await.unwrap();
        assert!(read == data);

        for n in 0..100 {
            async_fs::write(env.dir.join(format!("many-{n}")), n.to_string()).await.unwrap();
        }
        let mut entries = async_fs::read_dir(env.dir.path()).await.unwrap();
        let mut names = BTreeSet::new();
        while let Some(entry) = entries.next().await {
            names.insert(entry.unwrap().file_name());
        }
        assert_eq!(names.len(), 101);
    }

    /// async-process: a hundred children, with their bytes and their codes. It has a thread that
    /// waits for children, and the reactor of async-io.
    async fn async_process(env) {
        env.allow_threads(&["blocking-", "async-process", "async-io"]);
        let tasks: Vec<_> = (0..100_u8)
            .map(|n| {
                ws::spawn(async move {
                    let script = format!("cat; exit {n}");
                    let mut child = Command::new("sh")
                        .args(["-c", &script])
                        .stdin(Stdio::piped())
                        .stdout(Stdio::piped())
                        .spawn()
                        .unwrap();
                    let data = bytes(10_000, n.into());
                    let mut stdin = child.stdin.take().unwrap();
                    stdin.write_all(&data).await.unwrap();
                    drop(stdin);
                    let output = child.output().await.unwrap();
                    assert!(output.stdout == data);
                    assert_eq!(output.status.code(), Some(n.into()));
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
