//! S9: hooks, wakers and destructors that block hold up nobody. Each blocks until a task has run
//! that has to do so meanwhile, so one that holds a permit, or the duty to search, is a hang; with
//! one worker there is no other permit.
//!
//! They fail, each for its part, where a thread has its permit in its start hook, where
//! `Sleeper::sleep` does not wake up for its hook, and where `enter_user_code` does not say that
//! something runs.

use crate::common;

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use common::{Count, GRACE, Gate, OnDrop};
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    spawn, spawn_local,
    task::yield_now,
    time::sleep,
};

/// Blocks, the first time that it is called, until it is let go.
#[derive(Clone, Default)]
struct Blocks {
    called: Arc<AtomicBool>,
    begun: Arc<Gate>,
    over: Arc<Gate>,
}

impl Blocks {
    fn block(&self) {
        if !self.called.swap(true, SeqCst) {
            self.begun.open();
            self.over.pass();
        }
    }

    /// A task lets it go, which was spawned since it began.
    fn let_go_by_a_task(&self, runtime: &Runtime) {
        self.begun.pass();
        let over = self.over.clone();
        drop(runtime.spawn(async move { over.open() }));
        self.over.pass();
    }
}

fn builder(workers: usize) -> Builder {
    Builder::new().workers(workers).shutdown_grace(GRACE)
}

common::with_workers! {
    fn a_start_hook_lets_others_start(workers: usize) {
        let blocks = Blocks::default();
        let hook = blocks.clone();
        let runtime = builder(workers).on_thread_start(move || hook.block()).build().unwrap();
        drop(runtime.spawn(async {}));
        blocks.let_go_by_a_task(&runtime);
    }

    /// As many as there are permits are in their hook at a time.
    fn start_hooks_do_not_wait_for_each_other(workers: usize) {
        let begun = Arc::new(Count::new());
        let hook = begun.clone();
        let runtime = builder(workers)
            .sysmon(Sysmon::Off)
            .on_thread_start(move || {
                hook.add();
                hook.wait_for(workers);
            })
            .build()
            .unwrap();
        let together = Arc::new(Count::new());
        for _ in 0..workers {
            let together = together.clone();
            drop(runtime.spawn(async move {
                together.add();
                together.wait_for(workers);
            }));
        }
        together.wait_for(workers);
    }

    fn a_park_hook_leaves_its_permit_to_others(workers: usize) {
        let blocks = Blocks::default();
        let hook = blocks.clone();
        let runtime = builder(workers).sysmon(Sysmon::Off).on_thread_park(move || hook.block());
        let runtime = runtime.build().unwrap();
        drop(runtime.spawn(async {}));
        blocks.let_go_by_a_task(&runtime);
    }

    fn an_unpark_hook_loses_its_permit_to_others(workers: usize) {
        let blocks = Blocks::default();
        let (hook, parked) = (blocks.clone(), Arc::new(Gate::default()));
        let parks = parked.clone();
        let runtime = builder(workers)
            .on_thread_park(move || parks.open())
            .on_thread_unpark(move || hook.block())
            .build()
            .unwrap();
        drop(runtime.spawn(async {}));
        parked.pass();
        while !blocks.begun.is_open() {
            drop(runtime.spawn(async {}));
            thread::yield_now();
        }
        blocks.let_go_by_a_task(&runtime);
    }

    fn a_waker_of_a_timer_loses_its_permit_to_others(workers: usize) {
        struct Woken(Blocks);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.block();
            }
        }
        let blocks = Blocks::default();
        let runtime = builder(workers).build().unwrap();
        let waker = Waker::from(Arc::new(Woken(blocks.clone())));
        let _entered = runtime.enter();
        let mut cx = Context::from_waker(&waker);
        // On a busy machine it may be over before the poll.
        let _waits = loop {
            let mut waits = Box::pin(sleep(Duration::from_millis(1)));
            if waits.as_mut().poll(&mut cx).is_pending() {
                break waits;
            }
        };
        blocks.let_go_by_a_task(&runtime);
    }

    fn a_pinned_task_at_the_end_of_block_on_is_dropped_without_a_permit(workers: usize) {
        let blocks = Blocks::default();
        let runtime = builder(workers).sysmon(Sysmon::Off).build().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    let blocks = blocks.clone();
                    let left = OnDrop(move || blocks.block());
                    drop(spawn_local(async move {
                        let _left = &left;
                        std::future::pending::<()>().await;
                    }));
                    yield_now().await;
                });
            });
            blocks.let_go_by_a_task(&runtime);
        });
    }

    fn what_is_left_of_a_root_is_dropped_as_a_part_of_its_poll(workers: usize) {
        let blocks = Blocks::default();
        let runtime = builder(workers).build().unwrap();
        thread::scope(|scope| {
            for pending in [false, true] {
                let (runtime, blocks) = (&runtime, blocks.clone());
                scope.spawn(move || {
                    let mut pending = pending;
                    let left = OnDrop(move || blocks.block());
                    runtime.block_on(poll_fn(move |cx| {
                        let _ = &left;
                        // It has a P, and a permit if there is one.
                        drop(spawn(async {}));
                        cx.waker().wake_by_ref();
                        if std::mem::take(&mut pending) { Poll::Pending } else { Poll::Ready(()) }
                    }));
                });
            }
            blocks.let_go_by_a_task(&runtime);
        });
    }
}
