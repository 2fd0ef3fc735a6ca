//! Timers, the budget that they take part in, and the clock that is stopped.

use std::{
    future::{pending, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use tokio::{
    runtime::{Builder, Runtime},
    task::{LocalSet, coop, unconstrained, yield_now},
    time::{
        self, Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, sleep,
        sleep_until, timeout,
    },
};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn both() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let current = Builder::new_current_thread().enable_all().build();
    [multi.unwrap(), current.unwrap()]
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// The text of the panic.
fn panics(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).into(),
    }
}

#[test]
fn the_auto_traits_are_those_of_tokio() {
    fn any_thread<T: Send + Sync>() {}
    fn unpin<T: Unpin>() {}
    /// Ambiguous for a type that is `Unpin`.
    trait NotUnpin<A> {
        fn holds() {}
    }
    impl<T> NotUnpin<()> for T {}
    impl<T: Unpin> NotUnpin<u8> for T {}
    any_thread::<Sleep>();
    any_thread::<Interval>();
    any_thread::<Timeout<()>>();
    unpin::<Interval>();
    <Sleep as NotUnpin<_>>::holds();
    <Timeout<()> as NotUnpin<_>>::holds();
}

#[test]
fn a_timer_after_the_end_of_its_runtime_panics() {
    let text = "A Tokio 1.x context was found, but it is being shutdown.";
    for runtime in both() {
        let other = Builder::new_current_thread().build().unwrap();
        let entered = runtime.handle().clone();
        let _entered = entered.enter();
        let before = sleep(HOUR);
        runtime.shutdown_timeout(HOUR);
        let after = sleep(HOUR);
        assert_eq!(panics(|| other.block_on(before)), text);
        assert_eq!(panics(|| other.block_on(after)), text);
        let mut ticks = time::interval_at(Instant::now() + HOUR, HOUR);
        let text_of_tick = panics(|| {
            other.block_on(ticks.tick());
        });
        assert_eq!(text_of_tick, text);
    }
}

#[test]
fn what_is_always_ready_gives_way() {
    /// Expects that another task has its turn beside it.
    fn check<F: Future<Output = ()> + Send + 'static>(greedy: impl Fn() -> F) {
        for runtime in both() {
            let task = runtime.spawn(greedy());
            runtime.block_on(runtime.spawn(async {})).unwrap();
            task.abort();
            assert!(runtime.block_on(task).unwrap_err().is_cancelled());
        }
    }
    check(|| async {
        loop {
            sleep_until(Instant::now() - 5 * MS).await;
        }
    });
    check(|| async {
        let mut ticks = interval(Duration::from_nanos(1));
        loop {
            ticks.tick().await;
        }
    });
    check(|| async {
        loop {
            assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
        }
    });
}

/// The budget of `ws` is as large as that of tokio.
#[test]
fn without_tokios_budget_there_is_none() {
    for runtime in both() {
        let task = runtime.spawn(async {
            let mut many = pin!(unconstrained(async {
                for _ in 0..1000 {
                    sleep_until(Instant::now() - 5 * MS).await;
                }
            }));
            poll_fn(|cx| Poll::Ready(many.as_mut().poll(cx).is_ready())).await
        });
        assert!(runtime.block_on(task).unwrap());
    }
}

#[test]
fn a_timeout_stops_what_spends_the_budget_in_each_poll() {
    for runtime in both() {
        let task = runtime.spawn(async {
            let greedy = async {
                loop {
                    coop::consume_budget().await;
                }
            };
            timeout(20 * MS, greedy).await.unwrap_err()
        });
        let elapsed = runtime.block_on(task).unwrap();
        let error = io::Error::from(elapsed);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.get_ref().is_none());
    }
}

#[test]
fn a_timer_works_in_another_executor() {
    let [multi, current] = both();
    let _entered = multi.enter();
    let timer = sleep(5 * MS);
    // Fails (it never ends) if nobody fires the timers of the other runtime.
    current.block_on(timer);
}

#[test]
fn a_wait_is_over_when_it_was_begun() {
    paused().block_on(async {
        let mut timer = pin!(sleep(Duration::ZERO));
        assert!(!timer.is_elapsed());
        timer.as_mut().await;
        assert!(timer.is_elapsed());
        timer.as_mut().reset(Instant::now() + MS);
        assert!(!timer.is_elapsed());
        time::advance(MS).await;
        assert!(timer.is_elapsed());
    });
}

