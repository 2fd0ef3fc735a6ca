//! Whoever waits for a source is woken by its next edge: every task, in either direction, by poll
//! function or by future; and an edge that comes while somebody clears an older one stays.
//!
//! Each test names the change that makes it fail.

use crate::common;

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Instant;

use common::{Registered, TimeLimit, Wakes, is_last, look, pair, patience, spin};
use ws_reactor::{Direction, Interest, Netpoll, STREAM_INTEREST};

const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

/// Clears what a new registration starts with, and what epoll reports at first.
fn settle(netpoll: &Netpoll, source: &Registered<impl common::Socket>) {
    look(netpoll);
    for direction in BOTH {
        let nothing = || Err::<(), _>(ErrorKind::WouldBlock.into());
        source.registration.try_io(direction, nothing).unwrap_err();
    }
}

// Fails if a new registration starts without readiness.
#[test]
fn a_new_source_is_tried_without_a_look() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    there.write_all(b"x").unwrap();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut byte = [0];
    let read = here
        .registration
        .poll_io(&mut cx, Direction::Read, || (&here.io).read(&mut byte));
    assert!(matches!(read, Poll::Ready(Ok(1))));
}

// Fails if dispatch does not take the wakers out (a second wake-up), or does not wake (none).
#[cfg(unix)] // Windows reports nothing that was not asked for.
#[test]
fn an_edge_wakes_once() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    settle(&netpoll, &here);
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let registration = &here.registration;

    for round in 1..=3 {
        assert!(
            registration
                .poll_ready(&mut cx, Direction::Read)
                .is_pending()
        );
        assert!(
            registration
                .poll_ready(&mut cx, Direction::Read)
                .is_pending()
        );
        there.write_all(b"x").unwrap();
        assert_eq!(look(&netpoll), 1);
        assert_eq!(look(&netpoll), 0);
        there.write_all(b"y").unwrap();
        assert_eq!(look(&netpoll), 0, "nobody waits");
        assert_eq!(wakes.count(), round);

        let mut bytes = [0; 2];
        let mut read =
            || registration.poll_io(&mut cx, Direction::Read, || (&here.io).read(&mut bytes));
        assert!(matches!(read(), Poll::Ready(Ok(2))));
        assert!(read().is_pending());
    }
}

// Fails if a direction keeps one future only, keeps each caller of a poll function, or if the kinds
// share a slot.
#[test]
fn all_who_wait_are_woken() {
    let _limit = TimeLimit::new();
    const EACH: usize = 5;
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    settle(&netpoll, &here);
    let registration = &here.registration;

    let tasks: Vec<_> = (0..2 * EACH).map(|_| Wakes::new()).collect();
    let (callers, owners) = tasks.split_at(EACH);
    for (_, waker) in callers {
        let mut cx = Context::from_waker(waker);
        let read = registration.poll_io(&mut cx, Direction::Read, || (&here.io).read(&mut [0]));
        assert!(read.is_pending());
    }
    let mut futures: Vec<_> = owners
        .iter()
        .map(|_| Box::pin(registration.readiness(Direction::Read)))
        .collect();
    for (future, (_, waker)) in futures.iter_mut().zip(owners) {
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    }

    there.write_all(b"x").unwrap();
    assert_eq!(look(&netpoll), 1 + EACH);
    for (task, (wakes, _)) in tasks.iter().enumerate() {
        assert_eq!(wakes.count(), usize::from(task >= EACH - 1), "task {task}");
    }
    for (future, (_, waker)) in futures.iter_mut().zip(owners) {
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_ready());
    }
}

// Fails if an event wakes the wrong direction's waiters.
#[test]
fn the_directions_do_not_mix() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    // Full, so that the edge of the incoming byte says nothing about writing.
    while (&here.io).write(&[0; 4096]).is_ok() {}
    settle(&netpoll, &here);
    let tasks = BOTH.map(|direction| {
        let (wakes, waker) = Wakes::new();
        let mut cx = Context::from_waker(&waker);
        let polled = here.registration.poll_ready(&mut cx, direction);
        assert!(polled.is_pending());
        wakes
    });
    there.write_all(b"x").unwrap();
    assert_eq!(look(&netpoll), 1);
    assert_eq!(tasks.each_ref().map(|wakes| wakes.count()), [1, 0]);
    while there.read(&mut [0; 65536]).is_ok() {}
    look(&netpoll);
    assert_eq!(tasks.each_ref().map(|wakes| wakes.count()), [1, 1]);
}

// Fails if `clear` does not compare ticks.
#[cfg(unix)] // Windows reports nothing that was not asked for.
#[test]
fn a_late_clear_leaves_the_newer_edge() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    settle(&netpoll, &here);
    let mut cx = Context::from_waker(Waker::noop());

    there.write_all(b"x").unwrap();
    look(&netpoll);
    let Poll::Ready(Ok(old)) = here.registration.poll_ready(&mut cx, Direction::Read) else {
        panic!("a byte is there");
    };
    there.write_all(b"y").unwrap();
    look(&netpoll);
    here.registration.clear_ready(old);
    let polled = here.registration.poll_ready(&mut cx, Direction::Read);
    assert!(polled.is_ready());
}

