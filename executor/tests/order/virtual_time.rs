//! In a paused runtime time stands still while anything can go on, and jumps when all tasks wait.
//! The order of ready tasks is the subject of `a_seed_draws_the_order.rs`.
//!
//! It was seen to fail when a blocking call does not hold the clock, when the last thread to sleep
//! does not interrupt the one in the netpoll, when the look for notified roots is left out, and
//! when an `advance` that was dropped still counts.

mod deadlocks;
mod moved;

use crate::common;

use std::{
    collections::BTreeSet,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use common::{Count, Gate, limited};
use futures::{
    FutureExt, StreamExt,
    channel::{mpsc, oneshot},
    future::join_all,
    stream::FuturesUnordered,
};
use ws_executor::{
    block_in_place, join,
    runtime::{Builder, Clock, Handle, Runtime},
    spawn, spawn_blocking,
    task::yield_now,
    time::{Instant, MissedTickBehavior, advance, hold, interval, sleep, sleep_until, timeout},
};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

fn paused(seed: u64) -> Runtime {
    Builder::new()
        .clock(Clock::Paused)
        .seed(seed)
        .build()
        .unwrap()
}

/// Runs a test under some seeds, as `run` and as `block_on` do it.
fn with_seeds<F: Future<Output = ()> + Send + 'static>(test: fn() -> F) {
    limited(move || {
        for seed in 0..10 {
            paused(seed).run(test());
            paused(seed).run_local(test());
            paused(seed).block_on(test());
        }
    });
}

/// The call is not on the root's thread, so it does not hold up the root.
#[test]
fn a_block_on_in_a_blocking_call_does_not_hold_up_the_root() {
    limited(|| {
        for seed in 0..10 {
            let root = |waits: bool| async move {
                let handle = Handle::current();
                let start = Instant::now();
                let (begun, begins) = oneshot::channel();
                let call = spawn_blocking(move || {
                    handle.block_on(async {
                        begun.send(()).unwrap();
                        if waits {
                            pending().await
                        } else {
                            sleep(3 * SECOND).await;
                        }
                    });
                });
                begins.await.unwrap();
                sleep(SECOND).await;
                assert_eq!(start.elapsed(), SECOND, "seed {seed}");
                if !waits {
                    call.await.unwrap();
                    assert_eq!(start.elapsed(), 3 * SECOND, "seed {seed}");
                }
            };
            paused(seed).block_on(root(false));
            paused(seed).run_local(root(false));
            // The call that waits for ever is left behind.
            let runtime = Builder::new()
                .clock(Clock::Paused)
                .seed(seed)
                .shutdown_grace(Duration::ZERO)
                .build()
                .unwrap();
            runtime.block_on(root(true));
            runtime.shutdown_background();
        }
    });
}

#[test]
fn a_thousand_hours_take_no_time() {
    with_seeds(|| async {
        let start = Instant::now();
        sleep(1000 * HOUR).await;
        assert_eq!(start.elapsed(), 1000 * HOUR);
        sleep(Duration::from_nanos(1)).await;
        assert_eq!(start.elapsed(), 1000 * HOUR + Duration::from_nanos(1));
    });
}

/// 500 years count as never; less than that comes.
#[test]
fn a_century_passes_and_for_ever_does_not() {
    const YEAR: Duration = HOUR.saturating_mul(24 * 365);
    with_seeds(|| async {
        let start = Instant::now();
        for years in [29, 31, 200] {
            sleep(years * YEAR).await;
        }
        assert_eq!(start.elapsed(), 260 * YEAR);
        let never = [500 * YEAR, Duration::MAX].map(sleep);
        let never = futures::future::select_all(never.map(Box::pin));
        assert!(timeout(200 * YEAR, never).await.is_err());
        assert_eq!(start.elapsed(), 460 * YEAR);
    });
}

#[test]
fn sleeps_end_in_the_order_of_their_deadlines() {
    with_seeds(|| async {
        let start = Instant::now();
        let (send, receive) = mpsc::unbounded();
        for n in [5, 2, 9, 1, 7, 3, 8, 4, 6] {
            let send = send.clone();
            spawn(async move {
                sleep(n * HOUR).await;
                send.unbounded_send((n, start.elapsed())).unwrap();
            });
        }
        drop(send);
        let ends: Vec<_> = receive.collect().await;
        let expected: Vec<_> = (1..10).map(|n| (n, n * HOUR)).collect();
        assert_eq!(ends, expected);
    });
}

