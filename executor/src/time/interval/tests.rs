//! When ticks come, and what happens to those that nobody took.

use futures::StreamExt;
use tokio_test::{assert_pending, assert_ready_eq, task};

use super::*;
use crate::timer::test_util::{Bench, MS, NS};

fn every(bench: &Bench, period: Duration) -> Interval {
    Interval::new(bench.timers.clone(), bench.now(), period)
}

/// Polls for a tick by hand.
fn tick(interval: &mut Interval) -> Poll<Instant> {
    task::spawn(interval.tick()).poll()
}

#[test]
fn ticks_at_once_and_then_every_period() {
    let bench = Bench::new();
    let start = bench.now();
    let mut interval = every(&bench, 10 * MS);
    assert_ready_eq!(tick(&mut interval), start);
    for n in 1..100 {
        assert_pending!(tick(&mut interval));
        bench.advance(10 * MS - NS);
        assert_pending!(tick(&mut interval));
        bench.advance(NS);
        assert_ready_eq!(tick(&mut interval), start + n * 10 * MS);
    }
    drop(interval);
    assert_eq!(bench.timers.len(), 0);
}

#[test]
fn a_tick_that_is_a_little_late_does_not_move_the_next() {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Skip] {
        let bench = Bench::new();
        let start = bench.now();
        let mut interval = every(&bench, 10 * MS);
        interval.set_missed_tick_behavior(behavior);
        bench.advance(5 * MS - NS);
        assert_ready_eq!(tick(&mut interval), start);
        bench.advance(5 * MS);
        assert_pending!(tick(&mut interval));
        bench.advance(NS);
        assert_ready_eq!(tick(&mut interval), start + 10 * MS);
    }
}

/// However late a tick is taken, the next one is not ready before a whole period has passed.
#[test]
fn delay_never_ticks_twice_in_less_than_a_period() {
    for late in [NS, MS, 5 * MS - NS, 5 * MS, 100 * MS, 350 * MS] {
        let bench = Bench::new();
        let mut interval = every(&bench, 100 * MS);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bench.advance(late);
        assert!(tick(&mut interval).is_ready());
        bench.advance(100 * MS - NS);
        assert_pending!(tick(&mut interval));
        bench.advance(NS);
        assert!(tick(&mut interval).is_ready());
    }
}

/// Lets 350 ms pass of a period of 100, takes all ticks that are ready, then those that come within
/// 300 more, and tells when they were due.
fn ticks_after_a_pause(behavior: MissedTickBehavior) -> Vec<u128> {
    let bench = Bench::new();
    let start = bench.now();
    let mut interval = every(&bench, 100 * MS);
    interval.set_missed_tick_behavior(behavior);
    assert_ready_eq!(tick(&mut interval), start);
    bench.advance(350 * MS);
    let mut due = Vec::new();
    for _ in 0..=300 {
        while let Poll::Ready(at) = tick(&mut interval) {
            assert!(at <= bench.now(), "never early");
            due.push(at.duration_since(start).as_millis());
        }
        bench.advance(MS);
    }
    due
}

#[test]
fn burst_catches_up() {
    assert_eq!(
        ticks_after_a_pause(MissedTickBehavior::Burst),
        [100, 200, 300, 400, 500, 600]
    );
}

#[test]
fn delay_counts_from_the_late_tick() {
    assert_eq!(
        ticks_after_a_pause(MissedTickBehavior::Delay),
        [100, 450, 550, 650]
    );
}

#[test]
fn skip_keeps_to_the_beat() {
    assert_eq!(
        ticks_after_a_pause(MissedTickBehavior::Skip),
        [100, 400, 500, 600]
    );
}

#[test]
fn skip_on_the_beat_waits_a_whole_period() {
    let bench = Bench::new();
    let start = bench.now();
    let mut interval = every(&bench, 10 * MS);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    bench.advance(30 * MS);
    assert_ready_eq!(tick(&mut interval), start);
    assert_pending!(tick(&mut interval));
    bench.advance(10 * MS);
    assert_ready_eq!(tick(&mut interval), start + 40 * MS);
}

