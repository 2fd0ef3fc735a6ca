//! J1, J2, J4: the walks through fib(4) that two threads take, by continuations and by tasks, a
//! step at a time: what each thread polls, what waits on its deque, and what the log says of it.
//! Base cases are 1 and 2, and fib(4) is 3.
//!
//! # By continuations: `fork`
//!
//! A row of the walk is what T1 is about to poll, how many continuations wait on its deque, and the
//! same for T2. What this runtime does otherwise than a thread that calls and waits on its own
//! stack:
//!
//! - A continuation that has come to a join that is not ready is on nobody's stack and on no deque:
//!   it is a task that is idle, and its thread is free for others. T2 has two of them in the end,
//!   of main and of fib(4).
//! - Such a task goes on where the child that it waits for has ended, whose result is in that
//!   core's cache. So fib(4) and main end with T1, which ended fib(3), and not with T2, where they
//!   waited.
//! - The second child of fib(3) is forked as that of fib(4) is, so the continuation of fib(3) waits
//!   once more beside it.
//!
//! It fails when `forked` in `sched/poll.rs` puts the child where the parent belongs, and when
//! `local` in `sched/find.rs` does not look at the fork deque.
//!
//! # By tasks: `join`
//!
//! A join pushes one of its two branches and calls the other, which by the walk its thread would
//! pop in the next step. So no deque here has more than one branch. The owner of a stolen branch
//! takes from the thief what belongs to that branch, and so T1 has the last fib(2); where it finds
//! nothing for some microseconds it lets another thread have its permit, and that one takes it
//! instead. Here the clock stands still, and it does not come to that.
//!
//! It fails when `help` in `fork_join/owner.rs` finds nothing, and when a steal is not noted.

use std::{collections::HashMap, pin::Pin, sync::Condvar};

use super::*;
use crate::{
    branch::base,
    cell::{Id, Task},
    fork,
    recorder::{Event, EventKind, Level},
    task::JoinHandle,
};

/// Two permits, and a log.
fn logged() -> Runtime {
    Builder::new()
        .workers(2)
        .sysmon(Sysmon::Off)
        .stall_threshold(None)
        .recorder(16_000)
        .record(Level::Full)
        .build_with(Clock::stopped())
        .unwrap()
}

/// The tasks by what they compute, and for whom: `4.2` is the fib(2) that fib(4) has forked.
type Names = Shares<Mutex<HashMap<Id, String>>>;

fn name<T>(names: &Names, task: &JoinHandle<T>, path: &str) {
    names.lock().unwrap().insert(task.id(), path.to_owned());
}

fn fib(n: u64, path: String, names: Names) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n <= 2 {
            return 1;
        }
        let child = |n| {
            let path = format!("{path}.{n}");
            (fib(n, path.clone(), names.clone()), path)
        };
        let (a, path_of_a) = child(n - 1);
        let a = fork(a).await;
        name(&names, &a, &path_of_a);
        let (b, path_of_b) = child(n - 2);
        let b = fork(b).await;
        name(&names, &b, &path_of_b);
        a.await.unwrap() + b.await.unwrap()
    })
}

/// A thread that goes on when the test says so.
struct Stepped {
    worker: Worker,
    /// What it is about to poll.
    next: Option<Task>,
}

impl Stepped {
    fn new(runtime: &Runtime) -> Self {
        Self {
            worker: thread(runtime),
            next: None,
        }
    }

    fn looks(&mut self) {
        assert!(self.next.is_none(), "it has something to poll");
        self.next = match step(&self.worker) {
            Step::Run(task) => Some(task),
            Step::Park => None,
            other => panic!("there are tasks alone: {other:?}"),
        };
    }

    fn polls(&mut self) {
        let task = self.next.take().expect("it has found something");
        context::with_worker_frame(&self.worker, || self.worker.poll(task));
    }

    fn polls_and_looks(&mut self) {
        self.polls();
        self.looks();
    }

    fn stands(&self) -> (Option<Id>, usize) {
        let next = self.next.as_ref().map(|task| task.header().id());
        (next, self.worker.parents())
    }
}

