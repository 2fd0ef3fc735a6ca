//! What the runtime brings to the protocols as their environment. Each question is about all Ps and
//! about what foreign threads brought: it is asked with something in one of these places alone. And
//! what the end says, and to whom.

use std::{
    future::{Future, pending, poll_fn},
    sync::{Arc as Shares, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use super::*;
use crate::{
    cell::Id,
    context,
    permit::sleep::Sleeper,
    runtime::{Builder, ProcessorMetrics, Runtime, Sysmon},
    sched::{Root, Worker, find::tests::thread as sits_down, worker::Step},
    spawn, spawn_pinned,
    timer::TimerShard,
};

/// A thread with the only permit, so that nobody is started for what comes.
fn alone() -> (Runtime, Worker) {
    let builder = Builder::new().workers(1).max_threads(2).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let worker = sits_down(&runtime);
    (runtime, worker)
}

fn shared(runtime: &Runtime) -> &Arc<Shared> {
    runtime.handle().shared()
}

/// Nobody is to be waited for: all that there is to do happens here.
fn end(runtime: Runtime, workers: impl IntoIterator<Item = Worker>) {
    let shared = shared(&runtime).clone();
    workers.into_iter().for_each(Worker::leave);
    runtime.shutdown_timeout(Duration::ZERO);
    assert_eq!(shared.live_tasks(), 0);
    assert_eq!(Arc::strong_count(&shared), 1, "it keeps itself");
}

/// Polls so many tasks, which are there.
fn poll(worker: &Worker, tasks: usize) {
    context::with_worker_frame(worker, || {
        for _ in 0..tasks {
            let Step::Run(task) = worker.step() else {
                panic!("there are more");
            };
            worker.poll(task);
        }
    });
}

fn spawn_here<F>(worker: &Worker, future: F) -> Id
where
    F: Future<Output = ()> + Send + 'static,
{
    context::with_worker_frame(worker, || spawn(future).id())
}

/// Counts how often it is woken, or what has one dropped.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Counts {
    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Counts {
    fn wake(self: Shares<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Dropped(Shares<Counts>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// Waits for ever, and counts its drop.
fn waits(dropped: &Shares<Counts>) -> impl Future<Output = ()> + Send + 'static {
    let dropped = Dropped(dropped.clone());
    poll_fn(move |_| {
        let _dropped = &dropped;
        Poll::Pending
    })
}

#[track_caller]
fn arm(timers: &TimerShard, deadline: u64, waker: &Waker) {
    let key = timers.arm(deadline, waker.clone());
    assert!(key.is_ok(), "the runtime goes on");
}

#[test]
fn timers_of_a_p_that_is_made_after_their_end_are_over() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    shared.shut_down_timers();
    let late = shared.take_processor().expect("there is room");
    let armed = late.peer.timers.arm(1000, Waker::noop().clone());
    assert!(armed.is_err(), "nobody would fire it in time");
    shared.return_processor(late);
    end(runtime, [worker]);
}

#[test]
fn a_start_that_is_refused_is_noted() {
    let (runtime, worker) = alone();
    worker.leave();
    let shared = shared(&runtime);
    let all: Vec<_> = std::iter::from_fn(|| shared.take_processor()).collect();
    assert!(!shared.threads.refused.load(Relaxed));
    drop(runtime.spawn(async {}));
    assert!(shared.threads.refused.load(Relaxed), "there is no P left");
    assert_eq!((shared.idle.free(), shared.idle.spinning()), (1, 0));
    all.into_iter()
        .for_each(|processor| shared.return_processor(processor));
    end(runtime, []);
}

#[test]
fn a_task_from_outside_waits_in_a_queue_that_all_share() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let waiting = || {
        let metrics = runtime.handle().metrics();
        (metrics.global_queue, metrics.ordered_queue)
    };
    assert_eq!(waiting(), (0, 0));
    drop(runtime.spawn(async {}));
    assert_eq!(waiting(), (1, 0));
    let ordered = crate::task::Builder::new().priority(1);
    drop(ordered.spawn_on(async {}, runtime.handle()));
    assert_eq!(waiting(), (1, 1));
    assert!(shared.has_queued());
    poll(&worker, 2);
    assert_eq!(waiting(), (0, 0));
    assert!(!shared.has_queued());
    end(runtime, [worker]);
}

#[test]
fn what_comes_out_of_a_queue_and_is_not_run_is_dropped() {
    let (runtime, worker) = alone();
    let dropped = Shares::<Counts>::default();
    drop(runtime.spawn(waits(&dropped)));
    shared(&runtime).drain_global();
    assert_eq!(dropped.get(), 1);
    assert_eq!(shared(&runtime).live_tasks(), 0);
    end(runtime, [worker]);
}

#[test]
fn a_queued_task_is_seen_wherever_it_is() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    assert!(!shared.any_task());
    drop(runtime.spawn(async {}));
    assert!(shared.any_task(), "in the global queue");
    poll(&worker, 1);
    assert!(!shared.any_task());
    (0..2).for_each(|_| _ = spawn_here(&worker, async {}));
    assert!(shared.any_task(), "in the queue of a P");
    let task = worker.p.lrq.pop().expect("one is not in `runnext`");
    worker.p.forks.parents.push(task);
    assert!(shared.any_task(), "on a fork deque");
    let task = worker.p.forks.parents.pop().expect("it is there");
    let _ = task.cancel();
    poll(&worker, 1);
    assert!(!shared.any_task());
    end(runtime, [worker]);
}

#[test]
fn every_live_task_is_found_by_its_address() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    assert_eq!(shared.live_tasks(), 0);
    let own = (0..2).map(|_| spawn_here(&worker, pending()));
    let mut ids: Vec<_> = own.collect();
    ids.extend((0..3).map(|_| runtime.spawn(pending::<()>()).id()));
    let mut found = Vec::new();
    shared.for_each_live(|task| {
        let id = task.header().id();
        let same = shared.find_live(task.header().address());
        assert_eq!(same.map(|task| task.header().id()), Some(id));
        found.push(id);
    });
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    assert_eq!(shared.live_tasks(), 5);
    assert!(shared.find_live(0).is_none(), "a P that polls nothing");
    poll(&worker, 5);
    end(runtime, [worker]);
}

