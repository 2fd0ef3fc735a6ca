//! The lines of events, and what a recording makes of the words in its rings.

use super::*;
use crate::{recorder::ticks::Ticks, timer::Clock};

#[test]
fn an_event_is_a_line() {
    let event = Event {
        time: Duration::from_nanos(17),
        processor: Some(3),
        kind: EventKind::Steal,
        task: Some(Id::new(9)),
        name: None,
        text: None,
        number: 1 << 32 | 5,
    };
    assert_eq!(EventKind::Steal.to_string(), "Steal");
    let line = "          17 ns  P 3     Steal task 9, 5 from P 1";
    assert_eq!(event.to_string(), line);
    assert_eq!(String::from(event.clone()), line);
    let log = Event {
        kind: EventKind::Log,
        name: Some("orders"),
        text: Some("a \"b\"".into()),
        number: 2,
        ..event.clone()
    };
    let of_log = r#"          17 ns  P 3     Log WARN "orders" "a \"b\"" task 9"#;
    assert_eq!(log.to_string(), of_log);
    let recording = Recording {
        events: vec![event],
        overwritten: 2,
        whole_since: Duration::ZERO,
        began: SystemTime::UNIX_EPOCH,
        tasks: Map::default(),
    };
    let lines = format!("2 older events were overwritten\n{line}\n");
    assert_eq!(recording.to_string(), lines);
}

/// What stands behind the kind and the task, for each kind.
#[test]
fn each_kind_has_its_words() {
    const BOTH: u64 = 7 << 32 | 25;
    let with_words = [
        (EventKind::Steal, BOTH, ", 25 from P 7"),
        (EventKind::LongPoll, BOTH, ", P 7, for 2.5 ms"),
        (EventKind::Timers, BOTH, ", 25, 7 us late"),
        (EventKind::Queued, BOTH, ", 7 for all, 25 in local queues"),
        (EventKind::ParentStolen, 3, ", P 3"),
        (EventKind::RunNextStolen, 3, ", P 3"),
        (EventKind::BranchStolen, 3, ", P 3"),
        (EventKind::WakeThread, 3, ", P 3"),
        (EventKind::LongPollEnd, 3, ", P 3"),
        (EventKind::Stall, 3, ", P 3"),
        (EventKind::Revoke, 3, ", P 3"),
        (EventKind::Overflow, 3, ", 3"),
        (EventKind::Return, 1, ", 1"),
        (EventKind::Netpoll, 3, ", 3"),
    ];
    for &kind in KINDS {
        let words = with_words.iter().find(|(of, ..)| *of == kind);
        let (number, words) = words.map_or((1, ""), |&(_, number, words)| (number, words));
        let event = Event {
            time: Duration::from_nanos(17),
            processor: None,
            kind,
            task: Some(Id::new(9)),
            name: None,
            text: None,
            number,
        };
        let level = if kind == EventKind::Log { " ERROR" } else { "" };
        let line = format!("          17 ns  no P    {kind:?}{level} task 9{words}");
        assert_eq!(event.to_string(), line);
    }
}

#[test]
fn a_count_that_has_no_room_is_the_largest() {
    let newest = Newest {
        id: 10,
        ticks: 10,
        scale: Ticks::new(&Clock::stopped()).scale(&Clock::stopped()),
    };
    for (count, kept) in [(254, 254), (255, 255), (256, 255), (300, 255)] {
        let words = encode(9, EventKind::Steal, 3, 1 << 32 | count);
        let event = decode(&[words], None, &newest);
        assert_eq!(event.number, 1 << 32 | kept);
    }
}

#[test]
fn a_level_has_a_name() {
    for level in [Level::Off, Level::Sparse, Level::Full] {
        assert_eq!(level.to_string().parse(), Ok(level));
    }
    let error = "Full".parse::<Level>().unwrap_err().to_string();
    assert!(error.contains("`sparse`"), "{error}");
}

/// What comes out is what went in, for each kind.
#[test]
fn a_record_is_read_as_it_was_written() {
    let newest = Newest {
        id: 5 << ID_BITS | 10,
        ticks: 7 << 56 | 10,
        scale: Ticks::new(&Clock::stopped()).scale(&Clock::stopped()),
    };
    for &kind in KINDS {
        // The second is older than the bits of an id and of a time have room for.
        for before in [0, 20] {
            let (task, ticks) = (newest.id - before, newest.ticks - before);
            let name = names::number("a name");
            let number = match kind.about() {
                About::Counted => 0xffff << 32 | 128,
                About::Task => 0xffff,
                About::Named => name << 32 | 200,
                About::Span => name << 32 | SPAN_MASK,
                About::Line => name << 32 | 4,
                About::Name => 0xffff << 32,
                About::Number => u64::MAX,
            };
            let words = encode(ticks, kind, task, number);
            let event = decode(&[words], Some(3), &newest);
            let expected = Event {
                time: Duration::from_nanos(ticks),
                processor: Some(3),
                kind,
                task: (kind.about() != About::Number).then_some(Id::new(task)),
                name: [About::Named, About::Span, About::Line]
                    .contains(&kind.about())
                    .then_some("a name"),
                text: None,
                number: match kind.about() {
                    About::Named => 200,
                    About::Span => SPAN_MASK,
                    About::Line => 4,
                    About::Name => 0xffff,
                    _ => number,
                },
            };
            assert_eq!(event, expected);
        }
    }
}
