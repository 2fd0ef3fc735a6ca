//! The steps of an end one by one, in the runtime's own environment: which thread sees what at a
//! race, and what the last one does. Orders that only memory shows are in `models::shutdown`.
//! Threads are steps of this one; one counts if the test says so.

use std::{future::pending, panic::Location, task::Wake};

use crate::{
    cell::Task,
    context,
    permit::{
        env::{Env, PeerEnv},
        phase::ShutdownEnv,
        sleep::Sleeper,
    },
    runtime::Runtime,
    sched::{
        Shared,
        processor::attention,
        shutdown::tests::{alone, end, poll_once, take_started},
    },
    spawn_local,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
};

fn shared(runtime: &Runtime) -> &Arc<Shared> {
    runtime.handle().shared()
}

/// As if so many threads existed.
fn count(shared: &Shared, threads: usize) {
    shared.threads().lock().count = threads;
}

/// Whether a thread that waits for the end is free to go at once.
fn is_over(shared: &Shared) -> bool {
    shared.wait_for_the_end(|| None)
}

/// Whether the runtime holds itself.
fn is_kept(shared: &Shared) -> bool {
    shared.kept().lock().is_some()
}

#[test]
fn it_is_over_with_the_last_thread_and_the_last_task() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    assert!(!is_over(shared), "it is open");
    // A thread in `block_on` has it, and is not counted.
    context::with_worker_frame(&worker, || drop(spawn_local(pending::<()>())));
    shared.begin_shutdown();
    assert!(!is_over(shared), "nobody has cleared away");
    shared.help_to_clear();
    assert!(shared.phase().is_ended());
    assert!(!is_over(shared), "a task is left");
    assert!(is_kept(shared), "its waker may come");
    context::with_worker_frame(&worker, || worker.clear_away());
    assert!(is_over(shared));
    assert!(!is_kept(shared));
    end(runtime, [worker]);
}

#[test]
fn it_is_not_over_while_there_is_a_thread() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    count(shared, 2);
    shared.begin_shutdown();
    shared.help_to_clear();
    assert_eq!(shared.live_tasks(), 0);
    assert!(
        !is_over(shared) && !shared.phase().is_closed(),
        "two are left"
    );
    shared.thread_ended();
    assert!(
        !is_over(shared) && !shared.phase().is_closed(),
        "one is left"
    );
    assert!(is_kept(shared));
    shared.thread_ended();
    assert!(is_over(shared) && shared.phase().is_closed());
    assert!(!is_kept(shared));
    end(runtime, [worker]);
}

#[test]
fn the_last_thread_clears_away_if_nobody_has() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    count(shared, 1);
    poll_once(&worker, pending());
    // It goes for want of work, and has looked whether that is the end for the last time.
    shared.begin_shutdown();
    worker.leave();
    assert_eq!(shared.live_tasks(), 1);
    shared.thread_ended();
    assert_eq!(shared.live_tasks(), 0);
    assert!(is_over(shared));
    end(runtime, []);
}

#[test]
fn a_p_that_is_made_at_the_end_is_told() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    shared.begin_shutdown();
    let processor = shared.take_processor().expect("there is room for it");
    assert_ne!(processor.peer.index(), worker.index(), "it is a new one");
    let asked = processor.peer.attention.load(Relaxed);
    assert_ne!(asked & attention::SHUTDOWN, 0);
    shared.return_processor(processor);
    end(runtime, [worker]);
}

#[test]
fn a_task_that_enters_when_all_is_over_keeps_the_runtime() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    shared.begin_shutdown();
    shared.help_to_clear();
    assert!(is_over(shared) && !is_kept(shared));
    // Its spawner saw the runtime open.
    let parts = worker.parts(None, Location::caller());
    let (task, join) = Task::new(async {}, parts);
    task.enter(|reference| worker.p.spawns.live.insert(reference));
    shared.foreign_thread_left();
    assert!(!is_over(shared) && is_kept(shared));
    shared.push_foreign(task);
    assert!(
        is_over(shared) && !is_kept(shared),
        "who came late drops it"
    );
    drop(join);
    end(runtime, [worker]);
}

/// Queues a task where it is woken.
struct Queues {
    shared: Arc<Shared>,
    task: Mutex<Option<Task>>,
}

impl Wake for Queues {
    fn wake(self: std::sync::Arc<Self>) {
        let task = self.task.lock().take();
        self.shared.push_foreign(task.expect("it is woken once"));
    }
}

#[test]
fn what_the_end_of_the_timers_queues_is_dropped() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    drop(runtime.spawn(async {}));
    let task = shared.pop_queued().expect("nobody could be woken for it");
    let queues = Queues {
        shared: shared.clone(),
        task: Mutex::new(Some(task)),
    };
    let later = shared.time.clock().now_ns() + 1_000_000_000;
    let armed = worker.own_peer().timers.arm(later, Arc::new(queues).into());
    assert!(armed.is_ok(), "the runtime goes on");
    shared.begin_shutdown();
    worker.leave();
    shared.help_to_clear();
    assert_eq!(shared.live_tasks(), 0, "it is queued for ever");
    assert!(is_over(shared));
    end(runtime, []);
}

#[test]
fn a_thread_that_ends_wakes_another_if_work_is_left() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let permit = worker.own_peer().state().revoke().expect("it has one");
    shared.idle().release(permit, None);
    count(shared, 2);
    shared.thread_ended();
    assert_eq!(take_started(&runtime), 0, "nothing is left");
    let permit = shared.idle().acquire().expect("it is free");
    drop(runtime.spawn(async {}));
    shared.idle().release(permit, None);
    shared.thread_ended();
    let sim_threads = shared
        .threads
        .sim_threads
        .as_ref()
        .expect("its clock is virtual");
    assert_eq!(sim_threads.len(), 1);
    end(runtime, [worker]);
}
