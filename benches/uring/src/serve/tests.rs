//! Two rules of io_uring that a runtime with many threads would have to live with.

use std::{io, net::UdpSocket, thread};

use io_uring::cqueue;

use super::{by_poll, ring};

#[test]
fn a_poll_ends_at_the_first_event_after_the_thread_that_submitted_it() -> io::Result<()> {
    let mut ring = ring(false)?;
    let source = UdpSocket::bind("127.0.0.1:0")?;
    // The first event is that of registering: there is room for a datagram.
    let first = thread::scope(|scope| {
        let armed = scope.spawn(|| {
            by_poll::arm(&mut ring, &source, 7)?;
            ring.submit_and_wait(1)?;
            Ok::<_, io::Error>(ring.completion().next().expect("it waited for one"))
        });
        armed.join().expect("no panic")
    })?;
    assert!(first.result() > 0 && cqueue::more(first.flags()));
    source.send_to(b"a datagram", source.local_addr()?)?;
    ring.submit_and_wait(1)?;
    let last = ring.completion().next().expect("it waited for one");
    assert_eq!((last.user_data(), last.result()), (7, -libc::ECANCELED));
    assert!(!cqueue::more(last.flags()));
    Ok(())
}

#[test]
fn another_thread_may_not_wait_at_a_ring_with_an_owner() -> io::Result<()> {
    let mut ring = ring(true)?;
    let source = UdpSocket::bind("127.0.0.1:0")?;
    by_poll::arm(&mut ring, &source, 7)?;
    ring.submit()?;
    let answer = thread::scope(|scope| {
        let waited = scope.spawn(|| ring.submit_and_wait(1));
        waited.join().expect("no panic")
    });
    let error = answer.expect_err("it is not the owner");
    assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
    Ok(())
}
