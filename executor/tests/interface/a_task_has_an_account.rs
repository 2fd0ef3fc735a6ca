//! L2, in what users see of it: what a task did so far is in its row of `Handle::dump`, and what
//! all did is in the histograms of `Metrics`.
//!
//! It fails when `Account::begins_poll` counts no poll, when `Account::settles` counts no wake,
//! when a spawn is told no parent, when `Shared::record` does not have all Ps look at each poll
//! from then on, when the monitor does not tell an account of a long poll, when a steal is not
//! timed, when something is measured at level `Off`, and when a P that wakes up does not look at
//! the clock.

use crate::common;

use std::{
    future::{pending, poll_fn},
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

use common::{Count, Gate, runtime};
use ws_executor::{
    runtime::{Builder, Clock, Handle, Runtime, TaskAccount, TaskDump},
    task::{self, Id},
    time,
    trace::Level,
};

fn row(handle: &Handle, id: Id) -> TaskDump {
    let row = handle.dump().into_iter().find(|task| task.id == id);
    row.expect("it is alive")
}

/// The account, once it says that the task is idle after so many polls.
fn idle_after(handle: &Handle, id: Id, polls: u64) -> TaskAccount {
    loop {
        let account = row(handle, id).account;
        if account.polls == polls && account.idle_for.is_some() {
            return account;
        }
        assert!(account.polls <= polls, "{account}");
        std::thread::yield_now();
    }
}

/// A task that is never done, and keeps its waker here.
fn kept(runtime: &Runtime) -> (Id, Arc<Mutex<Option<Waker>>>) {
    let place = Arc::new(Mutex::new(None));
    let keeps = place.clone();
    let task = runtime.spawn(poll_fn(move |cx| {
        *keeps.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    }));
    (task.id(), place)
}

common::with_workers! {
    fn polls_and_wakes_are_counted(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (id, waker) = kept(&runtime);
        for wakes in 0..5 {
            let account = idle_after(handle, id, wakes + 1);
            assert_eq!(account.wakes, wakes);
            assert!(workers > 1 || account.moves == 0, "{account}");
            let waker = waker.lock().unwrap().take().unwrap();
            waker.wake();
        }
    }

    // A task that yields is woken in its poll.
    fn a_yield_is_a_wake(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            for _ in 0..100 {
                task::yield_now().await;
            }
            pending::<()>().await
        });
        let account = idle_after(runtime.handle(), task.id(), 101);
        assert_eq!(account.wakes, 100);
    }

    fn the_parent_is_the_task_that_spawns(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (send, ids) = std::sync::mpsc::channel();
        let parent = {
            let handle = handle.clone();
            runtime.spawn(async move {
                let here = ws_executor::spawn(pending::<()>()).id();
                let through_the_handle = handle.spawn(pending::<()>()).id();
                let above = ws_executor::block_in_place(|| {
                    handle.block_on(async { ws_executor::spawn(pending::<()>()).id() })
                });
                let pinned = ws_executor::spawn_local(pending::<()>()).id();
                send.send([here, through_the_handle, above, pinned]).unwrap();
                pending::<()>().await
            })
        };
        for id in ids.recv().unwrap() {
            assert_eq!(row(handle, id).parent, Some(parent.id()));
        }
        // After that poll as well, no other spawn has a parent.
        assert_eq!(row(handle, parent.id()).parent, None);
        let of_root = runtime.block_on(async { ws_executor::spawn(pending::<()>()).id() });
        assert_eq!(row(handle, of_root).parent, None);
    }

    fn at_level_full_each_poll_is_measured(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (early, _waker) = kept(&runtime);
        idle_after(handle, early, 1);
        handle.record(Level::Full);
        let before = handle.metrics();
        let (id, waker) = kept(&runtime);
        for wakes in 0..5 {
            let account = idle_after(handle, id, wakes + 1);
            assert_eq!(u64::from(account.measured_polls), wakes + 1);
            assert_eq!(account.busy(), account.measured_busy);
            assert!(account.longest_poll <= account.measured_busy);
            assert_eq!(account.longest_wait > Duration::ZERO, wakes > 0);
            waker.lock().unwrap().take().unwrap().wake();
        }
        idle_after(handle, id, 6);
        let after = handle.metrics();
        assert!(after.poll_time.count() >= before.poll_time.count() + 6);
        assert!(after.wake_to_poll.count() >= before.wake_to_poll.count() + 5);
    }

    fn a_sample_of_the_polls_is_measured(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            for _ in 0..10_000 {
                task::yield_now().await;
            }
            pending::<()>().await
        });
        let account = idle_after(runtime.handle(), task.id(), 10_001);
        // One in 65 to 192, and the first ones of each P.
        assert!((52..500).contains(&account.measured_polls), "{account}");
        assert!(account.busy() > account.measured_busy);
    }
}

#[test]
fn at_level_off_nothing_is_measured() {
    let runtime = Builder::new()
        .workers(1)
        .record(Level::Off)
        .build()
        .unwrap();
    let task = runtime.spawn(async {
        for _ in 0..1000 {
            task::yield_now().await;
        }
        pending::<()>().await
    });
    let account = idle_after(runtime.handle(), task.id(), 1001);
    assert_eq!(
        (account.measured_polls, account.measured_busy),
        (0, Duration::ZERO)
    );
    assert_eq!(runtime.metrics().poll_time.count(), 0);
    runtime.handle().record(Level::Full);
    let (id, _waker) = kept(&runtime);
    assert_eq!(idle_after(runtime.handle(), id, 1).measured_polls, 1);
}