#[test]
fn a_timeout_comes_exactly_when_it_is_due() {
    with_seeds(|| async {
        let start = Instant::now();
        assert!(timeout(HOUR, pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), HOUR);
        assert!(
            timeout(HOUR, sleep(HOUR - Duration::from_nanos(1)))
                .await
                .is_ok()
        );
        // The inner one is asked first.
        assert!(timeout(HOUR, sleep(HOUR)).await.is_ok());
    });
}

#[test]
fn missed_ticks_are_made_up_for() {
    with_seeds(|| async {
        let start = Instant::now();
        let due = async |behavior| {
            let start = Instant::now();
            let mut ticks = interval(SECOND);
            ticks.set_missed_tick_behavior(behavior);
            ticks.tick().await;
            advance(SECOND * 7 / 2).await;
            let mut due = Vec::new();
            for _ in 0..4 {
                due.push((ticks.tick().await - start).as_millis());
            }
            due
        };
        assert_eq!(
            due(MissedTickBehavior::Burst).await,
            [1000, 2000, 3000, 4000]
        );
        assert_eq!(
            due(MissedTickBehavior::Delay).await,
            [1000, 4500, 5500, 6500]
        );
        assert_eq!(
            due(MissedTickBehavior::Skip).await,
            [1000, 4000, 5000, 6000]
        );
        assert_eq!(start.elapsed(), SECOND * 33 / 2);
    });
}

#[test]
fn a_forked_child_still_runs_first() {
    with_seeds(|| async {
        let others: Vec<_> = (0..10).map(|_| spawn(yield_now())).collect();
        // A root that is pinned spawns where it says fork.
        let parent = spawn(async {
            let ran = Arc::new(AtomicUsize::new(0));
            let child = {
                let ran = ran.clone();
                ws_executor::fork(async move { ran.fetch_add(1, SeqCst) }).await
            };
            assert_eq!(ran.load(SeqCst), 1);
            child.await.unwrap();
        });
        parent.await.unwrap();
        for other in others {
            other.await.unwrap();
        }
    });
}

/// Its patience is counted by a clock that stands still here.
#[test]
fn a_waiting_join_lets_tasks_go_on() {
    with_seeds(|| async {
        let (send, receive) = std::sync::mpsc::channel();
        let (stalls, stalled) = oneshot::channel();
        let joins = spawn(async move {
            let (began, blocks) = (&Gate::default(), &Gate::default());
            // For this a second thread waits, from now on.
            let mut timer = Box::pin(sleep(HOUR));
            assert!(timer.as_mut().now_or_never().is_none());
            let first = move || {
                block_in_place(|| {
                    // Shows the second branch to the thread that has the permit meanwhile.
                    while !began.is_open() {
                        join(|| (), || ());
                    }
                    blocks.pass();
                });
                // This thread has a permit again, and the other task is ready from now on.
                stalls.send(()).unwrap();
            };
            let second = move || {
                began.open();
                block_in_place(|| {
                    blocks.open();
                    receive.recv().unwrap()
                })
            };
            join(first, second).1
        });
        let sends = spawn(async move {
            stalled.await.unwrap();
            send.send(7).unwrap();
        });
        assert_eq!(joins.await.unwrap(), 7);
        sends.await.unwrap();
    });
}

/// Looks at the clock for long enough that a jump would be seen.
fn clock_stands_still() {
    let now = Instant::now();
    for _ in 0..2000 {
        thread::yield_now();
        assert_eq!(
            Instant::now(),
            now,
            "the clock moved during a blocking call"
        );
    }
}

#[test]
fn a_blocking_call_holds_the_clock() {
    limited(|| {
        for seed in 0..5 {
            let parked = Arc::new(Count::new());
            let noted = parked.clone();
            let runtime = Builder::new()
                .clock(Clock::Paused)
                .seed(seed)
                .on_thread_park(move || noted.add())
                .build()
                .unwrap();
            runtime.run(async move {
                let start = Instant::now();
                let sleeper = spawn(sleep(HOUR));
                yield_now().await;
                let before = parked.get();
                let looks = spawn_blocking(move || {
                    // Another thread has looked for work by now, and has found none.
                    parked.wait_for(before + 1);
                    clock_stands_still();
                });
                looks.await.unwrap();
                assert_eq!(start.elapsed(), Duration::ZERO);
                block_in_place(clock_stands_still);
                assert_eq!(start.elapsed(), Duration::ZERO);
                sleeper.await.unwrap();
                assert_eq!(start.elapsed(), HOUR);
            });
        }
    });
}

