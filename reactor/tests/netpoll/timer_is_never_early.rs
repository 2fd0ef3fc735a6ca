//! F6: a wait ends by its deadline, never before it, and one that is armed by another thread counts
//! as much as the one that the wait began with. How late it may be is measured by the benchmarks.
//!
//! Each test names the change that makes it fail.

use crate::common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{TimeLimit, look, patience, wait_until};
use ws_reactor::Netpoll;

const HOUR: Duration = Duration::from_secs(3600);

fn waits_exactly(netpoll: &Netpoll, duration: Duration) {
    let deadline = Instant::now() + duration;
    let (result, _) = wait_until(netpoll, Some(deadline));
    let woke = Instant::now();
    assert!(result.timed_out && !result.interrupted && !result.events);
    assert!(woke >= deadline, "{:?} too early", deadline - woke);
}

// Fails if the wait forgets its own deadline: it would last for ever.
#[test]
fn a_deadline_is_waited_for() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    for us in [0, 1, 50, 100, 250, 900, 1_500, 3_000] {
        for _ in 0..20 {
            waits_exactly(&netpoll, Duration::from_micros(us));
        }
    }
}

#[test]
fn a_deadline_that_has_passed_does_not_block() {
    let _limit = TimeLimit::new();
    let before = Instant::now();
    let netpoll = Netpoll::new().unwrap();
    for _ in 0..3 {
        let (result, _) = wait_until(&netpoll, Some(before));
        assert!(result.timed_out);
    }
}

// Fails if the wait forgets what was armed after `prepare`.
#[test]
fn what_was_armed_between_the_steps_counts() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    for own in [None, Some(Instant::now() + HOUR)] {
        let mut poller = netpoll.try_poller().unwrap();
        poller.prepare();
        let deadline = Instant::now() + Duration::from_micros(500);
        netpoll.arm(|| deadline);
        netpoll.arm(|| Instant::now() + HOUR);
        let result = poller.wait(own, &mut Vec::new()).unwrap();
        assert!(result.timed_out && Instant::now() >= deadline);
    }
}

// Fails if `arm` does not reach the timer of a wait that has begun: it would last an hour.
#[test]
fn a_wait_that_has_begun_is_brought_forward() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    for own in [None, Some(HOUR)] {
        let (prepared, is_prepared) = mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut poller = netpoll.try_poller().unwrap();
                poller.prepare();
                prepared.send(()).unwrap();
                let own = own.map(|own| Instant::now() + own);
                let result = poller.wait(own, &mut Vec::new()).unwrap();
                (result, Instant::now())
            });
            is_prepared.recv().unwrap();
            // The earlier one is armed last, and the latest in between changes nothing.
            let deadlines = [40, 400, 4].map(|ms| Instant::now() + Duration::from_millis(ms));
            for deadline in deadlines {
                netpoll.arm(|| deadline);
            }
            let (result, woke) = waiting.join().unwrap();
            assert!(result.timed_out && !result.interrupted);
            assert!(woke >= deadlines[2]);
        });
    }
}

// Fails without the two fences, in a run that is unlucky enough; and at once if `arm` does not look
// at the thread that waits. The deadline is put where the waiting thread looks only before it
// waits, as the scheduler's timers are.
#[test]
fn arming_and_waiting_do_not_miss_each_other() {
    let _limit = TimeLimit::new();
    use std::sync::atomic::{AtomicU64, Ordering};
    const ROUNDS: u64 = 5_000;
    let netpoll = Netpoll::new().unwrap();
    let origin = Instant::now();
    let first = AtomicU64::new(u64::MAX);
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let deadline = Instant::now() + Duration::from_micros(round % 50);
                let ns = u64::try_from((deadline - origin).as_nanos()).unwrap();
                first.store(ns, Ordering::Relaxed);
                netpoll.arm(|| deadline);
                // Near to the other thread's next look; but on a busy machine it wants this core
                // for that.
                while seen.load(Ordering::Relaxed) <= round {
                    thread::yield_now();
                }
            }
        });
        for round in 1..=ROUNDS {
            let guard = Instant::now() + patience();
            loop {
                let mut poller = netpoll.try_poller().unwrap();
                poller.prepare();
                let ns = first.load(Ordering::Relaxed);
                let deadline = origin
                    .checked_add(Duration::from_nanos(ns))
                    .unwrap_or(guard);
                let result = poller
                    .wait(Some(deadline.min(guard)), &mut Vec::new())
                    .unwrap();
                assert!(result.timed_out && Instant::now() < guard, "round {round}");
                let due = origin + Duration::from_nanos(first.load(Ordering::Relaxed).min(1 << 60));
                if due <= Instant::now() {
                    break;
                }
            }
            first.store(u64::MAX, Ordering::Relaxed);
            seen.store(round, Ordering::Relaxed);
        }
    });
}

// Fails if an alarm that was set for an earlier deadline counts as this one's.
#[test]
fn a_deadline_that_moved_away_does_not_end_the_wait() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let mut poller = netpoll.try_poller().unwrap();
    poller.prepare();
    netpoll.arm(|| Instant::now() + Duration::from_millis(5));
    poller.cancel();
    drop(poller);
    waits_exactly(&netpoll, Duration::from_millis(15));
}

// Fails if an alarm that a look has fetched still counts as set: the second wait would last for
// ever.
#[test]
fn an_alarm_that_a_look_has_fetched_is_set_again() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let deadline = Instant::now() + Duration::from_micros(200);
    let mut poller = netpoll.try_poller().unwrap();
    poller.prepare();
    netpoll.arm(|| deadline);
    poller.cancel();
    drop(poller);
    while Instant::now() < deadline + Duration::from_millis(1) {
        look(&netpoll);
    }
    let (result, _) = wait_until(&netpoll, Some(deadline));
    assert!(result.timed_out);
}
