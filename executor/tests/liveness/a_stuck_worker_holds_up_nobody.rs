//! L2, F2, F6: a task that blocks its thread, or computes on without a yield, holds up nobody, and
//! need not say so. The tasks behind it run elsewhere, also those that it has spawned or woken
//! itself; the timers of its thread fire; a task that asks whether it should yield is told so once
//! its slice is over. Only what is pinned to the stuck thread waits for it (I7).
//!
//! It fails, by a hang, when `classify` in `monitor/classify.rs` never revokes a permit; when
//! `revoke` in `permit/env.rs` leaves what is in the stuck worker's queues (with one worker no
//! other comes by); when the monitor does not fire late timers; and when it does not ask for a
//! yield after the slice.
//!
//! (The netpoll beside stuck workers, F5: `tests/whole/netpoll_is_never_starved.rs` of the root
//! package.)

use crate::common;

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use common::{Count, Gate, runtime};
use ws_executor::{
    runtime::Runtime,
    task::{self, JoinHandle},
    time::Instant,
};

/// How a task does not come back.
#[derive(Clone, Copy)]
enum Stuck {
    Blocks,
    Computes,
}

/// Opens once, and is waited for in either way.
#[derive(Default)]
struct Door {
    gate: Gate,
    open: AtomicBool,
}

impl Door {
    fn open(&self) {
        self.open.store(true, SeqCst);
        self.gate.open();
    }

