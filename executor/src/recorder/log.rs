//! Lines of a log: how a text of any length gets into a ring of records of 16 bytes.
//!
//! # How it works
//!
//! A line is several records, one after the other, which are written at once (*Records that belong
//! together* in `ring.rs`): first a record as others are, with the task, the number of the target,
//! the level, and how many records of text follow. A record of text has 15 bytes:
//!
//! ```text
//!  63                                                              8 7        0
//! +-----------------------------------------------------------------+----------+
//! | bytes 0 to 6 of the text                                        | 255      |
//! +-----------------------------------------------------------------+----------+
//! | bytes 7 to 14                                                              |
//! +----------------------------------------------------------------------------+
//!  63                                                                         0
//! ```
//!
//! What the last one has no text for is 0. A text is cut at 240 bytes.
//!
//! # Why
//!
//! - *Memory is bounded*: there is none but the ring. A line takes the room of as many events as it
//!   has records, 17 at most.
//! - *No lock for the text, and no allocation*: the thread of a P writes its own ring, as for any
//!   event. A thread without a P has the lock of its ring for as long as it copies 272 bytes. The
//!   text is made before that, on the stack of the thread, since `Display` and `Debug` of a user's
//!   types are code of the user's. A target has a number as the name of a mark has, so the first
//!   use of it on a thread takes the lock of `names.rs`.
//! - *A line and its text are overwritten together*, the oldest first. If its first record is gone,
//!   the rest of it is passed over. So no line has the text of another one.
//!
//! The name of a task (`named.rs`) is written in the same way. There the place stands for the
//! target, and the level is 0.
//!
//! Rejected: a ring of texts beside those of the records, and the number of its text in a record.
//! All workers would write that one, under a lock; a text would be gone before its line or after
//! it; and a number with 8 bits is soon another text's.
//!
//! Rejected: to intern texts as the names of marks are. Each message with a number in it is a new
//! one, and names are never forgotten.

use super::kinds::KIND_BITS;

/// The kind of a record of text.
const TEXT: u64 = (1 << KIND_BITS) - 1;

/// In the number of the first record, which has 8 bits: the bits of the level. Above it is how many
/// records of text follow.
const LEVEL_BITS: u32 = 3;

/// How a level is called: 1 is an error.
pub(crate) fn level_name(number: u64) -> &'static str {
    match number {
        1 => "ERROR",
        2 => "WARN",
        3 => "INFO",
        4 => "DEBUG",
        _ => "TRACE",
    }
}

/// Whether this record is a part of a text.
pub(super) fn is_text([first, _]: &[u64; 2]) -> bool {
    first & TEXT == TEXT
}

/// The level, and how many records of text follow.
pub(super) fn of_number(number: u64) -> (u64, usize) {
    let level = number & ((1 << LEVEL_BITS) - 1);
    (level, (number >> LEVEL_BITS) as usize)
}

/// The text of these records.
pub(super) fn text(records: &[[u64; 2]]) -> Box<str> {
    let bytes = records.iter().flat_map(|[first, second]| {
        let first = first.to_le_bytes().into_iter().skip(1);
        first.chain(second.to_le_bytes())
    });
    let mut bytes: Vec<u8> = bytes.collect();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).into()
}

pub(crate) use self::line::Line;

mod line {
    use std::{fmt, fmt::Write, panic::Location};

    use super::{LEVEL_BITS, TEXT};
    use crate::recorder::names;

    /// The most bytes of a text. Guessed: a line of a log.
    pub(super) const LONGEST: usize = 16 * BYTES;

    /// Bytes of a text in a record.
    pub(super) const BYTES: usize = size_of::<[u64; 2]>() - 1;

    /// What stands at the end of a text that was cut.
    const CUT: &str = "…";

    /// A line of a log, which is being made. Writing to it fails when its text is as long as it
    /// may be.
    pub(crate) struct Line {
        /// The number of its target, or of a task's place.
        target: u64,
        /// 1 is an error, 5 a trace. 0: it is the name of a task.
        level: u64,
        text: [u8; LONGEST],
        length: usize,
        is_cut: bool,
    }

    impl Line {
        #[cfg(any(test, feature = "tracing-layer"))]
        pub(crate) fn new(target: &'static str, level: u64) -> Self {
            Self::with(names::number(target), level)
        }

        /// The name of a task, and where it was spawned.
        pub(crate) fn of_task(name: &str, place: &'static Location<'static>) -> Self {
            let mut line = Self::with(names::place_number(place), 0);
            // An error: it was cut.
            _ = line.write_str(name);
            line
        }

        fn with(target: u64, level: u64) -> Self {
            Self {
                target,
                level,
                text: [0; LONGEST],
                length: 0,
                is_cut: false,
            }
        }

        /// Whether it has no text yet.
        #[cfg(feature = "tracing-layer")]
        pub(crate) fn is_empty(&self) -> bool {
            self.length == 0
        }

        /// The number of its first record, as `encode` takes it.
        pub(crate) fn number(&self) -> u64 {
            let records = self.length.div_ceil(BYTES) as u64;
            self.target << 32 | records << LEVEL_BITS | self.level
        }

        /// Calls the function with all of its records. `head` is the first one.
        pub(crate) fn with_records(&self, head: [u64; 2], write: impl FnOnce(&[[u64; 2]])) {
            let mut records = [[0; 2]; 1 + LONGEST / BYTES];
            records[0] = head;
            let texts = self.text[..self.length].chunks(BYTES);
            let count = texts.len();
            for (record, text) in records[1..].iter_mut().zip(texts) {
                let mut bytes = [0; 1 + BYTES];
                bytes[0] = TEXT as u8;
                bytes[1..=text.len()].copy_from_slice(text);
                let word = |at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
                *record = [word(0), word(8)];
            }
            write(&records[..=count]);
        }

