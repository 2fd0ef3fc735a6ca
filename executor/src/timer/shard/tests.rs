//! What is published and told, batches, and threads that get in each other's way.

use std::pin::Pin;
use std::task::{Context, Wake};
use std::time::Duration;

use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::sync::thread;
use crate::time::Sleep;
use crate::timer::test_util::{Bench, MS, NS};

impl TimerShard {
    /// Returns what this shard shares with the others of its runtime.
    pub(crate) fn driver(&self) -> &Arc<TimeDriver> {
        &self.driver
    }

    /// Returns the number of armed timers.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().heap.len()
    }
}

impl TimerHandle {
    /// The shard.
    pub(crate) fn shard(&self) -> &Arc<TimerShard> {
        &self.0
    }
}

fn noop() -> Waker {
    Waker::noop().clone()
}

fn batch(shard: &TimerShard, now: u64) -> usize {
    let mut batch = Vec::new();
    shard.fire_due(now, &mut batch);
    batch.len()
}

#[test]
fn the_next_deadline_is_published() {
    let shard = Bench::new().timers;
    assert_eq!(shard.next_deadline(), None);
    assert!(!shard.has_due(NEVER));
    let late = shard.arm(20, noop()).unwrap();
    let early = shard.arm(10, noop()).unwrap();
    let never = shard.arm(NEVER, noop()).unwrap();
    assert_eq!(shard.next_deadline(), Some(10));
    assert!(shard.has_due(10) && !shard.has_due(9));

    let early = shard.reset(early, 30).unwrap();
    assert_eq!(shard.earlier_of(NEVER), 20);
    let early = shard.reset(early, 15).unwrap();
    assert_eq!(shard.next_deadline(), Some(15));
    shard.cancel(early);
    assert_eq!(shard.earlier_of(NEVER), 20);
    assert_eq!(batch(&shard, 19), 0);
    assert_eq!(batch(&shard, 20), 1);
    assert_eq!(shard.is_fired(&late), Ok(true));
    assert_eq!(shard.is_fired(&never), Ok(false));
    assert_eq!(shard.next_deadline(), None);
    shard.cancel(late);
    shard.cancel(never);
    assert_eq!(shard.len(), 0);
}

/// It stays at the top of the heap for the threads that do not sleep until then.
#[test]
fn a_timer_that_is_gone_counts_until_somebody_would_sleep_for_it() {
    let shard = Bench::new().timers;
    let keys = [10, 20, 30, 40].map(|at| shard.arm(at, noop()).unwrap());
    let [gone, put_off, kept, last] = keys;
    shard.cancel(gone);
    let put_off = shard.reset(put_off, 50).unwrap();
    assert_eq!(shard.next_deadline(), Some(10));
    assert!(shard.has_due(10));
    assert_eq!(batch(&shard, 10), 0);
    assert_eq!(shard.earlier_of(NEVER), 30);
    assert_eq!(shard.next_deadline(), Some(30));

    // A thread that wakes up before does not ask for it.
    shard.cancel(kept);
    assert_eq!(shard.earlier_of(20), 20);
    assert_eq!(shard.next_deadline(), Some(30));

    // Another thread has the lock.
    let state = shard.state.lock();
    assert_eq!(shard.earlier_of(NEVER), 30);
    drop(state);
    assert_eq!(shard.earlier_of(NEVER), 40);
    shard.cancel(last);
    shard.cancel(put_off);
    assert_eq!(shard.earlier_of(NEVER), NEVER);
    assert_eq!(shard.len(), 0);
}

#[test]
fn only_an_earlier_deadline_is_told() {
    let shard = Bench::new().timers;
    let mut heap = TimerHeap::default();
    let a = heap.insert(10, noop());
    assert_eq!(shard.publish(&heap), Some(10));
    let b = heap.insert(20, noop());
    assert_eq!(shard.publish(&heap), None);
    let c = heap.insert(5, noop());
    assert_eq!(shard.publish(&heap), Some(5));
    for (key, next) in [(c, 10), (a, 20), (b, NEVER)] {
        drop(heap.cancel(key));
        heap.settle();
        assert_eq!(shard.publish(&heap), None);
        assert_eq!(shard.published(), next);
    }
}

