//! `JoinSet`: every member is joined once, in the order in which they end, whether it gives an
//! output, panics or is aborted; waiting is cancel safe; a set of 100,000 costs no more for each
//! than a small one; dropping it aborts them all, and detaching lets them go on.
//!
//! It fails when a member's waker does not put its place on the ready list, when the drop does not
//! abort, when `poll_pop` does not look again after the clone of the waiter's waker, when
//! `detach_all` wakes nobody, and when `join_all` detaches the others before it panics.

use crate::common;

use std::{
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use common::{Count, Gate, Hook, OnDrop, listen_to_panics, runtime};
use futures::channel::oneshot;
use ws_executor::{
    runtime::Runtime,
    task::{self, JoinSet},
};

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// How many tasks have ended, and have told so.
fn completed(runtime: &Runtime) -> u64 {
    let metrics = runtime.handle().metrics();
    metrics.processors.iter().map(|its| its.completed).sum()
}

common::with_workers! {
    fn all_of_100_000(workers: usize) {
        let runtime = runtime(workers);
        let (sum, count) = runtime.block_on(runtime.spawn(async {
            let mut set: JoinSet<u64> = (0..100_000u64).map(|n| async move { n }).collect();
            let (mut sum, mut count) = (0, 0);
            while let Some(n) = set.join_next().await {
                sum += n.unwrap();
                count += 1;
            }
            assert!(set.is_empty());
            (sum, count)
        })).unwrap();
        assert_eq!((sum, count), (99_999 * 100_000 / 2, 100_000));
    }

    /// 100,000 wait; one ends at a time. Were the others polled for that, it would take hours.
    fn one_by_one_of_100_000_that_wait(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let mut ends = Vec::new();
            for n in 0..100_000usize {
                let (send, receive) = oneshot::channel::<()>();
                ends.push(Some(send));
                set.spawn(async move {
                    // An error at the end, when the others are dropped.
                    let _ = receive.await;
                    n
                });
            }
            for step in 0..2000 {
                let n = step * 7919 % 100_000;
                ends[n].take().unwrap().send(()).unwrap();
                assert_eq!(set.join_next().await.unwrap().unwrap(), n);
            }
            assert_eq!(set.len(), 98_000);
            assert!(set.try_join_next().is_none());
        });
    }

    fn in_the_order_in_which_they_end(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let mut ends = Vec::new();
            for n in 0..10 {
                let (send, receive) = oneshot::channel::<()>();
                let abort = set.spawn(async move {
                    receive.await.unwrap();
                    n
                });
                ends.push((Some(send), abort));
            }
            let order = [3, 1, 4, 9, 5, 2, 6, 8, 7, 0];
            for (ended, n) in (1..).zip(order) {
                ends[n].0.take().unwrap().send(()).unwrap();
                // Not `is_finished`, which is true before the set is told.
                while completed(&runtime) < ended {
                    task::yield_now().await;
                }
            }
            for n in order {
                let (id, joined) = set.join_next_with_id().await.unwrap().unwrap();
                assert_eq!((joined, id), (n, ends[n].1.id()));
            }
            assert!(set.join_next().await.is_none());
        });
    }

    /// One that has ended outside of the set counts as one that ends when it is inserted, and
    /// overtakes nobody.
    fn what_is_inserted_overtakes_nobody(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            async fn ended(n: u32) -> ws_executor::task::JoinHandle<u32> {
                let task = ws_executor::spawn(async move { n });
                while !task.is_finished() {
                    ws_executor::task::yield_now().await;
                }
                task
            }
            let mut set = JoinSet::new();
            let (open, opened) = oneshot::channel::<()>();
            set.spawn(async {
                opened.await.unwrap();
                1
            });
            set.insert(ended(0).await);
            open.send(()).unwrap();
            // It is counted behind the wake of its joiner.
            while completed(&runtime) < 2 {
                ws_executor::task::yield_now().await;
            }
            set.insert(ended(2).await);
            for n in 0..3 {
                assert_eq!(set.join_next().await.unwrap().unwrap(), n);
            }
        });
    }

    fn panics_and_aborts_are_joined_too(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let waits = set.spawn(pending());
            let panics = set.spawn(async { panic!("expected: in a set") });
            let error = set.join_next().await.unwrap().unwrap_err();
            assert!(error.is_panic() && error.id() == panics.id());
            waits.abort();
            let error = set.join_next().await.unwrap().unwrap_err();
            assert!(error.is_cancelled() && error.id() == waits.id());
            set.spawn(async { 5 });
            assert_eq!(set.join_next().await.unwrap().unwrap(), 5);
        });
    }

    /// A `join_next` that is dropped in the middle loses nothing, and the next one is woken.
    fn join_next_is_cancel_safe(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..1000 {
                set.spawn(async move {
                    for _ in 0..n % 7 { task::yield_now().await; }
                    n
                });
            }
            let mut seen = vec![false; 1000];
            while !set.is_empty() {
                let mut polled_once = Box::pin(set.join_next());
                if let Poll::Ready(Some(n)) =
                    poll_fn(|cx| Poll::Ready(polled_once.as_mut().poll(cx))).await
                {
                    assert!(!std::mem::replace(&mut seen[n.unwrap()], true));
                }
                drop(polled_once);
                if let Some(n) = set.join_next().await {
                    assert!(!std::mem::replace(&mut seen[n.unwrap()], true));
                }
            }
            assert!(seen.into_iter().all(|seen| seen));
        });
    }

    /// Looking without waiting does not forget the waiter.
    fn try_join_next_keeps_the_waiter(workers: usize) {
        let runtime = runtime(workers);
        let mut set = JoinSet::new();
        let gate = Arc::new(Gate::default());
        let passed = gate.clone();
        set.spawn_on(async move { passed.pass() }, runtime.handle());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        assert!(set.poll_join_next(&mut Context::from_waker(&waker)).is_pending());
        assert!(set.try_join_next().is_none());
        gate.open();
        while wakes.0.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        set.try_join_next().unwrap().unwrap();
        assert!(set.try_join_next().is_none() && set.is_empty());
        assert_eq!(wakes.0.load(SeqCst), 1);
    }

    fn every_kind_of_member(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let handle = ws_executor::runtime::Handle::current();
            let mut set = JoinSet::default();
            set.spawn(async { 1 });
            set.spawn_on(async { 2 }, &handle);
            set.spawn_local(async { *std::rc::Rc::new(3) });
            set.spawn_blocking(|| 4);
            set.spawn_blocking_on(|| 5, &handle);
            set.insert(task::Builder::new().name("six").spawn(async { 6 }));
            set.extend([async { 7 }]);
            assert_eq!(format!("{set:?}"), "JoinSet { len: 7, .. }");
            let mut outputs = set.join_all().await;
            outputs.sort_unstable();
            assert_eq!(outputs, [1, 2, 3, 4, 5, 6, 7]);
        });
    }

    fn its_drop_aborts_all(workers: usize) {
        let runtime = runtime(workers);
        let dropped = Arc::new(Count::new());
        let mut set = JoinSet::new();
        for _ in 0..1000 {
            let dropped = dropped.clone();
            let last = OnDrop(move || dropped.add());
            set.spawn_on(async move {
                let _last = last;
                pending::<()>().await;
            }, runtime.handle());
        }
        drop(set);
        dropped.wait_for(1000);
    }

    fn shutdown_waits_until_all_have_ended(workers: usize) {
        let runtime = runtime(workers);
        let dropped = Arc::new(Count::new());
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for n in 0..1000 {
                let dropped = dropped.clone();
                let last = OnDrop(move || dropped.add());
                set.spawn(async move {
                    let _last = last;
                    if n % 2 == 0 { pending::<()>().await; }
                });
            }
            set.shutdown().await;
            assert!(set.is_empty());
            assert_eq!(dropped.get(), 1000);
            set.shutdown().await;
        });
    }

    /// `join_all` panics if a member panicked or was cancelled, and aborts the others then.
    fn join_all_aborts_the_others_if_one_has_no_output(workers: usize) {
        listen_to_panics();
        let runtime = runtime(workers);
        for panics in [true, false] {
            let dropped = Arc::new(Count::new());
            let mut set = JoinSet::new();
            for _ in 0..100 {
                let dropped = dropped.clone();
                let last = OnDrop(move || dropped.add());
                set.spawn_on(async move {
                    let _last = last;
                    pending::<()>().await;
                }, runtime.handle());
            }
            let one = set.spawn_on(async move {
                assert!(!panics, "expected: in join_all");
                pending().await
            }, runtime.handle());
            if !panics {
                one.abort();
            }
            let joins = || runtime.block_on(set.join_all());
            let payload = catch_unwind(AssertUnwindSafe(joins)).unwrap_err();
            if panics {
                assert_eq!(payload.downcast_ref(), Some(&"expected: in join_all"));
            }
            dropped.wait_for(100);
        }
    }

    fn abort_all_keeps_them_in_the_set(workers: usize) {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for _ in 0..100 { set.spawn(pending::<()>()); }
            set.abort_all();
            assert_eq!(set.len(), 100);
            while let Some(joined) = set.join_next().await {
                assert!(joined.unwrap_err().is_cancelled());
            }
        });
    }

    fn detached_they_go_on(workers: usize) {
        let runtime = runtime(workers);
        let done = Arc::new(Count::new());
        let mut set = JoinSet::new();
        let gate = Arc::new(Gate::default());
        for _ in 0..10 {
            let (done, passed) = (done.clone(), gate.clone());
            set.spawn_on(async move {
                task::yield_now().await;
                passed.pass();
                done.add();
            }, runtime.handle());
        }
        set.detach_all();
        assert!(set.is_empty());
        gate.open();
        done.wait_for(10);
        // The set serves on, and the ends of those that left do not disturb it.
        set.spawn_on(async {}, runtime.handle());
        runtime.block_on(set.join_next()).unwrap().unwrap();
        drop(set);
    }

    /// After the end of the runtime, members are refused, and joined as cancelled.
    fn after_the_end_of_the_runtime(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle().clone();
        let mut set = JoinSet::new();
        set.spawn_on(pending::<()>(), &handle);
        drop(runtime);
        set.spawn_on(async {}, &handle);
        assert_eq!(set.len(), 2);
        for _ in 0..2 {
            assert!(set.try_join_next().unwrap().unwrap_err().is_cancelled());
        }
        assert!(set.try_join_next().is_none() && set.is_empty());
    }

    /// A member that ended before it came in wakes the task that waits already.
    fn an_early_member_wakes_the_waiter(workers: usize) {
        let runtime = runtime(workers);
        let done = runtime.spawn(async { 5 });
        while !done.is_finished() {
            std::thread::yield_now();
        }
        let mut set = JoinSet::new();
        set.spawn_on(pending(), runtime.handle());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(set.poll_join_next(&mut cx).is_pending());
        set.insert(done);
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert!(matches!(set.poll_join_next(&mut cx), Poll::Ready(Some(Ok(5)))));
    }

    /// The set is asked with a waker whose clone runs until the member has ended: after the first
    /// look at the ready list, and before that waker is in. Its drop panics besides, which costs
    /// nobody the member.
    fn a_member_that_ends_while_the_waiter_comes(workers: usize) {
        listen_to_panics();
        for rude in [false, true] {
            let runtime = Arc::new(runtime(workers));
            let (end, ended) = oneshot::channel::<()>();
            let mut set = JoinSet::new();
            set.spawn_on(async move {
                ended.await.unwrap();
                7
            }, runtime.handle());
            let before = completed(&runtime);
            let meddle = {
                let runtime = runtime.clone();
                move || {
                    end.send(()).unwrap();
                    while completed(&runtime) == before {
                        std::thread::yield_now();
                    }
                }
            };
            let armed = Arc::new(AtomicBool::new(rude));
            let bomb = {
                let armed = armed.clone();
                move || {
                    let rude = armed.load(SeqCst) && !std::thread::panicking();
                    assert!(!rude, "expected: rude drop");
                }
            };
            let (hook, waker) = Hook::new(meddle, bomb);
            let polled = set.poll_join_next(&mut Context::from_waker(&waker));
            assert!(hook.is_cloned());
            assert!(matches!(polled, Poll::Ready(Some(Ok(7)))), "{polled:?}, {} wakes", hook.wakes());
            armed.store(false, SeqCst);
        }
    }

    /// The waiter of a set that loses its members is told that the set is empty.
    fn detaching_them_wakes_the_waiter(workers: usize) {
        let runtime = runtime(workers);
        let mut set = JoinSet::new();
        set.spawn_on(pending::<()>(), runtime.handle());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(set.poll_join_next(&mut cx).is_pending());
        set.detach_all();
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert!(matches!(set.poll_join_next(&mut cx), Poll::Ready(None)));
    }
}

