//! Which side wins, and that the timer is heard (F7).

use std::future::{pending, poll_fn, ready};

use futures::channel::oneshot;
use tokio_test::{assert_pending, assert_ready_eq, task};

use super::*;
use crate::timer::test_util::{Bench, MS, NS};

fn within<F: Future>(bench: &Bench, duration: Duration, future: F) -> Timeout<F> {
    Timeout::new(future, Sleep::after(bench.timers.clone(), duration))
}

#[test]
fn the_time_is_over_at_the_deadline_and_not_before() {
    let bench = Bench::new();
    let mut timeout = task::spawn(within(&bench, MS, pending::<()>()));
    assert_pending!(timeout.poll());
    bench.advance(MS - NS);
    assert!(!timeout.is_woken());
    assert_pending!(timeout.poll());
    bench.advance(NS);
    assert!(timeout.is_woken());
    assert_ready_eq!(timeout.poll(), Err(Elapsed(())));
}

#[test]
fn a_time_that_was_over_before_shutdown_is_over_after_it() {
    let bench = Bench::new();
    let mut timeout = task::spawn(within(&bench, MS, pending::<()>()));
    assert_pending!(timeout.poll());
    bench.advance(MS);
    bench.shut_down();
    assert_ready_eq!(timeout.poll(), Err(Elapsed(())));
}

#[test]
fn an_output_in_time_disarms() {
    let bench = Bench::new();
    let (sender, receiver) = oneshot::channel();
    let mut timeout = task::spawn(within(&bench, MS, receiver));
    assert_pending!(timeout.poll());
    assert_eq!(bench.timers.len(), 1);
    sender.send(7).unwrap();
    assert!(timeout.is_woken());
    assert_ready_eq!(timeout.poll(), Ok(Ok(7)));
    drop(timeout);
    assert_eq!(bench.timers.len(), 0);
}

#[test]
fn if_both_are_ready_the_output_wins() {
    let bench = Bench::new();
    let (sender, receiver) = oneshot::channel();
    let mut timeout = task::spawn(within(&bench, MS, receiver));
    assert_pending!(timeout.poll());
    bench.advance(MS);
    sender.send(7).unwrap();
    assert_ready_eq!(timeout.poll(), Ok(Ok(7)));

    let mut timeout = task::spawn(within(&bench, Duration::ZERO, ready(7)));
    assert_ready_eq!(timeout.poll(), Ok(7));
}

#[test]
fn a_ready_future_arms_nothing() {
    let bench = Bench::new();
    let mut timeout = task::spawn(within(&bench, MS, ready(7)));
    assert_ready_eq!(timeout.poll(), Ok(7));
    assert_eq!(bench.timers.len(), 0);
}

#[test]
fn a_timeout_without_an_end_waits_for_the_output() {
    let bench = Bench::new();
    let (sender, receiver) = oneshot::channel();
    let mut timeout = task::spawn(within(&bench, Duration::MAX, receiver));
    assert_pending!(timeout.poll());
    bench.advance(Duration::from_secs(29 * 365 * 24 * 60 * 60));
    assert!(!timeout.is_woken());
    sender.send(7).unwrap();
    assert_ready_eq!(timeout.poll(), Ok(Ok(7)));
}

#[test]
fn into_inner_gives_the_future_back_and_disarms() {
    let bench = Bench::new();
    let (sender, receiver) = oneshot::channel();
    let mut timeout = within(&bench, MS, receiver);
    assert_pending!(task::spawn(&mut timeout).poll());
    assert!(timeout.get_mut().try_recv().unwrap().is_none());
    let receiver = timeout.into_inner();
    assert_eq!(bench.timers.len(), 0);
    sender.send(7).unwrap();
    assert_ready_eq!(task::spawn(receiver).poll(), Ok(7));
}