#[test]
fn the_metrics_tell_how_many_threads_search() {
    let (runtime, worker) = alone();
    let searching = || runtime.metrics().spinning;
    assert_eq!(searching(), 0);
    assert!(worker.begin_search());
    assert_eq!(searching(), 1);
    worker.found_work();
    assert_eq!(searching(), 0);
    end(runtime, [worker]);
}

/// Its carrier is idle, and has the same id.
#[test]
fn a_pinned_task_that_is_queued_is_not_woken_to_be_traced() {
    let (runtime, worker) = alone();
    context::with_worker_frame(&worker, || drop(spawn_pinned(pending::<()>)));
    poll(&worker, 1);
    assert!(worker.p.has_pinned(), "its first poll is to come");
    let ask = shared(&runtime).trace_idle();
    let answered = ask.poll(&Context::from_waker(Waker::noop()));
    assert!(answered.is_ready(), "nobody is asked");
    poll(&worker, 1);
    end(runtime, [worker]);
}

#[test]
fn a_dump_tells_how_old_a_task_is() {
    let (runtime, worker) = alone();
    let clock = shared(&runtime).time.clock();
    clock.advance(Duration::from_micros(1_234_567));
    assert_eq!(shared(&runtime).now_ms(), 1234);
    let id = runtime.spawn(pending::<()>()).id();
    clock.advance(Duration::from_millis(5));
    let dump = runtime.handle().dump();
    let ages: Vec<_> = dump.iter().map(|task| (task.id, task.age)).collect();
    assert_eq!(ages, [(id, Duration::from_millis(5))]);
    poll(&worker, 1);
    end(runtime, [worker]);
}

#[test]
fn the_metrics_say_what_a_processor_has_done() {
    let (runtime, worker) = alone();
    (0..3).for_each(|_| _ = spawn_here(&worker, async {}));
    poll(&worker, 1);
    let metrics = runtime.handle().metrics();
    let [of] = metrics.processors[..] else {
        panic!("there is one");
    };
    let counted = (of.spawned, of.polls, of.completed, of.local_queue);
    assert_eq!(counted, (3, 1, 1, 2));
    poll(&worker, 2);
    end(runtime, [worker]);
}