/// What became of the tasks on that P.
fn told(events: &[Event], processor: usize, names: &HashMap<Id, String>) -> Vec<String> {
    use EventKind::{Done, Idle, ParentOffered, ParentResumed, ParentStolen, Run, RunNext};
    let here = events.iter().filter(|it| it.processor == Some(processor));
    here.filter_map(|event| {
        let what = match event.kind {
            Run => "runs".to_owned(),
            ParentOffered => "is offered".to_owned(),
            ParentResumed => "is popped".to_owned(),
            ParentStolen => format!("is stolen from P {}", event.number),
            RunNext => "is woken".to_owned(),
            Idle => "waits".to_owned(),
            Done => "ends".to_owned(),
            _ => return None,
        };
        Some(format!("{} {what}", names[&event.task?]))
    })
    .collect()
}

#[test]
fn by_continuations() {
    let runtime = logged();
    let (mut t1, mut t2) = (Stepped::new(&runtime), Stepped::new(&runtime));
    let (at_1, at_2) = (t1.worker.index(), t2.worker.index());
    let names = Names::default();
    let mut main = runtime.spawn({
        let names = names.clone();
        async move {
            let fib_4 = fork(fib(4, "4".to_owned(), names.clone())).await;
            name(&names, &fib_4, "4");
            fib_4.await.unwrap()
        }
    });
    name(&names, &main, "main");
    let mut rows = Vec::new();
    let mut row = |t1: &Stepped, t2: &Stepped| rows.push((t1.stands(), t2.stands()));

    t1.looks();
    row(&t1, &t2);
    // main forks fib(4); T2 steals the continuation of main.
    t1.polls_and_looks();
    row(&t1, &t2);
    t2.looks();
    row(&t1, &t2);
    // fib(4) forks fib(3); the continuation of main stalls, and T2 steals that of fib(4).
    t1.polls_and_looks();
    row(&t1, &t2);
    t2.polls_and_looks();
    row(&t1, &t2);
    // fib(3) forks fib(2), and the continuation of fib(4) forks the other fib(2).
    t1.polls_and_looks();
    row(&t1, &t2);
    t2.polls_and_looks();
    row(&t1, &t2);
    // Both return 1.
    t1.polls();
    row(&t1, &t2);
    t2.polls();
    row(&t1, &t2);
    // T1 pops the continuation of fib(3), which forks fib(1), and pops it again.
    t1.looks();
    t1.polls_and_looks();
    row(&t1, &t2);
    t1.polls_and_looks();
    row(&t1, &t2);
    // T2 pops the continuation of fib(4), which stalls; there is nothing to steal.
    t2.looks();
    t2.polls_and_looks();
    row(&t1, &t2);
    // fib(3) returns 2, fib(4) 3, and main has it.
    t1.polls_and_looks();
    row(&t1, &t2);
    t1.polls_and_looks();
    row(&t1, &t2);
    t1.polls();
    row(&t1, &t2);

    let names = names.lock().unwrap();
    let rows: Vec<_> = rows
        .into_iter()
        .map(|((next_1, waiting_1), (next_2, waiting_2))| {
            let name = |task: Option<Id>| task.map_or("", |task| names[&task].as_str());
            (name(next_1), waiting_1, name(next_2), waiting_2)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("main", 0, "", 0),
            ("4", 1, "", 0),
            ("4", 0, "main", 0),
            ("4.3", 1, "main", 0),
            ("4.3", 0, "4", 0),
            ("4.3.2", 1, "4", 0),
            ("4.3.2", 1, "4.2", 1),
            ("", 1, "4.2", 1),
            ("", 1, "", 1),
            ("4.3.1", 1, "", 1),
            ("4.3", 0, "", 1),
            ("4.3", 0, "", 0),
            ("4", 0, "", 0),
            ("main", 0, "", 0),
            ("", 0, "", 0),
        ]
    );
    let result = Pin::new(&mut main).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(result, Poll::Ready(Ok(3))), "{result:?}");

    let events = runtime.handle().recording().events;
    assert_eq!(
        told(&events, at_1, &names),
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
            "4 is woken",
            "4.3 ends",
            "4 runs",
            "main is woken",
            "4 ends",
            "main runs",
            "main ends",
        ]
    );
    assert_eq!(
        told(&events, at_2, &names),
        [
            &*format!("main is stolen from P {at_1}"),
            "main runs",
            "main waits",
            &*format!("4 is stolen from P {at_1}"),
            "4 runs",
            "4 is offered",
            "4.2 runs",
            "4.2 ends",
            "4 is popped",
            "4 runs",
            "4 waits",
        ]
    );
    end(runtime, [t1.worker, t2.worker]);
}

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Holds a thread until the other has come to a step.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.lock().unwrap();
        let (open, waited) = self.1.wait_timeout_while(open, LIMIT, |it| !*it).unwrap();
        drop(open);
        assert!(!waited.timed_out(), "nobody came to that step");
    }
}

