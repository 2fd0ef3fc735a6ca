//! How often the monitor (L2) looks, when it sleeps, when it stays up for the netpoll (L6), and
//! when it does the work of threads that are late. What it makes of a poll that is long or new is
//! in `tests/polls.rs`, and of one that stalls in `tests/reports.rs`. Whose permit it takes is in
//! `tests/permits.rs`, and seen by whole programs and by the simulated ones. The tables of its pure
//! functions are with them: `policy/pace.rs`, `classify/tests.rs`.

mod compute_only;
mod many;
mod permits;
mod polls;
mod reports;
mod rests;

use std::{
    io::Write,
    sync::atomic::AtomicBool as Flag,
    task::{Context, Poll},
};

use ws_reactor::{Direction, Interest, Registration, pipe};

use self::rests::sleeps_after;
use super::{classify::Verdict, observe::Ask, *};
use crate::{
    context, join,
    permit::{
        env::PeerEnv,
        idle::Spinning,
        phase::ShutdownEnv,
        sleep::{Look, Sleeper},
    },
    policy::constants::{
        PACE_BUSY, PACE_FAST_LOOKS, PACE_IDLE_LOOKS, PACE_OFTEN_FREE, PACE_SLOW, SLACK_AFTER,
        SLACK_TIMERS, SLICE_NS, TIMER_GRACE_NS, TIMER_SLACK,
    },
    recorder::{EventKind, Level},
    runtime::{Builder, Runtime, Sysmon},
    sched::{
        find::tests::thread,
        processor::{Peer, attention},
        shutdown::tests::end,
        sim_threads::SimThreads,
        worker::Worker,
    },
    spawn,
    timer::Clock,
};

/// Two permits, and no thread.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    builder.build_with(Clock::stopped()).unwrap()
}

fn monitor(runtime: &Runtime) -> Monitor {
    Monitor::new(runtime.handle().shared())
}

fn sim_threads(runtime: &Runtime) -> &SimThreads {
    let sim_threads = &runtime.handle().shared().threads.sim_threads;
    sim_threads.as_ref().expect("its clock is virtual")
}

/// Threads of a runtime with two permits, and the monitor. The first thread is in a poll.
struct Watched {
    runtime: Runtime,
    threads: Vec<Worker>,
    monitor: Monitor,
}

impl Watched {
    fn new(runtime: Runtime, threads: usize) -> Self {
        let watched = Self {
            threads: (0..threads).map(|_| thread(&runtime)).collect(),
            monitor: monitor(&runtime),
            runtime,
        };
        // What was seen at nought counts as never seen.
        watched.advance(PACE_BUSY);
        watched.is_in_a_poll(true);
        watched
    }

    fn shared(&self) -> &Shared {
        self.runtime.handle().shared()
    }

    fn peer(&self) -> &Peer {
        self.threads[0].own_peer()
    }

    fn advance(&self, time: Duration) {
        self.shared().time.clock().advance(time);
    }

    /// The system's clock does.
    fn goes_back(&self, time: Duration) {
        let clock = self.shared().time.clock();
        clock.set(clock.now_ns() - time.as_nanos() as u64);
    }

    fn is_in_a_poll(&self, polls: bool) {
        self.peer()
            .progress
            .running
            .store(u64::from(polls), Relaxed);
    }

    /// It blocks, or does no more.
    fn blocks(&self, blocks: bool) {
        sim_threads(&self.runtime).set_blocked(self.peer().index, blocks);
    }

    /// So much later the monitor looks. Whether it had to act.
    fn looks_after(&mut self, time: Duration) -> bool {
        self.advance(time);
        self.monitor.look()
    }

    /// The next poll begins, and the monitor sees it.
    fn begins(&mut self) -> bool {
        self.peer().progress.ticks.fetch_add(1, Relaxed);
        self.looks_after(Duration::ZERO)
    }

    /// The monitor looks at the first thread, which then begins so many polls more, and does what a
    /// verdict says of it.
    fn acts(&mut self, polls: u64, verdict: Verdict) {
        let shared = self.runtime.handle().shared();
        let peer = self.threads[0].own_peer();
        let view = View::of(shared, peer, shared.time.clock().now_ns());
        peer.progress.ticks.fetch_add(polls, Relaxed);
        self.monitor.act(shared, peer, &view, verdict);
    }

    /// How long the monitor sleeps now.
    fn rest(&mut self) -> Duration {
        rest(&mut self.monitor)
    }

    /// A task of the first thread's that is in no queue. All permits are taken.
    fn task(&self) -> Task {
        let thread = &self.threads[0];
        context::with_worker_frame(thread, || drop(spawn(async {})));
        thread.p.runnext.take().expect("it was spawned here")
    }

