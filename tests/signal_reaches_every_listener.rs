//! A signal reaches each of its listeners, in whichever runtime, and as long as they listen; what
//! cannot be listened for is refused.
//!
//! Signals are the process's, so each test here has one of its own.

#![cfg(unix)]

mod net_support;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use net_support::{WORKERS, poll_once, runtime, with_workers};
use signal_hook::low_level::raise;
use ws::signal::ctrl_c;
use ws::signal::unix::{SignalKind, signal};

#[test]
fn all_listeners_are_told_each_time() {
    with_workers(async || {
        let kind = SignalKind::user_defined1();
        let told = Arc::new(AtomicUsize::new(0));
        let mut listeners = Vec::new();
        for _ in 0..4 {
            let mut listener = signal(kind)?;
            assert!(listener.recv().now_or_never().is_none());
            listeners.push(listener);
        }
        for _round in 0..3 {
            let tasks: Vec<_> = listeners
                .into_iter()
                .map(|mut listener| {
                    let told = told.clone();
                    ws::spawn(async move {
                        listener.recv().await?;
                        told.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, io::Error>(listener)
                    })
                })
                .collect();
            raise(kind.as_raw())?;
            listeners = Vec::new();
            for task in tasks {
                listeners.push(task.await.expect("no listener panics")?);
            }
        }
        assert_eq!(told.load(Ordering::Relaxed), 12);
        Ok(())
    });
}

// Fails if a signal is only noticed by the listeners that wait at that moment.
#[test]
fn a_signal_between_two_waits_is_kept_and_many_count_as_one() {
    with_workers(async || {
        let kind = SignalKind::user_defined2();
        let mut listener = signal(kind)?;
        for _ in 0..1000 {
            raise(kind.as_raw())?;
        }
        listener.recv().await?;
        assert!(listener.recv().now_or_never().is_none());
        raise(kind.as_raw())?;
        listener.recv().await
    });
}

// Fails if a listener that has read its whole buffer takes "no more" for an error: the signals
// before it are lost.
#[test]
fn any_number_of_signals_is_told() {
    with_workers(async || {
        // A listener reads 256 at a time.
        let mut listener = signal(SignalKind::hangup())?;
        for count in [1, 255, 256, 257, 512] {
            for _ in 0..count {
                raise(SignalKind::hangup().as_raw())?;
            }
            listener.recv().await?;
            assert!(listener.recv().now_or_never().is_none(), "{count}");
        }
        Ok(())
    });
}

// Fails if a listener stays in the registry when it is dropped, with one of its two sockets.
#[test]
fn a_listener_that_is_gone_leaves_nothing() {
    const LISTENERS: usize = 500;
    with_workers(async || {
        let descriptors = || Ok::<_, io::Error>(std::fs::read_dir("/dev/fd")?.count());
        let before = descriptors()?;
        for _ in 0..LISTENERS {
            drop(signal(SignalKind::alarm())?);
        }
        // The other tests of this process come and go with some.
        let left = descriptors()?.saturating_sub(before);
        assert!(left < LISTENERS / 2, "{left} descriptors");
        Ok(())
    });
}

#[test]
fn runtimes_are_told_apart_and_a_dropped_listener_is_missed_by_nobody() {
    for workers in WORKERS {
        let _limit = net_support::Limit::new(workers);
        let kind = SignalKind::window_change();
        let (first, second) = (runtime(workers), runtime(workers));
        let listen = || {
            let dropped = signal(kind)?;
            let stays = signal(kind)?;
            drop(dropped);
            Ok::<_, io::Error>(stays)
        };
        let mut in_first = first.block_on(async { listen() }).unwrap();
        let mut in_second = second.block_on(async { listen() }).unwrap();
        raise(kind.as_raw()).unwrap();
        first.block_on(in_first.recv()).unwrap();
        drop(first);
        second.block_on(in_second.recv()).unwrap();
        raise(kind.as_raw()).unwrap();
        second.block_on(in_second.recv()).unwrap();
        // Its runtime is gone, and the signal came: neither hangs nor panics.
        in_first
            .recv()
            .now_or_never()
            .expect("an error, at once")
            .unwrap_err();
    }
}

#[test]
fn ctrl_c_is_one_of_them() {
    with_workers(async || {
        for _ in 0..3 {
            let mut pressed = Box::pin(ctrl_c());
            // It listens from its first poll on.
            assert!(poll_once(&mut pressed).await.is_pending());
            raise(SignalKind::interrupt().as_raw())?;
            pressed.await?;
        }
        Ok(())
    });
}

#[test]
fn what_cannot_be_listened_for_is_refused() {
    with_workers(async || {
        // SIGKILL, SIGSTOP, SIGSEGV, SIGILL, SIGFPE, and two that are no signals.
        for number in [9, 19, 11, 4, 8, 0, 4000] {
            let error = signal(SignalKind::from_raw(number)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{number}");
        }
        Ok(())
    });
}
