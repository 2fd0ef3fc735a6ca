//! S7, S8: the end of a runtime bears what goes on meanwhile. Threads spawn, wake and leave while
//! it ends; destructors and thread-locals use it; wakers and handles that outlive it do nothing, or
//! are told. Every future is dropped all the same. Where they wait, and which thread ends the
//! runtime, is in `shutdown_drops_everything.rs`.
//!
//! It fails when one of the three steps of *Clearing away* in `sched/shutdown.rs` is left out.

use crate::common;

use std::{
    cell::RefCell,
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate, OnDrop, runtime};
use futures::channel::oneshot;
use ws_executor::{
    runtime::Builder,
    task::{self, JoinHandle},
};

common::with_workers! {
    fn handles_that_are_left(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        runtime.block_on(runtime.spawn(async {})).unwrap();
        drop(runtime);
        let (dropped, other) = (Arc::new(Count::new()), common::runtime(1));
        for n in 1..=10 {
            let counted = dropped.clone();
            let last = OnDrop(move || counted.add());
            let late = handle.spawn(async move { drop(last) });
            assert_eq!(dropped.get(), n, "refused, but not dropped");
            assert!(late.is_finished());
            late.abort();
            assert!(other.block_on(late).unwrap_err().is_cancelled());
        }
        let job = handle.spawn_blocking(|| ());
        assert!(other.block_on(job).unwrap_err().is_cancelled());
        assert_eq!(handle.block_on(async { 5 }), 5);
        assert!(handle.block_on(async { ws_executor::spawn(async {}).await }).is_err());
        assert!(handle.block_on(async { ws_executor::spawn_local(async {}).await }).is_err());
        let _ = handle.metrics();
        let _guard = handle.enter();
        assert!(ws_executor::spawn(async {}).is_finished());
    }

    /// A destructor that spawns on the runtime that ends, and one that wakes others, joins, aborts.
    fn destructors_that_use_the_runtime(workers: usize) {
        let runtime = runtime(workers);
        let (dropped, parked) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let handles: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let mut tasks = Vec::new();
        for _ in 0..50 {
            let handle = runtime.handle().clone();
            let (wakers, others, counted) = (wakers.clone(), handles.clone(), dropped.clone());
            let last = OnDrop({
                let wakers = wakers.clone();
                move || {
                    let inner = counted.clone();
                    let late = OnDrop(move || inner.add());
                    drop(handle.spawn(async move { drop(late) }));
                    let _ = std::panic::catch_unwind(|| drop(ws_executor::spawn(async {})));
                    for waker in wakers.lock().unwrap().clone() { waker.wake(); }
                    let other = others.lock().unwrap().pop();
                    if let Some(other) = other { other.abort(); }
                    let _ = handle.metrics();
                    counted.add();
                }
            });
            let parked = parked.clone();
            tasks.push(runtime.spawn(poll_fn(move |cx| {
                let _last = &last;
                wakers.lock().unwrap().push(cx.waker().clone());
                parked.add();
                Poll::Pending
            })));
        }
        handles.lock().unwrap().append(&mut tasks);
        parked.wait_for(50);
        drop(runtime);
        assert_eq!(dropped.get(), 100);
        // The wakers hold the tasks' cells, and these the wakers: cut the circle.
        wakers.lock().unwrap().clear();
    }

    /// A chain of tasks in which each owns the one thing that wakes the next.
    fn a_chain_of_owners(workers: usize) {
        let runtime = runtime(workers);
        let dropped = Arc::new(Count::new());
        let mut before: Option<oneshot::Sender<()>> = None;
        for _ in 0..1000 {
            let (send, receive) = oneshot::channel();
            let (owned, counted) = (before.replace(send), dropped.clone());
            let last = OnDrop(move || counted.add());
            drop(runtime.spawn(async move {
                let _own = (owned, last);
                let _ = receive.await;
            }));
        }
        drop(runtime);
        assert_eq!(dropped.get(), 1000);
    }

    /// Thread-locals of a worker that spawn in their destructors, when the thread ends.
    fn thread_locals_that_spawn(workers: usize) {
        type Last = OnDrop<Box<dyn FnMut()>>;
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let runtime = runtime(workers);
        let ran = Arc::new(Count::new());
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let set: Vec<_> = (0..workers).map(|_| {
            let (handle, ran) = (runtime.handle().clone(), ran.clone());
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.spawn(async move {
                // One on each of so many threads.
                begun.add();
                gate.pass();
                let last: Last = OnDrop(Box::new(move || {
                    // Late or not, it answers.
                    let late = handle.spawn(async {});
                    while !late.is_finished() { thread::yield_now(); }
                    let _guard = handle.enter();
                    drop(ws_executor::spawn(async {}));
                    assert_eq!(handle.block_on(async { 5 }), 5);
                    ran.add();
                }));
                LAST.set(Some(last));
            })
        }).collect();
        begun.wait_for(workers);
        gate.open();
        for task in set {
            runtime.block_on(task).unwrap();
        }
        drop(runtime);
        ran.wait_for(workers);
    }

    /// Spawns, wakes and aborts from many threads while it ends: each handle resolves.
    fn in_the_middle_of_everything(workers: usize) {
        for _ in 0..30 {
            let runtime = runtime(workers);
            let (begun, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
            let threads: Vec<_> = (0..4).map(|_| {
                let (handle, begun, dropped) = (runtime.handle().clone(), begun.clone(), dropped.clone());
                thread::spawn(move || (0..100).map(|n| {
                    if n == 10 { begun.add(); }
                    let dropped = dropped.clone();
                    let last = OnDrop(move || dropped.add());
                    handle.spawn(async move {
                        let _last = last;
                        if n % 3 == 0 { pending::<()>().await; }
                        task::yield_now().await;
                        let _ = ws_executor::spawn(async {}).await;
                    })
                }).collect::<Vec<_>>())
            }).collect();
            begun.wait_for(4);
            drop(runtime);
            let handles: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
            let other = common::runtime(1);
            for handle in handles {
                if let Err(error) = other.block_on(handle) {
                    assert!(error.is_cancelled());
                }
            }
            dropped.wait_for(400);
        }
    }

    /// Wakers in use on foreign threads while it ends: what is between "queued" and the queue then
    /// is dropped all the same.
    fn while_others_wake(workers: usize) {
        for _ in 0..30 {
            let runtime = runtime(workers);
            let (parked, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
            let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
            for _ in 0..100 {
                let (wakers, begun, counted) = (wakers.clone(), parked.clone(), dropped.clone());
                let last = OnDrop(move || counted.add());
                let mut first = true;
                drop(runtime.spawn(poll_fn(move |cx| {
                    let _last = &last;
                    if std::mem::take(&mut first) {
                        wakers.lock().unwrap().push(cx.waker().clone());
                        begun.add();
                    }
                    Poll::<()>::Pending
                })));
            }
            parked.wait_for(100);
            let wakers = std::mem::take(&mut *wakers.lock().unwrap());
            let (waking, done) = (Count::new(), std::sync::atomic::AtomicBool::new(false));
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| while !done.load(SeqCst) {
                        wakers.iter().for_each(Waker::wake_by_ref);
                        waking.add();
                    });
                }
                waking.wait_for(2);
                drop(runtime);
                done.store(true, SeqCst);
            });
            dropped.wait_for(100);
        }
    }

    /// The last thread goes for want of work just when the end begins. Another one, in `block_on`,
    /// waits in the netpoll, so no thread has to stay for that.
    fn while_the_last_thread_leaves(workers: usize) {
        let rounds = if cfg!(debug_assertions) { 300 } else { 1000 };
        for _ in 0..rounds {
            let builder = Builder::new().workers(workers).keep_alive(Duration::from_nanos(1));
            let runtime = builder.build().unwrap();
            let (handle, inside) = (runtime.handle().clone(), Arc::new(Count::new()));
            let counted = inside.clone();
            let (send, receive) = oneshot::channel::<()>();
            let other = thread::spawn(move || handle.block_on(async move {
                counted.add();
                receive.await.unwrap();
            }));
            inside.wait_for(1);
            let (begun, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
            let (began, counted) = (begun.clone(), dropped.clone());
            let last = OnDrop(move || counted.add());
            let waits = runtime.spawn(async move {
                let _last = last;
                began.add();
                pending::<()>().await;
            });
            begun.wait_for(1);
            runtime.shutdown_background();
            dropped.wait_for(1);
            while !waits.is_finished() { thread::yield_now(); }
            send.send(()).unwrap();
            other.join().unwrap();
        }
    }

    /// Many that wait; H5 has the time it takes as a benchmark.
    fn two_hundred_thousand_that_wait(workers: usize) {
        let runtime = runtime(workers);
        let (parked, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..200_000 {
            let (parked, counted) = (parked.clone(), dropped.clone());
            let last = OnDrop(move || {
                counted.fetch_add(1, SeqCst);
            });
            drop(runtime.spawn(poll_fn(move |_| {
                let _last = &last;
                parked.fetch_add(1, SeqCst);
                Poll::<()>::Pending
            })));
        }
        drop(runtime);
        assert_eq!(dropped.load(SeqCst), 200_000);
    }
}
