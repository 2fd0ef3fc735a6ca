//! An interrupt ends the wait that is going on, or else the next one, whoever fetches its event;
//! and it ends only one.
//!
//! Each test names the change that makes it fail. None of them relies on which of two threads is
//! first.

use crate::common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use common::{Registered, TimeLimit, is_last, look, pair, spin, wait_until};
use ws_reactor::{Netpoll, Poller, STREAM_INTEREST, WaitResult};

const INTERRUPTED: WaitResult = WaitResult {
    events: false,
    interrupted: true,
    timed_out: false,
};
const TIMED_OUT: WaitResult = WaitResult {
    events: false,
    interrupted: false,
    timed_out: true,
};

fn patience() -> Option<Instant> {
    Some(Instant::now() + common::patience())
}

// Fails if the flag is not looked at before the wait blocks.
#[test]
fn before_a_wait_it_ends_the_wait() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    netpoll.interrupt();
    netpoll.interrupt();
    let (result, _) = wait_until(&netpoll, patience());
    assert_eq!(result, INTERRUPTED);
}

// Fails if the event in the poll is the interrupt: the look has fetched it.
#[test]
fn a_look_in_between_does_not_take_it() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let mut poller = netpoll.try_poller().unwrap();
    poller.prepare();
    netpoll.interrupt();
    poller.look(&mut Vec::new()).unwrap();
    poller.cancel();
    drop(poller);
    let (result, _) = wait_until(&netpoll, patience());
    assert_eq!(result, INTERRUPTED);
}

// Fails if the flag is not taken by the wait that reports it, or if an event without a flag counts.
#[test]
fn it_ends_one_wait_only() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    for _ in 0..3 {
        let mut poller = netpoll.try_poller().unwrap();
        poller.prepare();
        netpoll.interrupt();
        // The flag is taken before the wait blocks, and its event is there as well.
        let result = poller.wait(patience(), &mut Vec::new()).unwrap();
        assert_eq!(result, INTERRUPTED);
        drop(poller);
        let soon = Instant::now() + Duration::from_millis(2);
        assert_eq!(wait_until(&netpoll, Some(soon)).0, TIMED_OUT);
    }
}

// Fails if whatever ends the poll counts as an interrupt.
#[test]
fn an_edge_that_nobody_waits_for_does_not_end_the_wait() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, _there) = pair();
    // epoll reports a new source, which can be written to.
    let _here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    let soon = Instant::now() + Duration::from_millis(2);
    assert_eq!(wait_until(&netpoll, Some(soon)).0, TIMED_OUT);
}

// Fails if wakers that were there before the wait count as its own: it would end at once, for no
// reason.
#[test]
fn what_was_brought_before_does_not_end_the_wait() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let mut ready = vec![Waker::noop().clone()];
    let soon = Instant::now() + Duration::from_millis(2);
    let mut poller = netpoll.try_poller().unwrap();
    assert_eq!(poller.wait(Some(soon), &mut ready).unwrap(), TIMED_OUT);
    assert_eq!(ready.len(), 1);
}

// Fails if the end of a wait is not written down: every interrupt from then on would be a system
// call.
#[test]
fn nobody_is_awaited_once_the_wait_is_over() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let is_awaited = || format!("{netpoll:?}").contains("is_awaited: true");
    let ends: [fn(&mut Poller<'_>); 3] = [
        |poller| _ = poller.wait(Some(Instant::now()), &mut Vec::new()).unwrap(),
        |poller| poller.cancel(),
        // Dropped as it is.
        |_| {},
    ];
    for end in ends {
        let mut poller = netpoll.try_poller().unwrap();
        poller.prepare();
        assert!(is_awaited());
        end(&mut poller);
        drop(poller);
        assert!(!is_awaited());
    }
}

// Fails if there is no fence between the flag and the look at the thread that waits, or none in
// `prepare`, on a machine and in a run that is unlucky enough; and at once if either look is left
// out.
#[test]
fn from_another_thread_it_always_arrives() {
    let _limit = TimeLimit::new();
    const ALL: usize = usize::MAX;
    let netpoll = Netpoll::new().unwrap();
    let arrived = AtomicUsize::new(0);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for round in 0.. {
                netpoll.interrupt();
                let mut turn = 0;
                while arrived.load(Ordering::Relaxed) <= round {
                    spin(turn);
                    turn += 1;
                }
                if arrived.load(Ordering::Relaxed) == ALL {
                    break;
                }
            }
        });
        start.wait();
        let begin = Instant::now();
        for round in 0.. {
            let mut poller = netpoll.try_poller().unwrap();
            let result = poller.wait(patience(), &mut Vec::new()).unwrap();
            assert!(result.interrupted && !result.timed_out, "{result:?}");
            drop(poller);
            if is_last(round, begin) {
                arrived.store(ALL, Ordering::Relaxed);
                break;
            }
            arrived.store(round + 1, Ordering::Relaxed);
        }
    });
}

// Fails if the right to poll is not given back, or given twice.
#[test]
fn one_thread_polls_at_a_time() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let poller = netpoll.try_poller().unwrap();
    assert!(netpoll.try_poller().is_none());
    thread::scope(|scope| {
        let other = scope.spawn(|| netpoll.try_poller().is_none());
        assert!(other.join().unwrap());
    });
    drop(poller);
    look(&netpoll);
}