#[test]
fn a_tick_that_is_dropped_is_not_lost() {
    let bench = Bench::new();
    let start = bench.now();
    let mut interval = every(&bench, 10 * MS);
    assert_ready_eq!(tick(&mut interval), start);
    let mut waits = task::spawn(interval.tick());
    assert_pending!(waits.poll());
    bench.advance(10 * MS);
    assert!(waits.is_woken());
    drop(waits);
    assert_ready_eq!(tick(&mut interval), start + 10 * MS);
}

#[test]
fn resets() {
    let bench = Bench::new();
    let mut interval = every(&bench, 10 * MS);
    bench.advance(3 * MS);
    interval.reset();
    assert_eq!(interval.sleep.deadline(), bench.now() + 10 * MS);
    interval.reset_after(MS);
    assert_eq!(interval.sleep.deadline(), bench.now() + MS);
    interval.reset_at(bench.now() + 2 * MS);
    assert_pending!(tick(&mut interval));
    bench.advance(2 * MS);
    assert_ready_eq!(tick(&mut interval), bench.now());
    interval.reset_immediately();
    assert_ready_eq!(tick(&mut interval), bench.now());
    assert_pending!(tick(&mut interval));
    assert_eq!(interval.period(), 10 * MS);
}

#[test]
fn a_period_without_an_end_ticks_once() {
    let bench = Bench::new();
    let mut interval = every(&bench, Duration::MAX);
    for behavior in [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ] {
        interval.set_missed_tick_behavior(behavior);
        interval.reset_immediately();
        bench.advance(100 * MS);
        assert!(tick(&mut interval).is_ready());
        assert_pending!(tick(&mut interval));
        bench.advance(Duration::from_secs(9 * 365 * 24 * 60 * 60));
        assert_pending!(tick(&mut interval));
    }
}

#[test]
fn is_a_stream_without_an_end() {
    let bench = Bench::new();
    let start = bench.now();
    let mut stream = task::spawn(every(&bench, MS));
    assert_ready_eq!(stream.poll_next(), Some(start));
    assert_pending!(stream.poll_next());
    bench.advance(MS);
    assert!(stream.is_woken());
    assert_ready_eq!(stream.poll_next(), Some(start + MS));
    assert!(!stream.is_terminated());
    let mut taken = task::spawn(stream.into_inner().take(1));
    bench.advance(MS);
    assert!(taken.poll_next().is_ready());
    assert_ready_eq!(taken.poll_next(), None);
}

#[test]
fn remainders_are_those_of_numbers() {
    let half = Duration::from_millis(500);
    assert_eq!(
        remainder(Duration::from_secs(7), Duration::from_secs(4)),
        Duration::from_secs(3)
    );
    assert_eq!(
        remainder(Duration::from_secs(1) + half, Duration::from_secs(1)),
        half
    );
    assert_eq!(remainder(half, Duration::MAX), half);
    assert_eq!(
        remainder(Duration::MAX, Duration::from_nanos(1)),
        Duration::ZERO
    );
}

#[test]
#[should_panic(expected = "the period of a ws::time::interval must not be zero")]
fn a_period_is_not_zero() {
    drop(interval(Duration::ZERO));
}

#[test]
#[should_panic(expected = "ws::time::interval_at was called outside of a ws runtime")]
fn interval_needs_a_runtime() {
    drop(interval_at(Instant::now(), MS));
}

/// Fails if a stream without an end says that it may end.
#[test]
fn the_size_has_no_bound() {
    let bench = Bench::new();
    let interval = every(&bench, MS);
    assert_eq!(Stream::size_hint(&interval), (usize::MAX, None));
}

/// Fails if the behaviour that was set is not shown.
#[test]
fn the_behavior_is_shown() {
    let bench = Bench::new();
    let mut interval = every(&bench, MS);
    for behavior in [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ] {
        interval.set_missed_tick_behavior(behavior);
        assert_eq!(interval.missed_tick_behavior(), behavior);
    }
}

/// Fails if the first tick does not come when it was said.
#[test]
fn an_interval_begins_where_it_was_said() {
    let runtime = crate::runtime::Builder::new().workers(1).build().unwrap();
    let _entered = runtime.handle().enter();
    let start = Instant::now() + 1000 * MS;
    assert_eq!(interval_at(start, MS).sleep.deadline(), start);
}
