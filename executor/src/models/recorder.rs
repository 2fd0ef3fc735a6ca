//! The ring of the recorder: `recorder/ring.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `what_is_read_is_whole` | a thread that reads while another writes over what it reads gets records that are whole, each the one of its number, and all that it says | 3 | 0.1 | `recorder_begun_no_fence`, `recorder_keeps_the_torn`, `recorder_read_no_fence`, `recorder_written_relaxed` |
//! | `a_part_is_whole` | the same for a thread that reads the ring in parts | 3 | 0.1 | the same |
//! | `what_belongs_together_comes_together` | of records that are written at once, a reader gets all or none; of older ones that these overwrite, it gets the later ones | 3 | 0.1 | `recorder_begins_the_first`, `recorder_writes_one_by_one` |

use super::{both_ways::explore, ring::Ring};
use crate::sync::Arc;

/// Records of the ring.
const RECORDS: usize = 2;

#[test]
fn what_is_read_is_whole() {
    explore(3, |turn| {
        let ring = Arc::new(Ring::new(RECORDS));
        let write = |ring: &Ring, n| ring.write([n, n]);
        // Its memory is taken here: that is no part of the protocol.
        write(&ring, 0);
        let writer = {
            let ring = ring.clone();
            move || (1..3).for_each(|n| write(&ring, n))
        };
        let reader = {
            let ring = ring.clone();
            move || {
                let reading = ring.read();
                for (n, words) in (reading.overwritten..).zip(&reading.records) {
                    assert_eq!(*words, [n, n]);
                }
            }
        };
        turn.race(writer, [reader]);
        let reading = ring.read();
        assert_eq!(reading.overwritten, 1);
        assert_eq!(reading.records, [[1, 1], [2, 2]]);
    });
}

#[test]
fn a_part_is_whole() {
    explore(3, |turn| {
        let ring = Arc::new(Ring::new(RECORDS));
        let write = |ring: &Ring, n| ring.write([n, n]);
        (0..2).for_each(|n| write(&ring, n));
        let writer = {
            let ring = ring.clone();
            move || write(&ring, 2)
        };
        let reader = {
            let ring = ring.clone();
            move || {
                let end = ring.written();
                let mut next = 0;
                while next < end {
                    let reading = ring.read_between(next, next + 1);
                    assert!(reading.overwritten >= next);
                    for (n, words) in (reading.overwritten..).zip(&reading.records) {
                        assert_eq!(*words, [n, n]);
                    }
                    next = reading.overwritten + reading.records.len() as u64;
                    next = next.max(ring.oldest());
                }
            }
        };
        turn.race(writer, [reader]);
        assert_eq!(ring.read_between(0, 3).records, [[1, 1], [2, 2]]);
    });
}

#[test]
fn what_belongs_together_comes_together() {
    explore(3, |turn| {
        let ring = Arc::new(Ring::new(2 * RECORDS));
        ring.write_together(&[[0, 0], [1, 1]]);
        // Its memory is taken by now.
        let writer = {
            let ring = ring.clone();
            move || ring.write_together(&[[2, 2], [3, 3], [4, 4]])
        };
        let reader = {
            let ring = ring.clone();
            move || {
                let reading = ring.read();
                for (n, words) in (reading.overwritten..).zip(&reading.records) {
                    assert_eq!(*words, [n, n]);
                }
                // None of the three, or all; and of the two, the first may be gone.
                let numbers = (reading.overwritten, reading.records.len());
                assert!([(0, 2), (1, 1), (1, 4)].contains(&numbers), "{numbers:?}");
            }
        };
        turn.race(writer, [reader]);
    });
}
