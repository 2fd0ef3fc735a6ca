//! H1, F4, I2: the place in the queue follows the reason: a new task and a woken one are next, and
//! what they displace goes to the back; one that yielded goes to the back. A storm of new tasks
//! does not starve the old ones.
//!
//! It fails when `push_next` in `sched/push.rs` drops to the back instead, and when `poll_as` in
//! `sched/poll.rs` puts a task that yielded into `runnext`. The order is that of one worker,
//! where nobody steals; the last test has all.

use crate::common;

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
};

use common::{Count, limited};
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    task,
    trace::{EventKind, Level},
};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// One worker, and no monitor that ends slices by the clock.
fn one() -> Runtime {
    Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .recorder(1_600)
        .record(Level::Full)
        .build()
        .unwrap()
}

/// A task that writes its name, once.
fn writes(log: &Log, name: &'static str) -> impl Future<Output = ()> + Send + use<> {
    let log = log.clone();
    async move { log.lock().unwrap().push(name) }
}

#[test]
fn a_new_task_is_next_and_displaces_to_the_back() {
    limited(|| {
        let (runtime, log) = (one(), Log::default());
        let inner = log.clone();
        let task = runtime.spawn(async move {
            // Each displaces the one before it.
            drop(ws_executor::spawn(writes(&inner, "first")));
            drop(ws_executor::spawn(writes(&inner, "second")));
            ws_executor::spawn(writes(&inner, "third")).await.unwrap();
            task::yield_now().await;
        });
        runtime.block_on(task).unwrap();
        assert_eq!(*log.lock().unwrap(), ["third", "first", "second"]);
    });
}

#[test]
fn a_woken_task_is_next() {
    limited(|| {
        let (runtime, log) = (one(), Log::default());
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let (inner, given, parked) = (log.clone(), waker.clone(), Arc::new(Count::new()));
        let waits = parked.clone();
        let woken = runtime.spawn(poll_fn(move |cx| {
            if given.lock().unwrap().replace(cx.waker().clone()).is_some() {
                inner.lock().unwrap().push("woken");
                return Poll::Ready(());
            }
            waits.add();
            Poll::Pending
        }));
        parked.wait_for(1);
        let inner = log.clone();
        let wakes = runtime.spawn(async move {
            drop(ws_executor::spawn(writes(&inner, "before")));
            let waker = waker.lock().unwrap().clone().unwrap();
            waker.wake_by_ref();
            // It is queued already: this changes nothing.
            waker.wake();
            inner.lock().unwrap().push("waker");
        });
        runtime.block_on(woken).unwrap();
        runtime.block_on(wakes).unwrap();
        let inner = log.clone();
        runtime
            .block_on(runtime.spawn(async move { inner.lock().unwrap().push("end") }))
            .unwrap();
        assert_eq!(*log.lock().unwrap(), ["waker", "woken", "before", "end"]);
    });
}

/// What became of a task, from its spawn to its end.
fn fate(runtime: &Runtime, task: task::Id) -> Vec<EventKind> {
    let events = runtime.handle().recording().events;
    let own = events.iter().filter(|event| event.task == Some(task));
    own.map(|event| event.kind).collect()
}

#[test]
fn one_that_yielded_goes_to_the_back() {
    limited(|| {
        let runtime = one();
        let task = runtime.spawn(async {
            let yields = ws_executor::spawn(task::yield_now());
            let id = yields.id();
            yields.await.unwrap();
            id
        });
        let id = runtime.block_on(task).unwrap();
        use EventKind::{Done, Local, Requeue, Run, RunNext, Spawn};
        let expected = [Spawn, RunNext, Run, Requeue, Local, Run, Done];
        assert_eq!(fate(&runtime, id), expected);
    });
}

/// A wake during its own poll counts as a yield: once, afterwards (I2).
#[test]
fn one_that_wakes_itself_goes_to_the_back_once() {
    limited(|| {
        let runtime = one();
        let task = runtime.spawn(async {
            let mut polls = 0;
            let selfish = ws_executor::spawn(poll_fn(move |cx| {
                polls += 1;
                if polls == 3 {
                    return Poll::Ready(());
                }
                for _ in 0..5 {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }));
            let id = selfish.id();
            selfish.await.unwrap();
            id
        });
        let id = runtime.block_on(task).unwrap();
        use EventKind::{Done, Local, Requeue, Run, RunNext, Spawn};
        let twice = [Run, Requeue, Local, Run, Requeue, Local];
        assert_eq!(
            fate(&runtime, id),
            [&[Spawn, RunNext][..], &twice, &[Run, Done]].concat()
        );
    });
}

common::with_workers! {
    /// Tasks that spawn tasks without an end, on every worker, and an old one that wants its turn.
    fn a_storm_of_new_tasks(workers: usize) {
        fn storm(stop: Arc<AtomicBool>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                if !stop.load(SeqCst) {
                    drop(ws_executor::spawn(storm(stop)));
                }
            })
        }
        let runtime = common::runtime(workers);
        let (stop, begun, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(Count::new()), Arc::new(Count::new()));
        for _ in 0..workers {
            let (stop, begun, turns) = (stop.clone(), begun.clone(), turns.clone());
            drop(runtime.spawn(async move {
                drop(ws_executor::spawn(async move {
                    for _ in 0..5 {
                        turns.add();
                        task::yield_now().await;
                    }
                }));
                for _ in 0..10 {
                    drop(ws_executor::spawn(storm(stop.clone())));
                }
                begun.add();
            }));
        }
        begun.wait_for(workers);
        turns.wait_for(5 * workers);
        stop.store(true, SeqCst);
    }
}

// Fails if the end of a poll is forgotten for one that went on inside it.
#[test]
fn a_poll_around_another_has_its_end() {
    limited(|| {
        let runtime = one();
        let outer = runtime.block_on(async {
            let outer = ws_executor::spawn_local(async {
                let inner = ws_executor::spawn_local(async {});
                let handle = ws_executor::runtime::Handle::current();
                handle.block_on(inner).unwrap();
            });
            let id = outer.id();
            outer.await.unwrap();
            id
        });
        use EventKind::{Done, Pinned, Run, Spawn};
        assert_eq!(fate(&runtime, outer), [Spawn, Pinned, Run, Done]);
    });
}
