//! How long the monitor rests, and when it sleeps.

use super::*;

#[test]
fn the_period_doubles_where_there_is_nothing_to_do() {
    let runtime = runtime();
    let idle = &runtime.handle().shared().idle;
    let permit = idle.acquire().expect("two are free");
    let mut monitor = monitor(&runtime);
    for _ in 0..2 {
        monitor.found.acted = true;
        assert_eq!(rest(&mut monitor), PACE_FAST);
        monitor.found.acted = false;
        assert_eq!(rest_after(&mut monitor, PACE_FAST_LOOKS - 1), PACE_FAST);
        assert_eq!(rest(&mut monitor), 2 * PACE_FAST);
        assert_eq!(rest(&mut monitor), 4 * PACE_FAST);
    }
    assert_eq!(rest_after(&mut monitor, 20), PACE_SLOW, "a permit is free");
    idle.release(permit, None);
}

#[test]
fn the_longest_period_is_as_long_as_others_can_wait() {
    let runtime = runtime();
    let idle = &runtime.handle().shared().idle;
    let mut monitor = monitor(&runtime);
    let mut longest = |watchful| {
        monitor.found.watchful = watchful;
        rest_after(&mut monitor, 20)
    };
    let first = idle.acquire();
    assert_eq!(longest(false), PACE_SLOW);
    assert_eq!(longest(true), PACE_BUSY);
    let second = idle.acquire();
    assert_eq!(longest(false), PACE_BUSY);
    assert_eq!(longest(true), PACE_BUSY);
    for permit in [first, second] {
        idle.release(permit.expect("two are free"), None);
    }
}

#[test]
fn a_thread_that_parked_since_the_last_look_had_a_permit_to_spare() {
    let mut watched = Watched::new(runtime(), 2);
    let mut longest_after = |parks: u64| {
        for _ in 0..20 {
            watched.peer().counters.parks.add(parks);
            // Each look sees another poll.
            watched.begins();
            watched.rest();
        }
        watched.rest()
    };
    assert_eq!(longest_after(0), PACE_BUSY);
    assert_eq!(longest_after(1), PACE_OFTEN_FREE);
    assert_eq!(longest_after(0), PACE_BUSY);
    watched.end();
}

/// After how many looks it would sleep for good, if it does within twenty.
pub(super) fn sleeps_after(monitor: &mut Monitor) -> Option<u32> {
    monitor.wake_up();
    (1..=20).find(|_| matches!(monitor.rest(), Rest::ForGood(_)))
}

#[test]
fn it_sleeps_while_nobody_runs_and_nothing_waits() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let mut monitor = monitor(&runtime);
    assert_eq!(sleeps_after(&mut monitor), Some(PACE_IDLE_LOOKS));
    monitor.found.watches = true;
    assert_eq!(
        sleeps_after(&mut monitor),
        None,
        "a poll may have to be reported"
    );
    monitor.found.watches = false;
    let permit = shared.idle.acquire().expect("two are free");
    assert_eq!(sleeps_after(&mut monitor), None, "somebody runs");
    shared.idle.release(permit, None);
    shared.threads.refused.store(true, Relaxed);
    assert_eq!(
        sleeps_after(&mut monitor),
        Some(PACE_IDLE_LOOKS),
        "nothing waits for that"
    );
    let (_sender, mut receiver) = pipe::new().unwrap();
    let source = Registration::new(&shared.io.netpoll, &mut receiver, Interest::READABLE).unwrap();
    // The thread that was to wait there is refused.
    for processor in sim_threads(&runtime).take() {
        let permit = processor.peer.state.vacate().expect("it runs");
        shared.return_processor(processor);
        shared.thread_gone();
        shared.idle.release(permit, Some(Spinning::take_over()));
    }
    assert_eq!(shared.idle.free(), shared.idle.workers());
    assert_eq!(
        sleeps_after(&mut monitor),
        None,
        "nobody waits in the netpoll"
    );
    source.deregister(&mut receiver).unwrap();
    shared.threads.refused.store(false, Relaxed);
    end(runtime, []);
}

#[test]
fn it_begins_anew_with_its_count_where_somebody_ran() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let mut monitor = monitor(&runtime);
    (1..PACE_IDLE_LOOKS).for_each(|_| assert!(matches!(monitor.rest(), Rest::For(_))));
    let permit = shared.idle.acquire().expect("two are free");
    assert_eq!(rest(&mut monitor), PACE_SLOW);
    monitor.found.again = true;
    assert_eq!(rest(&mut monitor), PACE_FAST, "it is to look at once");
    monitor.found.again = false;
    shared.idle.release(permit, None);
    (1..PACE_IDLE_LOOKS).for_each(|_| assert!(matches!(monitor.rest(), Rest::For(_))));
    assert!(matches!(monitor.rest(), Rest::ForGood(None)));
    monitor.memory.seen.push(Seen {
        ticks: 1,
        since: 1,
        ..Seen::default()
    });
    monitor.found.acted = true;
    monitor.wake_up();
    let seen = monitor.memory.seen[0];
    assert_eq!((seen.ticks, seen.since), (0, 0), "that is long ago");
    assert_eq!(rest(&mut monitor), PACE_BUSY);
}