// The sample has few of them, so the monitor tells of all.
#[test]
fn a_long_poll_is_in_the_account_while_it_goes_on() {
    let runtime = Builder::new()
        .workers(1)
        .record(Level::Off)
        .build()
        .unwrap();
    let gate = Arc::new(Gate::default());
    let task = {
        let gate = gate.clone();
        runtime.spawn(async move { gate.pass() })
    };
    let longest = || row(runtime.handle(), task.id()).account.longest_poll;
    let mut before = Duration::from_millis(1);
    for _ in 0..2 {
        while longest() <= before {
            std::thread::yield_now();
        }
        before = longest();
    }
    gate.open();
}

// How often the other thread comes to steal, and not to take what has gone to all, is up to it.
#[test]
fn each_steal_is_timed() {
    let runtime = runtime(2);
    loop {
        // The first worker fills its queue, and is then busy until all of that has run elsewhere.
        let root = runtime.spawn(async {
            let ran = Arc::new(Count::new());
            for _ in 0..50 {
                let ran = ran.clone();
                ws_executor::spawn(async move { ran.add() });
            }
            ran.wait_for(49);
        });
        runtime.block_on(root).unwrap();
        let metrics = runtime.metrics();
        let steals: u64 = metrics.processors.iter().map(|p| p.steals).sum();
        if steals > 0 && metrics.steal_to_poll.count() > 0 {
            assert!(metrics.steal_to_poll.count() <= steals);
            // From the steal, and not from the begin of the runtime.
            let all = metrics.steal_to_poll.sum();
            assert!(all > Duration::ZERO);
            return;
        }
    }
}

// Each poll once, also the last one of a task.
#[test]
fn at_level_full_the_histogram_has_each_poll() {
    let runtime = Builder::new()
        .workers(1)
        .record(Level::Full)
        .build()
        .unwrap();
    let tasks: Vec<_> = (0..10).map(|_| runtime.spawn(task::yield_now())).collect();
    let (kept, _waker) = kept(&runtime);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    idle_after(runtime.handle(), kept, 1);
    // The output of a task is there before its poll is counted.
    while runtime.metrics().poll_time.count() < 21 {
        std::thread::yield_now();
    }
    assert_eq!(runtime.metrics().poll_time.count(), 21);
}

#[test]
fn an_announced_block_is_no_part_of_a_poll() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    handle.record(Level::Full);
    let blocks_for = Duration::from_millis(50);
    // Where a thread was off its core for as long meanwhile: once more.
    let longest = || {
        let task = runtime.spawn(async move {
            let sleeps = move || std::thread::sleep(blocks_for);
            ws_executor::block_in_place(|| {
                // Another poll lies within the block, and has a block of its own.
                ws_executor::spawn_local(async move { ws_executor::block_in_place(sleeps) });
                Handle::current().block_on(task::yield_now());
                sleeps();
            });
            pending::<()>().await
        });
        let account = idle_after(handle, task.id(), 1);
        assert_eq!(account.longest_poll, account.measured_busy);
        account.longest_poll
    };
    assert!((0..100).any(|_| longest() < blocks_for));
}

#[test]
fn rest_and_age_are_told_apart() {
    let runtime = Builder::new().clock(Clock::Paused).build().unwrap();
    let handle = runtime.handle().clone();
    runtime.block_on(async {
        let second = Duration::from_secs(1);
        let task = ws_executor::spawn(async move {
            time::sleep(2 * second).await;
            pending::<()>().await
        });
        time::sleep(5 * second).await;
        let row = row(&handle, task.id());
        assert_eq!(
            (row.account.idle_for, row.age),
            (Some(3 * second), 5 * second)
        );
        let text = format!(", idle, 5s old, {}", row.account);
        assert!(row.to_string().ends_with(&text), "{row}");
    });
}

// A P that has slept for long knows what time it is when it wakes up.
#[test]
fn a_task_that_has_just_run_is_not_old() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let children = Arc::new(Mutex::new(Vec::new()));
    let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (keeps, spawned) = (kept.clone(), children.clone());
    let task = runtime.spawn(poll_fn(move |cx| {
        *keeps.lock().unwrap() = Some(cx.waker().clone());
        let child = ws_executor::spawn(pending::<()>());
        spawned.lock().unwrap().push(child.id());
        Poll::<()>::Pending
    }));
    for polls in 1..10 {
        let long = Duration::from_millis(60);
        idle_after(handle, task.id(), polls);
        while row(handle, task.id()).account.idle_for < Some(long) {
            std::thread::yield_now();
        }
        let before = Instant::now();
        kept.lock().unwrap().take().unwrap().wake();
        let account = idle_after(handle, task.id(), polls + 1);
        let child = *children.lock().unwrap().last().unwrap();
        let age = row(handle, child).age;
        // To 10 ms, says the documentation, and the clock of this row is in whole milliseconds.
        let most = before.elapsed() + Duration::from_millis(12);
        assert!(account.idle_for <= Some(most), "{account} {most:?}");
        assert!(age <= most, "{age:?} {most:?}");
    }
}
