//! I7, S3: `block_on` inside a task holds up nothing that is pinned to its thread: where `.await`
//! would let those tasks go on, it does. They stay on their thread, hold a permit, and know their
//! own runtime.
//!
//! It fails when `run_pinned_above` in `block_on/nested.rs` finds nothing, keeps the permit, does
//! not enter the task's runtime, does not look whether it is above a join, or cancels nothing at a
//! shutdown; and when `wait_above` sleeps without a look at its own root, when `run_pinned_above`
//! in `block_on/nested.rs` does not look at `Nested::pinned`, or sees to a poller only when it
//! sleeps; and it aborts when a call does not look how much stack is left. The test of a root that
//! is always ready fails when `private` in `sched/find.rs` takes the root each time.

use crate::common;

use std::{
    cell::Cell, future::pending, panic::catch_unwind, rc::Rc, sync::Arc, thread, time::Duration,
};

use common::{Count, OnDrop, runtime};
use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
    future::join,
};
use ws_executor::{
    block_in_place,
    runtime::{Builder, Handle, Sysmon},
    spawn_local,
    task::{JoinHandle, yield_now},
    time::timeout,
};

/// A task that is pinned to this thread and answers questions with their double and how many there
/// were.
fn actor() -> mpsc::UnboundedSender<(u32, oneshot::Sender<(u32, u32)>)> {
    let (ask, mut asked) = mpsc::unbounded::<(u32, oneshot::Sender<(u32, u32)>)>();
    let here = thread::current().id();
    let count = Rc::new(Cell::new(0));
    drop(spawn_local(async move {
        while let Some((n, answer)) = asked.next().await {
            yield_now().await;
            assert_eq!(thread::current().id(), here);
            count.set(count.get() + 1);
            answer.send((2 * n, count.get())).unwrap();
        }
    }));
    ask
}

fn five() -> JoinHandle<u32> {
    let not_send = Rc::new(5);
    spawn_local(async move {
        yield_now().await;
        *not_send
    })
}

