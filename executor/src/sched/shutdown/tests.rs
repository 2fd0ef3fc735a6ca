//! S7: a waker that is in flight when its runtime ends: it has made its task queued, and nobody but
//! the task holds the runtime by then. The pusher finds it all the same, and drops the task; then
//! the runtime goes.
//!
//! It fails when `begin_draining` does not call `keep`, or `task_ended` does not let go.
//!
//! And the thread that ends a runtime: whether it clears away itself, or waits, or leaves it to a
//! thread in the background, and what it says of the tasks and threads that are left. When it has
//! waited, nothing keeps the runtime.

use std::{
    cell::RefCell,
    future::{Future, pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
        mpsc,
    },
    task::Poll,
    thread,
};

use super::*;
use crate::{
    cell::TaskRef,
    context, given, log,
    monitor::tests::eventually,
    runtime::{Builder, Runtime, Sysmon, UnhandledPanic, end_and_wait},
    sched::{
        find::tests::thread,
        sim_threads::SimThreads,
        state::hooks::{in_a_hook, is_in_a_hook},
        worker::Step,
    },
    spawn,
    sync::atomic::Ordering::SeqCst,
    timer::Clock,
};

/// Counts its drop.
struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn with_a_waker_in_flight(workers: usize) {
    // Nobody waits for it.
    let builder = Builder::new().workers(workers);
    let runtime = builder.shutdown_grace(Duration::ZERO).build().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = Counts(dropped.clone());
    let (begun, parked) = mpsc::channel();
    drop(runtime.spawn(poll_fn(move |_| {
        let _counts = &counts;
        begun.send(()).unwrap();
        Poll::<()>::Pending
    })));
    parked.recv().unwrap();
    let shared = Arc::downgrade(runtime.handle().shared());
    let mut reference = None;
    runtime
        .handle()
        .shared()
        .for_each_live(|task| reference = Some(task));
    let reference: TaskRef = reference.expect("it is alive");
    // The poll may still be ending.
    while !reference.header().snapshot().is_idle() {
        thread::yield_now();
    }
    // Between the two steps of a wake: queued, and in no queue.
    let in_flight: Task = reference.cancel().expect("it was idle");
    runtime.shutdown_background();
    while shared
        .upgrade()
        .expect("a task is alive")
        .threads
        .counts
        .lock()
        .count
        > 0
    {
        thread::yield_now();
    }
    while shared.strong_count() > 1 {
        thread::yield_now();
    }
    // The last thread is about to give its own reference up, if that is the one.
    for _ in 0..1000 {
        thread::yield_now();
    }
    assert_eq!(shared.strong_count(), 1, "the runtime keeps itself");
    assert_eq!(dropped.load(SeqCst), 0);
    (given::ABOVE.task_functions.schedule)(reference.header().scheduler(), in_flight);
    assert_eq!(
        dropped.load(SeqCst),
        1,
        "who pushes to a closed runtime drops it"
    );
    assert_eq!(shared.strong_count(), 0, "and with the last task it goes");
    drop(reference);
}

#[test]
fn with_1() {
    with_a_waker_in_flight(1);
}

#[test]
fn with_2() {
    with_a_waker_in_flight(2);
}

#[test]
fn with_8() {
    with_a_waker_in_flight(8);
}

// --- threads that are steps of this one ---

/// A thread with the only permit, which is not counted.
pub(in crate::sched) fn alone() -> (Runtime, Worker) {
    alone_in(Builder::new())
}

fn alone_in(builder: Builder) -> (Runtime, Worker) {
    let builder = builder.workers(1).sysmon(Sysmon::Off).stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = thread(&runtime);
    (runtime, worker)
}

/// The next task of that thread.
#[track_caller]
pub(in crate::sched) fn next(worker: &Worker) -> Task {
    match context::with_worker_frame(worker, || worker.step()) {
        Step::Run(task) => task,
        other => panic!("it has a task: {other:?}"),
    }
}

/// Spawns a task there, and polls it once.
pub(in crate::sched) fn poll_once<F>(worker: &Worker, future: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    context::with_worker_frame(worker, || drop(spawn(future)));
    let task = next(worker);
    context::with_worker_frame(worker, || worker.poll(task));
}

