//! Sleeps under a clock that is moved by hand, with each wake counted.

use std::task::{Wake, Waker};

use super::*;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::timer::test_util::{Bench, MS, NS};

/// Counts wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sleep that is polled by hand, and what came of it.
struct Probe {
    sleep: Sleep,
    count: Arc<Count>,
}

impl Probe {
    fn new(bench: &Bench, duration: Duration) -> Self {
        let sleep = Sleep::after(bench.timers.clone(), duration);
        Self {
            sleep,
            count: Default::default(),
        }
    }

    fn is_ready(&mut self) -> bool {
        let waker = Waker::from(self.count.clone());
        Pin::new(&mut self.sleep)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    }

    fn wakes(&self) -> usize {
        self.count.0.load(Ordering::Relaxed)
    }
}

#[test]
fn fires_once_at_its_deadline_and_never_early() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, 10 * MS);
    assert!(!probe.is_ready());
    bench.advance(10 * MS - NS);
    assert!(!probe.is_ready());
    assert!(!probe.sleep.is_elapsed());
    assert_eq!(probe.wakes(), 0);
    bench.advance(NS);
    assert_eq!(probe.wakes(), 1);
    assert!(probe.sleep.is_elapsed());
    assert!(probe.is_ready());
    assert!(probe.is_ready(), "and stays ready");
    bench.advance(100 * MS);
    assert_eq!(probe.wakes(), 1);
}

#[test]
fn touches_the_timers_only_when_polled() {
    let bench = Bench::new();
    let probe = Probe::new(&bench, MS);
    assert_eq!(bench.timers.len(), 0);
    bench.advance(MS);
    assert!(probe.sleep.is_elapsed());
    drop(probe);

    let mut probe = Probe::new(&bench, Duration::ZERO);
    assert!(probe.is_ready(), "what has passed is ready at once");
    let mut late = Probe::new(&bench, MS);
    bench.advance(MS);
    assert!(late.is_ready());
    assert_eq!(bench.timers.len(), 0, "and is never armed");
}

#[test]
fn a_drop_disarms() {
    let bench = Bench::new();
    let mut probes: Vec<Probe> = (1..=100).map(|ms| Probe::new(&bench, ms * MS)).collect();
    assert!(probes.iter_mut().all(|probe| !probe.is_ready()));
    assert_eq!(bench.timers.len(), 100);
    bench.advance(30 * MS);
    assert_eq!(bench.timers.len(), 70);
    let counts: Vec<_> = probes.iter().map(|probe| probe.count.clone()).collect();
    drop(probes);
    assert_eq!(bench.timers.len(), 0);
    bench.advance(200 * MS);
    let woken = counts
        .iter()
        .filter(|count| count.0.load(Ordering::Relaxed) > 0)
        .count();
    assert_eq!(woken, 30);
    // Nobody keeps the task of a sleep that is gone.
    assert!(counts.iter().all(|count| Arc::strong_count(count) == 1));
}

#[test]
fn a_reset_to_a_later_deadline_postpones() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, 10 * MS);
    assert!(!probe.is_ready());
    let deadline = bench.now() + 20 * MS;
    probe.sleep.reset(deadline);
    assert_eq!(probe.sleep.deadline(), deadline);
    bench.advance(20 * MS - NS);
    assert_eq!(probe.wakes(), 0);
    bench.advance(NS);
    assert_eq!(probe.wakes(), 1, "woken without another poll");
    assert!(probe.is_ready());
}

#[test]
fn a_drop_after_a_reset_disarms() {
    let bench = Bench::new();
    for new in [5 * MS, 20 * MS] {
        let mut probe = Probe::new(&bench, 10 * MS);
        assert!(!probe.is_ready());
        probe.sleep.reset(bench.now() + new);
        assert_eq!(bench.timers.len(), 1);
        drop(probe);
        assert_eq!(
            (bench.timers.len(), bench.timers.next_deadline()),
            (0, None)
        );
    }
}

#[test]
fn a_reset_to_an_earlier_deadline_hastens() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, 10 * MS);
    assert!(!probe.is_ready());
    Pin::new(&mut probe.sleep).reset(bench.now() + 5 * MS);
    bench.advance(5 * MS - NS);
    assert_eq!(probe.wakes(), 0);
    bench.advance(NS);
    assert_eq!(probe.wakes(), 1, "woken without another poll");
    assert!(probe.is_ready());
    bench.advance(100 * MS);
    assert_eq!(probe.wakes(), 1, "and not again at the old one");
    assert_eq!(bench.timers.len(), 0);
}