#[test]
fn by_tasks() {
    let runtime = logged();
    let t1 = thread(&runtime);
    let at_1 = t1.index();
    let (is_up, pushed, forked) = (Gate::default(), Gate::default(), Gate::default());
    let helped = Gate::default();
    // Which thread calls what, with how many branches pushed below it.
    let calls = Mutex::new(Vec::new());
    let call = |what: &'static str| {
        let at = context::with_worker(|worker| worker.expect("both are threads of it").index());
        let who = if at == at_1 { "T1" } else { "T2" };
        calls.lock().unwrap().push((who, what, base()));
        at
    };
    let shares = |at: usize| {
        runtime
            .handle()
            .shared()
            .peer(at)
            .queues
            .branch_deque
            .has_shared()
    };
    let sum = std::thread::scope(|threads| {
        threads.spawn(|| {
            let t2 = thread(&runtime);
            is_up.open();
            pushed.pass();
            match step(&t2) {
                Step::Branch(branch) => {
                    context::with_worker_frame(&t2, || t2.run_branch(branch));
                }
                other => panic!("T1 shares a branch: {other:?}"),
            }
            t2.leave();
        });
        is_up.pass();
        let stolen = || {
            call("fib(3)");
            assert!(!shares(at_1), "it was the only one");
            let (fib_1, fib_2) = join(
                || {
                    let at_2 = call("fib(1)");
                    assert!(shares(at_2), "the fib(2) of fib(3) waits");
                    forked.open();
                    helped.pass();
                    assert!(!shares(at_2), "T1 has it");
                    1
                },
                || {
                    call("fib(2) of fib(3)");
                    helped.open();
                    1
                },
            );
            fib_1 + fib_2
        };
        context::with_worker_frame(&t1, || {
            call("fib(4)");
            let (fib_2, fib_3) = join(
                || {
                    call("fib(2)");
                    assert!(shares(at_1), "fib(3) waits");
                    pushed.open();
                    forked.pass();
                    1
                },
                stolen,
            );
            fib_2 + fib_3
        })
    });
    assert_eq!(sum, 3);
    assert_eq!(
        calls.into_inner().unwrap(),
        [
            ("T1", "fib(4)", 0),
            ("T1", "fib(2)", 1),
            ("T2", "fib(3)", 0),
            ("T2", "fib(1)", 1),
            ("T1", "fib(2) of fib(3)", 1),
        ]
    );
    let events = runtime.handle().recording().events;
    let of_branches = |event: &Event| match event.kind {
        EventKind::BranchStolen => Some((event.processor? == at_1, event.number == at_1 as u64)),
        EventKind::Block => panic!("who waits has not given its permit up"),
        _ => None,
    };
    let mut stolen: Vec<_> = events.iter().filter_map(of_branches).collect();
    // The clock stands still, so the order in the log is that of the Ps.
    stolen.sort_unstable();
    assert_eq!(stolen, [(false, true), (true, false)], "one each");
    end(runtime, [t1]);
}