/// Whatever kind it is of. The root is one more.
#[test]
fn what_is_spawned_and_ends_is_counted_in_both() {
    async fn ten(kind: usize) {
        for _ in 0..10 {
            match kind {
                0 => crate::spawn(async {}).await.unwrap(),
                1 => crate::spawn_blocking(|| ()).await.unwrap(),
                2 => crate::compute(|| ()).await.unwrap(),
                _ => crate::spawn_pinned(|| async {}).await.unwrap(),
            }
        }
    }
    for kind in 0..4 {
        let runtime = Builder::new().workers(2).build().unwrap();
        let handle = runtime.handle().clone();
        // Its threads have ended when it returns, so each has counted what it polled last.
        runtime.run(ten(kind));
        let rows = handle.metrics().processors;
        let sum = |of: fn(&ProcessorMetrics) -> u64| rows.iter().map(of).sum::<u64>();
        let counted = (sum(|row| row.spawned), sum(|row| row.completed));
        assert_eq!(counted, (11, 11), "kind {kind}");
    }
}

#[test]
fn each_count_is_shown_under_its_own_name() {
    let (runtime, worker) = alone();
    let counters = &worker.p.peer.counters;
    let all = [
        &counters.polls,
        &counters.spawned,
        &counters.completed,
        &counters.searches,
        &counters.steals,
        &counters.stolen,
        &counters.overflows,
        &counters.global,
        &counters.parks,
        &counters.wakeups,
        &counters.netpolls,
        &counters.timers,
        &counters.ordered,
    ];
    for (counter, number) in all.into_iter().zip(1..) {
        counter.add(number);
    }
    let of = runtime.handle().metrics().processors[0];
    let shown = [
        of.polls,
        of.spawned,
        of.completed,
        of.searches,
        of.steals,
        of.stolen,
        of.overflows,
        of.global,
        of.parks,
        of.wakeups,
        of.netpolls,
        of.timers,
        of.ordered,
    ];
    assert!(shown.into_iter().eq(1..=13), "{shown:?}");
    end(runtime, [worker]);
}

#[test]
fn timers_of_all_are_fired_by_whoever_comes() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let vacant = shared.take_processor().expect("there is room for it");
    let shards = [
        &shared.time.foreign,
        &worker.p.peer.timers,
        &vacant.peer.timers,
    ];
    let waker = Waker::noop();
    assert_eq!(shared.next_deadline(), None);
    for (shard, deadline) in shards.into_iter().zip([40, 30, 20]) {
        arm(shard, deadline, waker);
        assert_eq!(shared.next_deadline(), Some(deadline), "it is the first");
    }
    arm(&shared.time.foreign, 10, waker);
    assert_eq!(shared.next_deadline(), Some(10));
    let mut wakers = vec![waker.clone()];
    let mut fired = |now| (shared.fire_due(now, &mut wakers), wakers.len());
    assert_eq!(fired(9), (0, 1));
    assert_eq!(fired(30), (3, 4), "it had one from somewhere else");
    assert_eq!(shared.next_deadline(), Some(40));
    assert_eq!(fired(40), (1, 5));
    assert_eq!(shared.next_deadline(), None);
    shared.return_processor(vacant);
    end(runtime, [worker]);
}

#[test]
fn a_source_is_awaited_and_so_is_a_timer() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    assert!(!shared.awaits());
    let (_sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&shared.io.netpoll, &mut receiver, Interest::READABLE).unwrap();
    assert!(shared.awaits());
    source.deregister(&mut receiver).unwrap();
    assert!(!shared.awaits());
    arm(&shared.time.foreign, 1, Waker::noop());
    assert!(shared.awaits());
    assert_eq!(shared.fire_due(1, &mut Vec::new()), 1);
    assert!(!shared.awaits());
    end(runtime, [worker]);
}

#[test]
fn one_that_is_unparked_in_the_netpoll_comes_out_of_there() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let mut poller = shared.io.netpoll.try_poller().expect("nobody else polls");
    assert!(shared.nobody_polls());
    worker.shared().enter_netpoll(worker.index());
    assert!(!shared.nobody_polls());
    assert!(worker.peer().thread.parker.try_sleep_polling());
    shared.notify_owner(worker.peer());
    let over = poller.wait(Some(Instant::now()), &mut Vec::new()).unwrap();
    assert!(over.interrupted);
    assert!(worker.peer().thread.parker.wake_up());
    worker.shared().leave_netpoll();
    assert!(shared.nobody_polls());
    drop(poller);
    end(runtime, [worker]);
}

