//! How often sysmon looks, when it sleeps, and when it does the work of threads that are late. What it makes of a thread that
//! is stuck is in `tests/permits.rs`, and seen by whole programs and by the simulated ones.

mod permits;

use std::sync::atomic::AtomicBool as Flag;

use ws_reactor::{Interest, Registration, pipe};

use super::*;
use crate::{
    runtime::{Builder, Runtime},
    time::Clock,
};

/// Two permits, and no thread.
fn runtime() -> Runtime {
    let builder = Builder::new().workers(2).sysmon(false);
    let builder = builder.stall_threshold(None);
    builder.build_with(Clock::stopped()).unwrap()
}

fn monitor(runtime: &Runtime) -> Monitor {
    Monitor::new(runtime.handle().shared())
}

/// The period after so many looks that found nothing.
fn quiet(monitor: &mut Monitor, looks: u32) -> Duration {
    (0..looks).for_each(|_| monitor.pace(false));
    monitor.period
}

#[test]
fn the_period_doubles_where_there_is_nothing_to_do() {
    let runtime = runtime();
    let mut monitor = monitor(&runtime);
    for _ in 0..2 {
        monitor.pace(true);
        assert_eq!(monitor.period, FAST);
        assert_eq!(quiet(&mut monitor, FAST_LOOKS - 1), FAST);
        assert_eq!(quiet(&mut monitor, 1), 2 * FAST);
        assert_eq!(quiet(&mut monitor, 1), 4 * FAST);
    }
    assert_eq!(quiet(&mut monitor, 20), SLOW, "a permit is free");
}

#[test]
fn the_longest_period_is_as_long_as_others_can_wait() {
    let runtime = runtime();
    let idle = &runtime.handle().shared().idle;
    let mut monitor = monitor(&runtime);
    let mut longest = |watchful, crowded| {
        monitor.watchful = watchful;
        monitor.crowded = crowded;
        quiet(&mut monitor, 20)
    };
    assert_eq!(longest(false, 1), SLOW, "nobody waits for a core");
    assert_eq!(longest(true, 1), SLOW_BUSY);
    let permits = [idle.acquire(), idle.acquire()];
    assert_eq!(longest(false, 0), SLOW_BUSY);
    assert_eq!(longest(false, 1), CROWDED);
    assert_eq!(longest(true, 1), SLOW_BUSY);
    for permit in permits {
        idle.release(permit.expect("two are free"), None);
    }
}

/// After how many looks it would sleep for good, if it does within twenty.
fn sleeps_after(monitor: &mut Monitor) -> Option<u32> {
    monitor.get_up();
    (1..=20).find(|_| matches!(monitor.rest(), Rest::ForGood))
}

#[test]
fn it_sleeps_while_nobody_runs_and_nothing_waits() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let mut monitor = monitor(&runtime);
    assert_eq!(sleeps_after(&mut monitor), Some(IDLE_LOOKS));
    monitor.watches = true;
    assert_eq!(
        sleeps_after(&mut monitor),
        None,
        "a poll may have to be reported"
    );
    monitor.watches = false;
    let permit = shared.idle.acquire().expect("two are free");
    assert_eq!(sleeps_after(&mut monitor), None, "somebody runs");
    shared.idle.release(permit, None);
    shared.refusal.store(true, Relaxed);
    assert_eq!(
        sleeps_after(&mut monitor),
        Some(IDLE_LOOKS),
        "nothing waits for that"
    );
    let (_sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&shared.netpoll, &mut receiver, Interest::READABLE).unwrap();
    assert_eq!(
        sleeps_after(&mut monitor),
        None,
        "nobody waits in the netpoll"
    );
    source.deregister(&mut receiver).unwrap();
    shared.refusal.store(false, Relaxed);
}

#[test]
fn it_begins_anew_with_its_count_where_somebody_ran() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let mut monitor = monitor(&runtime);
    (1..IDLE_LOOKS).for_each(|_| assert!(matches!(monitor.rest(), Rest::For(_))));
    let permit = shared.idle.acquire().expect("two are free");
    assert!(matches!(monitor.rest(), Rest::For(SLOW_BUSY)));
    monitor.again = true;
    assert!(
        matches!(monitor.rest(), Rest::For(FAST)),
        "it is to look at once"
    );
    monitor.again = false;
    shared.idle.release(permit, None);
    (1..IDLE_LOOKS).for_each(|_| assert!(matches!(monitor.rest(), Rest::For(_))));
    assert!(matches!(monitor.rest(), Rest::ForGood));
    monitor.seen.push(Seen::default());
    monitor.get_up();
    assert!(monitor.seen.is_empty(), "that is long ago");
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
    shared.return_processor(processor);
}
