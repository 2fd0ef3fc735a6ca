//! A clock that is held, and one that is moved by hand.

use super::*;

#[test]
fn a_hold_stops_the_clock_and_advance_moves_it() {
    with_seeds(|| async {
        let start = Instant::now();
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = ticks.clone();
        let ticker = spawn(async move {
            loop {
                sleep(SECOND).await;
                counted.fetch_add(1, SeqCst);
            }
        });
        let first = hold();
        let second = hold();
        advance(SECOND * 7 / 2).await;
        assert_eq!(ticks.load(SeqCst), 3, "each at its own time");
        drop(first);
        // A thread of others works on something, and the clock waits for it.
        let (send, receive) = oneshot::channel();
        thread::spawn(move || send.send(()));
        timeout(SECOND / 10, receive).await.unwrap().unwrap();
        assert_eq!(start.elapsed(), SECOND * 7 / 2);
        drop(second);
        sleep(SECOND).await;
        assert_eq!(ticks.load(SeqCst), 4);
        ticker.abort();
    });
}

/// What is due at the end of an advance has run when the advance is ready, whatever the order; and
/// all that it leads to.
#[test]
fn an_advance_to_the_very_moment_of_a_timer_ends_behind_it() {
    with_seeds(|| async {
        let _hold = hold();
        for _ in 0..20 {
            let slow = spawn(async {
                sleep(SECOND).await;
                for _ in 0..10 {
                    yield_now().await;
                }
                spawn(async { yield_now().await }).await.unwrap();
            });
            yield_now().await;
            let start = Instant::now();
            advance(SECOND).await;
            assert_eq!(start.elapsed(), SECOND);
            assert!(slow.is_finished());
            let ready = spawn(async { yield_now().await });
            advance(Duration::ZERO).await;
            assert_eq!(start.elapsed(), SECOND, "no time passes");
            assert!(ready.is_finished());
        }
    });
}

/// An advance that ends between two timers stops the clock there, without a hold as well.
#[test]
fn an_advance_stops_between_two_timers() {
    with_seeds(|| async {
        let start = Instant::now();
        let early = spawn(sleep(SECOND));
        let late = spawn(sleep(3 * SECOND));
        let other = spawn(advance(2 * SECOND));
        advance(2 * SECOND).await;
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert!(early.is_finished() && !late.is_finished());
        other.await.unwrap();
        assert_eq!(start.elapsed(), 2 * SECOND);
    });
}

#[test]
fn a_hold_that_ends_elsewhere_lets_the_clock_go() {
    with_seeds(|| async {
        let guard = hold();
        let thread = thread::spawn(move || drop(guard));
        sleep(HOUR).await;
        thread.join().unwrap();
    });
}

#[test]
fn an_advance_that_is_dropped_moves_nothing() {
    with_seeds(|| async {
        let start = Instant::now();
        let guard = hold();
        assert!(
            timeout(SECOND, advance(HOUR)).await.is_err(),
            "that lets a second pass"
        );
        assert_eq!(start.elapsed(), SECOND);
        let late = spawn(sleep_until(start + 2 * SECOND));
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!late.is_finished());
        // Everything waits now, while another thread has the runtime look at its clock twice.
        let (send, looked) = oneshot::channel();
        let handle = Handle::current();
        let other = thread::spawn(move || {
            let _entered = handle.enter();
            let waits = || {
                let metrics = handle.metrics();
                metrics.processors.iter().map(|p| p.netpolls).sum::<u64>()
            };
            let until = waits() + 2;
            while waits() < until {
                drop(hold());
                thread::yield_now();
            }
            send.send(()).unwrap();
        });
        looked.await.unwrap();
        other.join().unwrap();
        assert_eq!(start.elapsed(), SECOND, "the guard is still there");
        drop(guard);
        late.await.unwrap();
    });
}