    /// A task for all that waits.
    fn wants(&self) {
        drop(self.runtime.spawn(async {}));
    }

    fn end(self) {
        self.is_in_a_poll(false);
        end(self.runtime, self.threads);
    }
}

/// How long the monitor sleeps, where it does not sleep for good.
fn rest(monitor: &mut Monitor) -> Duration {
    match monitor.rest() {
        Rest::For(time) => time,
        Rest::ForGood(_) => panic!("somebody runs"),
    }
}

/// The same after so many looks that found the same.
fn rest_after(monitor: &mut Monitor, looks: u32) -> Duration {
    (1..looks).for_each(|_| _ = monitor.rest());
    rest(monitor)
}

#[test]
fn it_tells_the_recorder_how_many_tasks_wait() {
    let mut watched = Watched::new(runtime(), 2);
    let counted = |watched: &Watched| -> Vec<_> {
        let events = watched.shared().recording().events.into_iter();
        let counts = events.filter(|event| event.kind == EventKind::Queued);
        counts.map(|event| event.number).collect()
    };
    // Nobody loses a permit.
    watched.is_in_a_poll(false);
    watched.wants();
    watched.looks_after(PACE_SLOW);
    assert_eq!(counted(&watched), [1 << 32], "one in the global queue");
    watched.wants();
    watched.looks_after(PACE_SLOW - PACE_BUSY);
    assert_eq!(counted(&watched), [1 << 32], "once in 10 ms");
    watched.looks_after(PACE_BUSY);
    assert_eq!(counted(&watched), [1 << 32, 2 << 32]);
    watched.looks_after(PACE_SLOW);
    assert_eq!(counted(&watched).len(), 2, "as many as before");
    // What is not recorded counts as never seen.
    let task = watched.task();
    watched.threads[0].p.lrq.push(task).unwrap();
    watched.shared().record(Level::Off);
    watched.looks_after(PACE_SLOW);
    assert_eq!(counted(&watched).len(), 2);
    watched.shared().record(Level::Sparse);
    watched.looks_after(PACE_SLOW);
    assert_eq!(counted(&watched)[2] as u32, 1, "one in a local queue");
    watched.end();
}

/// A waker that notes that it was woken.
fn noted() -> (std::sync::Arc<Flag>, Waker) {
    struct Note(std::sync::Arc<Flag>);
    impl std::task::Wake for Note {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }
    let flag = std::sync::Arc::new(Flag::new(false));
    (flag.clone(), std::sync::Arc::new(Note(flag)).into())
}

#[test]
fn it_fires_a_timer_that_is_late() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let clock = shared.time.clock();
    let mut monitor = monitor(&runtime);
    let (fired, waker) = noted();
    let key = processor.peer.timers.arm(clock.now_ns() + 1000, waker);
    assert!(key.is_ok());
    clock.advance(Duration::from_nanos(1000 + TIMER_GRACE_NS - 1));
    assert!(!monitor.look());
    assert!(!fired.load(Relaxed), "its own thread may be on its way");
    clock.advance(Duration::from_nanos(1));
    assert!(monitor.look(), "it had to act");
    assert!(fired.load(Relaxed));
    assert!(!monitor.look(), "once");

    // Timers with slack fire together: it does not fire them before that.
    let (fired, waker) = noted();
    for later in (0..=SLACK_AFTER).step_by(TIMER_SLACK as usize) {
        shared
            .io
            .timer_slack
            .came(SLACK_TIMERS, clock.now_ns() + later);
    }
    clock.advance(Duration::from_nanos(SLACK_AFTER));
    let next = clock.now_ns() + 1;
    let until = shared.io.timer_slack.wakes_at(next);
    assert_eq!(until, clock.now_ns() + TIMER_SLACK);
    let key = processor.peer.timers.arm(next, waker);
    assert!(key.is_ok());
    clock.advance(Duration::from_nanos(
        until + TIMER_GRACE_NS - 1 - clock.now_ns(),
    ));
    assert!(!monitor.look() && !fired.load(Relaxed));
    clock.advance(Duration::from_nanos(1));
    assert!(monitor.look() && fired.load(Relaxed));
    shared.return_processor(processor);
    end(runtime, []);
}

/// Has the netpoll wake that waker when it is looked at.
fn bring(source: &Registration, sender: &mut pipe::Sender, waker: &Waker) {
    let mut cx = Context::from_waker(waker);
    while let Poll::Ready(ready) = source.poll_ready(&mut cx, Direction::Read) {
        source.clear_ready(ready.unwrap());
    }
    assert_eq!(sender.write(b"x").unwrap(), 1);
}