#[test]
fn a_reset_after_the_end_starts_anew() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, MS);
    // Fired, but nobody has looked.
    assert!(!probe.is_ready());
    bench.advance(MS);
    probe.sleep.reset(bench.now() + MS);
    assert!(!probe.is_ready());
    bench.advance(MS - NS);
    assert!(!probe.is_ready());
    bench.advance(NS);
    assert_eq!(probe.wakes(), 2);
    assert!(probe.is_ready() && probe.sleep.is_terminated());
    // Seen.
    probe.sleep.reset(bench.now() + MS);
    assert!(!probe.sleep.is_terminated() && !probe.is_ready());
    bench.advance(MS);
    assert_eq!(probe.wakes(), 3);
    assert!(probe.is_ready());
    // Reset before any poll, into the past; long ones are armed without a look at the clock.
    for length in [MS, 2 * UNCHECKED_MIN] {
        let mut probe = Probe::new(&bench, length);
        probe.sleep.reset(bench.now());
        assert!(probe.is_ready());
    }
}

#[test]
fn a_long_sleep_that_is_polled_too_late_ends_at_once() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, UNCHECKED_MIN);
    bench.advance(UNCHECKED_MIN);
    assert!(!probe.is_ready());
    bench.fire();
    assert_eq!(probe.wakes(), 1);
    assert!(probe.is_ready());
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, MS);
    assert!(!probe.is_ready());
    let first = std::mem::take(&mut probe.count);
    assert!(!probe.is_ready());
    assert_eq!(Arc::strong_count(&first), 1, "the first waker is gone");
    bench.advance(MS);
    assert_eq!(first.0.load(Ordering::Relaxed), 0);
    assert_eq!(probe.wakes(), 1);
    assert!(probe.is_ready());
}

#[test]
fn a_sleep_without_an_end_never_fires() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, Duration::MAX);
    assert!(!probe.is_ready());
    assert_eq!(bench.timers.next_deadline(), None);
    bench.advance(Duration::from_secs(29 * 365 * 24 * 60 * 60));
    assert!(!probe.is_ready());
    assert_eq!(probe.wakes(), 0);
    assert_eq!(bench.timers.len(), 1);
    drop(probe);
    assert_eq!(bench.timers.len(), 0);
}

#[test]
fn shutdown_wakes_those_that_wait_and_a_drop_after_it_is_quiet() {
    let bench = Bench::new();
    let mut armed = Probe::new(&bench, 10 * MS);
    let mut fired = Probe::new(&bench, MS);
    let mut reset = Probe::new(&bench, 10 * MS);
    let mut seen = Probe::new(&bench, MS);
    for probe in [&mut armed, &mut fired, &mut reset, &mut seen] {
        assert!(!probe.is_ready());
    }
    bench.advance(MS);
    assert!(seen.is_ready());
    bench.shut_down();
    bench.shut_down();
    assert_eq!((armed.wakes(), fired.wakes(), seen.wakes()), (1, 1, 1));
    assert!(seen.is_ready(), "what was over stays over");
    assert!(!armed.sleep.is_elapsed());
    reset.sleep.reset(bench.now() + MS);
    drop((armed, fired, reset));
    assert_eq!(bench.timers.len(), 0);
}

#[test]
#[should_panic(expected = "polled after its runtime had shut down")]
fn an_armed_sleep_that_is_polled_after_shutdown_panics() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, MS);
    assert!(!probe.is_ready());
    bench.shut_down();
    probe.is_ready();
}

/// Its timer had fired, or was to fire at the next look, or its deadline came after the end.
#[test]
fn a_sleep_whose_deadline_has_passed_is_ready_after_shutdown() {
    let bench = Bench::new();
    let mut fired = Probe::new(&bench, MS);
    let mut later = Probe::new(&bench, 3 * MS);
    let mut unchecked = Probe::new(&bench, UNCHECKED_MIN);
    assert!(!fired.is_ready() && !later.is_ready());
    bench.advance(2 * MS);
    bench.shut_down();
    assert!(fired.sleep.is_elapsed(), "it was before");
    assert!(!later.sleep.is_elapsed());
    assert!(fired.is_ready() && fired.is_ready());
    bench.advance(UNCHECKED_MIN);
    assert!(later.sleep.is_elapsed() && later.is_ready());
    assert!(unchecked.is_ready(), "it asks the timers before the clock");
    fired.sleep.reset(bench.now() + MS);
    assert!(!fired.sleep.is_elapsed());
}

#[test]
#[should_panic(expected = "polled after its runtime had shut down")]
fn a_new_sleep_that_is_polled_after_shutdown_panics() {
    let bench = Bench::new();
    bench.shut_down();
    Probe::new(&bench, MS).is_ready();
}

#[test]
fn a_try_after_shutdown_is_an_error_each_time() {
    let bench = Bench::new();
    let mut armed = Probe::new(&bench, MS);
    let mut new = Probe::new(&bench, MS);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(!armed.is_ready());
    bench.shut_down();
    for probe in [&mut armed, &mut new] {
        for _ in 0..2 {
            assert_eq!(probe.sleep.try_poll(&mut cx), Poll::Ready(Err(ShutDown)));
        }
    }
    bench.advance(MS);
    assert_eq!(armed.sleep.try_poll(&mut cx), Poll::Ready(Ok(())));
}

