//! F5, L6: whenever there is something to wait for and nobody runs, somebody waits for it in the
//! netpoll, however the last threads parked, whoever else looked there meanwhile, and whichever
//! thread brought it.
//!
//! The first fails, by a hang, when the monitor (`monitor.rs`) does not call `ensure_poller`
//! (nor stays up while a poller is lacked); the second, when a registration tells nobody
//! (`Netpoll::on_unheard`); the third, which has no monitor, also when only threads that are no
//! worker tell of it.

use crate::net_support;

use std::{
    future::poll_fn,
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    pin::pin,
    process::Command,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use futures::executor::block_on;
use net_support::{Limit, WORKERS, runtime};
use ws::{
    block_in_place,
    io::AsyncReadExt,
    net::UnixStream as Stream,
    runtime::{Builder, Runtime, Sysmon},
    signal::unix::{SignalKind, signal},
};
use ws_reactor::{Direction, Interest, Registration, SourceFd};

fn parks(runtime: &Runtime) -> u64 {
    let metrics = runtime.handle().metrics();
    metrics.processors.iter().map(|its| its.parks).sum()
}

#[test]
fn also_if_the_netpoll_was_taken_when_the_last_one_lay_down() {
    let elsewhere = runtime(1);
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let handle = runtime.handle();
        // As the monitor does for a moment: it has the netpoll, but does not wait there.
        let poller = loop {
            if let Some(poller) = handle.netpoll().try_poller() {
                break poller;
            }
        };
        // Later than the monitor's last look, if it goes to sleep.
        let task = runtime.spawn(async { ws::time::sleep(Duration::from_millis(300)).await });
        while handle.metrics().free_permits < workers || parks(&runtime) == 0 {
            thread::yield_now();
        }
        drop(poller);
        // Not in a `block_on` of its own, which would look there.
        elsewhere.block_on(task).unwrap();
    }
}

#[test]
fn also_for_what_a_thread_registers_that_has_not_entered_the_runtime() {
    let elsewhere = runtime(1);
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let runtime = runtime(workers);
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let mut source = SourceFd(&here.as_raw_fd());
        let registration =
            Registration::new(runtime.handle().netpoll(), &mut source, Interest::READABLE).unwrap();
        let writer = thread::spawn(move || there.write_all(b"x").map(|()| there));
        let mut byte = [0];
        let read = poll_fn(|cx| registration.poll_io(cx, Direction::Read, || here.read(&mut byte)));
        assert_eq!(elsewhere.block_on(read).unwrap(), 1);
        registration
            .deregister(&mut SourceFd(&here.as_raw_fd()))
            .unwrap();
        writer.join().unwrap().unwrap();
    }
}

/// Waits, by another executor, for what a thread that is none of the runtime's writes once all the
/// others are asleep.
fn wait_for_a_socket() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let mut here = Stream::from_std(here).unwrap();
    let mut byte = [0];
    let mut read = pin!(here.read(&mut byte));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(read.as_mut().poll(&mut cx).is_pending());
    let writer = thread::spawn(move || there.write_all(b"x").map(|()| there));
    assert_eq!(block_on(read).unwrap(), 1);
    writer.join().unwrap().unwrap();
}

#[test]
fn also_for_what_a_blocked_section_registers() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        // A new one each time: no thread of it has gone to the netpoll before.
        let runtime = || {
            let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
            builder.build().unwrap()
        };
        block_on(runtime().handle().spawn_blocking(wait_for_a_socket)).unwrap();
        block_on(runtime().spawn(async { block_in_place(wait_for_a_socket) })).unwrap();
        runtime().block_on(async { block_in_place(wait_for_a_socket) });
        runtime().run(async { block_in_place(wait_for_a_socket) });
    }
}

#[test]
fn also_for_a_signal_that_a_blocked_section_waits_for() {
    for workers in WORKERS {
        let _limit = Limit::new(workers);
        let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
        let runtime = builder.build().unwrap();
        let call = || {
            let mut listener = signal(SignalKind::user_defined2()).unwrap();
            let mut next = pin!(listener.recv());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(next.as_mut().poll(&mut cx).is_pending());
            let kill = thread::spawn(|| {
                let me = std::process::id().to_string();
                let kill = Command::new("kill").args(["-USR2", &me]).status();
                assert!(kill.unwrap().success());
            });
            block_on(next).unwrap();
            kill.join().unwrap();
        };
        block_on(runtime.handle().spawn_blocking(call)).unwrap();
    }
}
