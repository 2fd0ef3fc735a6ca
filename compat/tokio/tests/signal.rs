//! Listeners for signals that follow each other.
//!
//! Signals are the process's, so each test here has one of its own.

use std::{
    process::Command,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

fn raise(name: &str) {
    let me = std::process::id().to_string();
    let status = Command::new("kill")
        .args([&format!("-{name}"), &me])
        .status();
    assert!(status.unwrap().success());
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn is_told(listener: &mut Signal) -> bool {
    listener
        .poll_recv(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

// Fails if what was kept of the last listener goes to the next one.
#[test]
fn a_listener_hears_nothing_from_before() {
    let kind = SignalKind::user_defined1();
    runtime().block_on(async {
        for pause in [0, 200] {
            let last = signal(kind).unwrap();
            raise("USR1");
            drop(last);
            thread::sleep(Duration::from_millis(pause));
            let mut next = signal(kind).unwrap();
            assert!(!is_told(&mut next));
            raise("USR1");
            next.recv().await.unwrap();
        }
        drop(signal(kind).unwrap());
        raise("USR1");
        // More than the gap in which none is lost.
        thread::sleep(Duration::from_millis(200));
        assert!(!is_told(&mut signal(kind).unwrap()));
    });
}

// Fails if the listener of another signal is taken, or one that somebody has.
#[test]
fn listeners_are_told_of_their_own_signal() {
    runtime().block_on(async {
        drop(signal(SignalKind::hangup()).unwrap());
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        let mut another = signal(SignalKind::hangup()).unwrap();
        let mut alarm = signal(SignalKind::alarm()).unwrap();
        raise("HUP");
        hangup.recv().await.unwrap();
        another.recv().await.unwrap();
        assert!(!is_told(&mut alarm));
    });
}

#[test]
fn a_listener_outlives_its_runtime() {
    let kind = SignalKind::user_defined2();
    let first = runtime();
    let mut listener = first.block_on(async { signal(kind).unwrap() });
    drop(first);
    runtime().block_on(async {
        assert!(!is_told(&mut listener));
        raise("USR2");
        listener.recv().await.unwrap();
    });
    drop(listener);
}

/// A future on a thread of no runtime.
fn now<F: Future>(future: F) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

// Fails if the end of its runtime counts as a signal.
#[test]
fn the_end_of_the_runtime_is_no_signal() {
    let ended = runtime();
    let mut listener = {
        let _entered = ended.enter();
        signal(SignalKind::hangup()).unwrap()
    };
    drop(ended);
    assert_eq!(now(listener.recv()), None);
    runtime().block_on(async { assert!(!is_told(&mut listener)) });
}

// Fails if the listener that takes the place of the last one begins with nothing.
#[test]
fn a_signal_before_the_end_of_the_runtime_is_heard_after_it() {
    let ended = runtime();
    let mut listener = {
        let _entered = ended.enter();
        signal(SignalKind::user_defined2()).unwrap()
    };
    drop(ended);
    raise("USR2");
    runtime().block_on(async { listener.recv().await.unwrap() });
    raise("USR2");
    runtime().block_on(async { listener.recv().await.unwrap() });
}

#[test]
fn a_number_beyond_all_signals_is_refused_with_tokios_words() {
    let _runtime = runtime();
    let _entered = _runtime.enter();
    let error = signal(SignalKind::from_raw(200)).unwrap_err();
    assert_eq!(error.to_string(), "signal too large");
}

// Fails if more than the last listener is kept, or one although another has heard the signal.
#[test]
fn a_signal_between_two_listeners_is_told_once() {
    let kind = SignalKind::window_change();
    let listen = || signal(kind).unwrap();
    runtime().block_on(async {
        let listeners = [listen(), listen(), listen()];
        drop(listeners);
        raise("WINCH");
        let mut told = listen();
        told.recv().await.unwrap();
        assert!(!is_told(&mut listen()));

        drop(listen());
        raise("WINCH");
        told.recv().await.unwrap();
        assert!(!is_told(&mut listen()));
    });
}

// Fails if listeners of other signals take the place of the last one.
#[test]
fn each_signal_has_a_listener_that_is_kept() {
    runtime().block_on(async {
        for _ in 0..9 {
            let [_first, _second] = [(); 2].map(|()| signal(SignalKind::pipe()).unwrap());
        }
        drop(signal(SignalKind::io()).unwrap());
        drop(signal(SignalKind::pipe()).unwrap());
        raise("IO");
        signal(SignalKind::io()).unwrap().recv().await.unwrap();
    });
}
