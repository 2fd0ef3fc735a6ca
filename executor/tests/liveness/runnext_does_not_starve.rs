//! F4: `runnext` does not starve others. Two tasks that wake each other for ever hand the slot to
//! and fro; it inherits their time slice, and when that is over the queue has its turn.
//!
//! It fails if `look_for_all` (`sched/looks.rs`) and `attend` (`sched/find.rs`) end no slice, and
//! the monitor takes no permit.

use crate::common;

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Poll, Waker},
};

use common::{Count, Gate, runtime};
use ws_executor::{runtime::Runtime, task};

/// Two tasks that wake each other until they are told to stop. They never wake themselves.
struct Pair {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
}

/// Spawns the pair on the current worker.
fn pair(stop: &Arc<AtomicBool>) -> Pair {
    let turns = Arc::new(AtomicUsize::new(0));
    let wakers = Arc::new(Mutex::new([const { None::<Waker> }; 2]));
    for own in 0..2 {
        let (wakers, stop, turns) = (wakers.clone(), stop.clone(), turns.clone());
        drop(ws_executor::spawn(poll_fn(move |cx| {
            turns.fetch_add(1, Relaxed);
            let other = {
                let mut wakers = wakers.lock().unwrap();
                wakers[own] = Some(cx.waker().clone());
                wakers[1 - own].clone()
            };
            if let Some(other) = other {
                other.wake();
            }
            if stop.load(Relaxed) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })));
    }
    Pair {
        stop: stop.clone(),
        turns,
    }
}

/// Runs `first` on every worker at once, so that none is idle and steals.
fn on_every_worker(runtime: &Runtime, workers: usize, first: impl Fn() + Clone + Send + 'static) {
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    for _ in 0..workers {
        let (begun, gate, first) = (begun.clone(), gate.clone(), first.clone());
        drop(runtime.spawn(async move {
            begun.add();
            gate.pass();
            first();
        }));
    }
    begun.wait_for(workers);
    gate.open();
}

common::with_workers! {
    fn a_third_task_in_the_queue_gets_its_turn(workers: usize) {
        let runtime = runtime(workers);
        let stop = Arc::new(AtomicBool::new(false));
        let third = Arc::new(Count::new());
        let (stopped, counted) = (stop.clone(), third.clone());
        on_every_worker(&runtime, workers, move || {
            let counted = counted.clone();
            // The first pair displaces it from `runnext` into the queue.
            drop(ws_executor::spawn(async move {
                for _ in 0..3 {
                    counted.add();
                    task::yield_now().await;
                }
            }));
            pair(&stopped);
        });
        third.wait_for(3 * workers);
        stop.store(true, Relaxed);
    }

    /// The pair goes on too: nobody is left out.
    fn two_pairs_share_a_worker(workers: usize) {
        let runtime = runtime(workers);
        let stop = Arc::new(AtomicBool::new(false));
        let pairs = Arc::new(Mutex::new(Vec::new()));
        let (stopped, made) = (stop.clone(), pairs.clone());
        on_every_worker(&runtime, workers, move || {
            for _ in 0..2 {
                let pair = pair(&stopped);
                made.lock().unwrap().push(pair);
            }
        });
        loop {
            let pairs = pairs.lock().unwrap();
            if pairs.len() == 2 * workers
                && pairs.iter().all(|pair| pair.turns.load(Relaxed) > 1000)
            {
                break;
            }
            drop(pairs);
            std::thread::yield_now();
        }
        stop.store(true, Relaxed);
        assert!(pairs.lock().unwrap().iter().all(|pair| pair.stop.load(Relaxed)));
    }

    fn a_foreign_task_gets_its_turn(workers: usize) {
        let runtime = runtime(workers);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        on_every_worker(&runtime, workers, move || drop(pair(&stopped)));
        let done = Arc::new(Count::new());
        for n in 1..=20 {
            let counted = done.clone();
            drop(runtime.spawn(async move { counted.add() }));
            done.wait_for(n);
        }
        stop.store(true, Relaxed);
    }

    /// In `block_on` the root is one of the two, and its own queue holds the third.
    fn beside_a_root_in_block_on(workers: usize) {
        let runtime = runtime(workers);
        let third = Arc::new(Count::new());
        let stop = Arc::new(AtomicBool::new(false));
        let counted = third.clone();
        runtime.block_on(async {
            drop(ws_executor::spawn(async move { counted.add() }));
            pair(&stop);
            while third.get() == 0 {
                task::yield_now().await;
            }
        });
        stop.store(true, Relaxed);
    }
}
