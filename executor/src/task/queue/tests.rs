use std::{
    cell::Cell,
    future::{pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Wake},
    thread,
};

use super::*;
use crate::task::Id;
use crate::{scale::scaled, task::yield_now};

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

impl Flag {
    fn take(&self) -> bool {
        self.0.swap(false, SeqCst)
    }
}

/// Polls until nothing is ready. Returns how many polls that took.
fn run_all(queue: &TaskQueue) -> usize {
    let next = || queue.run_next() || queue.end_round() && queue.run_next();
    std::iter::from_fn(|| next().then_some(())).count()
}

fn joined<T>(mut handle: JoinHandle<T>) -> Result<T, super::super::JoinError> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(&mut handle).poll(&mut cx) {
        Poll::Ready(joined) => joined,
        Poll::Pending => panic!("it has not ended"),
    }
}

#[test]
fn tasks_run_in_the_order_of_their_spawns_and_wakes() {
    let queue = TaskQueue::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let spawn = |name: char| {
        let log = log.clone();
        queue.spawner().spawn(async move {
            log.lock().unwrap().push((name, 1));
            yield_now().await;
            log.lock().unwrap().push((name, 2));
        })
    };
    let handles = ['a', 'b', 'c'].map(spawn);
    assert_eq!(queue.spawner().alive(), 3);
    assert_eq!(run_all(&queue), 6);
    let expected = [('a', 1), ('b', 1), ('c', 1), ('a', 2), ('b', 2), ('c', 2)];
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(queue.spawner().alive(), 0);
    for handle in handles {
        joined(handle).unwrap();
    }
}

#[test]
fn the_owner_is_woken_by_a_spawn_and_by_a_wake() {
    let queue = TaskQueue::new();
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(flag.clone());
    assert!(!queue.register(&waker));
    let (sender, receiver) = mpsc::channel();
    let handle = queue.spawner().spawn(poll_fn(move |cx| {
        sender.send(cx.waker().clone()).unwrap();
        Poll::<()>::Pending
    }));
    assert!(flag.take());
    assert!(queue.register(&waker), "something is queued already");
    assert_eq!(run_all(&queue), 1);
    receiver.recv().unwrap().wake();
    assert!(flag.take());
    assert!(queue.register(&waker));
    assert_eq!(run_all(&queue), 1);
    handle.abort();
    assert!(flag.take(), "a task that is aborted has to be dropped");
    run_all(&queue);
    assert!(joined(handle).unwrap_err().is_cancelled());
}

#[test]
fn futures_need_not_be_send_and_stay_on_their_thread() {
    let queue = TaskQueue::new();
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    let handle = queue.spawner().spawn_local(async move {
        counted.set(1);
        counted
    });
    let spawner = queue.spawner().clone();
    let elsewhere = thread::spawn(move || {
        let refused = catch_unwind(AssertUnwindSafe(|| spawner.spawn_local(async {})));
        assert!(refused.is_err());
        spawner.spawn(async { thread::current().id() })
    });
    let elsewhere = elsewhere.join().unwrap();
    run_all(&queue);
    assert_eq!(joined(handle).unwrap().get(), 1);
    assert_eq!(joined(elsewhere).unwrap(), thread::current().id());
}

#[test]
fn a_task_knows_its_id() {
    let queue = TaskQueue::new();
    struct Tells(mpsc::Sender<Option<Id>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(super::super::try_id()).unwrap();
        }
    }
    let (sender, receiver) = mpsc::channel();
    let tells = Tells(sender);
    let handle = queue.spawner().spawn(async move {
        let _tells = tells;
        super::super::id()
    });
    let id = handle.id();
    run_all(&queue);
    assert_eq!(joined(handle).unwrap(), id);
    assert_eq!(receiver.recv().unwrap(), Some(id));
    assert_eq!(super::super::try_id(), None);
}

#[test]
fn a_panic_is_the_tasks_own() {
    let queue = TaskQueue::new();
    let panics = queue.spawner().spawn(async { panic!("expected") });
    let other = queue.spawner().spawn(async { 7 });
    run_all(&queue);
    assert!(joined::<()>(panics).unwrap_err().is_panic());
    assert_eq!(joined(other).unwrap(), 7);
}

#[test]
fn the_end_drops_every_future_and_refuses_what_comes_later() {
    let queue = TaskQueue::new();
    let spawner = queue.spawner().clone();
    let count = Arc::new(AtomicUsize::new(0));
    struct Counts(Arc<AtomicUsize>, Spawner);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            // A destructor that spawns.
            assert!(
                joined(self.1.spawn(pending::<()>()))
                    .unwrap_err()
                    .is_cancelled()
            );
        }
    }
    let make = || {
        let counts = Counts(count.clone(), spawner.clone());
        async move {
            let _counts = counts;
            pending::<()>().await;
        }
    };
    let waits = spawner.spawn(make());
    run_all(&queue);
    let never_polled = spawner.spawn(make());
    drop(queue);
    assert_eq!(count.load(SeqCst), 2);
    for handle in [waits, never_polled] {
        assert!(joined(handle).unwrap_err().is_cancelled());
    }
    let late = spawner.spawn(async {});
    assert!(joined(late).unwrap_err().is_cancelled());
}