/// Lets `arm` arm a timer, of a millisecond or of half an hour of virtual time, while a thread
/// waits in the netpoll without a deadline. If the netpoll is not told, the wait does not end.
fn wait_while(clock: Clock, arm: impl FnOnce(&TimerShard, Key, u64) -> Option<Key>) {
    let netpoll = Netpoll::new().unwrap();
    let shard = TimerShard::new(Arc::new(TimeDriver::new(netpoll.clone(), clock)));
    let an_hour = shard.arm(3_600_000_000_000, noop()).unwrap();
    let mut poller = netpoll.try_poller().expect("nobody else polls");
    poller.prepare();
    let length = if shard.clock().is_virtual() {
        1_800_000_000_000
    } else {
        1_000_000
    };
    let soon = shard.clock().now_ns() + length;
    assert!(arm(&shard, an_hour, soon).is_some());
    let result = poller.wait(None, &mut Vec::new()).unwrap();
    assert!(!result.interrupted, "a timer is no interrupt");
    assert!(shard.clock().is_virtual() || shard.has_due(shard.clock().now_ns()));
}

#[test]
fn a_thread_that_waits_is_told_of_a_new_timer() {
    wait_while(Clock::real(), |shard, _, soon| shard.arm(soon, noop()).ok());
    wait_while(Clock::stopped(), |shard, _, soon| {
        shard.arm(soon, noop()).ok()
    });
}

#[test]
fn a_thread_that_waits_is_told_of_a_timer_that_is_reset() {
    wait_while(Clock::real(), |shard, key, soon| shard.reset(key, soon));
    wait_while(Clock::stopped(), |shard, key, soon| shard.reset(key, soon));
}

#[test]
fn a_large_batch_is_fired_in_parts_and_in_order() {
    struct Nth(usize, Arc<Mutex<Vec<usize>>>);
    impl Wake for Nth {
        fn wake(self: Arc<Self>) {
            self.1.lock().push(self.0);
        }
    }
    let shard = Bench::new().timers;
    let order = Arc::new(Mutex::new(Vec::new()));
    let count = 3 * FIRE_BATCH + 1;
    let keys: Vec<Key> = (0..count)
        .map(|n| {
            shard
                .arm(7, Arc::new(Nth(n, order.clone())).into())
                .unwrap()
        })
        .collect();
    let mut batch = Vec::new();
    let mut parts = 0;
    while shard.has_due(7) {
        shard.fire_due(7, &mut batch);
        assert!(batch.len() <= FIRE_BATCH);
        batch.drain(..).for_each(Waker::wake);
        parts += 1;
    }
    assert_eq!(parts, 4);
    assert_eq!(*order.lock(), (0..count).collect::<Vec<_>>());
    keys.into_iter().for_each(|key| shard.cancel(key));
}

#[test]
fn after_shutdown_nothing_is_armed_and_no_key_means_anything() {
    let shard = Bench::new().timers;
    let mut key = Some(shard.arm(5, noop()).unwrap());
    let other = shard.arm(6, noop()).unwrap();
    let mut batch = Vec::new();
    shard.shut_down(&mut batch);
    assert_eq!(batch.len(), 2);
    assert_eq!(shard.next_deadline(), None);
    assert_eq!(shard.arm(5, noop()).err(), Some(ShutDown));
    assert_eq!(shard.poll(&mut key, Waker::noop()), Err(ShutDown));
    assert_eq!(shard.is_fired(&other), Err(ShutDown));
    assert!(shard.reset(other, 7).is_none());
    shard.cancel(key.expect("it stays"));
}

