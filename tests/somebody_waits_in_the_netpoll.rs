//! F5: whenever there is something to wait for and nobody runs, somebody waits for it in the netpoll, however the
//! last threads lay down and whoever else looked there meanwhile.
//!
//! The first fails, by a hang, when sysmon in `sched/sysmon.rs` does not call `ensure_poller` (nor stays up while a
//! poller is lacked); the second, when a registration tells nobody (`Netpoll::on_new`).

mod net_support;

use std::{
    future::poll_fn,
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use net_support::{Limit, WORKERS, runtime};
use ws::runtime::Runtime;
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
        // As sysmon does for a moment: it has the netpoll, but does not wait there.
        let poller = loop {
            if let Some(poller) = handle.netpoll().try_poller() {
                break poller;
            }
        };
        // Later than sysmon's last look, if it lies down.
        let task = runtime.spawn(async { ws::time::sleep(Duration::from_millis(300)).await });
        while handle.metrics().free_permits < workers || parks(&runtime) == 0 {
            thread::yield_now();
        }
        drop(poller);
        // Not as a guest of its own, which would look there.
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