#[test]
fn it_looks_at_the_netpoll_where_nobody_has_for_long() {
    let watched = Watched::new(runtime(), 2);
    let (shared, mut monitor) = (watched.shared(), monitor(&watched.runtime));
    watched.is_in_a_poll(false);
    let (mut sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&shared.io.netpoll, &mut receiver, Interest::READABLE).unwrap();
    let moment = Duration::from_nanos(1);
    shared
        .io
        .last_look
        .store(shared.time.clock().now_ns(), Relaxed);
    for _ in 0..2 {
        let (woken, waker) = noted();
        bring(&source, &mut sender, &waker);
        watched.advance(PACE_SLOW - moment);
        assert!(!monitor.look());
        assert!(!woken.load(Relaxed), "somebody may be on the way there");
        assert!(!shared.is_asked_at_forks());
        watched.advance(moment);
        assert!(monitor.look(), "it had to act");
        assert!(woken.load(Relaxed));
        assert!(shared.take_ask_at_forks(), "no permit is free for it");
        assert!(!shared.take_ask_at_forks(), "once");
    }
    // A timer at the same time is no reason to have done nothing.
    let (fired, timer) = noted();
    let (woken, event) = noted();
    let due = shared.time.clock().now_ns() + 1;
    assert!(watched.peer().timers.arm(due, timer).is_ok());
    bring(&source, &mut sender, &event);
    watched.advance(PACE_SLOW);
    assert!(monitor.look());
    assert!(fired.load(Relaxed) && woken.load(Relaxed));
    source.deregister(&mut receiver).unwrap();
    watched.end();
}

/// A thread parks while the monitor looks at the netpoll, so it does not wait there.
#[test]
fn it_sends_somebody_to_the_netpoll_when_its_look_is_over() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let sleeper = thread(&runtime);
    let mut monitor = monitor(&runtime);
    assert!(!sleeper.begin_park(), "nothing is queued");
    monitor.look();
    assert!(!sleeper.own_peer().state.has_permit(), "nothing is awaited");
    // As if it waited there: nobody is woken for the timer.
    shared.enter_netpoll(sleeper.index());
    let later = shared.time.clock().now_ns() + PACE_SLOW.as_nanos() as u64;
    let key = sleeper.own_peer().timers.arm(later, Waker::noop().clone());
    assert!(key.is_ok());
    monitor.look();
    assert!(!sleeper.own_peer().state.has_permit(), "it is there");
    shared.leave_netpoll();
    monitor.look();
    assert!(sleeper.own_peer().state.has_permit(), "it goes there");
    assert_eq!(sleeper.check_before_sleep(), Look::Up);
    end(runtime, [sleeper]);
}

/// A task for all for which nobody was woken: no permit was free then.
fn leave_a_task(runtime: &Runtime) {
    let idle = &runtime.handle().shared().idle;
    let permits = [idle.acquire(), idle.acquire()];
    drop(runtime.spawn(async {}));
    for permit in permits {
        idle.release(permit.expect("two are free"), None);
    }
}

#[test]
fn it_wakes_a_thread_for_what_waits_beside_a_free_permit() {
    for refused in [false, true] {
        let runtime = runtime();
        let mut monitor = monitor(&runtime);
        leave_a_task(&runtime);
        let shared = runtime.handle().shared();
        shared.threads.refused.store(refused, Relaxed);
        assert_eq!(
            monitor.look(),
            !refused,
            "where none can be had it tries again at the slow pace"
        );
        assert_eq!(sim_threads(&runtime).len(), 1);
        shared.threads.refused.store(false, Relaxed);
        end(runtime, []);
    }
}

#[test]
fn it_stays_up_while_work_waits_for_a_thread() {
    let runtime = runtime();
    let mut monitor = monitor(&runtime);
    leave_a_task(&runtime);
    let shared = runtime.handle().shared();
    shared.threads.refused.store(true, Relaxed);
    assert_eq!(sleeps_after(&mut monitor), None);
    shared.drain_global();
    assert_eq!(sleeps_after(&mut monitor), Some(PACE_IDLE_LOOKS));
    shared.threads.refused.store(false, Relaxed);
    end(runtime, []);
}

#[test]
fn its_looks_are_counted() {
    let runtime = runtime();
    let mut monitor = monitor(&runtime);
    for looks in 0..3 {
        assert_eq!(runtime.handle().metrics().monitor_looks, looks);
        monitor.look();
    }
}