        /// Appends the start of a text, which has room.
        fn append(&mut self, text: &str, length: usize) {
            self.text[self.length..][..length].copy_from_slice(&text.as_bytes()[..length]);
            self.length += length;
        }
    }

    impl fmt::Write for Line {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = LONGEST - self.length;
            if self.is_cut {
                return Err(fmt::Error);
            }
            if text.len() <= room {
                self.append(text, text.len());
                return Ok(());
            }
            let end = (0..=room).rfind(|&at| text.is_char_boundary(at));
            self.append(text, end.unwrap_or(0));
            // Where a character starts, and there is room for `CUT`.
            let is_start = |&at: &usize| at == self.length || self.text[at] & 0xc0 != 0x80;
            let end = (0..=self.length.min(LONGEST - CUT.len())).rfind(is_start);
            self.length = end.unwrap_or(0);
            self.append(CUT, CUT.len());
            self.is_cut = true;
            Err(fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::{
        line::{BYTES, LONGEST},
        *,
    };
    use crate::recorder::{
        EventKind,
        kinds::{Newest, decode_all, encode},
        merged::Merged,
        ring::Ring,
        ticks::Ticks,
    };

    /// The records of a line of task 9.
    fn records(text: &str) -> Vec<[u64; 2]> {
        let mut line = Line::new("a target", 3);
        _ = line.write_str(text);
        let head = encode(7, EventKind::Log, 9, line.number());
        let mut all = Vec::new();
        line.with_records(head, |records| all.extend_from_slice(records));
        all
    }

    fn newest() -> Newest {
        Newest {
            id: 20,
            ticks: 20,
            scale: Ticks::new(&crate::timer::Clock::stopped())
                .scale(&crate::timer::Clock::stopped()),
        }
    }

    fn texts(records: &[[u64; 2]]) -> Vec<Option<String>> {
        let newest = newest();
        let events = decode_all(records, Some(1), &newest).inspect(|event| {
            assert_eq!(event.name, Some("a target"));
            assert_eq!((event.number, event.time.as_nanos()), (3, 7));
            assert_eq!(event.task.map(|id| id.as_u64()), Some(9));
        });
        events.map(|event| event.text.map(String::from)).collect()
    }

    #[test]
    fn a_text_comes_out_as_it_went_in() {
        let mut all = Vec::new();
        let mut expected = Vec::new();
        for length in [0, 1, 7, 8, 14, 15, 16, 30, 31, LONGEST - 1, LONGEST] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let of_line = records(&text);
            assert_eq!(of_line.len(), 1 + length.div_ceil(BYTES));
            all.extend(of_line);
            expected.push((length > 0).then_some(text));
        }
        assert_eq!(texts(&all), expected);
    }

    // Fails if a character is cut in two, or if nothing says that the text was cut.
    #[test]
    fn a_long_text_is_cut() {
        for (unit, shift) in [("a", 0), ("ä", 0), ("ä", 1), ("€", 0), ("€", 1), ("€", 2)] {
            let text = "b".repeat(shift) + &unit.repeat(LONGEST + 1);
            let [Some(cut)] = &texts(&records(&text))[..] else {
                panic!("it is one line with a text");
            };
            let start = cut
                .strip_suffix('…')
                .unwrap_or_else(|| panic!("it does not say so: {cut}"));
            assert!(text.starts_with(start));
            assert!(
                (LONGEST - 4..=LONGEST).contains(&cut.len()),
                "{}",
                cut.len()
            );
        }
    }

    #[test]
    fn pieces_are_one_text_and_the_end_is_told() {
        let mut line = Line::new("a target", 3);
        write!(line, "{}{}", "a".repeat(LONGEST - 1), 1).unwrap();
        assert!(write!(line, "b").is_err());
        assert!(write!(line, "c").is_err());
        let mut all = Vec::new();
        let head = encode(7, EventKind::Log, 9, line.number());
        line.with_records(head, |records| all.extend_from_slice(records));
        let expected = "a".repeat(LONGEST - CUT_LENGTH) + "…";
        assert_eq!(texts(&all), [Some(expected)]);
    }

    const CUT_LENGTH: usize = "…".len();

    // Fails if a line without its first records is told of, or if the next one is lost with it.
    #[test]
    fn a_line_without_its_beginning_is_passed_over() {
        let all = [records("one that is long enough"), records("two")].concat();
        let second = [Some("two".to_owned())];
        for gone in 1..3 {
            assert_eq!(texts(&all[gone..]), second);
        }
        assert_eq!(texts(&all[all.len() - 1..]), []);
    }

    // Fails if a line is cut where a part ends.
    #[test]
    fn a_line_is_whole_wherever_a_part_ends() {
        let ring = Ring::new(1024);
        let text = |n: usize| "x".repeat(n * 7 % LONGEST + 1);
        for n in 0..50 {
            ring.write_together(&records(&text(n)));
        }
        // A line is 17 records at most.
        for part in [17, 18, 25, 40, 1024] {
            let merged = Merged::new([(Some(1), &ring)].into_iter(), newest(), part);
            let texts = merged.map(|event| String::from(event.text.expect("its text")));
            assert!(texts.eq((0..50).map(text)), "parts of {part}");
        }
    }

    #[test]
    fn a_kind_is_no_text() {
        let kind = EventKind::Log as u64;
        assert!(kind < TEXT);
        assert!(!is_text(&[kind, u64::MAX]));
    }
}
