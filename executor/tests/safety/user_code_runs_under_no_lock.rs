//! S8: no waker, destructor or hook of the user runs under a lock of the runtime. Each of those
//! here calls back into everything that has one: timers, the live table, the queue of blocking
//! jobs, joins, other tasks; and comes to its end, wherever it is called from.
//!
//! It fails, by a hang, when `cancel` in `timer/shard.rs` drops the waker before it gives up its
//! lock.

use crate::common;

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use common::{Count, Gate, OnDrop};
use ws_executor::{
    runtime::{Builder, Handle},
    task,
};

/// Calls into everything when it is woken, and when it is dropped.
struct Busybody {
    handle: Handle,
    calls: Arc<AtomicUsize>,
    /// A task of its own is woken as well.
    inner: Waker,
}

impl Busybody {
    fn waker(handle: &Handle, calls: &Arc<AtomicUsize>, inner: &Waker) -> Waker {
        Waker::from(Arc::new(Self {
            handle: handle.clone(),
            calls: calls.clone(),
            inner: inner.clone(),
        }))
    }
}

impl Wake for Busybody {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        calls_everything(&self.handle);
        self.inner.wake_by_ref();
    }
}

impl Drop for Busybody {
    fn drop(&mut self) {
        calls_everything(&self.handle);
        self.calls.fetch_add(1, SeqCst);
    }
}

fn calls_everything(handle: &Handle) {
    let _guard = handle.enter();
    let _ = handle.dump();
    let _ = handle.metrics();
    let spawned = handle.spawn(async {});
    spawned.abort();
    let job = handle.spawn_blocking(|| ());
    job.abort();
    drop((spawned, job));
    // Armed and disarmed, on the timers of whatever thread this is.
    let mut sleep = pin!(ws_executor::time::sleep(Duration::from_secs(3600)));
    let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    sleep
        .as_mut()
        .reset(ws_executor::time::Instant::now() + Duration::from_secs(7200));
    let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// Polls the future with wakers that are busybodies, a new one at each poll, so that the last is
/// replaced.
struct Meddled<F>(Pin<Box<F>>, Handle, Arc<AtomicUsize>);

impl<F: Future> Future for Meddled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let poll = |this: &mut Self| {
            let waker = Busybody::waker(&this.1, &this.2, cx.waker());
            this.0.as_mut().poll(&mut Context::from_waker(&waker))
        };
        match poll(&mut self) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => poll(&mut self),
        }
    }
}

fn meddled<F: Future>(handle: &Handle, calls: &Arc<AtomicUsize>, future: F) -> Meddled<F> {
    Meddled(Box::pin(future), handle.clone(), calls.clone())
}

common::with_workers! {
    fn wakers_of_timers_joins_and_jobs(workers: usize) {
        let runtime = Builder::new().workers(workers).max_threads(2 * workers + 1).build().unwrap();
        let (handle, calls) = (runtime.handle(), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..20).map(|n| {
            let future = async move {
                ws_executor::time::sleep(Duration::from_micros(n * 50)).await;
                let child = ws_executor::spawn(task::yield_now());
                child.await.unwrap();
                // One has room at a time: most of them wait in the queue.
                ws_executor::spawn_blocking(std::thread::yield_now).await.unwrap();
                let never = ws_executor::time::sleep(Duration::from_secs(3600));
                let late = ws_executor::time::timeout(Duration::from_micros(100), never);
                assert!(late.await.is_err());
            };
            handle.spawn(meddled(handle, &calls, future))
        }).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        assert!(calls.load(SeqCst) > 20, "busybodies were dropped");
    }

    /// What waits in a timer, in a join or for room has the last reference to its waker, which goes
    /// with it.
    fn wakers_of_what_is_aborted(workers: usize) {
        let runtime = Builder::new().workers(workers).max_threads(2 * workers + 1).build().unwrap();
        let (handle, calls) = (runtime.handle(), Arc::new(AtomicUsize::new(0)));
        let parked = Arc::new(Count::new());
        let tasks: Vec<_> = (0..30).map(|n| {
            let parked = parked.clone();
            let future = async move {
                let child = ws_executor::spawn(std::future::pending::<()>());
                let sleep = ws_executor::time::sleep(Duration::from_secs(3600));
                let (mut child, mut sleep) = (pin!(child), pin!(sleep));
                std::future::poll_fn(move |cx| {
                    assert!(sleep.as_mut().poll(cx).is_pending());
                    assert!(n % 2 == 0 || child.as_mut().poll(cx).is_pending());
                    parked.add();
                    Poll::<()>::Pending
                }).await;
            };
            handle.spawn(meddled(handle, &calls, future))
        }).collect();
        // Each polls twice.
        parked.wait_for(60);
        for task in tasks {
            task.abort();
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        }
        assert!(calls.load(SeqCst) >= 60, "busybodies were dropped");
    }

    /// The task behind a job that waits for room is polled with one waker after the other.
    fn wakers_of_what_waits_for_room(workers: usize) {
        let runtime = Builder::new().workers(workers).max_threads(2 * workers + 1).build().unwrap();
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let (began, passes) = (begun.clone(), gate.clone());
        let first = runtime.handle().spawn_blocking(move || {
            began.add();
            passes.pass();
        });
        begun.wait_for(1);
        let (handle, calls) = (runtime.handle().clone(), Arc::new(AtomicUsize::new(0)));
        let future = async move {
            let job = ws_executor::spawn_blocking(|| 5);
            job.await.unwrap()
        };
        let task = runtime.spawn(meddled(&handle, &calls, future));
        runtime.block_on(runtime.spawn(task::yield_now())).unwrap();
        gate.open();
        assert_eq!(runtime.block_on(task).unwrap(), 5);
        runtime.block_on(first).unwrap();
    }

    /// Futures, outputs and closures that call back when they are dropped: at the end, by an abort,
    /// by the shutdown of the runtime.
    fn destructors(workers: usize) {
        let runtime = common::runtime(workers);
        let dropped = Arc::new(Count::new());
        let last = || {
            let (handle, dropped) = (runtime.handle().clone(), dropped.clone());
            OnDrop(move || {
                calls_everything(&handle);
                dropped.add();
            })
        };
        for _ in 0..5 {
            let (own, output) = (last(), last());
            drop(runtime.spawn(async move {
                let _own = own;
                output
            }));
            let own = last();
            let aborted = runtime.spawn(async move {
                let _own = own;
                std::future::pending::<()>().await;
            });
            aborted.abort();
            let own = last();
            drop(runtime.handle().spawn_blocking(move || drop(own)));
        }
        dropped.wait_for(20);
        for _ in 0..5 {
            let own = last();
            drop(runtime.spawn(async move {
                let _own = own;
                ws_executor::time::sleep(Duration::from_secs(3600)).await;
            }));
        }
        drop(runtime);
        dropped.wait_for(25);
    }
}