    fn wait(&self, how: Stuck) {
        match how {
            Stuck::Blocks => self.gate.pass(),
            Stuck::Computes => {
                while !self.open.load(SeqCst) {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// Opens the door when it is woken, on whatever thread.
struct Opens(Arc<Door>);

impl Wake for Opens {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

/// One task on each worker that is stuck until the door opens; all have begun.
fn all_stuck(
    runtime: &Runtime,
    workers: usize,
    door: &Arc<Door>,
    how: Stuck,
) -> Vec<JoinHandle<()>> {
    let begun = Arc::new(Count::new());
    let tasks = (0..workers)
        .map(|_| {
            let (door, begun) = (door.clone(), begun.clone());
            runtime.spawn(async move {
                begun.add();
                door.wait(how);
            })
        })
        .collect();
    begun.wait_for(workers);
    tasks
}

fn join(runtime: &Runtime, tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

fn what_waits_in_the_global_queue(workers: usize, how: Stuck) {
    let (runtime, door) = (runtime(workers), Arc::new(Door::default()));
    let stuck = all_stuck(&runtime, workers, &door, how);
    // A hundred tasks. The last one lets the others go.
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let (door, ran) = (door.clone(), ran.clone());
        drop(runtime.spawn(async move {
            task::yield_now().await;
            if ran.fetch_add(1, SeqCst) + 1 == 100 {
                door.open();
            }
        }));
    }
    join(&runtime, stuck);
    assert_eq!(ran.load(SeqCst), 100);
}

/// Each stuck poll has filled its own queues before: `runnext` and the ring.
fn what_it_has_spawned(workers: usize, how: Stuck) {
    let runtime = runtime(workers);
    let tasks = (0..workers)
        .map(|_| {
            runtime.spawn(async move {
                let (door, ran) = (Arc::new(Door::default()), Arc::new(AtomicUsize::new(0)));
                for _ in 0..20 {
                    let (door, ran) = (door.clone(), ran.clone());
                    drop(ws_executor::spawn(async move {
                        if ran.fetch_add(1, SeqCst) + 1 == 20 {
                            door.open();
                        }
                    }));
                }
                door.wait(how);
            })
        })
        .collect();
    join(&runtime, tasks);
}

fn what_it_has_woken(workers: usize, how: Stuck) {
    let (runtime, door) = (runtime(workers), Arc::new(Door::default()));
    let (waker, waits) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(Count::new()));
    let woken = {
        let (door, waker, waits) = (door.clone(), waker.clone(), waits.clone());
        runtime.spawn(poll_fn(move |cx| {
            if waker.lock().unwrap().replace(cx.waker().clone()).is_some() {
                door.open();
                return Poll::Ready(());
            }
            waits.add();
            Poll::Pending
        }))
    };
    waits.wait_for(1);
    let others = all_stuck(&runtime, workers - 1, &door, how);
    let wakes = {
        let door = door.clone();
        runtime.spawn(async move {
            let waker = waker.lock().unwrap().clone();
            waker.unwrap().wake();
            door.wait(how);
        })
    };
    runtime.block_on(woken).unwrap();
    runtime.block_on(wakes).unwrap();
    join(&runtime, others);
}

fn poll_once<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// F6: the thread that has armed a timer is stuck; all are.
fn timers_fire(workers: usize, how: Stuck) {
    let runtime = runtime(workers);
    let tasks = (0..workers)
        .map(|n| {
            runtime.spawn(async move {
                let door = Arc::new(Door::default());
                let waker = Waker::from(Arc::new(Opens(door.clone())));
                let time = Duration::from_millis(1 + n as u64 % 3);
                let mut sleep = pin!(ws_executor::time::sleep(time));
                // Once more, if this thread lost its core for that time.
                while poll_once(sleep.as_mut(), &waker).is_ready() {
                    sleep.reset(Instant::now() + time);
                }
                door.wait(how);
                sleep.await;
            })
        })
        .collect();
    join(&runtime, tasks);
}

common::with_workers! {
    fn behind_blocked_ones(workers: usize) {
        what_waits_in_the_global_queue(workers, Stuck::Blocks);
    }

    fn behind_computing_ones(workers: usize) {
        what_waits_in_the_global_queue(workers, Stuck::Computes);
    }

    fn spawned_by_blocked_ones(workers: usize) {
        what_it_has_spawned(workers, Stuck::Blocks);
    }

    fn spawned_by_computing_ones(workers: usize) {
        what_it_has_spawned(workers, Stuck::Computes);
    }

    fn woken_by_blocked_ones(workers: usize) {
        what_it_has_woken(workers, Stuck::Blocks);
    }

    fn woken_by_computing_ones(workers: usize) {
        what_it_has_woken(workers, Stuck::Computes);
    }

    fn timers_of_blocked_ones(workers: usize) {
        timers_fire(workers, Stuck::Blocks);
    }

    fn timers_of_computing_ones(workers: usize) {
        timers_fire(workers, Stuck::Computes);
    }

    /// In one poll after the other, so that the permit that the last one got back is taken again.
    fn again_and_again(workers: usize) {
        let runtime = runtime(workers);
        let tasks = (0..workers).map(|_| runtime.spawn(async {
            for _ in 0..20 {
                let gate = Arc::new(Gate::default());
                let opens = gate.clone();
                drop(ws_executor::spawn(async move { opens.open() }));
                gate.pass();
                task::yield_now().await;
            }
        })).collect();
        join(&runtime, tasks);
    }

    /// F2: what cannot be stopped is asked, and told once its slice of 10 ms is over.
    fn a_long_poll_is_asked_to_yield(workers: usize) {
        let runtime = runtime(workers);
        let tasks = (0..workers).map(|_| runtime.spawn(async move {
            let mut polls = 0;
            let asked = async {
                while !task::should_yield() {
                    std::hint::spin_loop();
                }
                task::yield_if_due().await;
            };
            let mut asked = pin!(asked);
            poll_fn(|cx| {
                polls += 1;
                asked.as_mut().poll(cx)
            }).await;
            assert!(polls >= 2, "it yielded");
        })).collect();
        join(&runtime, tasks);
    }

    /// I7: a pinned task waits for its thread, and runs there when that comes back.
    fn pinned_tasks_are_excepted(workers: usize) {
        let runtime = runtime(workers);
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let ran_while_stuck = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..workers).map(|_| {
            let (begun, gate, early) = (begun.clone(), gate.clone(), ran_while_stuck.clone());
            runtime.spawn(async move {
                let own = thread::current().id();
                let back = Arc::new(AtomicBool::new(false));
                let seen = back.clone();
                let pinned = ws_executor::spawn_local(async move {
                    early.fetch_add(usize::from(!seen.load(SeqCst)), SeqCst);
                    thread::current().id()
                });
                begun.add();
                gate.pass();
                back.store(true, SeqCst);
                assert_eq!(pinned.await.unwrap(), own);
            })
        }).collect();
        begun.wait_for(workers);
        // Plain tasks, which are found behind the stuck ones, go on meanwhile.
        for n in 0..20 {
            let plain = runtime.spawn(async move {
                task::yield_now().await;
                n
            });
            assert_eq!(runtime.block_on(plain).unwrap(), n);
        }
        gate.open();
        join(&runtime, tasks);
        assert_eq!(ran_while_stuck.load(SeqCst), 0);
    }
}

/// A stuck thread in `block_on` holds a permit as any other.
#[test]
fn behind_a_root_that_blocks() {
    common::limited(|| {
        let runtime = runtime(1);
        let gate = Arc::new(Gate::default());
        runtime.block_on(async {
            // Poll after poll: the thread is a worker, and has the only permit.
            task::yield_now().await;
            let opens = gate.clone();
            drop(ws_executor::spawn(async move { opens.open() }));
            gate.pass();
        });
    });
}
