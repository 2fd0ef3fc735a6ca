//! The shuffle: whatever is ready is drawn once, at any place.

use super::*;

// --- the shuffle ---

/// A thread with the permit, and a root that is due.
fn with_root(runtime: &Runtime) -> (Worker, SharedRoot) {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let root = Root::new();
    let worker = Worker::new(shared.clone(), processor, Scope::All, Some(root.clone()));
    worker.arrive();
    (worker, root)
}

#[test]
fn whatever_is_ready_is_drawn_once_at_any_place() {
    const READY: usize = 8;
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let (worker, root) = with_root(&runtime);
    let ran = Shares::new(Mutex::new(Vec::new()));
    let note = |number: usize| {
        let ran = ran.clone();
        async move { ran.lock().push(number) }
    };
    let (mut first, mut last) = (BTreeSet::new(), BTreeSet::new());
    context::with_worker_frame(&worker, || {
        for _ in 0..200 {
            // The root is number 0. Of those that are spawned the last is `runnext`, and one is
            // made a parent.
            root.wake_by_ref();
            (1..3).for_each(|number| drop(spawn_local(note(number))));
            (3..READY).for_each(|number| drop(spawn(note(number))));
            let parent = worker.p.lrq.pop().expect("there are four");
            worker.p.forks.parents.push(parent);
            for _ in 0..READY {
                match worker.draw(paused(shared)) {
                    Some(Step::Run(task)) => worker.poll(task),
                    Some(Step::Root) => ran.lock().push(0),
                    other => panic!("something is left: {other:?}"),
                }
            }
            assert!(worker.draw(paused(shared)).is_none());
            let mut order = std::mem::take(&mut *ran.lock());
            first.insert(order[0]);
            last.insert(order[READY - 1]);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..READY));
        }
    });
    assert!(first.into_iter().eq(0..READY));
    assert!(last.into_iter().eq(0..READY));
    end(runtime, [worker]);
}

/// What is drawn is polled. How many steps it was.
fn draw_all(worker: &Worker) -> usize {
    let draw = || worker.draw(paused(worker.env()));
    context::with_worker_frame(worker, || {
        std::iter::from_fn(draw)
            .map(|step| match step {
                Step::Run(task) => worker.poll(task),
                other => panic!("there are tasks alone: {other:?}"),
            })
            .count()
    })
}

#[test]
fn what_comes_from_outside_is_drawn_with_the_rest() {
    let runtime = runtime();
    let worker = thread(&runtime);
    drop(runtime.spawn(async {}));
    context::with_worker_frame(&worker, || drop(spawn_local(async {})));
    let pinned = worker.p.pop_pinned().expect("it was spawned here");
    worker.env().push_foreign(pinned);
    assert!(!worker.own_peer().queues.inbox.is_empty());
    assert_eq!(draw_all(&worker), 2);
    assert_eq!(worker.own_peer().counters.global.get(), 1);
    end(runtime, [worker]);
}

#[test]
fn a_full_queue_leaves_the_others_where_they_are() {
    let runtime = runtime();
    let worker = thread(&runtime);
    let capacity = CAPACITY as usize;
    // All but the last one, which is `runnext`, are in the queue.
    context::with_worker_frame(&worker, || {
        (0..=capacity).for_each(|_| drop(spawn(async {})));
    });
    assert_eq!(worker.p.lrq.room(), 0);
    drop(runtime.spawn(async {}));
    worker.gather();
    assert_eq!(worker.env().queues.grq.len(), 1);
    assert_eq!(draw_all(&worker), capacity + 2, "they have their turn");
    end(runtime, [worker]);
}