#[test]
fn an_advance_fires_what_is_due_and_waits_for_nothing() {
    let runtime = paused();
    runtime.block_on(async {
        let start = Instant::now();
        let woken = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn({
            let woken = woken.clone();
            async move {
                sleep(MS).await;
                woken.store(true, SeqCst);
                sleep(HOUR).await;
            }
        });
        yield_now().await;
        time::advance(2 * HOUR).await;
        assert_eq!(start.elapsed(), 2 * HOUR);
        yield_now().await;
        assert!(woken.load(SeqCst));
        task.await.unwrap();
        assert_eq!(start.elapsed(), 3 * HOUR);
    });
}

#[test]
fn a_clock_that_stands_jumps_from_timer_to_timer() {
    let runtime = paused();
    let start = runtime.block_on(async { Instant::now() });
    let local = LocalSet::new();
    let order = local.block_on(&runtime, async {
        let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
        for hours in [3, 1, 2] {
            let send = send.clone();
            tokio::task::spawn_local(async move {
                sleep(hours * HOUR).await;
                send.send(hours).unwrap();
            });
        }
        drop(send);
        let mut order = Vec::new();
        while let Some(hours) = receive.recv().await {
            order.push(hours);
        }
        order
    });
    assert_eq!(order, [1, 2, 3]);
    assert_eq!(
        runtime.block_on(async { Instant::now() }) - start,
        3 * HOUR,
        "it stands between two calls as well"
    );
}

