//! When the netpoll ends, and when a source is taken out, whoever waits is woken and told so, and
//! every later operation says the same. Wakers run without a lock (S8).
//!
//! Each test names the change that makes it fail.

use crate::common;

use std::future::Future;
use std::io::{ErrorKind, Read};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use common::{Registered, Stream, TimeLimit, Wakes, look, pair, patience, wait_until};
use ws_reactor::{Direction, Netpoll, Registration, STREAM_INTEREST};

fn drain(source: &Registered<Stream>) {
    let mut cx = Context::from_waker(Waker::noop());
    let read = source
        .registration
        .poll_io(&mut cx, Direction::Read, || (&source.io).read(&mut [0]));
    assert!(read.is_pending());
}

fn assert_ended(registration: &Registration, message: &str) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut errors = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        let Poll::Ready(Err(error)) = registration.poll_ready(&mut cx, direction) else {
            panic!("poll_ready goes on");
        };
        errors.push(error);
        let Poll::Ready(Err(error)) = registration.poll_io(&mut cx, direction, || Ok(())) else {
            panic!("poll_io goes on");
        };
        errors.push(error);
        let future = pin!(registration.async_io(direction, || Ok(())));
        let Poll::Ready(Err(error)) = future.poll(&mut cx) else {
            panic!("async_io goes on");
        };
        errors.push(error);
        errors.push(registration.try_io(direction, || Ok(())).unwrap_err());
    }
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains(message), "{error}");
    }
}

// Fails if the end is not written to the sources, or their wakers stay.
#[test]
fn the_end_of_the_netpoll_reaches_all() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let sources: Vec<_> = (0..10)
        .map(|_| {
            let (here, there) = pair();
            let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
            drain(&here);
            look(&netpoll);
            (here, there)
        })
        .collect();
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut futures: Vec<_> = sources
        .iter()
        .map(|(here, _)| Box::pin(here.registration.readiness(Direction::Read)))
        .collect();
    for (future, (here, _)) in futures.iter_mut().zip(&sources) {
        assert!(future.as_mut().poll(&mut cx).is_pending());
        let polled = here.registration.poll_ready(&mut cx, Direction::Read);
        assert!(polled.is_pending());
    }

    netpoll.shut_down();
    assert_eq!(wakes.count(), 2 * sources.len());
    for (future, (here, _)) in futures.iter_mut().zip(&sources) {
        assert!(matches!(future.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
        assert_ended(&here.registration, "shut down");
    }
    let (result, _) = wait_until(&netpoll, Some(std::time::Instant::now() + patience()));
    assert!(result.interrupted);

    let late = Registered::new(&netpoll, pair().0, STREAM_INTEREST);
    assert!(late.is_err_and(|error| error.to_string().contains("shut down")));
    netpoll.shut_down();
    drop(futures);
    for (here, _) in sources {
        here.deregister().unwrap();
    }
    assert!(!netpoll.has_sources());
}

// Fails if `deregister` wakes nobody, says nothing, or is done twice.
#[test]
fn the_end_of_a_source_reaches_who_waits_for_it() {
    let _limit = TimeLimit::new();
    let netpoll = Netpoll::new().unwrap();
    let (here, _there) = pair();
    let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
    drain(&here);
    let (wakes, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(here.registration.readiness(Direction::Read));
    assert!(future.as_mut().poll(&mut cx).is_pending());
    here.deregister().unwrap();
    here.deregister().unwrap();
    assert_eq!(wakes.count(), 1);
    assert!(matches!(future.poll(&mut cx), Poll::Ready(Err(_))));
    assert_ended(&here.registration, "deregistered");
    // The socket itself can be registered again, perhaps elsewhere.
    let elsewhere = Netpoll::new().unwrap();
    let socket = here.io.try_clone().unwrap();
    let moved = Registered::new(&elsewhere, socket, STREAM_INTEREST).unwrap();
    moved.deregister().unwrap();
}

// Fails if an end wakes only the readers, or only the writers.
#[test]
fn an_end_reaches_both_directions() {
    let _limit = TimeLimit::new();
    let ends: [fn(&Registered<Stream>); 2] = [
        |source| source.registration.netpoll().shut_down(),
        |source| source.deregister().unwrap(),
    ];
    for end in ends {
        for direction in [Direction::Read, Direction::Write] {
            let netpoll = Netpoll::new().unwrap();
            let (here, _there) = pair();
            let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
            let (wakes, waker) = Wakes::new();
            let mut cx = Context::from_waker(&waker);
            // A fresh source is not ready: nobody looks at the netpoll before the end.
            let polled = here.registration.poll_ready(&mut cx, direction);
            assert!(polled.is_pending());
            let mut future = pin!(here.registration.readiness(direction));
            assert!(future.as_mut().poll(&mut cx).is_pending());
            end(&here);
            assert_eq!(wakes.count(), 2, "{direction:?}");
        }
    }
}

/// A waker that uses its registration when it is woken and when it is dropped.
struct Nosy {
    registered: Arc<OnceLock<Registered<Stream>>>,
    looked: Arc<AtomicUsize>,
}

impl Nosy {
    fn look(&self) {
        let registration = &self.registered.get().unwrap().registration;
        let mut cx = Context::from_waker(Waker::noop());
        let _ = registration.poll_ready(&mut cx, Direction::Read);
        let (other, _peer) = pair();
        // Goes through the lock of the table.
        let _ = Registered::new(registration.netpoll(), other, STREAM_INTEREST);
        self.looked.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.look();
    }
}

// Fails, by hanging, if a waker is woken or dropped under the lock of its source or of the table.
#[test]
fn wakers_run_without_a_lock() {
    let _limit = TimeLimit::new();
    let ends: [fn(&Registered<Stream>); 3] = [
        |source| source.registration.netpoll().shut_down(),
        |source| source.deregister().unwrap(),
        // Nothing: the waker is replaced, or its future is dropped.
        |_| {},
    ];
    for end in ends {
        let netpoll = Netpoll::new().unwrap();
        let registered = Arc::new(OnceLock::new());
        let looked = Arc::new(AtomicUsize::new(0));
        let (here, _there) = pair();
        let here = Registered::new(&netpoll, here, STREAM_INTEREST).unwrap();
        assert!(registered.set(here).is_ok());
        let here = registered.get().unwrap();
        drain(here);
        let nosy = || {
            Waker::from(Arc::new(Nosy {
                registered: registered.clone(),
                looked: looked.clone(),
            }))
        };
        {
            // Each is held by the netpoll alone: the one of the poll function, the one of the
            // future, and the one that replaces it.
            let waker = nosy();
            let mut cx = Context::from_waker(&waker);
            let polled = here.registration.poll_ready(&mut cx, Direction::Read);
            assert!(polled.is_pending());
            drop(waker);
            let mut future = pin!(here.registration.readiness(Direction::Read));
            for _ in 0..2 {
                let waker = nosy();
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                assert!(polled.is_pending());
            }
            end(here);
        }
        here.registration.netpoll().shut_down();
        assert!(looked.load(Ordering::SeqCst) >= 3);
    }
}
