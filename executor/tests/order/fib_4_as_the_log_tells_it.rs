//! J1, J3, J4: which worker runs what in fib(4), by the scheduler's own log. With one worker the
//! order is that of plain calls; with two, the parent's id is in the thief's log, the oldest first,
//! and the fork deque is no longer than the depth.
//!
//! The walk by continuations with two workers is taken by threads here, which wait for each other
//! at its steps; the same a step at a time, with all that waits on the deques, is in
//! `sched/find/tests/fib_4.rs`, which also says what this runtime does otherwise than the walk.
//!
//! It fails when `forked` in `sched/poll.rs` puts the child where thieves can take it and keeps
//! the parent, and when `ForkStealer::steal` takes the newest; and the count of stolen branches
//! when `search` in `sched/search.rs`, or `help` in `fork_join/owner.rs`, does not note what it
//! takes. (For one that a search has waited for: `sched/find/tests/branches.rs`.)

use crate::common;

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use common::{Count, Gate, limited, scaled};
use ws_executor::{
    fork, join,
    runtime::{Builder, Handle, Runtime, Sysmon},
    spawn,
    task::Id,
    trace::{Event, EventKind, Level},
};

/// Without the monitor, which takes from a thread that is blocked what thieves are to find there.
fn logged(workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .sysmon(Sysmon::Off)
        .recorder(16_000)
        .record(Level::Full)
        .build()
        .unwrap()
}

/// The log, once it tells of the end of the task: a thread that joins it may be woken a moment
/// before.
fn log_with_the_end(runtime: &Runtime, task: Id) -> Vec<Event> {
    loop {
        let events = runtime.handle().recording().events;
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
    let found = found.unwrap_or_else(|| panic!("no {kind:?} of {task} in {events:#?}"));
    found.clone()
}

/// The steps of the walk at which a thread waits for the other one, and the tasks by what they
/// compute: `4.2` is the fib(2) that fib(4) has forked.
#[derive(Default)]
struct Walk {
    main_went_on: Gate,
    fib_4_went_on: Gate,
    fib_3_has_forked: Gate,
    names: Mutex<HashMap<&'static str, Id>>,
}

impl Walk {
    fn name(&self, name: &'static str, task: Id) {
        self.names.lock().unwrap().insert(name, task);
    }

    fn id(&self, name: &str) -> Id {
        self.names.lock().unwrap()[name]
    }

    async fn main(walk: Arc<Self>) -> u64 {
        let fib_4 = fork(Self::fib_4(walk.clone())).await;
        walk.name("4", fib_4.id());
        walk.main_went_on.open();
        fib_4.await.unwrap()
    }

    async fn fib_4(walk: Arc<Self>) -> u64 {
        walk.main_went_on.pass();
        let fib_3 = fork(Self::fib_3(walk.clone())).await;
        walk.name("4.3", fib_3.id());
        walk.fib_4_went_on.open();
        let fib_2 = {
            let walk = walk.clone();
            fork(async move {
                walk.fib_3_has_forked.pass();
                1
            })
        };
        let fib_2 = fib_2.await;
        walk.name("4.2", fib_2.id());
        fib_3.await.unwrap() + fib_2.await.unwrap()
    }

    async fn fib_3(walk: Arc<Self>) -> u64 {
        walk.fib_4_went_on.pass();
        let fib_2 = fork(async { 1 }).await;
        walk.name("4.3.2", fib_2.id());
        let fib_1 = fork(async { 1 }).await;
        walk.name("4.3.1", fib_1.id());
        walk.fib_3_has_forked.open();
        // Until the continuation of fib(4) stalls, which is for the log to say.
        let fib_4 = walk.id("4");
        let waits = |event: &Event| event.kind == EventKind::Idle && event.task == Some(fib_4);
        while !Handle::current().recording().events.iter().any(waits) {
            thread::yield_now();
        }
        fib_2.await.unwrap() + fib_1.await.unwrap()
    }

    /// What became of the tasks on that P, up to one event and with it; and how long its fork deque
    /// was at most, whoever took from there.
    fn told(
        &self,
        events: &[Event],
        processor: usize,
        (last, name): (EventKind, &str),
    ) -> (Vec<String>, isize) {
        use EventKind::{Done, Idle, ParentOffered, ParentResumed, ParentStolen, Run, RunNext};
        let last = (last, Some(self.id(name)));
        let names = self.names.lock().unwrap();
        let names: HashMap<Id, &str> = names.iter().map(|(name, id)| (*id, *name)).collect();
        let (mut told, mut over) = (Vec::new(), false);
        // What two threads note at one moment is in the order of their Ps, so this may be below
        // nothing for a moment.
        let (mut now, mut longest) = (0_isize, 0);
        for event in events {
            let here = event.processor == Some(processor);
            match event.kind {
                ParentOffered if here => now += 1,
                ParentResumed if here => now -= 1,
                ParentStolen if event.number == processor as u64 => now -= 1,
                _ => {}
            }
            longest = longest.max(now);
            let what = match event.kind {
                Run => "runs",
                ParentOffered => "is offered",
                ParentResumed => "is popped",
                ParentStolen => "is stolen",
                RunNext => "is woken",
                Idle => "waits",
                Done => "ends",
                _ => continue,
            };
            if here && !over {
                told.push(format!("{} {what}", names[&event.task.unwrap()]));
                over = (event.kind, event.task) == last;
            }
        }
        (told, longest)
    }
}

/// T2 takes the continuation of main, which stalls, and that of fib(4); T1 pops that of fib(3),
/// twice.
#[test]
fn two_workers_walk_through_it_by_continuations() {
    limited(|| {
        let runtime = logged(2);
        let walk = Arc::new(Walk::default());
        let main = runtime.spawn(Walk::main(walk.clone()));
        walk.name("main", main.id());
        assert_eq!(runtime.block_on(main).unwrap(), 3);
        let events = log_with_the_end(&runtime, walk.id("main"));
        let begins = first(&events, EventKind::Run, walk.id("main"));
        let stolen = first(&events, EventKind::ParentStolen, walk.id("main"));
        let (t1, t2) = (begins.processor.unwrap(), stolen.processor.unwrap());
        assert_ne!(t1, t2);
        let of_t1 = walk.told(&events, t1, (EventKind::RunNext, "4"));
        let of_t2 = walk.told(&events, t2, (EventKind::Idle, "4"));
        assert_eq!(
            of_t1.0,
            [
                "main runs",
                "main is offered",
                "4 runs",
                "4 is offered",
                "4.3 runs",
                "4.3 is offered",
                "4.3.2 runs",
                "4.3.2 ends",
                "4.3 is popped",
                "4.3 runs",
                "4.3 is offered",
                "4.3.1 runs",
                "4.3.1 ends",
                "4.3 is popped",
                "4.3 runs",
                // It goes on where fib(3) has ended, or is stolen from there.
                "4 is woken",
            ]
        );
        assert_eq!(
            of_t2.0,
            [
                "main is stolen",
                "main runs",
                "main waits",
                "4 is stolen",
                "4 runs",
                "4 is offered",
                "4.2 runs",
                "4.2 ends",
                "4 is popped",
                "4 runs",
                "4 waits",
            ]
        );
        assert_eq!((of_t1.1, of_t2.1), (1, 1), "how long the deques were");
    });
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
        let events = runtime.handle().recording().events;
        let stolen = |event: &&Event| event.kind == EventKind::BranchStolen;
        let stolen = events.iter().find(stolen).expect("somebody else ran it");
        assert_ne!(stolen.processor, Some(stolen.number as usize));
    });
}