/// Threads that wait in `SimThreads` end, as if there were nothing for them. How many there were.
pub(in crate::sched) fn take_started(runtime: &Runtime) -> usize {
    let shared = runtime.handle().shared();
    let started = shared
        .threads
        .sim_threads
        .as_ref()
        .map_or_else(Vec::new, SimThreads::take);
    let count = started.len();
    for processor in started {
        Worker::begin(shared, processor).leave();
        shared.thread_gone();
    }
    count
}

/// Ends a runtime, and these threads with it, which are not counted. Nothing is left.
pub(crate) fn end(runtime: Runtime, workers: impl IntoIterator<Item = Worker>) {
    let shared = runtime.handle().shared().clone();
    shared.begin_shutdown();
    for worker in workers {
        context::with_worker_frame(&worker, || worker.clear_away());
        worker.leave();
    }
    take_started(&runtime);
    // A thread that a panic has started may not be done.
    runtime.shutdown_timeout(Duration::from_secs(60));
    assert_eq!(shared.live_tasks(), 0);
    // The last thread says that it is over, and lets go after that.
    eventually("it lets go of itself", || shared.kept().lock().is_none());
}

thread_local! {
    /// What this thread has reported, if anybody wants to know.
    static REPORTED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// What this thread reports meanwhile, a line each.
pub(in crate::sched) fn reported(f: impl FnOnce()) -> Vec<String> {
    log::subscribe(note);
    REPORTED.set(Some(Vec::new()));
    f();
    REPORTED.take().expect("nobody else took it")
}

fn note(event: &tracing::Event<'_>) {
    // A thread that is about to end reports to nobody.
    let _ = REPORTED.try_with(|reported| {
        if let Some(lines) = &mut *reported.borrow_mut() {
            lines.push(log::line(event));
        }
    });
}

// --- which thread ends a runtime ---

const NO_TIME: Duration = Duration::ZERO;
/// No test waits as long as this.
const LONG: Duration = Duration::from_secs(3600);

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits for ever, with that destructor.
async fn waits(on_drop: impl FnMut()) {
    let _own = OnDrop(on_drop);
    pending::<()>().await;
}

/// A runtime with a task that waits, and a thread that may be one of its own, as far as it knows.
struct Scene {
    runtime: Runtime,
    shared: Arc<Shared>,
    worker: Worker,
    is_counted: bool,
}

impl Scene {
    fn new(builder: Builder, is_counted: bool, on_drop: impl FnMut() + Send + 'static) -> Self {
        let (runtime, worker) = alone_in(builder);
        let shared = runtime.handle().shared().clone();
        shared.threads.counts.lock().count = usize::from(is_counted);
        poll_once(&worker, waits(on_drop));
        Self {
            runtime,
            shared,
            worker,
            is_counted,
        }
    }

    /// Its thread comes to the end as well, and it is over.
    fn goes(self) {
        context::with_worker_frame(&self.worker, || self.worker.clear_away());
        self.worker.leave();
        if self.is_counted {
            self.shared.thread_ended();
        }
        assert!(self.shared.wait_for_the_end(|| Some(LONG)));
        self.runtime.shutdown_timeout(Duration::ZERO);
    }
}

#[test]
fn one_that_ends_it_inside_neither_clears_away_nor_waits() {
    for is_hook in [false, true] {
        let scene = Scene::new(Builder::new(), true, || ());
        let ends = || end_and_wait(&scene.shared, NO_TIME);
        let said = reported(|| {
            if is_hook {
                in_a_hook(ends);
            } else {
                context::with_worker_frame(&scene.worker, ends);
            }
        });
        assert!(scene.shared.end.phase.is_closing());
        assert!(said.is_empty(), "{said:?}");
        assert_eq!(scene.shared.live_tasks(), 1, "it is the thread's to drop");
        assert!(!is_in_a_hook());
        scene.goes();
    }
}

#[test]
fn one_that_ends_it_outside_clears_away_and_says_who_is_left() {
    // Without a grace a thread that is left is one that has just been told of the end.
    let moment = Duration::from_millis(1);
    for (is_counted, grace) in [(false, NO_TIME), (true, NO_TIME), (true, moment)] {
        let scene = Scene::new(Builder::new(), is_counted, || ());
        let said = reported(|| end_and_wait(&scene.shared, grace));
        assert_eq!(scene.shared.live_tasks(), 0);
        if is_counted && !grace.is_zero() {
            assert_eq!(said.len(), 1, "a thread is left");
            assert!(said[0].contains("tasks=0 threads=1 left=[]"), "{said:?}");
        } else {
            assert!(said.is_empty(), "{said:?}");
        }
        scene.goes();
    }
}

#[test]
fn no_more_than_ten_tasks_are_told_by_name_and_place() {
    let scene = Scene::new(Builder::new(), true, || ());
    // Their thread alone may drop them.
    for n in 0..REPORTED_MAX + 2 {
        let task = crate::task::Builder::new().name(format!("pinned-{n}"));
        context::with_worker_frame(&scene.worker, || drop(task.spawn_local(pending::<()>())));
    }
    let said = reported(|| end_and_wait(&scene.shared, NO_TIME));
    assert_eq!(said.len(), 1, "{said:?}");
    let line = &said[0];
    assert!(line.contains("tasks=12 threads=1"), "{line}");
    for what in ["pinned-", "shutdown/tests.rs"] {
        assert_eq!(line.matches(what).count(), REPORTED_MAX, "{line}");
    }
    scene.goes();
}

#[test]
fn one_that_waits_is_there_until_the_last_thread_is_gone() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let shared = runtime.handle().shared().clone();
    let clears = Arc::new(AtomicBool::new(false));
    // Polled first, and dropped by another thread, for the first one is stuck by then.
    let (begun, has_begun) = mpsc::channel();
    let (sets, told) = (clears.clone(), begun.clone());
    drop(runtime.spawn(async move {
        told.send(()).unwrap();
        waits(move || sets.store(true, SeqCst)).await;
    }));
    has_begun.recv().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    drop(runtime.spawn(async move {
        begun.send(()).unwrap();
        // Nothing else is alive then: the one that waits would be gone soon.
        while !clears.load(SeqCst) {
            thread::yield_now();
        }
        for _ in 0..10_000 {
            thread::yield_now();
        }
        over.store(true, SeqCst);
    }));
    has_begun.recv().unwrap();
    runtime.shutdown_timeout(LONG);
    assert!(is_over.load(SeqCst), "he has not waited");
    assert_eq!(shared.live_tasks(), 0);
}

