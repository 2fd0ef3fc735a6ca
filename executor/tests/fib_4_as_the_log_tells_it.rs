//! J1, J3, J4: who runs what in fib(4), by the scheduler's own log. With one worker the order is that of plain calls;
//! with two, the parent's id is in the thief's log, the oldest first, and the fork deque is no longer than the depth.
//!
//! It fails when `forked` in `sched/worker.rs` puts the child where thieves can take it and keeps the parent, and when
//! `ForkStealer::steal` takes the newest.

mod common;

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    thread,
};

use common::{Count, Gate, limited};
use ws_executor::{
    fork, join,
    runtime::{Builder, Event, EventKind, Runtime},
    spawn,
    task::Id,
};

/// Without the monitor, which takes from a thread that is blocked what thieves are to find there.
fn logged(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .sysmon(false)
        .events(1000)
        .build()
        .unwrap()
}

/// The log, once it tells of the end of the task: who joins it may be woken a moment before.
fn log_with_the_end(runtime: &Runtime, task: Id) -> Vec<Event> {
    loop {
        let events = runtime.handle().events();
        let ends = |event: &Event| event.kind == EventKind::Done && event.task == Some(task);
        if events.iter().any(ends) {
            return events;
        }
        thread::yield_now();
    }
}

fn fib(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let a = fork(fib(n - 1)).await;
        let b = fib(n - 2).await;
        a.await.unwrap() + b
    })
}

/// Calls the tasks A, B, C in the order of their beginnings, and tells what became of them.
fn told(events: &[Event], kinds: &[EventKind]) -> Vec<String> {
    let mut names = HashMap::new();
    for event in events {
        if matches!(event.kind, EventKind::Spawn | EventKind::Fork) {
            let next = char::from(b'A' + u8::try_from(names.len()).unwrap());
            names.entry(event.task.unwrap()).or_insert(next);
        }
    }
    let of_interest = events.iter().filter(|event| kinds.contains(&event.kind));
    of_interest
        .map(|event| {
            let what = match event.kind {
                EventKind::Run => "runs",
                EventKind::ParentOffered => "is offered",
                EventKind::ParentResumed => "goes on",
                EventKind::Done => "ends",
                _ => "?",
            };
            format!("{} {what}", names[&event.task.unwrap()])
        })
        .collect()
}

/// The longest that the fork deque was.
fn longest(events: &[Event]) -> usize {
    let (mut now, mut longest) = (0_usize, 0);
    for event in events {
        match event.kind {
            EventKind::ParentOffered => now += 1,
            EventKind::ParentResumed | EventKind::ParentStolen => now -= 1,
            _ => {}
        }
        longest = longest.max(now);
    }
    longest
}

#[test]
fn one_worker_goes_down_first_and_comes_back_up() {
    limited(|| {
        let runtime = logged(1);
        let root = runtime.spawn(fib(4));
        let id = root.id();
        assert_eq!(runtime.block_on(root).unwrap(), 3);
        let events = log_with_the_end(&runtime, id);
        use EventKind::{Done, ParentOffered, ParentResumed, Run};
        let expected = [
            // fib(4) forks fib(3) forks fib(2) forks fib(1).
            "A runs",
            "A is offered",
            "B runs",
            "B is offered",
            "C runs",
            "C is offered",
            "D runs",
            "D ends",
            // The continuation of fib(2) has fib(0) as a plain call, that of fib(3) fib(1).
            "C goes on",
            "C runs",
            "C ends",
            "B goes on",
            "B runs",
            "B ends",
            // That of fib(4) calls fib(2), which forks fib(1), in the same task.
            "A goes on",
            "A runs",
            "A is offered",
            "E runs",
            "E ends",
            "A goes on",
            "A runs",
            "A ends",
        ];
        assert_eq!(
            told(&events, &[Run, ParentOffered, ParentResumed, Done]),
            expected
        );
        assert_eq!(longest(&events), 3);
    });
}

fn first(events: &[Event], kind: EventKind, task: Id) -> Event {
    let found = events
        .iter()
        .find(|it| it.kind == kind && it.task == Some(task));
    *found.unwrap_or_else(|| panic!("no {kind:?} of {task} in {events:#?}"))
}

/// T1 sits in the deepest child until T2 has taken all parents.
#[test]
fn the_parents_are_in_the_thief_s_log() {
    const DEPTH: usize = 4;
    type Ids = Arc<Mutex<Vec<Id>>>;
    fn descend(
        depth: usize,
        ids: Ids,
        resumed: Arc<Count>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if depth == DEPTH {
                resumed.wait_for(DEPTH);
                return;
            }
            let child = fork(descend(depth + 1, ids.clone(), resumed.clone())).await;
            ids.lock().unwrap().push(child.id());
            resumed.add();
            child.await.unwrap();
        })
    }
    limited(|| {
        let runtime = logged(2);
        let ids = Ids::default();
        let root = runtime.spawn(descend(0, ids.clone(), Arc::new(Count::new())));
        let mut parents = vec![root.id()];
        runtime.block_on(root).unwrap();
        // Each parent knows its child, and the last child is nobody's parent.
        parents.extend(&ids.lock().unwrap()[..DEPTH - 1]);
        let events = log_with_the_end(&runtime, parents[0]);
        let stolen: Vec<_> = events
            .iter()
            .filter(|event| event.kind == EventKind::ParentStolen)
            .collect();
        let tasks: Vec<_> = stolen.iter().map(|event| event.task.unwrap()).collect();
        assert_eq!(tasks, parents, "the oldest first");
        for event in stolen {
            let offered = first(&events, EventKind::ParentOffered, event.task.unwrap());
            assert_eq!(Some(event.number as usize), offered.processor);
            assert_ne!(event.processor, offered.processor);
        }
        assert!(longest(&events) <= DEPTH);
    });
}

/// The first branch of a join waits until the second has begun, which it can only elsewhere.
#[test]
fn a_stolen_branch_is_in_the_thief_s_log() {
    limited(|| {
        let runtime = logged(2);
        let began = Gate::default();
        runtime.block_on(async {
            // For a thread that looks for work by then.
            drop(spawn(async {}));
            join(
                || {
                    while !began.is_open() {
                        join(|| (), || ());
                    }
                },
                || began.open(),
            );
        });
        let events = runtime.handle().events();
        let stolen = |event: &&Event| event.kind == EventKind::BranchStolen;
        let stolen = events.iter().find(stolen).expect("somebody else ran it");
        assert_ne!(stolen.processor, Some(stolen.number as usize));
    });
}

/// J3: nobody is there to take a branch, and none is offered.
#[test]
fn one_worker_steals_no_branch() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    limited(|| {
        let runtime = logged(1);
        assert_eq!(runtime.block_on(async { fib(4) }), 3);
        let events = runtime.handle().events();
        assert!(
            events
                .iter()
                .all(|event| event.kind != EventKind::BranchStolen),
            "{events:#?}"
        );
    });
}