/// A caller that has a budget of its own is not refused by that of this poll.
#[test]
fn a_try_takes_nothing_from_the_budget() {
    let bench = Bench::new();
    let mut sleep = Sleep::new(bench.timers.clone(), bench.now());
    let mut cx = Context::from_waker(Waker::noop());
    budget::with_budget(|| {
        while Pin::new(&mut sleep).poll(&mut cx).is_ready() {}
        assert_eq!(sleep.try_poll(&mut cx), Poll::Ready(Ok(())));
    });
}

#[test]
#[should_panic(expected = "ws::time::sleep was called outside of a ws runtime")]
fn sleep_needs_a_runtime() {
    drop(sleep(MS));
}

#[test]
fn a_sleep_is_spent_from_the_budget_when_it_ends() {
    let bench = Bench::new();
    let polls = budget::with_budget(|| {
        let mut ready = 0;
        while Probe::new(&bench, Duration::ZERO).is_ready() {
            ready += 1;
            assert!(
                ready < 10_000,
                "a loop around ready sleeps comes to an end (F2)"
            );
        }
        ready
    });
    let mut pending = Probe::new(&bench, MS);
    let left = budget::with_budget(|| {
        for _ in 0..10 * polls {
            assert!(!pending.is_ready());
        }
        Probe::new(&bench, Duration::ZERO).is_ready()
    });
    assert!(left, "a pending poll costs nothing");
}

#[test]
fn a_sleep_is_armed_where_it_is_polled_but_not_in_another_runtime() {
    let bench = Bench::new();
    let (sibling, other) = (bench.sibling(), Bench::new());
    let mut probe = Probe::new(&bench, MS);
    probe.sleep.move_to(Some(other.timers.shard()));
    assert!(probe.sleep.timers.is_of(bench.timers.shard()));
    probe.sleep.move_to(None);
    assert!(probe.sleep.timers.is_of(bench.timers.shard()));
    probe.sleep.move_to(Some(sibling.timers.shard()));
    assert!(!probe.is_ready());
    assert_eq!((bench.timers.len(), sibling.timers.len()), (0, 1));
    // The clock is that of the runtime; only the shards differ.
    bench.advance(MS);
    assert_eq!(probe.wakes(), 0);
    sibling.fire();
    assert_eq!(probe.wakes(), 1);
    assert!(probe.is_ready());
}

#[test]
fn is_send_sync_and_unpin() {
    fn check<T: Send + Sync + Unpin + 'static>() {}
    check::<Sleep>();
    check::<crate::time::Interval>();
    check::<crate::time::Timeout<std::future::Ready<()>>>();
}

#[test]
fn wakers_are_dropped_and_woken_outside_the_lock() {
    let bench = Bench::new();
    let poll = |sleep: &mut Sleep| {
        let waker = bench.nosy_waker();
        Pin::new(sleep)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    };
    let mut sleep = Sleep::after(bench.timers.clone(), MS);
    assert!(!poll(&mut sleep), "arms");
    assert!(!poll(&mut sleep), "another waker");
    sleep.reset(bench.now() + 2 * MS);
    sleep.reset(bench.now() + MS);
    bench.advance(MS);
    assert!(poll(&mut sleep));
    sleep.reset(bench.now() + MS);
    assert!(!poll(&mut sleep));
    drop(sleep);
    let mut sleep = Sleep::after(bench.timers.clone(), MS);
    assert!(!poll(&mut sleep));
    bench.shut_down();
    assert!(bench.timers.arm(1, bench.nosy_waker()).is_err());
}

/// Fails if the waker is taken from the timer, and not woken.
#[test]
fn a_reset_to_a_moment_that_has_passed_wakes_at_once() {
    let bench = Bench::new();
    let start = bench.now();
    let mut probe = Probe::new(&bench, 10 * MS);
    assert!(!probe.is_ready());
    bench.advance(5 * MS);
    probe.sleep.reset(start + 2 * MS);
    assert_eq!(probe.wakes(), 1, "nothing fires it any more");
    assert!(probe.is_ready());
}

/// Fails if a sleep that is armed unseen does not ask a clock that stands still.
#[test]
fn what_is_armed_unseen_ends_at_once_where_time_stands_still() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, MS);
    probe.sleep.arm_unseen();
    bench.advance(MS);
    assert!(probe.is_ready(), "nobody moves the clock to fire it");
}

/// Fails if a sleep that waits, at its first poll or at a later one, does not say so to the root of
/// a `block_on`.
#[test]
fn a_root_is_told_at_each_poll_that_it_waits() {
    let bench = Bench::new();
    let mut probe = Probe::new(&bench, MS);
    for poll in 0..3 {
        let polled = budget::with_budget_of_root(|| probe.is_ready());
        assert_eq!(polled, (false, true), "poll {poll}");
    }
    bench.advance(MS);
    assert_eq!(
        budget::with_budget_of_root(|| probe.is_ready()),
        (true, false)
    );
}