#[test]
fn one_that_waits_for_a_root_is_woken_where_that_sleeps() {
    let (runtime, worker) = alone();
    let root = Root::new();
    root.settle(&shared(&runtime).io.netpoll, None);
    *worker.peer().thread.root.lock() = Some(root.clone());
    shared(&runtime).notify_owner(worker.peer());
    assert!(root.parker().wake_up());
    assert!(
        !worker.peer().thread.parker.wake_up(),
        "nobody sleeps there"
    );
    drop(root);
    end(runtime, [worker]);
}

#[test]
fn all_are_told_that_it_ends() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    assert!(!worker.is_shut_down());
    let vacant = shared.take_processor().expect("there is room for it");
    shared.return_processor(vacant);
    assert!(shared.begin_shutdown(), "it goes on so far");
    let [taken_again, new] = [(); 2].map(|()| shared.take_processor().expect("there is room"));
    assert_eq!((taken_again.peer.index, new.peer.index), (1, 2));
    assert!(worker.is_shut_down());
    assert!(worker.peer().thread.parker.is_notified());
    assert!(shared.idle.monitor().is_notified());
    for late in [new, taken_again] {
        let told = late.peer.attention.load(Relaxed);
        assert_eq!(told & attention::SHUTDOWN, attention::SHUTDOWN);
        shared.return_processor(late);
    }
    end(runtime, [worker]);
}

#[test]
fn the_end_comes_to_all_that_wait() {
    let (runtime, worker) = alone();
    let (dropped, woken) = (Shares::<Counts>::default(), Shares::<Counts>::default());
    let waker = Waker::from(woken.clone());
    spawn_here(&worker, waits(&dropped));
    drop(runtime.spawn(waits(&dropped)));
    poll(&worker, 2);
    let timers = [
        worker.p.peer.timers.clone(),
        shared(&runtime).foreign_timers().clone(),
    ];
    timers.iter().for_each(|timers| arm(timers, 1000, &waker));
    let netpoll = &shared(&runtime).io.netpoll;
    let (_sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(netpoll, &mut receiver, Interest::READABLE).unwrap();
    let mut cx = Context::from_waker(&waker);
    while let Poll::Ready(ready) = source.poll_ready(&mut cx, Direction::Read) {
        source.clear_ready(ready.unwrap());
    }
    assert_eq!((dropped.get(), woken.get()), (0, 0));
    let weak = Arc::downgrade(shared(&runtime));
    // That thread is in a `block_on`, and leaves later.
    runtime.shutdown_timeout(Duration::ZERO);
    assert_eq!(dropped.get(), 2, "tasks of both scheduler handles");
    assert_eq!(woken.get(), 3, "two timers and a source");
    for timers in &timers {
        assert!(
            timers.arm(1000, waker.clone()).is_err(),
            "it would never fire"
        );
    }
    source.deregister(&mut receiver).unwrap();
    worker.leave();
    assert_eq!(weak.strong_count(), 0, "it keeps itself");
}

#[test]
fn one_that_waits_for_the_end_is_told() {
    let (runtime, worker) = alone();
    worker.leave();
    let (tells, told) = mpsc::channel();
    let waiter = {
        let shared = shared(&runtime).clone();
        // It holds the lock from here until it waits, and the thread that ends the runtime needs
        // that.
        let left = move || {
            tells.send(()).unwrap();
            Some(Duration::MAX)
        };
        thread::spawn(move || shared.wait_for_the_end(left))
    };
    told.recv().unwrap();
    runtime.shutdown_timeout(Duration::ZERO);
    assert!(waiter.join().unwrap());
}

mod allp;

/// Else its age would be less than nothing, which reads as 49 days.
#[test]
fn a_task_that_was_spawned_during_a_dump_is_new() {
    let (runtime, worker) = alone();
    let shared = shared(&runtime);
    let rows = shared.dump_listed_by(|f| {
        shared.time.clock().advance(Duration::from_millis(5));
        drop(runtime.spawn(async {}));
        shared.for_each_live(f);
    });
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].age, Duration::ZERO);
    poll(&worker, 1);
    end(runtime, [worker]);
}
