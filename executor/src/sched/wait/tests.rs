//! I5: wakers and hooks that block where their thread lies. Each looks, in the middle of the block, whether somebody else
//! was woken for what is queued, and fails if those who pushed relied on the thread that is blocked: where `is_up` does not
//! take note of a hand-over, or `come_round` does not get up before it wakes. The last two fail if it lies down again with
//! a permit, and if a call that was handed to it stays with it while it blocks (S2).

use std::{
    sync::{
        Arc as Shares,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Wake, Waker},
};

use super::{Shared, Sleeper, Slept, Worker};
use crate::{
    block_in_place, context,
    runtime::{Builder, Runtime},
    sched::{
        ground::Ground,
        sleep::Look,
        stage::Stage,
        worker::{Scope, Step},
    },
    sync::Arc,
    time::Clock,
};

const READY: Slept = Slept {
    expired: false,
    ready: true,
};

/// Two permits, and threads that are steps of this one.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(2).sysmon(false);
    let builder = builder.stall_threshold(None);
    builder.build_with(Clock::stopped()).unwrap()
}

fn thread(runtime: &Runtime) -> Worker {
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let worker = Worker::new(shared.clone(), processor, Scope::All, None);
    worker.bed().standing.arrive();
    worker.try_run();
    worker
}

/// Blocks where it is woken, and then counts who was started by the end of that.
struct Blocks {
    shared: Arc<Shared>,
    meanwhile: Box<dyn Fn() + Send + Sync>,
    started: AtomicUsize,
}

impl Wake for Blocks {
    fn wake(self: Shares<Self>) {
        block_in_place(|| {
            (self.meanwhile)();
            let stage = self.shared.stage.as_ref();
            self.started.store(stage.map_or(0, Stage::len), Relaxed);
        });
    }
}

/// The netpoll has brought that waker to a thread that lies, before what it has brought already.
fn bring(worker: &Worker, meanwhile: impl Fn() + Send + Sync + 'static) -> usize {
    let waker = Shares::new(Blocks {
        shared: worker.shared().clone(),
        meanwhile: Box::new(meanwhile),
        started: AtomicUsize::new(0),
    });
    let first = Waker::from(waker.clone());
    worker.ready.borrow_mut().insert(0, first);
    context::with_worker_frame(worker, || worker.come_round(READY));
    waker.started.load(Relaxed)
}

fn end(runtime: Runtime, workers: impl IntoIterator<Item = Worker>) {
    let shared = runtime.handle().shared();
    shared.drain_global();
    workers.into_iter().for_each(Worker::leave);
    let stage = shared.stage.as_ref().expect("its clock is virtual");
    let started = stage.take().into_iter();
    started.for_each(|processor| Worker::begin(shared, processor).leave());
    assert_eq!(shared.idle.spinning(), 0);
    assert_eq!(shared.idle.free(), 2);
    runtime.shutdown_background();
}

#[test]
fn who_was_handed_a_permit_takes_note_before_it_blocks() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.lie_down(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    assert!(worker.bed().standing.has_permit(), "it was woken for it");
    assert_eq!(bring(&worker, || ()), 1);
    assert_eq!(worker.look_up(), Look::Up);
    end(runtime, [worker]);
}

#[test]
fn a_hook_takes_note_before_it_blocks() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.lie_down(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    let stage = runtime.handle().shared().stage.as_ref();
    let started =
        context::with_worker_frame(&worker, || block_in_place(|| stage.map_or(0, Stage::len)));
    assert_eq!(started, 1);
    assert_eq!(worker.look_up(), Look::Up);
    assert!(!worker.spins(), "it has given that up");
    end(runtime, [worker]);
}

/// All permits are taken: one of them by the thread with that index.
fn give_back(runtime: &Runtime, index: usize) -> impl Fn() + Send + Sync + 'static {
    let handle = runtime.handle().clone();
    move || {
        let shared = handle.shared();
        let permit = shared.peer(index).standing.revoke().expect("it has one");
        shared.release(permit, None);
    }
}

#[test]
fn who_comes_back_with_a_permit_does_not_lie_down_with_it() {
    struct Spawns;
    impl Wake for Spawns {
        fn wake(self: Shares<Self>) {
            drop(crate::spawn(async {}));
        }
    }
    let runtime = runtime();
    let (worker, others) = (thread(&runtime), [thread(&runtime), thread(&runtime)]);
    worker.p.tick();
    assert!(!worker.lie_down(), "nothing is queued");
    others[1].try_run();
    worker.ready.borrow_mut().push(Shares::new(Spawns).into());
    bring(&worker, give_back(&runtime, others[1].index()));
    assert!(worker.bed().standing.has_permit(), "its queue has tasks");
    context::with_worker_frame(&worker, || match worker.step() {
        Step::Run(task) => worker.poll(task),
        _ => panic!("the task is not in its queue"),
    });
    let [first, second] = others;
    end(runtime, [worker, first, second]);
}

#[test]
fn a_call_that_was_handed_over_does_not_wait_for_a_block() {
    let runtime = runtime();
    let worker = thread(&runtime);
    assert!(!worker.lie_down(), "nothing is queued");
    drop(runtime.handle().spawn(async {}));
    let call = worker.shared().pop_queued().expect("it was queued");
    assert!(worker.bed().hand_call(call).is_ok(), "there is none yet");
    bring(&worker, || ());
    assert!(worker.bed().take_handed().is_none(), "it is with others");
    assert!(worker.shared().has_queued());
    end(runtime, [worker]);
}

#[test]
fn who_wakes_without_a_permit_is_handed_none() {
    let runtime = runtime();
    let (worker, others) = (thread(&runtime), [thread(&runtime), thread(&runtime)]);
    assert!(!worker.lie_down(), "nothing is queued");
    let third = others[1].index();
    others[1].try_run();
    let handle = runtime.handle().clone();
    let started = bring(&worker, move || {
        let shared = handle.shared();
        let permit = shared.peer(third).standing.revoke().expect("it has one");
        shared.release(permit, None);
        drop(handle.spawn(async {}));
    });
    assert_eq!(started, 1);
    let [first, second] = others;
    end(runtime, [worker, first, second]);
}
