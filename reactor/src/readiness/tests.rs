//! What a readiness cell says after events, and after reads that found nothing.

use super::*;

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

fn drained() -> ReadinessCell {
    let cell = ReadinessCell::fresh(BOTH);
    for direction in [Direction::Read, Direction::Write] {
        assert!(cell.clear(cell.snapshot().ready(direction), Why::KernelWouldBlock));
        assert!(!cell.snapshot().is_ready(direction));
    }
    cell
}

#[test]
fn a_fresh_source_is_worth_trying_where_its_interest_is() {
    let both = ReadinessCell::fresh(BOTH).snapshot();
    assert!(both.is_ready(Direction::Read) && both.is_ready(Direction::Write));
    let read = ReadinessCell::fresh(Interest::READABLE).snapshot();
    assert!(read.is_ready(Direction::Read) && !read.is_ready(Direction::Write));
}

// Fails if an answer of a fresh source is forgotten, or is one of the other direction, or
// brings back what another task has cleared.
#[test]
fn an_answer_of_a_fresh_source_is_a_report() {
    let cell = ReadinessCell::fresh(BOTH);
    cell.answered(Direction::Write);
    assert!(cell.snapshot().is_reported(Direction::Write));
    assert!(!cell.snapshot().is_reported(Direction::Read));
    let seen = cell.snapshot().ready(Direction::Write);
    assert!(cell.clear(seen, Why::KernelWouldBlock));
    cell.answered(Direction::Write);
    assert!(!cell.snapshot().is_ready(Direction::Write));
}

// Fails if a fresh source begins with the bits of an event.
#[test]
fn a_fresh_source_is_not_ready() {
    let cell = ReadinessCell::fresh(BOTH);
    for direction in [Direction::Read, Direction::Write] {
        assert!(!cell.snapshot().is_reported(direction));
    }
    cell.note(Report(READ_READY));
    assert!(cell.snapshot().is_reported(Direction::Read));
    assert!(!cell.snapshot().is_reported(Direction::Write));
    assert!(cell.clear(cell.snapshot().ready(Direction::Read), Why::Asked));
    assert!(!cell.snapshot().is_ready(Direction::Read));
    assert!(cell.snapshot().is_ready(Direction::Write));
}

// Fails without the comparison of ticks in `clear`.
#[test]
fn a_clear_with_an_old_tick_erases_nothing() {
    let cell = drained();
    cell.note(Report(READ_READY));
    let old = cell.snapshot().ready(Direction::Read);
    cell.note(Report(READ_READY));
    for why in [Why::Asked, Why::Short, Why::KernelWouldBlock] {
        assert!(!cell.clear(old, why));
        assert!(cell.snapshot().is_ready(Direction::Read));
    }
    assert!(cell.clear(cell.snapshot().ready(Direction::Read), Why::Asked));
    assert!(!cell.snapshot().is_ready(Direction::Read));
}

#[test]
fn a_clear_is_about_its_own_direction() {
    let cell = ReadinessCell::fresh(BOTH);
    assert!(cell.clear(cell.snapshot().ready(Direction::Read), Why::Asked));
    assert!(cell.snapshot().is_ready(Direction::Write));
}

// Fails if `clear` takes the closed bits for any reason, or for none.
#[test]
fn only_the_kernel_reopens_what_is_closed() {
    let cell = drained();
    cell.note(Report(READ_READY | READ_CLOSED));
    let seen = cell.snapshot().ready(Direction::Read);
    assert!(seen.is_closed());
    cell.clear(seen, Why::Asked);
    cell.clear(seen, Why::Short);
    assert!(cell.snapshot().is_ready(Direction::Read));
    assert!(cell.clear(seen, Why::KernelWouldBlock));
    assert!(!cell.snapshot().is_ready(Direction::Read));
}

// Fails without the guard on `Why::Short`.
#[test]
fn a_short_transfer_proves_nothing_after_urgent_data_or_an_error() {
    for odd in [PRIORITY, READ_ERROR] {
        let cell = drained();
        cell.note(Report(READ_READY | odd));
        assert!(!cell.clear(cell.snapshot().ready(Direction::Read), Why::Short));
        assert!(cell.snapshot().is_ready(Direction::Read));
    }
}

// Fails if both directions share the bit of an error. The event is a real one that says
// "error" and nothing else: a full pipe that has lost its reader.
#[cfg(target_os = "linux")]
#[test]
fn an_error_collected_by_one_direction_is_still_news_to_the_other() {
    use std::io::Write;

    let mut poll = mio::Poll::new().unwrap();
    let (mut writer, reader) = mio::unix::pipe::new().unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    let token = mio::Token(0);
    poll.registry().register(&mut writer, token, BOTH).unwrap();
    drop(reader);
    let mut events = mio::Events::with_capacity(1);
    poll.poll(&mut events, None).unwrap();
    let event = events.iter().next().expect("an error");
    assert!(event.is_error() && !event.is_readable() && !event.is_writable());

    let cell = drained();
    cell.note(Report::of(event));
    let seen = cell.snapshot().ready(Direction::Write);
    assert!(cell.clear(seen, Why::KernelWouldBlock));
    assert!(!cell.snapshot().is_ready(Direction::Write));
    assert!(cell.snapshot().is_ready(Direction::Read));
}

// Fails if the clear takes more than its part, a closed bit for any reason, or one that an
// event has set since.
#[test]
fn a_part_is_cleared_and_the_rest_stays() {
    let cell = ReadinessCell::fresh(BOTH);
    assert!(cell.snapshot().seen().set().is_empty());
    cell.note(Report(READ_READY | READ_CLOSED | WRITE_READY | READ_ERROR));
    let seen = cell.snapshot().seen();
    assert!(seen.set().contains(ReadySet::ERROR));
    let read = ReadySet::READABLE.union(ReadySet::READ_CLOSED);
    assert!(cell.clear_seen(seen, read, Why::Asked));
    let left = ReadySet::READ_CLOSED
        .union(ReadySet::WRITABLE)
        .union(ReadySet::ERROR);
    assert_eq!(cell.snapshot().seen().set(), left);
    assert!(cell.clear_seen(seen, read, Why::KernelWouldBlock));
    assert!(!cell.snapshot().seen().set().contains(ReadySet::READ_CLOSED));
    cell.note(Report(READ_READY));
    assert!(!cell.clear_seen(seen, ReadySet::WRITABLE, Why::Asked));
    assert!(cell.snapshot().seen().set().contains(ReadySet::WRITABLE));
}

// Fails if `within` keeps a bit of the direction that was not asked for.
#[test]
fn a_report_is_about_what_was_asked_for() {
    let all = Report(READ_BITS | WRITE_BITS);
    for (interest, read, write) in [
        (Interest::READABLE, true, false),
        (Interest::WRITABLE, false, true),
        (BOTH, true, true),
    ] {
        let within = all.within(interest);
        assert_eq!(within.concerns(Direction::Read), read);
        assert_eq!(within.concerns(Direction::Write), write);
    }
}

#[test]
fn the_end_stays() {
    let cell = drained();
    assert!(cell.deregister());
    assert!(!cell.deregister());
    cell.shut_down();
    cell.note(Report(READ_READY));
    let seen = cell.snapshot();
    assert!(seen.is_ended() && seen.is_shut_down() && seen.is_deregistered());
    cell.clear(seen.ready(Direction::Read), Why::KernelWouldBlock);
    assert!(cell.snapshot().is_ended());
}
