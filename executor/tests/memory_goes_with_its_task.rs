//! H5: a finished task's memory is freed at once: when its future has ended and its handle is gone,
//! also on another thread than the one it was spawned on, and also while that one is stuck. A task
//! that is aborted goes likewise. Only a waker that is left keeps the cell, until it goes.
//!
//! It fails when `end` in `cell/raw.rs` keeps the live table's reference of a task that is done,
//! when it hands that of a task which ends elsewhere back to the task's own P, to be dropped there,
//! and when the drop in `cell/meta.rs` does nothing.

#![expect(unsafe_code, reason = "an allocator that counts")]

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use common::{Count, Gate};
use ws_executor::{
    runtime::{Builder, Runtime},
    task::{self, JoinHandle},
};

/// So large is the future of each task that is watched, and nothing else.
const LARGE: usize = 40_000;

struct Counting;

/// Cells of large futures that are allocated.
static CELLS: AtomicUsize = AtomicUsize::new(0);

fn is_cell(layout: Layout) -> bool {
    (LARGE..2 * LARGE).contains(&layout.size())
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_cell(layout) {
            CELLS.fetch_add(1, SeqCst);
        }
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_cell(layout) {
            CELLS.fetch_sub(1, SeqCst);
        }
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The count is the process's: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn freed() {
    while CELLS.load(SeqCst) > 0 {
        thread::yield_now();
    }
}

/// Its cell is one large allocation.
async fn large(body: impl Future<Output = ()>) {
    let ballast = [1u8; LARGE];
    body.await;
    std::hint::black_box(&ballast);
}

/// Without a recorder, whose memory comes with what it records, and stays.
fn runtime(workers: usize) -> Runtime {
    let builder = Builder::new().workers(workers).recorder(0);
    builder.build().unwrap()
}

const TASKS: usize = 50;

common::with_workers! {
    /// While the runtime lives on and the thread that spawned them is stuck.
    fn that_ended_elsewhere(workers: usize) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime(workers);
        let (ended, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let spawner = {
            let (ended, gate) = (ended.clone(), gate.clone());
            runtime.spawn(async move {
                for _ in 0..TASKS {
                    let ended = ended.clone();
                    drop(ws_executor::spawn(large(async move {
                        task::yield_now().await;
                        ended.add();
                    })));
                }
                gate.pass();
            })
        };
        ended.wait_for(TASKS);
        freed();
        assert!(!spawner.is_finished());
        gate.open();
        runtime.block_on(spawner).unwrap();
    }

    /// With the handle, whoever was first.
    fn that_is_joined(workers: usize) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            for _ in 0..TASKS {
                ws_executor::spawn(large(async {})).await.unwrap();
                freed();
            }
        });
        runtime.block_on(task).unwrap();
        let ended = Arc::new(Count::new());
        let handles: Vec<JoinHandle<()>> = (0..TASKS).map(|_| {
            let ended = ended.clone();
            runtime.spawn(large(async move { ended.add() }))
        }).collect();
        ended.wait_for(TASKS);
        drop(handles);
        freed();
    }

    fn that_is_aborted(workers: usize) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime(workers);
        let parked = Arc::new(Count::new());
        for n in 0..TASKS {
            let begun = parked.clone();
            let task = runtime.spawn(large(async move {
                begun.add();
                std::future::pending::<()>().await;
            }));
            if n % 2 == 0 {
                parked.wait_for(n / 2 + 1);
            }
            task.abort();
            drop(task);
        }
        freed();
    }

    /// The name is an allocation of its own, and here as large as a cell.
    fn with_its_name(workers: usize) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime(workers);
        let task = task::Builder::new()
            .name("n".repeat(LARGE))
            .priority(task::Priority::new(1));
        let task = task.spawn_on(async { CELLS.load(SeqCst) }, runtime.handle());
        assert_eq!(runtime.block_on(task).unwrap(), 1);
        freed();
    }

    /// A waker is a reference to the cell.
    fn that_has_a_waker_left(workers: usize) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime(workers);
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let kept = waker.clone();
        let task = runtime.spawn(large(poll_fn(move |cx| {
            *kept.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        })));
        runtime.block_on(task).unwrap();
        assert_eq!(CELLS.load(SeqCst), 1);
        drop(waker.lock().unwrap().take());
        freed();
    }

    /// The waker of a handle is anybody's, and its drop may panic.
    fn whose_joiners_waker_panics(workers: usize) {
        struct Rude;
        impl Wake for Rude {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Rude {
            fn drop(&mut self) {
                panic!("expected: rude drop");
            }
        }
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        common::listen_to_panics();
        let runtime = runtime(workers);
        for _ in 0..TASKS {
            let mut task = runtime.spawn(large(std::future::pending()));
            let waker = Waker::from(Arc::new(Rude));
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            task.abort_handle().abort();
            // The task may have taken the waker already.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(task)));
            assert!(dropped.is_ok(), "the waker's panic is nobody's");
        }
        freed();
    }
}