/// When a drop returns, the runtime's threads have given it up, and so its descriptors are closed.
#[test]
fn nobody_has_the_runtime_when_its_drop_returns() {
    for workers in [1, 2, 4] {
        for _ in 0..50 {
            let builder = Builder::new().workers(workers).shutdown_grace(LONG);
            let runtime = builder.build().unwrap();
            let tasks: Vec<_> = (0..4 * workers)
                .map(|_| runtime.spawn(crate::task::yield_now()))
                .collect();
            drop(runtime.handle().spawn_blocking(thread::yield_now));
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
            let shared = Arc::downgrade(runtime.handle().shared());
            drop(runtime);
            assert_eq!(shared.strong_count(), 0, "a thread is left");
        }
    }
}

/// A runtime whose only task waits for a word when it is dropped: a thread in the background clears
/// away, if it has none.
#[track_caller]
fn assert_is_cleared(builder: Builder, is_counted: bool, ends: impl FnOnce(&Scene)) {
    let (says, word) = mpsc::channel::<()>();
    let on_drop = move || assert!(word.recv().is_err(), "nobody says anything");
    let scene = Scene::new(builder, is_counted, on_drop);
    let before = Arc::strong_count(&scene.shared);
    ends(&scene);
    // That thread cannot be over, and holds the runtime; which holds itself besides.
    let holds = Arc::strong_count(&scene.shared) - before;
    drop(says);
    assert!(scene.shared.end.phase.is_closing() && holds >= 1);
    assert_eq!(holds > 1, !is_counted);
    scene.goes();
}

#[test]
fn where_there_is_no_thread_one_clears_away_in_the_background() {
    for is_counted in [false, true] {
        let ends = |it: &Scene| it.shared.end(None);
        assert_is_cleared(Builder::new(), is_counted, ends);
    }
}

#[test]
fn a_panic_ends_the_runtime_if_that_was_asked_for() {
    for is_counted in [false, true] {
        let ends = |it: &Scene| poll_once(&it.worker, async { panic!("expected: ends it") });
        let builder = Builder::new().unhandled_panic(UnhandledPanic::ShutdownRuntime);
        assert_is_cleared(builder, is_counted, ends);
    }
}