common::with_workers! {
    fn a_root_that_is_always_ready_takes_turns_with_them(workers: usize) {
        let polls = runtime(workers).block_on(async {
            let polls = Rc::new(Cell::new(0));
            let counts = polls.clone();
            drop(spawn_local(async move {
                loop {
                    counts.set(counts.get() + 1);
                    yield_now().await;
                }
            }));
            for _ in 0..100 {
                yield_now().await;
            }
            polls.get()
        });
        assert!((50..=100).contains(&polls), "{polls} polls beside 100 of the root");
    }

    fn spawned_before_or_inside(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..4 * workers).map(|_| runtime.spawn(async {
            let before = five();
            let handle = Handle::current();
            let sum = handle.block_on(async { before.await.unwrap() + five().await.unwrap() });
            sum + block_in_place(|| handle.block_on(five())).unwrap()
        })).collect();
        for task in tasks {
            assert_eq!(runtime.block_on(task).unwrap(), 15);
        }
    }

    /// Nothing tells the thread for whom it waits: there is no handle to a task.
    fn awaited_through_a_channel(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            let ask = actor();
            for n in 0..100 {
                let (answer, answered) = oneshot::channel();
                ask.unbounded_send((n, answer)).unwrap();
                assert_eq!(Handle::current().block_on(answered).unwrap(), (2 * n, n + 1));
            }
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    /// The thread sleeps, and another wakes what is pinned to it.
    fn woken_from_elsewhere(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            for n in 0..100 {
                let (send, receive) = oneshot::channel();
                let not_send = Rc::new(n);
                let pinned = spawn_local(async move { receive.await.unwrap() + *not_send });
                drop(ws_executor::spawn(async move {
                    yield_now().await;
                    send.send(1).unwrap();
                }));
                assert_eq!(Handle::current().block_on(pinned).unwrap(), n + 1);
            }
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    fn in_a_root(workers: usize) {
        let runtime = runtime(workers);
        // The thread has no P yet.
        assert_eq!(runtime.block_on(async { Handle::current().block_on(async { five().await }) }).unwrap(), 5);
        runtime.block_on(async {
            let before = five();
            yield_now().await;
            assert_eq!(Handle::current().block_on(before).unwrap(), 5);
            let (send, receive) = oneshot::channel();
            let pinned = spawn_local(async move { receive.await.unwrap() });
            drop(ws_executor::spawn(async move { send.send(6).unwrap() }));
            assert_eq!(Handle::current().block_on(pinned).unwrap(), 6);
        });
        runtime.run_local(async {
            let before = five();
            assert_eq!(Handle::current().block_on(before).unwrap(), 5);
            assert_eq!(Handle::current().block_on(async { five().await }).unwrap(), 5);
        });
    }

    /// A pinned task blocks in its turn, and again.
    fn one_above_the_other(workers: usize) {
        fn tower(height: u32) -> u32 {
            let above = spawn_local(async move { if height == 0 { 0 } else { tower(height - 1) } });
            Handle::current().block_on(above).unwrap() + 1
        }
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async { tower(10) })).collect();
        for task in tasks {
            assert_eq!(runtime.block_on(task).unwrap(), 11);
        }
    }

    /// The stack has an end: a call that would come near it panics, in the task that called, and
    /// the process lives on.
    // Fails, by the end of the process, if the size of a foreign thread's stack is not asked for.
    #[cfg(target_os = "linux")]
    fn too_many_above_each_other_on_a_foreign_thread(workers: usize) {
        fn tower(height: u32) -> bool {
            let above = spawn_local(async move { height > 0 && tower(height - 1) });
            Handle::current().block_on(above).is_err_and(|error| error.is_panic())
        }
        let runtime = runtime(workers);
        for kib in [256, 512, 4096] {
            let handle = runtime.handle().clone();
            let thread = std::thread::Builder::new().stack_size(kib << 10);
            let thread = thread.spawn(move || {
                handle.block_on(async { spawn_local(async { tower(5_000) }).await.unwrap() });
            });
            thread.unwrap().join().unwrap();
        }
    }

    fn too_many_above_each_other(workers: usize) {
        /// What the call above said that had no room left, or nothing if there is none.
        fn tower(height: u32, ended: &Arc<Count>) -> String {
            if height == 0 {
                return String::new();
            }
            let count = ended.clone();
            let above = spawn_local(async move {
                let _counted = OnDrop(|| count.add());
                tower(height - 1, &count)
            });
            match Handle::current().block_on(above) {
                Ok(said) => said,
                Err(error) => (*error.into_panic().downcast::<&'static str>().unwrap()).to_owned(),
            }
        }
        const HEIGHT: u32 = 5_000;
        let runtime = runtime(workers);
        let ended = Arc::new(Count::new());
        let task = {
            let ended = ended.clone();
            runtime.spawn(async move { tower(HEIGHT, &ended) })
        };
        let said = runtime.block_on(task).unwrap();
        assert!(said.contains("nest too deep"), "{said:?}");
        // The task for which there was no room is polled later.
        ended.wait_for(HEIGHT as usize);
    }

    /// A call in the middle of another's poll sleeps where that one does, and is woken there in its
    /// stead.
    fn woken_while_another_call_sleeps(workers: usize) {
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..2 * workers).map(|_| runtime.spawn(async {
            let (send, receive) = oneshot::channel();
            // It is asked for before it is sent, so the call has to sleep.
            let sends = async { drop(ws_executor::spawn(async move { send.send(()).unwrap() })) };
            let sleeps = async {
                let (received, ()) = Handle::current().block_on(join(receive, sends));
                received.unwrap();
            };
            Handle::current().block_on(join(yield_now(), sleeps));
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }

    /// A call that wakes itself in each of its polls never sleeps, and somebody fires its timers
    /// all the same. Without a monitor only a thread does that was woken for it.
    fn busy_with_itself_beside_a_timer(workers: usize) {
        let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
        let runtime = builder.build().unwrap();
        let task = runtime.spawn(async {
            let busy = async { loop { yield_now().await } };
            Handle::current().block_on(timeout(Duration::from_millis(10), busy))
        });
        assert!(runtime.block_on(task).unwrap().is_err(), "it has no end");
    }

    /// What is pinned belongs to the thread's runtime, and what is waited for to another one.
    fn within_two_runtimes(workers: usize) {
        async fn spawns_on(thread_name: &'static str) {
            let task = ws_executor::spawn(async { thread::current().name().map(str::to_owned) });
            let name = task.await.unwrap().unwrap();
            assert!(name.starts_with(thread_name), "{name} is not {thread_name}");
        }
        let (runtime, other) = (runtime(workers), Builder::new().workers(1).thread_name("other"));
        let other = Arc::new(other.build().unwrap());
        let task = runtime.spawn({
            let other = other.clone();
            async move {
                let pinned = spawn_local(spawns_on("ws-worker"));
                other.block_on(async {
                    pinned.await.unwrap();
                    spawns_on("other").await;
                });
            }
        });
        runtime.block_on(task).unwrap();
        drop(Arc::into_inner(other).unwrap());
    }

    /// All others compute: the thread waits for its turn, and gives it back.
    fn permits_come_back(workers: usize) {
        let runtime = runtime(workers);
        let stop = Arc::new(common::Gate::default());
        let busy: Vec<_> = (0..4 * workers).map(|_| {
            let stop = stop.clone();
            runtime.spawn(async move { while !stop.is_open() { yield_now().await } })
        }).collect();
        let tasks: Vec<_> = (0..4 * workers).map(|_| runtime.spawn(async {
            for _ in 0..10 {
                assert_eq!(Handle::current().block_on(five()).unwrap(), 5);
                yield_now().await;
            }
        })).collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        stop.open();
        for task in busy {
            runtime.block_on(task).unwrap();
        }
        loop {
            let metrics = runtime.handle().metrics();
            if metrics.live_tasks == 0 && metrics.free_permits == workers {
                break;
            }
            thread::yield_now();
        }
    }

    /// A pinned task that never ends is dropped with the runtime, on its thread, and the one that
    /// waits for it hears of it.
    fn the_runtime_ends_meanwhile(workers: usize) {
        let (waits, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
        let runtime = runtime(workers);
        let tasks: Vec<_> = (0..workers).map(|_| {
            let (waits, dropped) = (waits.clone(), dropped.clone());
            runtime.spawn(async move {
                let here = thread::current().id();
                let not_send = Rc::new(());
                let pinned = spawn_local(async move {
                    let _dropped = OnDrop(|| {
                        assert_eq!(thread::current().id(), here);
                        dropped.add();
                    });
                    waits.add();
                    pending::<()>().await;
                    drop(not_send);
                });
                assert!(Handle::current().block_on(pinned).unwrap_err().is_cancelled());
            })
        }).collect();
        waits.wait_for(workers);
        drop(runtime);
        assert_eq!(dropped.get(), workers);
        drop(tasks);
    }

    /// Between two polls no pinned task can run, so a wait for one panics, and says what to do
    /// instead.
    fn not_between_two_polls(workers: usize) {
        let waits = |place: &'static str, told: &std::sync::mpsc::Sender<&'static str>| {
            let wait = || Handle::current().block_on(async { spawn_local(async {}).await });
            match catch_unwind(wait) {
                Err(panic) => {
                    let said = panic.downcast_ref::<&str>().unwrap();
                    assert!(said.contains("use `ws::spawn`"), "{said}");
                }
                // The runtime ends.
                Ok(joined) => assert!(joined.unwrap_err().is_cancelled()),
            }
            let _ = told.send(place);
        };
        let (told, tell) = std::sync::mpsc::channel();
        let [park, unpark, end] = [(); 3].map(|()| told.clone());
        let other = common::runtime(workers);
        let runtime = Builder::new()
            .workers(workers)
            .on_thread_park(move || waits("park", &park))
            .on_thread_unpark(move || waits("unpark", &unpark))
            .build()
            .unwrap();
        let root = || async {
            let end = end.clone();
            let guard = OnDrop(move || waits("end", &end));
            drop(spawn_local(async move {
                let _guard = guard;
                pending::<()>().await;
            }));
            yield_now().await;
        };
        runtime.block_on(root());
        other.run_local(root());
        drop(runtime.spawn(async {}));
        let mut places: Vec<_> = tell.iter().take_while(|place| *place != "park").collect();
        drop((runtime, told, end));
        places.extend(tell);
        assert_eq!(places.iter().filter(|place| **place == "end").count(), 2, "{places:?}");
        assert!(places.contains(&"unpark"), "{places:?}");
    }

    /// J2: a branch of a join meets no other task. What is pinned goes on when the poll is over.
    fn not_above_a_join(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(async {
            let count = Arc::new(Count::new());
            let counted = count.clone();
            let pinned = spawn_local(async move { counted.add() });
            let inside = || Handle::current().block_on(yield_now());
            ws_executor::join(inside, || ());
            assert_eq!(count.get(), 0);
            pinned.await.unwrap();
            assert_eq!(count.get(), 1);
        });
        runtime.block_on(task).unwrap();
    }
}
