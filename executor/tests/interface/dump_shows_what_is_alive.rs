//! L2, in what users see of it: `Handle::dump` shows every live task, with its name, where it was
//! spawned, what it is doing and how old it is, also while every worker is stuck. It polls nothing,
//! and waits for nobody.
//!
//! It fails when `TaskDump::new` does not look at the tasks that are running (a stuck task then
//! counts as queued), when `Shared::dump` leaves out the scheduler handle of what foreign threads
//! spawn, when a task's place and its priority are taken from two readings of their word, when a
//! carrier is shown or counted beside its pinned task, and when `end` in `cell/raw.rs` wakes the
//! joiner before the task has left its table.

use crate::common;

use std::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use common::{Count, Gate, runtime};
use ws_executor::{
    runtime::{Builder, Handle, Sysmon, TaskDump, TaskState},
    task,
};

fn named<'a>(dump: &'a [TaskDump], name: &str) -> Vec<&'a TaskDump> {
    let of = |task: &&TaskDump| task.name.as_deref() == Some(name);
    dump.iter().filter(of).collect()
}

common::with_workers! {
    /// Two cells stand behind its handle.
    fn a_pinned_task_is_one_task(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (begun, line) = (Arc::new(Count::new()), line!() + 4);
        let _entered = handle.enter();
        let tasks: Vec<_> = (0..10).map(|_| {
            let begun = begun.clone();
            task::Builder::new().name("pinned").spawn_pinned(|| {
                // It may be polled once more before it is idle.
                let mut begins = Some(begun);
                poll_fn(move |_| {
                    begins.take().inspect(|begun| begun.add());
                    Poll::<()>::Pending
                })
            })
        }).collect();
        // Those that wait for a thread are there as well.
        assert_eq!(named(&handle.dump(), "pinned").len(), 10);
        begun.wait_for(10);
        let dump = handle.dump();
        assert_eq!(dump.len(), 10);
        for task in &tasks {
            let row = dump.iter().find(|row| row.id == task.id()).unwrap();
            assert_eq!((row.name.as_deref(), row.location.line()), (Some("pinned"), line));
        }
        assert_eq!(handle.metrics().live_tasks, 10);
        for task in tasks {
            task.abort();
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        }
        // A pinned task is dropped by its thread, which may be about to.
        while handle.metrics().live_tasks != 0 || !handle.dump().is_empty() {
            std::thread::yield_now();
        }
        let task = ws_executor::spawn_pinned(|| async {});
        runtime.block_on(task).unwrap();
        assert_eq!((handle.metrics().live_tasks, handle.dump().len()), (0, 0));
    }

    fn while_every_worker_is_stuck(workers: usize) {
        // Without the monitor the stuck ones keep their permits, and nothing moves.
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let handle = runtime.handle();
        let (parked, polls) = (Arc::new(Count::new()), Arc::new(AtomicUsize::new(0)));
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let line = line!() + 9;
        let idle: Vec<_> = (0..10).map(|_| {
            let (parked, polls, wakers) = (parked.clone(), polls.clone(), wakers.clone());
            let future = poll_fn(move |cx| {
                polls.fetch_add(1, SeqCst);
                wakers.lock().unwrap().push(cx.waker().clone());
                parked.add();
                Poll::<()>::Pending
            });
            task::Builder::new().name("idle").spawn_on(future, handle)
        }).collect();
        parked.wait_for(10);
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let stuck: Vec<_> = (0..workers).map(|_| {
            let (begun, gate) = (begun.clone(), gate.clone());
            task::Builder::new().name("stuck").spawn_on(async move {
                begun.add();
                gate.pass();
            }, handle)
        }).collect();
        begun.wait_for(workers);
        let polled = Arc::new(AtomicUsize::new(0));
        let queued: Vec<_> = (0..5).map(|_| {
            let polled = polled.clone();
            task::Builder::new().name("queued").spawn_on(async move {
                polled.fetch_add(1, SeqCst);
            }, handle)
        }).collect();
        // Three of the idle ones are woken: nobody is there to run them.
        wakers.lock().unwrap().drain(..3).for_each(Waker::wake);
        let unnamed = runtime.spawn(pending::<()>());

        let dump = handle.dump();
        assert_eq!(dump.len(), 10 + workers + 5 + 1);
        let idle_ones = named(&dump, "idle");
        assert_eq!(idle_ones.len(), 10);
        assert_eq!(idle_ones.iter().filter(|task| task.state == TaskState::Idle).count(), 7);
        assert_eq!(idle_ones.iter().filter(|task| task.state == TaskState::Queued).count(), 3);
        for task in &idle_ones {
            assert!(task.location.file().ends_with("dump_shows_what_is_alive.rs"));
            assert_eq!(task.location.line(), line);
            assert!(idle.iter().any(|handle| handle.id() == task.id));
        }
        assert_eq!(named(&dump, "stuck").len(), workers);
        assert!(named(&dump, "stuck").iter().all(|task| task.state == TaskState::Running));
        assert_eq!(named(&dump, "queued").len(), 5);
        assert!(named(&dump, "queued").iter().all(|task| task.state == TaskState::Queued));
        let last = dump.iter().find(|task| task.id == unnamed.id()).unwrap();
        assert_eq!((last.name.as_deref(), last.state), (None, TaskState::Queued));
        // The task that was spawned first is the oldest, to the precision of the clock.
        let age = |name: &str| named(&dump, name)[0].age;
        assert!(age("idle") + Duration::from_millis(10) >= age("stuck"));
        assert!(age("stuck") + Duration::from_millis(10) >= last.age);
        let words = idle_ones[0].to_string();
        assert!(words.contains("\"idle\"") && words.contains("dump_shows"), "{words}");
        assert!(words.contains(&format!(", {}, ", idle_ones[0].state)), "{words}");
        assert_eq!(format!("{:>7}", TaskState::Queued), " queued");

        assert_eq!(polls.load(SeqCst), 10, "a dump polls nothing");
        assert_eq!(polled.load(SeqCst), 0, "a dump polls nothing");
        gate.open();
        for task in stuck.into_iter().chain(queued) {
            runtime.block_on(task).unwrap();
        }
        // A task is done for its joiner before it has left the table.
        while !named(&handle.dump(), "stuck").is_empty() {
            std::thread::yield_now();
        }
    }

    /// Again and again while tasks come, go and move: it shows those that live all the time, each
    /// once.
    fn beside_everything(workers: usize) {
        let runtime = runtime(workers);
        let parked = Arc::new(Count::new());
        let lasting: Vec<_> = (0..20).map(|_| {
            let parked = parked.clone();
            runtime.spawn(async move {
                parked.add();
                pending::<()>().await;
            })
        }).collect();
        parked.wait_for(20);
        // The polls that counted them may still be ending.
        while runtime.handle().dump().iter().any(|task| task.state != TaskState::Idle) {
            std::thread::yield_now();
        }
        let busy: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            for _ in 0..200 {
                let children: Vec<_> = (0..5).map(|_| ws_executor::spawn(task::yield_now())).collect();
                for child in children {
                    child.await.unwrap();
                }
            }
        })).collect();
        while busy.iter().any(|task| !task.is_finished()) {
            let dump = runtime.handle().dump();
            for task in &lasting {
                let rows: Vec<_> = dump.iter().filter(|row| row.id == task.id()).collect();
                assert_eq!(rows.len(), 1);
                assert_eq!(rows[0].state, TaskState::Idle);
            }
        }
        for task in busy {
            runtime.block_on(task).unwrap();
        }
    }

    /// A task that is given its first priority keeps its place, for whoever reads it in that
    /// moment.
    fn beside_one_that_sets_priorities(workers: usize) {
        const TASKS: usize = 20_000;
        for _ in 0..common::scaled(10) {
            let runtime = runtime(workers);
            let line = line!() + 1;
            let tasks: Vec<_> = (0..TASKS).map(|_| runtime.spawn(pending::<()>())).collect();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (number, task) in (1..).zip(&tasks) {
                        task.set_priority(number);
                        assert_eq!(task.priority().get(), number);
                    }
                    over.store(true, SeqCst);
                });
                while !over.load(SeqCst) {
                    for row in runtime.handle().dump() {
                        assert_eq!(row.location.line(), line);
                        assert!(row.location.file().ends_with("dump_shows_what_is_alive.rs"));
                        assert!(row.to_string().contains("dump_shows"));
                    }
                    assert!(tasks.iter().all(|task| format!("{task:?}").contains("JoinHandle")));
                }
            });
        }
    }

    /// A joiner that is woken by the end of a task does not find the task alive.
    fn that_its_joiner_does_not_see_any_more(workers: usize) {
        /// Looks at what is alive when it is woken.
        struct Look(Handle, Mutex<Option<Vec<TaskDump>>>);
        impl Wake for Look {
            fn wake(self: Arc<Self>) {
                *self.1.lock().unwrap() = Some(self.0.dump());
            }
        }
        let runtime = runtime(workers);
        for spawned_outside in [false, true] {
            let gate = Arc::new(Gate::default());
            let passed = gate.clone();
            let mut future = Some(async move { passed.pass() });
            let mut task = if spawned_outside {
                runtime.spawn(future.take().unwrap())
            } else {
                runtime.block_on(runtime.spawn(poll_fn(move |_| {
                    Poll::Ready(ws_executor::spawn(future.take().unwrap()))
                }))).unwrap()
            };
            let look = Arc::new(Look(runtime.handle().clone(), Mutex::default()));
            let waker = Waker::from(look.clone());
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
            gate.open();
            while look.1.lock().unwrap().is_none() {
                std::thread::yield_now();
            }
            let seen = look.1.lock().unwrap().take().unwrap();
            assert!(seen.iter().all(|row| row.id != task.id()), "{seen:?}");
        }
    }
}