#[test]
fn a_closure_that_blocks_holds_the_clock() {
    paused().block_on(async {
        let start = Instant::now();
        let closure = tokio::task::spawn_blocking(|| std::thread::sleep(20 * MS));
        assert!(timeout(HOUR, closure).await.is_ok());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_clock_that_is_let_go_runs_on_from_where_it_stood() {
    let [_, runtime] = both();
    runtime.block_on(async {
        let real = std::time::Instant::now();
        time::pause();
        let start = Instant::now();
        sleep(HOUR).await;
        time::resume();
        let mut ticks = interval(5 * MS);
        ticks.tick().await;
        ticks.tick().await;
        assert!(start.elapsed() >= HOUR + 5 * MS);
        assert!(real.elapsed() >= 5 * MS && real.elapsed() < HOUR);
        time::pause();
        let stopped = Instant::now();
        std::thread::sleep(MS);
        assert_eq!(Instant::now(), stopped);
    });
}

#[test]
fn who_may_stop_the_clock() {
    let [multi, current] = both();
    let advance = || {
        let future = pin!(time::advance(MS));
        let _ = future.poll(&mut Context::from_waker(Waker::noop()));
    };
    let outside = "time cannot be frozen from outside the Tokio runtime";
    assert_eq!(panics(time::pause), outside);
    assert_eq!(panics(time::resume), outside);
    assert_eq!(panics(advance), outside);
    let entered = multi.enter();
    assert!(panics(time::pause).contains("requires the `current_thread` Tokio runtime"));
    assert_eq!(panics(time::resume), "time is not frozen");
    assert_eq!(panics(advance), "time is not frozen");
    drop(entered);
    let _entered = current.enter();
    assert_eq!(panics(time::resume), "time is not frozen");
    assert_eq!(panics(advance), "time is not frozen");
    time::pause();
    assert_eq!(panics(time::pause), "time is already frozen");
    time::resume();
    let text = panics(|| {
        let multi = Builder::new_multi_thread().start_paused(true).build();
        drop(multi);
    });
    assert!(text.contains("requires the `current_thread` Tokio runtime"));
}

/// A tick that is five milliseconds late was not missed.
#[test]
fn missed_ticks() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for (behavior, late, next) in [
        (Burst, 5, 100),
        (Delay, 5, 100),
        (Skip, 5, 100),
        (Burst, 250, 100),
        (Delay, 250, 350),
        (Skip, 250, 300),
    ] {
        paused().block_on(async {
            let start = Instant::now();
            let mut ticks = interval(100 * MS);
            ticks.set_missed_tick_behavior(behavior);
            assert_eq!(ticks.missed_tick_behavior(), behavior);
            sleep(late * MS).await;
            assert_eq!(ticks.tick().await, start);
            assert_eq!(ticks.tick().await, start + next * MS);
            ticks.reset_after(Duration::MAX);
            assert!(timeout(HOUR, ticks.tick()).await.is_err());
            ticks.reset_immediately();
            let now = Instant::now();
            assert_eq!(ticks.tick().await, now);
        });
    }
}

#[test]
fn a_wait_without_an_end() {
    paused().block_on(async {
        let now = Instant::now();
        assert!(sleep(Duration::MAX).deadline() > now + 10_000 * HOUR);
        assert_eq!(
            interval(Duration::MAX).period().as_secs() / 86_400,
            30 * 365
        );
        let mut timer = pin!(sleep_until(now + MS));
        assert!(timeout(Duration::MAX, &mut timer).await.is_ok());
        assert_eq!(now.elapsed(), MS);
    });
}

// Fails now and then (in a few of a hundred rounds) if the clock goes on to the next timer while a
// `block_on` returns: programs that simulate time in ticks are built on this.
#[test]
fn a_stopped_clock_stands_between_two_block_ons() {
    let runtime = paused();
    let task = runtime.spawn(async { sleep(HOUR).await });
    let begin = runtime.block_on(async { Instant::now() });
    for tick in 1..=2000 {
        runtime.block_on(async { sleep(MS).await });
        let passed = runtime.block_on(async { begin.elapsed() });
        assert_eq!(passed, MS * tick);
    }
    assert!(!task.is_finished());
}

// Fails if a wait that begins at its deadline comes before what is ready beside it: the first tick
// of an `interval` does.
#[test]
fn a_wait_that_begins_at_its_end_waits_at_its_first_poll() {
    let now = |runtime: &Runtime, future: &mut (dyn Future<Output = ()> + Unpin)| {
        let _entered = runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        std::pin::Pin::new(future).poll(&mut cx).is_ready()
    };
    for runtime in both() {
        let entered = runtime.enter();
        let mut tick = interval(HOUR);
        let mut zero = Box::pin(sleep(Duration::ZERO));
        let mut past = Box::pin(sleep_until(Instant::now() - 5 * MS));
        drop(entered);
        assert!(!now(
            &runtime,
            &mut Box::pin(async {
                tick.tick().await;
            })
        ));
        assert!(!now(&runtime, &mut zero));
        assert!(now(&runtime, &mut past));
        runtime.block_on(async {
            tick.tick().await;
            zero.await;
        });
    }
}

// Fails if the task is woken at a later look at the timers only.
#[test]
fn a_reset_to_the_past_wakes_within_the_call() {
    struct Woken(AtomicBool);
    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
    for runtime in both() {
        let _entered = runtime.enter();
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let mut sleep = pin!(sleep(HOUR));
        assert!(sleep.as_mut().poll(&mut cx).is_pending());
        sleep.as_mut().reset(Instant::now() - MS);
        assert!(woken.0.load(SeqCst));
        assert!(sleep.as_mut().poll(&mut cx).is_ready());
    }
}

// Fails if a tick that is more than five milliseconds late counts as one in time, or one that is
// less as late.
#[test]
fn a_late_tick_is_one_of_more_than_five_milliseconds() {
    for (late, next) in [(5, 100), (6, 106)] {
        paused().block_on(async {
            let begin = Instant::now();
            let mut ticks = time::interval_at(begin + 100 * MS, 100 * MS);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            time::advance((100 + late) * MS).await;
            assert_eq!(ticks.tick().await, begin + 100 * MS);
            assert_eq!(ticks.tick().await, begin + (100 + next) * MS);
        });
    }
}

#[test]
fn an_advance_lets_others_run_and_refuses_what_no_instant_can_be() {
    paused().block_on(async {
        let fired = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn({
            let fired = fired.clone();
            async move {
                sleep(MS).await;
                fired.store(true, SeqCst);
            }
        });
        yield_now().await;
        time::advance(2 * MS).await;
        assert!(fired.load(SeqCst));
        task.await.unwrap();
    });
    let text = panics(|| paused().block_on(time::advance(Duration::MAX)));
    assert!(text.contains("overflow"), "{text}");
}