/// Four tasks on threads of their own sleep, give up and postpone, with wakers that change, while
/// another thread moves the clock and fires. Each sleep that is waited for ends, none before its
/// time, and nothing is left.
#[test]
fn threads_arm_cancel_reset_and_fire_at_once() {
    const TASKS: usize = 4;
    const ROUNDS: u32 = 500;
    /// A waker that is another one each time.
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let bench = Bench::new();
    let running = AtomicUsize::new(TASKS);
    thread::scope(|scope| {
        for task in 0..TASKS {
            let (bench, running) = (&bench, &running);
            scope.spawn(move || {
                let is_ready = |sleep: &mut Sleep| {
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    Pin::new(sleep)
                        .poll(&mut Context::from_waker(&waker))
                        .is_ready()
                };
                for round in 0..ROUNDS {
                    let length = NS * (1 + (round * 7 + task as u32) % 50);
                    let mut sleep = Sleep::after(bench.timers.clone(), length);
                    let was_ready = is_ready(&mut sleep);
                    match round % 4 {
                        0 => continue,
                        1 if !was_ready => sleep.reset(bench.now() + length),
                        2 if !was_ready => sleep.reset(sleep.deadline() - NS),
                        _ => {}
                    }
                    while !is_ready(&mut sleep) {
                        thread::park();
                    }
                    assert!(bench.now() >= sleep.deadline());
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            bench.advance(3 * NS);
            thread::yield_now();
        }
    });
    assert_eq!(bench.timers.len(), 0);
    bench.advance(Duration::from_secs(1) + MS);
    assert_eq!(bench.timers.next_deadline(), None);
}

/// Fails if the state is not looked at again after a waker was cloned, outside the lock.
#[test]
#[expect(unsafe_code, reason = "a waker whose clone does something")]
fn an_end_while_a_waker_is_cloned_is_an_error() {
    use std::{cell::RefCell, ptr, task::RawWaker, task::RawWakerVTable};

    thread_local! {
        static TO_END: RefCell<Option<TimerHandle>> = const { RefCell::new(None) };
    }
    fn clone(_: *const ()) -> RawWaker {
        if let Some(shard) = TO_END.take() {
            shard.shut_down(&mut Vec::new());
        }
        RawWaker::new(ptr::null(), &ENDS)
    }
    static ENDS: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});

    let shard = Bench::new().timers;
    let mut key = Some(shard.arm(5, noop()).unwrap());
    TO_END.set(Some(shard.clone()));
    // SAFETY: no function of it uses its pointer.
    let waker = unsafe { Waker::new(ptr::null(), &ENDS) };
    assert_eq!(shard.poll(&mut key, &waker), Err(ShutDown));
    shard.cancel(key.expect("it stays"));
}

/// Fails if a shard with a timer leaves the list of those that are visited for one, and if an empty
/// one stays there.
#[test]
fn an_empty_shard_alone_leaves_the_list() {
    let list = Arc::new(BitSet::new(8));
    let driver = Bench::new().timers.driver().clone();
    let shard = TimerShard::listed(driver, list.clone(), 3);
    let key = shard.arm(5, noop()).unwrap();
    assert!(list.contains(3));
    shard.unlist_if_empty();
    assert!(list.contains(3), "nobody else fires it");
    shard.cancel(key);
    assert_eq!(shard.earlier_of(NEVER), NEVER);
    shard.unlist_if_empty();
    assert!(!list.contains(3));
}

/// Fails if a dump shows another time than that of the timer.
#[test]
fn who_waits_is_shown_with_the_deadline() {
    let shard = Bench::new().timers;
    let _keys = [7, 5].map(|deadline| shard.arm(deadline, noop()).unwrap());
    let mut deadlines = Vec::new();
    shard.for_each(|_, deadline| deadlines.push(deadline));
    assert_eq!(deadlines, [7, 5]);
}