/// A future that is never ready and spends the whole budget in each poll.
async fn greedy() {
    poll_fn(|cx| {
        for _ in 0..10_000 {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        panic!("there is a budget");
    })
    .await
}

#[test]
fn a_future_that_spends_the_whole_budget_cannot_starve_its_timeout() {
    let bench = Bench::new();
    let mut timeout = task::spawn(within(&bench, MS, greedy()));
    assert_pending!(budget::with_budget(|| timeout.poll()));
    bench.advance(MS);
    assert_ready_eq!(budget::with_budget(|| timeout.poll()), Err(Elapsed(())));
}

/// As a read of a socket that has data: it takes `units`, and is ready in the first poll that has
/// so many.
async fn reads(units: u32) -> u32 {
    for _ in 0..units {
        poll_fn(|cx| {
            ready!(coop::poll_proceed(cx)).made_progress();
            Poll::Ready(())
        })
        .await;
    }
    units
}

/// A future that the budget refused was ready before the deadline, as far as anybody knows.
#[test]
fn an_output_that_the_budget_held_back_wins() {
    for units in [1, 100] {
        let bench = Bench::new();
        let mut neighbour = task::spawn(greedy());
        let mut timeout = task::spawn(within(&bench, MS, reads(units)));
        budget::with_budget(|| {
            assert_pending!(neighbour.poll());
            assert_pending!(timeout.poll());
        });
        budget::with_budget(|| {
            assert_pending!(neighbour.poll());
            assert_pending!(timeout.poll());
        });
        bench.advance(MS);
        budget::with_budget(|| {
            assert_pending!(neighbour.poll());
            assert_ready_eq!(timeout.poll(), Ok(units));
        });
    }
}

/// It has spent the budget itself: half of what it reads comes out of the last poll.
#[test]
fn an_output_behind_the_futures_own_budget_wins() {
    let bench = Bench::new();
    let mut timeout = task::spawn(within(&bench, Duration::ZERO, reads(200)));
    assert_ready_eq!(budget::with_budget(|| timeout.poll()), Ok(200));
}

/// Only what was refused is polled twice.
#[test]
fn a_future_that_waits_is_polled_once_behind_the_deadline() {
    let bench = Bench::new();
    let mut polls = 0;
    let mut timeout = task::spawn(within(
        &bench,
        Duration::ZERO,
        poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        }),
    ));
    assert_ready_eq!(budget::with_budget(|| timeout.poll()), Err(Elapsed(())));
    drop(timeout);
    assert_eq!(polls, 1);
}

#[test]
fn a_neighbour_that_spends_the_whole_budget_cannot_keep_a_timeout_from_its_begin() {
    let bench = Bench::new();
    let mut neighbour = task::spawn(greedy());
    let mut timeout = task::spawn(within(&bench, MS, pending::<()>()));
    for _ in 0..2 {
        budget::with_budget(|| {
            assert_pending!(neighbour.poll());
            assert_pending!(timeout.poll());
        });
    }
    bench.advance(MS);
    budget::with_budget(|| {
        assert_pending!(neighbour.poll());
        assert_ready_eq!(timeout.poll(), Err(Elapsed(())));
    });
}

#[test]
fn a_loop_around_an_elapsed_timeout_comes_to_an_end() {
    let bench = Bench::new();
    budget::with_budget(|| {
        for _ in 0..10_000 {
            let mut timeout = task::spawn(within(&bench, Duration::ZERO, pending::<()>()));
            if timeout.poll().is_pending() {
                assert!(timeout.is_woken(), "it yields");
                return;
            }
        }
        panic!("an elapsed timeout is spent from the budget (F2)");
    });
}

#[test]
fn a_loop_around_a_future_that_is_ready_comes_to_an_end() {
    let bench = Bench::new();
    budget::with_budget(|| {
        for _ in 0..10_000 {
            let mut timeout = task::spawn(within(&bench, MS, ready(())));
            if timeout.poll().is_pending() {
                assert!(timeout.is_woken(), "it yields");
                return;
            }
        }
        panic!("a timeout whose future has paid nothing pays (F7)");
    });
}

#[test]
fn a_neighbour_that_spends_the_whole_budget_cannot_starve_a_timeout() {
    let bench = Bench::new();
    let mut neighbour = task::spawn(greedy());
    let mut timeout = task::spawn(within(&bench, MS, pending::<()>()));
    assert_pending!(timeout.poll());
    bench.advance(MS);
    budget::with_budget(|| {
        assert_pending!(neighbour.poll());
        assert_ready_eq!(timeout.poll(), Err(Elapsed(())));
    });
}

#[test]
fn a_timeout_does_not_give_back_what_its_future_spent() {
    let bench = Bench::new();
    let left = |poll: &mut dyn FnMut()| {
        budget::with_budget(|| {
            poll();
            let mut left = 0;
            let mut rest = task::spawn(poll_fn(coop::poll_proceed));
            while let Poll::Ready(proceed) = rest.poll() {
                proceed.made_progress();
                left += 1;
            }
            left
        })
    };
    let one = || task::spawn(Sleep::after(bench.timers.clone(), Duration::ZERO));
    let bare = left(&mut || assert!(one().poll().is_ready()));
    let wrapped = left(&mut || {
        let mut timeout = task::spawn(within(&bench, MS, one().into_inner()));
        assert!(timeout.poll().is_ready());
    });
    assert_eq!(bare, wrapped);
}

#[test]
#[should_panic(expected = "ws::time::timeout was called outside of a ws runtime")]
fn timeout_needs_a_runtime() {
    drop(timeout(MS, pending::<()>()));
}

#[test]
fn the_error_says_what_happened() {
    let error = io::Error::from(Elapsed(()));
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), "deadline has elapsed");
}

/// Fails if it begins with another deadline, or shows one.
#[test]
fn a_timeout_at_ends_at_its_deadline() {
    let runtime = crate::runtime::Builder::new().workers(1).build().unwrap();
    let _entered = runtime.handle().enter();
    let deadline = Instant::now() + 1000 * MS;
    let timeout = timeout_at(deadline, std::future::pending::<()>());
    assert_eq!(timeout.deadline(), deadline);
}