#[test]
fn blocking_calls_and_tasks_wait_for_each_other() {
    with_seeds(|| async {
        let start = Instant::now();
        let (send, receive) = std::sync::mpsc::channel();
        let reader = spawn_blocking(move || receive.recv().unwrap());
        // The clock stands still, so no sleep can be what it waits for.
        let writer = spawn(async move { send.send(7).unwrap() });
        assert_eq!(reader.await.unwrap(), 7);
        writer.await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_nested_block_on_lets_time_pass() {
    with_seeds(|| async {
        let start = Instant::now();
        Handle::current().block_on(sleep(HOUR));
        assert_eq!(start.elapsed(), HOUR);
        let handle = Handle::current();
        let nested = spawn_blocking(move || {
            handle.block_on(async { spawn(sleep(HOUR)).await.unwrap() });
            handle.block_on(sleep(HOUR));
        });
        let beside = spawn(sleep(HOUR / 2));
        nested.await.unwrap();
        beside.await.unwrap();
        assert_eq!(start.elapsed(), 3 * HOUR);
    });
}

/// The root below cannot be polled before the call above it is done, though it was woken.
#[test]
fn a_root_below_a_nested_block_on_does_not_hold_the_clock() {
    with_seeds(|| async {
        let start = Instant::now();
        let nested = async { Handle::current().block_on(sleep(HOUR)) };
        futures::future::join(yield_now(), nested).await;
        assert_eq!(start.elapsed(), HOUR);
        // Whichever thread this one runs on, the other ends meanwhile.
        let nested = spawn(async { Handle::current().block_on(sleep(HOUR)) });
        join_all([nested, spawn(async {})]).await;
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
}

/// The same with a call in a call in a task, where the one in the middle is woken.
#[test]
fn a_call_below_another_does_not_hold_the_clock() {
    with_seeds(|| async {
        let start = Instant::now();
        let task = spawn(async {
            let inner = async { Handle::current().block_on(sleep(HOUR)) };
            let outer = futures::future::join(yield_now(), inner);
            Handle::current().block_on(outer);
        });
        task.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// The same with a pinned task, which waits for the end of the branch.
#[test]
fn a_pinned_task_below_a_branch_does_not_hold_the_clock() {
    with_seeds(|| async {
        let start = Instant::now();
        let pinned = ws_executor::spawn_local(sleep(HOUR));
        for _ in 0..100 {
            yield_now().await;
        }
        let handle = Handle::current();
        join(|| handle.block_on(sleep(2 * HOUR)), || ());
        pinned.await.unwrap();
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
}

#[test]
fn fork_join_holds_the_clock() {
    fn sum(from: u64, to: u64) -> u64 {
        if to - from == 1 {
            return from;
        }
        let middle = (from + to) / 2;
        let (left, right) = join(|| sum(from, middle), || sum(middle, to));
        left + right
    }
    with_seeds(|| async {
        let start = Instant::now();
        let sleeper = spawn(sleep(HOUR));
        let computed = ws_executor::compute(|| sum(0, 1000)).await;
        assert_eq!(computed.unwrap(), 499_500);
        assert_eq!(start.elapsed(), Duration::ZERO);
        sleeper.await.unwrap();
    });
}

#[test]
fn time_passes_only_while_somebody_waits() {
    limited(|| {
        let runtime = paused(1);
        let gate = Arc::new(Gate::default());
        let opened = gate.clone();
        let started = runtime.spawn(async move { opened.open() });
        let sleeper = runtime.spawn(async {
            let start = Instant::now();
            sleep(HOUR).await;
            start.elapsed()
        });
        gate.pass();
        runtime.block_on(async {
            started.await.unwrap();
            let start = Instant::now();
            assert_eq!(sleeper.await.unwrap(), HOUR);
            assert_eq!(start.elapsed(), HOUR);
        });
    });
}

#[test]
fn wakes_of_other_threads_are_seen() {
    with_seeds(|| async {
        let all = FuturesUnordered::new();
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let (send, receive) = oneshot::channel();
                all.push(spawn(receive));
                thread::spawn(move || send.send(n).unwrap())
            })
            .collect();
        let got: BTreeSet<_> = all.map(|n| n.unwrap().unwrap()).collect().await;
        assert_eq!(got.len(), 4);
        threads.into_iter().for_each(|it| it.join().unwrap());
    });
}

/// Its thread is not up yet when another one sleeps in the netpoll, which wakes it on its way
/// there.
#[test]
fn a_root_that_was_woken_holds_the_clock() {
    const OTHER: &str = "other";
    limited(|| {
        let wakes = Arc::new(Mutex::new(None::<oneshot::Sender<()>>));
        let parked = Arc::new(Count::new());
        let (slot, noted) = (wakes.clone(), parked.clone());
        let park = move || {
            if thread::current().name() == Some(OTHER) {
                noted.add();
                let wakes = slot.lock().unwrap().take();
                wakes.into_iter().for_each(|it| it.send(()).unwrap());
            }
        };
        let builder = Builder::new().clock(Clock::Paused).seed(0);
        let runtime = builder.on_thread_park(park).build().unwrap();
        let (calls, mut called) = mpsc::unbounded();
        let handle = runtime.handle().clone();
        let others = move || {
            handle.block_on(async { called.by_ref().for_each(async |held| drop(held)).await });
        };
        let named = thread::Builder::new().name(OTHER.to_owned());
        let other = named.spawn(others).unwrap();
        parked.wait_for(1);
        runtime.block_on(async {
            let start = Instant::now();
            let later = spawn(sleep(HOUR));
            for _ in 0..100 {
                let (send, receive) = oneshot::channel();
                *wakes.lock().unwrap() = Some(send);
                // Until the other one is up.
                let (calls, held) = (calls.clone(), hold());
                let call = move || {
                    // The root's thread falls asleep meanwhile.
                    (0..200).for_each(|_| thread::yield_now());
                    calls.unbounded_send(held).unwrap();
                };
                let call = thread::spawn(call);
                receive.await.unwrap();
                assert_eq!(start.elapsed(), Duration::ZERO, "the clock jumped");
                call.join().unwrap();
            }
            later.await.unwrap();
            assert_eq!(start.elapsed(), HOUR);
        });
        drop(calls);
        other.join().unwrap();
    });
}

#[test]
fn two_runtimes_have_two_clocks() {
    with_seeds(|| async {
        let start = Instant::now();
        let other = paused(2);
        let slept = spawn_blocking(move || {
            other.block_on(async {
                let start = Instant::now();
                sleep(HOUR).await;
                start.elapsed()
            })
        });
        assert_eq!(slept.await.unwrap(), HOUR);
        assert_eq!(start.elapsed(), Duration::ZERO, "it waited for the other");
    });
}

#[test]
#[should_panic(expected = "`ws::time::advance` moves virtual time")]
fn real_time_cannot_be_moved() {
    common::runtime(1).block_on(async { advance(SECOND).await });
}

#[test]
fn a_hold_of_real_time_does_nothing() {
    limited(|| {
        common::runtime(1).block_on(async {
            let _hold = hold();
            sleep(Duration::from_millis(1)).await;
        });
    });
}

/// Everything at once, under many seeds: it ends, and time is what it should be.
#[test]
fn a_mixture_ends() {
    limited(|| {
        for seed in 0..40 {
            paused(seed).run(async {
                let start = Instant::now();
                let tasks = (0..12_u32).map(|n| {
                    spawn(async move {
                        for step in 0..4 {
                            match (n + step) % 6 {
                                0 => sleep(SECOND * n).await,
                                1 => spawn_blocking(thread::yield_now).await.unwrap(),
                                2 => yield_now().await,
                                3 => block_in_place(thread::yield_now),
                                4 => Handle::current().block_on(sleep(SECOND)),
                                _ => spawn(sleep(SECOND)).await.unwrap(),
                            }
                        }
                    })
                });
                join_all(tasks.collect::<Vec<_>>()).await;
                // By the clock that stands still between jumps: no machine is too busy for it.
                assert!(start.elapsed() < 60 * SECOND);
                assert_eq!(start.elapsed().subsec_nanos(), 0, "only whole sleeps");
            });
        }
    });
}