#[test]
fn one_that_finds_no_permit_wakes_it() {
    let mut watched = Watched::new(runtime(), 2);
    for _ in 0..2 {
        let shared = watched.shared();
        let parker = shared.idle.monitor();
        assert!(!parker.wake_up());
        shared.need_permit();
        assert!(parker.wake_up());
        shared.need_permit();
        assert!(!parker.wake_up(), "it has not looked since");
        watched.begins();
        assert_eq!(
            watched.rest(),
            PACE_FAST,
            "one look does not tell who is blocked"
        );
        watched.looks_after(PACE_FAST);
        assert_eq!(watched.rest(), PACE_BUSY, "two do");
    }
    watched.end();
}

#[test]
fn one_that_finds_no_permit_leaves_word_for_one_that_comes_to_a_fork() {
    let mut watched = Watched::new(runtime(), 2);
    // Whether its next fork was to come by. It has, then.
    let is_asked = |watched: &Watched| {
        let asked = !watched.peer().queues.branch_deque.ask();
        context::with_worker_frame(&watched.threads[0], || join(|| (), || ()));
        asked
    };
    let leaves_word = |watched: &mut Watched| {
        watched.monitor.look();
        (is_asked(watched), watched.shared().is_asked_at_forks())
    };
    is_asked(&watched);
    watched.begins();
    assert_eq!(
        leaves_word(&mut watched),
        (false, false),
        "nobody needs one"
    );
    watched.shared().need_permit();
    assert!(is_asked(&watched));
    assert_eq!(
        leaves_word(&mut watched),
        (false, true),
        "nothing is queued any more"
    );
    watched.wants();
    assert_eq!(
        leaves_word(&mut watched),
        (true, true),
        "the fork that came by was not ready to hear it"
    );
    assert!(watched.shared().take_ask_at_forks());
    assert!(
        !watched.shared().take_ask_at_forks(),
        "somebody has heard it"
    );
    assert_eq!(leaves_word(&mut watched), (false, false));
    watched.end();
}

/// Waits until it is so, for as long as a test may take.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed().as_secs() < 60, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn its_thread_is_there_from_the_beginning_if_it_is_wanted() {
    for wanted in [false, true] {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let runtime = builder
            .sysmon(if wanted { Sysmon::On } else { Sysmon::Off })
            .build()
            .unwrap();
        let shared = runtime.handle().shared();
        assert_eq!(shared.is_monitored(), wanted);
        if wanted {
            eventually("it looks", || shared.monitor.looks() > 0);
        }
    }
}

#[test]
fn a_virtual_thread_blocks_or_computes() {
    let watched = Watched::new(runtime(), 1);
    let (shared, peer) = (watched.shared(), watched.peer());
    let asked = Asked {
        shared,
        peer,
        now: 5,
        needs: &Needs::default(),
    };
    for blocks in [false, true] {
        watched.blocks(blocks);
        assert_eq!(asked.cpu_time(), Some(if blocks { 0 } else { 5 }));
        assert_eq!(asked.is_off_core(Some(5)), blocks);
        assert_eq!(asked.is_waiting(), Some(blocks));
        assert!(!asked.is_off_core(None), "nobody tells");
    }
    watched.end();
}

#[cfg(target_os = "linux")]
#[test]
fn the_system_tells_whether_a_thread_blocks() {
    use std::sync::mpsc;

    use ws_reactor::ThreadId;

    let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
    let runtime = builder.stall_threshold(None).build().unwrap();
    let shared = runtime.handle().shared();
    let processor = shared.take_processor().expect("there is room for it");
    let peer = &processor.peer;
    let (tell, told) = mpsc::channel();
    let (stop, wait) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(ThreadId::current()).unwrap();
        wait.recv().unwrap_err();
    });
    let id = told.recv().unwrap();
    let stands_still = || {
        let before = id.cpu_time_ns();
        id.is_waiting() == Some(true) && id.cpu_time_ns() == before
    };
    // It may wait for something else, and go on, on its way to where it stays.
    eventually("it waits", || (0..100).all(|_| stands_still()));
    peer.thread.number.store(id.as_u32(), Relaxed);
    let asked = Asked {
        shared,
        peer,
        now: 0,
        needs: &Needs::default(),
    };
    let cpu = asked.cpu_time();
    assert!(cpu.is_some_and(|cpu| cpu > 1), "{cpu:?}");
    assert_eq!(cpu, id.cpu_time_ns());
    assert_eq!(asked.is_waiting(), Some(true));
    assert!(asked.is_off_core(cpu));
    drop(stop);
    thread.join().unwrap();
    // This one computes.
    peer.thread
        .number
        .store(ThreadId::current().as_u32(), Relaxed);
    assert_eq!(asked.is_waiting(), Some(false));
    eventually("its CPU time moves", || {
        !asked.is_off_core(asked.cpu_time())
    });
    shared.return_processor(processor);
}