/// However a branch was taken: by a search, or at a waiting join.
#[test]
fn every_branch_that_ran_elsewhere_is_in_a_log() {
    /// What is forked here is taken by others; and the last of it forks in turn, for whoever waits
    /// for that.
    fn branch(elsewhere: &AtomicUsize, depth: usize) {
        let (taken, owner) = (AtomicBool::new(false), thread::current().id());
        let note = || {
            if thread::current().id() != owner {
                elsewhere.fetch_add(1, SeqCst);
            }
        };
        join(
            || {
                while !taken.load(SeqCst) {
                    join(|| (), note);
                }
            },
            || {
                note();
                taken.store(true, SeqCst);
                if depth > 0 {
                    branch(elsewhere, depth - 1);
                }
            },
        );
    }
    limited(|| {
        let rounds = scaled(300);
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .recorder((1 << 16) * 16)
            .record(Level::Full);
        let runtime = runtime.build().unwrap();
        let elsewhere = Arc::new(AtomicUsize::new(0));
        let counted = elsewhere.clone();
        let task = runtime.spawn(async move {
            (0..rounds).for_each(|_| branch(&counted, 1));
        });
        runtime.block_on(task).unwrap();
        let elsewhere = elsewhere.load(SeqCst);
        assert!(elsewhere >= 2 * rounds, "only {elsewhere} were taken");
        let events = runtime.handle().recording().events;
        let stolen = events
            .iter()
            .filter(|it| it.kind == EventKind::BranchStolen);
        let stolen = stolen.inspect(|it| assert_ne!(it.processor, Some(it.number as usize)));
        assert_eq!(stolen.count(), elsewhere);
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
        let events = runtime.handle().recording().events;
        assert!(
            events
                .iter()
                .all(|event| event.kind != EventKind::BranchStolen),
            "{events:#?}"
        );
    });
}