// Fails if `poll_io` or `async_io` trusts a "would block" that is older than the last event: the
// edge comes while the operation runs, after it has looked at the socket.
#[test]
fn an_edge_in_the_middle_of_an_operation_is_tried_again() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    look(&netpoll);
    let mut cx = Context::from_waker(Waker::noop());

    let mut operation = || {
        let mut byte = [0];
        let answer = (&here.io).read(&mut byte);
        if answer.is_err() {
            there.write_all(b"x").unwrap();
            look(&netpoll);
        }
        answer
    };
    let polled = here
        .registration
        .poll_io(&mut cx, Direction::Read, &mut operation);
    assert!(matches!(polled, Poll::Ready(Ok(1))));
    let future = pin!(here.registration.async_io(Direction::Read, &mut operation));
    assert!(matches!(future.poll(&mut cx), Poll::Ready(Ok(1))));
}

// Fails if a future leaves its waker behind, or takes another's along.
#[test]
fn a_dropped_future_leaves_no_waker() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    settle(&netpoll, &here);
    let (gone, gone_waker) = Wakes::new();
    let (stays, stays_waker) = Wakes::new();
    let mut staying = pin!(here.registration.readiness(Direction::Read));
    {
        let mut leaving = pin!(here.registration.async_io(Direction::Read, || Ok(())));
        // Not tried: nothing is ready.
        let polled = leaving.as_mut().poll(&mut Context::from_waker(&gone_waker));
        assert!(polled.is_pending());
        let polled = staying
            .as_mut()
            .poll(&mut Context::from_waker(&stays_waker));
        assert!(polled.is_pending());
    }
    there.write_all(b"x").unwrap();
    assert_eq!(look(&netpoll), 1);
    assert_eq!((gone.count(), stays.count()), (0, 1));
}

// Fails if `try_io` asks the kernel without readiness, or keeps it after "would block".
#[test]
fn try_io_asks_the_kernel_only_if_it_may_succeed() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    look(&netpoll);
    let mut asked = 0;
    let mut try_read = || {
        here.registration.try_io(Direction::Read, || {
            asked += 1;
            (&here.io).read(&mut [0])
        })
    };
    assert_eq!(try_read().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(try_read().unwrap_err().kind(), ErrorKind::WouldBlock);
    there.write_all(b"x").unwrap();
    look(&netpoll);
    assert_eq!(try_read().unwrap(), 1);
    assert_eq!(asked, 2);
}

// Fails by spinning for ever if the loop asks "is it ready?" instead of "has an event come?".
#[test]
fn an_operation_with_its_own_would_block_does_not_spin_on_a_closed_source() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    drop(there);
    look(&netpoll);
    let own = || io::Result::<()>::Err(ErrorKind::WouldBlock.into());
    let mut cx = Context::from_waker(Waker::noop());
    let polled = here.registration.poll_io(&mut cx, Direction::Read, own);
    assert!(polled.is_pending());
    let future = pin!(here.registration.async_io(Direction::Read, own));
    assert!(future.poll(&mut cx).is_pending());
    // What it made up does not hide the end of the file.
    let ready = here.registration.poll_ready(&mut cx, Direction::Read);
    assert!(matches!(ready, Poll::Ready(Ok(ready)) if ready.is_closed()));
}

// Fails if the interest is not checked: the task would wait for ever.
#[test]
fn waiting_for_what_was_not_asked_for_is_an_error() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, _there) = pair();
    let here = Registered::new(&netpoll, here, Interest::READABLE).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let polled = here.registration.poll_ready(&mut cx, Direction::Write);
    assert!(matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::InvalidInput));
}

// Fails if `dispatch` compares the index without the generation.
#[test]
fn a_stale_event_does_not_reach_the_next_owner_of_the_slot() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (old, mut old_peer) = pair();
    let (new, mut new_peer) = pair();
    let old = Registered::new(&netpoll, old, STREAM_INTEREST).unwrap();
    // Without `deregister`, and with the socket still open: epoll goes on reporting it.
    let Registered {
        io: _old,
        registration,
    } = old;
    drop(registration);
    let new = Registered::new(&netpoll, new, STREAM_INTEREST).unwrap();
    settle(&netpoll, &new);
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut poll = || new.registration.poll_ready(&mut cx, Direction::Read);
    assert!(poll().is_pending());

    old_peer.write_all(b"x").unwrap();
    assert_eq!(look(&netpoll), 0);
    assert!(poll().is_pending());
    new_peer.write_all(b"y").unwrap();
    assert_eq!(look(&netpoll), 1);
    assert_eq!(wakes.count(), 1);
    assert!(poll().is_ready());
}

// Fails if a registration leaves the table by its index alone: it was taken out before, and the
// index is another's now.
#[test]
fn a_late_drop_does_not_take_the_next_owner_of_the_slot_along() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (old, _old_peer) = pair();
    let (new, mut new_peer) = pair();
    let old = Registered::new(&netpoll, old, STREAM_INTEREST).unwrap();
    old.deregister().unwrap();
    let new = Registered::new(&netpoll, new, STREAM_INTEREST).unwrap();
    drop(old);
    assert!(netpoll.has_sources());
    settle(&netpoll, &new);
    let (_wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let polled = new.registration.poll_ready(&mut cx, Direction::Read);
    assert!(polled.is_pending());
    new_peer.write_all(b"x").unwrap();
    assert_eq!(look(&netpoll), 1);
}

