//! A source and the tasks that wait for it: *The race* in `source.rs`, and *no edge is erased* in
//! `readiness.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_poll_for_readiness_meets_an_event` | a task that asks by a poll function is woken by an event, or sees it | 3 | 0.1 | `source_note_takes_first`, `source_poll_ready_looks_once`, `source_poll_ready_looks_first` |
//! | `a_future_that_waits_meets_an_event` | the same for a future | 3 | 0.1 | `source_future_looks_once`; also `source_note_takes_first` |
//! | `a_read_that_finds_nothing_meets_an_event` | the same for an operation: a task that sees the tick of an event sees what it was about | 3 | 0.3 | `source_try_looks_once`, `readiness_snapshot_relaxed`, `readiness_note_relaxed`, `readiness_note_does_not_count` |
//! | `a_late_clear_erases_no_edge` | the same while an older event is cleared | 3 | 0.4 | `readiness_clear_ignores_the_tick` |
//! | `a_poll_that_asks_first_meets_an_event` | the same for a task that asks whether there is anything to try | 3 | 0.1 | `source_poll_waits_looks_once` |
//! | `a_deregistration_tells_who_waits` | a task that waits is woken by the end of its source, or sees it | 3 | 0.3 | `source_deregister_takes_first` |
//! | `a_shutdown_tells_who_waits` | the same for the end of the netpoll | 3 | 0.1 | `source_shutdown_takes_first` |
//! | `a_registration_beside_a_shutdown_is_told` | the same for a source that comes meanwhile | 3 | 0.1 | `source_table_stays_open` |
//!
//! A task that nobody wakes is a deadlock, which loom reports.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use mio::Interest;

use super::{
    both_ways::explore,
    kernel::{Pipe, block_on, look},
};
use crate::{netpoll::Netpoll, readiness::Direction::Read, registration::Registration, sync::Arc};

fn netpoll() -> Arc<Netpoll> {
    Netpoll::new().expect("this kernel knows no errors")
}

/// Writes, and brings the event.
fn write_and_look(pipe: Arc<Pipe>, netpoll: Arc<Netpoll>) -> impl FnOnce() + 'static {
    move || {
        pipe.write();
        look(&netpoll);
    }
}

#[test]
fn a_poll_for_readiness_meets_an_event() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let wait = move || {
            let ready = block_on(|cx| reader.poll_ready(cx, Read));
            assert_eq!(ready.expect("it stays open").direction(), Read);
        };
        turn.race(wait, [write_and_look(pipe, netpoll)]);
    });
}

#[test]
fn a_future_that_waits_meets_an_event() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let wait = move || {
            let mut future = pin!(reader.readiness(Read));
            let ready = block_on(|cx| future.as_mut().poll(cx));
            assert_eq!(ready.expect("it stays open").direction(), Read);
        };
        turn.race(wait, [write_and_look(pipe, netpoll)]);
    });
}

#[test]
fn a_read_that_finds_nothing_meets_an_event() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let writer = write_and_look(pipe.clone(), netpoll);
        let read = move || {
            let answer = block_on(|cx| reader.poll_io(cx, Read, || pipe.read()));
            answer.expect("it stays open");
        };
        turn.race(read, [writer]);
    });
}

#[test]
fn a_late_clear_erases_no_edge() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let writer = write_and_look(pipe.clone(), netpoll.clone());
        write_and_look(pipe.clone(), netpoll)();
        let read = move || {
            for _ in 0..2 {
                let answer = block_on(|cx| reader.poll_io(cx, Read, || pipe.read()));
                answer.expect("it stays open");
            }
        };
        turn.race(read, [writer]);
    });
}

#[test]
fn a_poll_that_asks_first_meets_an_event() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let writer = write_and_look(pipe.clone(), netpoll);
        // Once it was tried, it is no longer worth a try.
        let mut cx = Context::from_waker(Waker::noop());
        assert!(reader.poll_io(&mut cx, Read, || pipe.read()).is_pending());
        // As the streams do it: what is not tried costs nothing.
        let read = move || {
            let answer = block_on(|cx| {
                if reader.poll_waits(cx, Read) {
                    return Poll::Pending;
                }
                reader.poll_io(cx, Read, || pipe.read())
            });
            answer.expect("it stays open");
        };
        turn.race(read, [writer]);
    });
}

#[test]
fn a_deregistration_tells_who_waits() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let owner = reader.clone();
        let wait = move || {
            let answer = block_on(|cx| reader.poll_io(cx, Read, || pipe.read()));
            let error = answer.expect_err("nothing is written");
            assert!(error.to_string().contains("deregistered"), "{error}");
        };
        let end = move || {
            let unwatched = Pipe::default();
            owner.deregister(&mut &unwatched).expect("no error");
        };
        turn.race(wait, [end]);
    });
}

#[test]
fn a_shutdown_tells_who_waits() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let (pipe, reader) = Pipe::registered(&netpoll);
        let wait = move || {
            let answer = block_on(|cx| reader.poll_io(cx, Read, || pipe.read()));
            let error = answer.expect_err("nothing is written");
            assert!(error.to_string().contains("shut down"), "{error}");
        };
        turn.race(wait, [move || netpoll.shut_down()]);
    });
}

#[test]
fn a_registration_beside_a_shutdown_is_told() {
    explore(3, |turn| {
        let netpoll = netpoll();
        let ends = netpoll.clone();
        let register_and_wait = move || {
            let pipe = Pipe::default();
            let answer = Registration::new(&netpoll, &mut &pipe, Interest::READABLE)
                .and_then(|reader| block_on(|cx| reader.poll_ready(cx, Read)));
            let error = answer.expect_err("nothing is written");
            assert!(error.to_string().contains("shut down"), "{error}");
        };
        turn.race(register_and_wait, [move || ends.shut_down()]);
    });
}
