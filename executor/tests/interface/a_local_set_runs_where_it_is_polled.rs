//! `LocalSet`: its tasks run while it is polled and at no other time, they are woken from anywhere,
//! and they end with it. Of several `run_until` that are under way, none is forgotten.
//!
//! It fails when the end of a `run_until` wakes no other, when a tick polls until nothing is ready
//! or does not wake its own waker, when the drop is not a poll of the set, and when an entry of
//! `CURRENT` is seen at another depth. The last test fails if a task of a set is taken for the task
//! that polls the set (`with_task` in `task/current.rs`).

use crate::common;

use std::{
    cell::{Cell, RefCell},
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use common::{OnDrop, limited, listen_to_panics, runtime};
use futures::channel::oneshot;
use ws_executor::{
    runtime::{Builder, UnhandledPanic},
    task::{self, LocalSet, Priority},
};

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    fn take(&self) -> usize {
        self.0.swap(0, SeqCst)
    }

    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(self.clone());
        future.poll(&mut Context::from_waker(&waker))
    }
}

/// Awaits a future on a thread that knows no runtime.
fn without_runtime<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A future that is ready once the flag is set. It asks nobody to wake it.
fn once(flag: &Cell<bool>) -> impl Future<Output = ()> {
    poll_fn(|_| match flag.get() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

common::with_workers! {
    fn the_set_is_ready_after_all_of_its_tasks(workers: usize) {
        let runtime = runtime(workers);
        let own = thread::current().id();
        let log = Rc::new(RefCell::new(Vec::new()));
        let set = LocalSet::new();
        for n in 0..3 {
            let (log, spawner) = (log.clone(), set.spawner());
            set.spawn_local(async move {
                assert_eq!(thread::current().id(), own);
                log.borrow_mut().push(n);
                task::yield_now().await;
                let inner = log.clone();
                let handle = spawner.spawn_local(async move { inner.borrow_mut().push(10 + n) });
                handle.await.unwrap();
                log.borrow_mut().push(20 + n);
            });
        }
        assert!(log.borrow().is_empty(), "nobody has polled it");
        assert_eq!((set.len(), set.is_empty()), (3, false));
        runtime.block_on(set);
        let mut log = log.take();
        assert_eq!(log[..3], [0, 1, 2]);
        log.sort_unstable();
        assert_eq!(log, [0, 1, 2, 10, 11, 12, 20, 21, 22]);
    }

    /// The wakes come from the workers, and from a thread that knows no runtime.
    fn a_wake_comes_from_anywhere(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..common::scaled(200) {
            let set = LocalSet::new();
            let (of_worker, worker) = oneshot::channel();
            let (of_thread, thread) = oneshot::channel();
            let joined = set.spawn_local(async { (worker.await, thread.await) });
            runtime.spawn(async move { of_worker.send(1).unwrap() });
            let sender = thread::spawn(move || of_thread.send(2).unwrap());
            let joined = runtime.block_on(set.run_until(joined));
            assert_eq!(joined.unwrap(), (Ok(1), Ok(2)));
            sender.join().unwrap();
        }
    }

    fn a_set_in_a_task_of_the_runtime(workers: usize) {
        let runtime = runtime(workers);
        let _entered = runtime.handle().enter();
        let sums: Vec<_> = (0..8).map(|n| {
            ws_executor::spawn_pinned(move || async move {
                let set = LocalSet::new();
                let sum = Rc::new(Cell::new(0));
                for _ in 0..100 {
                    let sum = sum.clone();
                    set.spawn_local(async move {
                        task::yield_now().await;
                        sum.set(sum.get() + n);
                    });
                }
                set.await;
                sum.get()
            })
        }).collect();
        for (n, sum) in sums.into_iter().enumerate() {
            assert_eq!(runtime.block_on(sum).unwrap(), 100 * n);
        }
    }

    /// A thread in a `block_on` polls for others too, and these are in no set.
    fn others_that_a_block_on_polls_see_no_set(workers: usize) {
        let runtime = runtime(workers);
        let set = LocalSet::new();
        let entered = set.enter();
        let handle = set.spawn_local(async move {
            runtime.block_on(async {
                assert!(LocalSet::current().is_some(), "this is a part of the set's task");
                let other = ws_executor::spawn_local(async { LocalSet::current().is_none() });
                assert!(other.await.unwrap());
                assert!(LocalSet::current().is_some());
            });
        });
        without_runtime(set.run_until(handle)).unwrap();
        drop(entered);
        assert!(LocalSet::current().is_none());
    }
}

#[test]
fn of_several_that_wait_one_is_woken() {
    // The first ends, or its future is dropped.
    for ends in [true, false] {
        for last_polled in [0, 1, 2] {
            let set = LocalSet::new();
            let (sender, receiver) = oneshot::channel::<()>();
            let task = set.spawn_local(receiver);
            let wakes: [Arc<Wakes>; 3] = Default::default();
            let flags: [Cell<bool>; 3] = Default::default();
            let mut waits: Vec<_> = flags
                .iter()
                .map(|f| Box::pin(set.run_until(once(f))))
                .collect();
            for at in [0, 1, 2, last_polled] {
                assert!(wakes[at].poll(waits[at].as_mut()).is_pending());
            }
            let _before = wakes.each_ref().map(|wakes| wakes.take());
            // The one whose waker the queue has goes away.
            flags[last_polled].set(ends);
            assert_eq!(
                wakes[last_polled]
                    .poll(waits[last_polled].as_mut())
                    .is_ready(),
                ends
            );
            let gone = waits.remove(last_polled);
            drop(gone);
            let rest: Vec<_> = (0..3).filter(|at| *at != last_polled).collect();
            let woken: Vec<_> = rest.iter().map(|&at| wakes[at].take()).collect();
            assert_eq!(woken.iter().sum::<usize>(), 1, "{woken:?}");
            // It goes away as well, before it is polled.
            let second = woken.iter().position(|wakes| *wakes == 1).unwrap();
            drop(waits.remove(second));
            let last = rest[1 - second];
            assert_eq!(wakes[last].take(), 1);
            assert!(wakes[last].poll(waits[0].as_mut()).is_pending());
            assert_eq!(wakes[last].take(), 0);
            sender.send(()).unwrap();
            assert_eq!(
                wakes[last].take(),
                1,
                "the task is ready, and nobody would poll it"
            );
            assert!(wakes[last].poll(waits[0].as_mut()).is_pending());
            assert!(task.is_finished());
        }
    }
}

#[test]
fn tasks_that_are_always_ready_hold_up_nobody() {
    let set = LocalSet::new();
    let polls = Rc::new(Cell::new(0));
    for _ in 0..100 {
        let polls = polls.clone();
        set.spawn_local(async move {
            loop {
                polls.set(polls.get() + 1);
                task::yield_now().await;
            }
        });
    }
    let wakes = Arc::new(Wakes::default());
    let over = Cell::new(false);
    let mut waits = pin!(set.run_until(once(&over)));
    for round in 1..=5 {
        assert!(wakes.poll(waits.as_mut()).is_pending());
        assert_eq!(polls.get(), round * 61);
        assert!(wakes.take() > 0, "it has to be polled again");
    }
    over.set(true);
    assert!(wakes.poll(waits).is_ready());
    // A budget ends a poll that finds all of its futures ready.
    limited(|| {
        let greedy = LocalSet::new();
        greedy.spawn_local(async {
            loop {
                task::consume_budget().await;
            }
        });
        without_runtime(greedy.run_until(task::yield_now()));
    });
}

#[test]
fn tasks_end_with_their_set() {
    let set = LocalSet::new();
    let refused = Rc::new(Cell::new(0));
    let outer = LocalSet::new();
    let inside = outer.enter();
    let make = || {
        let refused = refused.clone();
        let on_drop = OnDrop(move || {
            // Its own set is the current one, also in a destructor.
            let spawner = LocalSet::current().expect("the set is dropped here");
            let spawned = spawner.spawn_local(async {});
            refused.set(refused.get() + usize::from(spawned.is_finished()));
        });
        async move {
            let _on_drop = on_drop;
            pending::<()>().await;
        }
    };
    let polled = set.spawn_local(make());
    let wakes = Arc::new(Wakes::default());
    assert!(
        wakes
            .poll(pin!(set.run_until(pending::<()>())))
            .is_pending()
    );
    let never_polled = set.spawn_local(make());
    let spawner = set.spawner();
    drop(set);
    assert_eq!(refused.get(), 2);
    assert!(outer.is_empty());
    let late = spawner.spawn_local(async {});
    for handle in [polled, never_polled, late] {
        let error = without_runtime(handle).unwrap_err();
        assert!(error.is_cancelled());
    }
    drop(inside);
    assert!(LocalSet::current().is_none());
}

#[test]
fn a_panic_is_the_tasks_own_and_leaves_the_set() {
    listen_to_panics();
    let set = LocalSet::new();
    let panics = set.spawn_local(async { panic!("expected: in a task") });
    let error = without_runtime(set.run_until(panics)).unwrap_err();
    assert!(error.is_panic());
    let root = set.run_until(async { panic!("expected: in the root") });
    let caught = catch_unwind(AssertUnwindSafe(|| without_runtime(root)));
    assert!(caught.is_err());
    assert!(LocalSet::current().is_none());
    // It may be used on.
    let task = set.spawn_local(async { 3 });
    assert_eq!(without_runtime(set.run_until(task)).unwrap(), 3);
}

/// Fails if `LocalSet::tick` does not tell its runtime of a panic.
#[test]
fn a_panic_ends_the_runtime_that_asked_for_it() {
    listen_to_panics();
    limited(|| {
        let ends = Builder::new().unhandled_panic(UnhandledPanic::ShutdownRuntime);
        ends.workers(1).build().unwrap().block_on(async {
            let set = LocalSet::new();
            drop(set.spawn_local(async { panic!("expected: in a task") }));
            set.await;
            let refused = ws_executor::spawn(async {}).await;
            assert!(refused.unwrap_err().is_cancelled());
        });
    });
}

#[test]
fn sets_nest() {
    let (outer, inner) = (LocalSet::new(), LocalSet::new());
    let entered = outer.enter();
    let spawn_here = || {
        let current = LocalSet::current().expect("there is one");
        drop(current.spawn_local(async {}));
    };
    spawn_here();
    assert_eq!((outer.len(), inner.len()), (1, 0));
    let both = outer.run_until(async {
        inner.run_until(async { spawn_here() }).await;
        task::yield_now().await;
        spawn_here();
    });
    without_runtime(both);
    assert_eq!((outer.len(), inner.len()), (1, 1));
    // Guards may go in any order.
    let twice = inner.enter();
    drop(entered);
    spawn_here();
    assert_eq!((outer.len(), inner.len()), (1, 2));
    drop(twice);
    assert!(LocalSet::current().is_none());
    without_runtime(async { futures::join!(outer, inner) });
}

#[test]
fn a_task_of_a_set_has_no_name_and_no_priority_of_its_poller() {
    limited(|| {
        let seen = || (task::name(), Priority::current());
        runtime(1).block_on(async move {
            let outer = task::Builder::new().name("outer").priority(7);
            let polls = outer.spawn_local(async move {
                let set = LocalSet::new();
                let inner = set.spawn_local(async move { seen() });
                (set.run_until(inner).await.unwrap(), seen())
            });
            let (inner, outer) = polls.await.unwrap();
            assert_eq!(inner, (None, Priority::DEFAULT));
            assert_eq!(outer, (Some("outer".to_owned()), Priority::new(7)));
        });
    });
}

/// Fails if a set that is awaited itself leaves no waker.
#[test]
fn a_set_that_is_awaited_is_woken() {
    let mut set = LocalSet::new();
    let (sender, receiver) = oneshot::channel::<()>();
    set.spawn_local(receiver);
    let wakes = Arc::new(Wakes::default());
    assert!(wakes.poll(Pin::new(&mut set)).is_pending());
    assert_eq!(wakes.take(), 0);
    sender.send(()).unwrap();
    assert_eq!(wakes.take(), 1);
    assert!(wakes.poll(Pin::new(&mut set)).is_ready());
}

/// Fails if a `run_until` that goes on in another task is woken in its first one.
#[test]
fn one_that_moves_is_woken_where_it_is() {
    let set = LocalSet::new();
    let [before, now, other]: [Arc<Wakes>; 3] = Default::default();
    let mut moves = Box::pin(set.run_until(pending::<()>()));
    assert!(before.poll(moves.as_mut()).is_pending());
    assert!(now.poll(moves.as_mut()).is_pending());
    let mut last = Box::pin(set.run_until(pending::<()>()));
    assert!(other.poll(last.as_mut()).is_pending());
    drop(last);
    assert_eq!([&before, &now, &other].map(|wakes| wakes.take()), [0, 1, 0]);
}

/// Fails if a set that is entered, and not polled, counts as polled.
#[test]
fn to_enter_is_not_to_poll() {
    let set = LocalSet::new();
    assert!(!LocalSet::is_polling());
    let entered = set.enter();
    assert!(!LocalSet::is_polling());
    without_runtime(set.run_until(async { assert!(LocalSet::is_polling()) }));
    drop(entered);
}