/// Fails if the first waker is kept.
#[test]
fn a_waiter_that_moves_is_woken_where_it_is() {
    let mut tasks = task::LocalSet::new();
    let (sender, receiver) = oneshot::channel::<()>();
    let mut set = JoinSet::new();
    set.insert(tasks.spawn_local(receiver));
    let [before, now]: [Arc<Wakes>; 2] = Default::default();
    for wakes in [&before, &now] {
        let waker = Waker::from(wakes.clone());
        assert!(
            set.poll_join_next(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    sender.send(()).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut tasks).poll(&mut cx).is_ready());
    assert_eq!([before, now].map(|wakes| wakes.0.load(SeqCst)), [0, 1]);
}

/// Fails if members that had ended when they came stay in the set.
#[test]
fn early_members_are_detached_too() {
    let mut tasks = task::LocalSet::new();
    let ended = tasks.spawn_local(async {});
    let mut cx = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut tasks).poll(&mut cx).is_ready());
    let mut set = JoinSet::new();
    set.insert(ended);
    assert_eq!(set.len(), 1);
    set.detach_all();
    assert!(set.is_empty());
    assert!(matches!(set.poll_join_next(&mut cx), Poll::Ready(None)));
}

/// Fails if a member seems to come from the set's own code.
#[test]
fn members_come_from_where_they_were_spawned() {
    let runtime = runtime(1);
    let handle = runtime.handle().clone();
    runtime.block_on(async move {
        let mut set = JoinSet::new();
        let id = set.spawn(pending::<()>()).id();
        let line = line!() - 1;
        let rows = handle.dump();
        let row = rows.iter().find(|row| row.id == id).expect("it is alive");
        assert_eq!((row.location.file(), row.location.line()), (file!(), line));
    });
}