/// A queue whose last owner is one of its tasks.
#[test]
fn a_task_may_drop_its_queue() {
    let queue = Rc::new(TaskQueue::new());
    let other = queue.spawner().spawn_local(pending::<()>());
    let held = queue.clone();
    let handle = queue.spawner().spawn_local(async move {
        drop(held);
        yield_now().await;
    });
    let owned = queue.spawner.owned.clone();
    drop(queue);
    assert!(owned.clone().run_next(super::poll));
    assert!(owned.clone().run_next(super::poll));
    assert!(joined(other).unwrap_err().is_cancelled());
    assert!(joined(handle).unwrap_err().is_cancelled());
    assert_eq!(owned.alive(), 0);
}

/// Threads wake and abort tasks while the owner polls them, and while it ends.
#[test]
fn wakes_meet_polls_and_the_end() {
    for round in 0..scaled(2000) {
        let queue = TaskQueue::new();
        let (sender, receiver) = mpsc::channel::<Waker>();
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                queue.spawner().spawn(poll_fn(move |cx| {
                    let _ = sender.send(cx.waker().clone());
                    Poll::<()>::Pending
                }))
            })
            .collect();
        drop(sender);
        let spawner = queue.spawner().clone();
        let threads = [
            thread::spawn(move || {
                receiver.into_iter().take(20).for_each(Waker::wake);
            }),
            thread::spawn(move || {
                for handle in handles {
                    handle.abort();
                    spawner.spawn(async {});
                }
            }),
        ];
        for _ in 0..round % 16 {
            queue.run_next();
        }
        drop(queue);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

/// The owner of a queue is decided while another thread polls it: its futures are polled by their
/// own thread, or never.
#[test]
fn a_future_that_is_not_send_is_never_polled_elsewhere() {
    for _ in 0..scaled(400) {
        let queue = Arc::new(TaskQueue::new());
        let spawner = queue.spawner().clone();
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let poller = thread::spawn(move || {
            let polls = catch_unwind(AssertUnwindSafe(|| {
                while !told.load(SeqCst) {
                    queue.run_next();
                }
            }));
            (polls.is_err(), queue)
        });
        let own = thread::current().id();
        let strays = Arc::new(AtomicUsize::new(0));
        let counted = strays.clone();
        let handle = spawner.spawn_local(async move {
            if thread::current().id() != own {
                counted.fetch_add(1, SeqCst);
            }
        });
        while !handle.is_finished() && !poller.is_finished() {
            thread::yield_now();
        }
        over.store(true, SeqCst);
        let (_, queue) = poller.join().unwrap();
        drop(queue);
        assert_eq!(strays.load(SeqCst), 0);
    }
}

/// Fails if what has yielded does not count before the end of the round.
#[test]
fn what_has_yielded_is_queued() {
    let queue = TaskQueue::new();
    let _handle = queue.spawner().spawn(yield_now());
    assert!(queue.run_next());
    assert_eq!(queue.spawner().queued(), 1);
    assert!(queue.register(Waker::noop()), "the owner must not sleep");
}

/// Fails if the queue is anybody's until the first spawn, and if it is everybody's.
#[test]
fn a_queue_of_this_thread_is_that_from_the_start() {
    let elsewhere = |queue: &TaskQueue| {
        let spawner = queue.spawner().clone();
        thread::spawn(move || spawner.is_of_this_thread())
            .join()
            .unwrap()
    };
    let queue = TaskQueue::of_this_thread();
    assert!(queue.spawner().is_of_this_thread());
    assert!(!elsewhere(&queue));
    assert!(elsewhere(&TaskQueue::new()), "it belongs to nobody yet");
}

/// Fails if the owner's waker is kept as long as somebody has a handle.
#[test]
fn the_end_lets_go_of_the_owners_waker() {
    let queue = TaskQueue::new();
    let spawner = queue.spawner().clone();
    let flag = Arc::new(Flag::default());
    queue.register(&Waker::from(flag.clone()));
    drop(queue);
    assert_eq!(Arc::strong_count(&flag), 1);
    drop(spawner);
}

/// Fails if the futures are dropped by a thread that they must not come to.
#[test]
fn a_queue_that_is_dropped_elsewhere_keeps_its_futures() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let queue = TaskQueue::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = Counts(dropped.clone());
    let handle = queue.spawner().spawn_local(async move {
        let _counts = counts;
        pending::<()>().await;
    });
    let owned = Arc::downgrade(&queue.spawner.owned);
    thread::spawn(move || drop(queue)).join().unwrap();
    assert!(
        owned.upgrade().is_some(),
        "a task that is woken looks for it"
    );
    handle.abort();
    drop(handle);
    assert_eq!(dropped.load(SeqCst), 0);
}