// Fails if `Ready` shows the closed bit of the other direction, or if an event that closes a
// direction sets its ready bit alone: `clear_ready` would clear that, and no further edge comes.
#[cfg(unix)] // Its pair ends both directions at once.
#[test]
fn each_direction_is_closed_by_itself_and_stays_closed() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    let are_closed = || {
        look(&netpoll);
        let mut cx = Context::from_waker(Waker::noop());
        BOTH.map(
            |direction| match here.registration.poll_ready(&mut cx, direction) {
                Poll::Ready(Ok(ready)) => {
                    here.registration.clear_ready(ready);
                    let again = here.registration.poll_ready(&mut cx, direction);
                    assert_eq!(again.is_ready(), ready.is_closed(), "{direction:?}");
                    ready.is_closed()
                }
                other => panic!("not ready to {direction:?}: {other:?}"),
            },
        )
    };
    there.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(are_closed(), [true, false]);
    drop(there);
    assert_eq!(are_closed(), [true, true]);
}

// Fails if only `Interest::READABLE` counts as an interest in reading.
#[cfg(target_os = "linux")]
#[test]
fn urgent_data_alone_may_be_waited_for() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, there) = common::tcp_pair();
    let here = Registered::new(&netpoll, here, Interest::PRIORITY).unwrap();
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut poll = || here.registration.poll_ready(&mut cx, Direction::Read);
    assert!(poll().is_pending());
    socket2::SockRef::from(&there)
        .send_out_of_band(b"!")
        .unwrap();
    assert_eq!(common::wait(&netpoll), 1);
    assert_eq!(wakes.count(), 1);
    assert!(matches!(poll(), Poll::Ready(Ok(ready)) if ready.is_priority()));
}

// Fails if a registration that the system refuses stays in the table.
#[cfg(unix)] // On Windows there is a type for sockets.
#[test]
fn what_the_system_refuses_is_an_error_and_leaves_nothing() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let file = std::fs::File::open("Cargo.toml").unwrap();
    let refused = Registered::new(&netpoll, file, Interest::READABLE);
    assert!(matches!(refused, Err(error) if error.kind() == ErrorKind::PermissionDenied));
    assert!(!netpoll.has_sources());

    let (here, _there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    assert!(netpoll.has_sources());
    here.deregister().unwrap();
    assert!(!netpoll.has_sources());
}

// Fails if a task does not look again after it has put its waker in, or if the poller takes the
// wakers before it notes the event; not in every run, since the two threads have to meet. Whoever
// is missed waits until the test gives up.
#[test]
fn a_task_and_the_poller_do_not_miss_each_other() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, mut there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                look(&netpoll);
                spin(turn);
            }
        });
        let (parked, waker) = Parked::new();
        let mut cx = Context::from_waker(&waker);
        let begin = Instant::now();
        let mut rounds = (0..).take_while(|round| !is_last(*round, begin));
        let missed = rounds.find(|round| {
            let registration = &here.registration;
            let read = || (&here.io).read(&mut [0]);
            let try_read = || registration.try_io(Direction::Read, read).is_ok();
            // Not ready any more, so that the task has to wait; and now the poller notes the event
            // while the task gets ready for that, a little earlier or later in each round.
            assert!(!try_read());
            there.write_all(b"x").unwrap();
            for _ in 0..round % 200 {
                std::hint::spin_loop();
            }
            // Three ways to wait, each with a second look of its own.
            let mut future = pin!(registration.readiness(Direction::Read));
            loop {
                let is_read = match round % 3 {
                    0 => registration
                        .poll_io(&mut cx, Direction::Read, read)
                        .map(|_| true),
                    1 => registration
                        .poll_ready(&mut cx, Direction::Read)
                        .map(|_| try_read()),
                    _ => future.as_mut().poll(&mut cx).map(|_| try_read()),
                };
                match is_read {
                    Poll::Ready(true) => return false,
                    Poll::Ready(false) => future.set(registration.readiness(Direction::Read)),
                    Poll::Pending if parked.wait() => {}
                    Poll::Pending => return true,
                }
            }
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(missed, None, "nobody woke the task");
    });
}

/// Wakes a thread that waits, with a limit to its patience.
struct Unpark(mpsc::SyncSender<()>);

struct Parked(mpsc::Receiver<()>);

impl Parked {
    fn new() -> (Self, Waker) {
        let (sender, receiver) = mpsc::sync_channel(1);
        (Self(receiver), Waker::from(Arc::new(Unpark(sender))))
    }

    /// Waits for a wake-up since the last time. Says whether there was one.
    fn wait(&self) -> bool {
        self.0.recv_timeout(patience()).is_ok()
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        // Full means woken already.
        let _ = self.0.try_send(());
    }
}
