//! Whether one register can have given these answers: linearizability.
//!
//! # How it works
//!
//! As Wing and Gong have it, with Lowe's memory of what was tried (porcupine does the same). The
//! search does one call after the other. It may take any call that begins before the first end of
//! those that are left. It goes back when an answer does not fit. What was done, as a set, with the
//! value after it, is tried once.
//!
//! A call without an answer may be done at any time after its begin, with any answer.
//!
//! Keys do not depend on each other, so each key is checked alone.
use std::{collections::BTreeSet, fmt};

use kv::api::{Answer, Op};

/// A request about one key.
#[derive(Clone, Debug)]
pub struct Call {
    pub client: u64,
    pub op: Op,
    /// When it began. No two begins or ends have the same time.
    pub begin: usize,
    /// When the answer came, and which.
    pub end: Option<(usize, Answer)>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, op, begin) = (self.client, &self.op, self.begin);
        match self.end {
            Some((end, answer)) => write!(
                f,
                "{begin:4} to {end:4}: client {client}: {op:?} -> {answer:?}"
            ),
            None => write!(
                f,
                "{begin:4} to  end: client {client}: {op:?} without an answer"
            ),
        }
    }
}

impl Call {
    fn end_time(&self) -> usize {
        self.end.map_or(usize::MAX, |(time, _)| time)
    }

    /// The value after it, if the answer fits to the value before it.
    fn apply(&self, value: Option<u64>) -> Option<Option<u64>> {
        let (answer, after) = match self.op {
            Op::Read => (Answer::Value(value), value),
            Op::Write(new) => (Answer::Done, Some(new)),
            Op::Swap { old, new } if old == value => (Answer::Done, Some(new)),
            Op::Swap { .. } => (Answer::Other, value),
            Op::Add(number) => {
                let sum = Some(value.unwrap_or(0).wrapping_add(number));
                (Answer::Value(sum), sum)
            }
        };
        let fits = self.end.is_none_or(|(_, told)| told == answer);
        fits.then_some(after)
    }
}

/// Sets of calls: a bit for each.
type Set = Vec<u64>;

/// Whether there is an order of the calls, each between its begin and its end, that gives their
/// answers.
pub fn is_linearizable(calls: &[Call]) -> bool {
    let answered = calls.iter().filter(|call| call.end.is_some()).count();
    let mut tried = BTreeSet::new();
    let mut done: Set = vec![0; calls.len().div_ceil(64)];
    // The calls that were done, each with the value before it, and how far the search came after
    // it.
    let mut path: Vec<(usize, Option<u64>)> = Vec::new();
    let (mut value, mut next, mut left) = (None, 0, answered);
    while left > 0 {
        let open = |at: &usize| done[at / 64] & (1 << (at % 64)) == 0;
        let limit = (0..calls.len()).filter(open).map(|at| calls[at].end_time());
        let limit = limit.min().unwrap_or(usize::MAX);
        let fitting = (next..calls.len())
            .filter(open)
            .filter(|at| calls[*at].begin < limit)
            .find_map(|at| Some((at, calls[at].apply(value)?)));
        if let Some((at, after)) = fitting {
            done[at / 64] |= 1 << (at % 64);
            if tried.insert((done.clone(), after)) {
                path.push((at, value));
                left -= usize::from(calls[at].end.is_some());
                (value, next) = (after, 0);
            } else {
                done[at / 64] &= !(1 << (at % 64));
                next = at + 1;
            }
            continue;
        }
        let Some((at, before)) = path.pop() else {
            return false;
        };
        done[at / 64] &= !(1 << (at % 64));
        left += usize::from(calls[at].end.is_some());
        (value, next) = (before, at + 1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, begin: usize, end: Option<(usize, Answer)>) -> Call {
        Call {
            client: 0,
            op,
            begin,
            end,
        }
    }

    fn read(value: Option<u64>, begin: usize, end: usize) -> Call {
        call(Op::Read, begin, Some((end, Answer::Value(value))))
    }

    fn write(value: u64, begin: usize, end: usize) -> Call {
        call(Op::Write(value), begin, Some((end, Answer::Done)))
    }

    #[test]
    fn a_read_after_a_write_has_its_value() {
        assert!(is_linearizable(&[write(1, 1, 2), read(Some(1), 3, 4)]));
        assert!(!is_linearizable(&[write(1, 1, 2), read(None, 3, 4)]));
        assert!(!is_linearizable(&[write(1, 1, 2), read(Some(2), 3, 4)]));
    }

    #[test]
    fn calls_at_the_same_time_may_have_any_order() {
        assert!(is_linearizable(&[write(1, 1, 4), read(None, 2, 3)]));
        assert!(is_linearizable(&[write(1, 1, 4), read(Some(1), 2, 3)]));
        // But not one order for one reader, and another for the next.
        let calls = [write(1, 1, 6), read(Some(1), 2, 3), read(None, 4, 5)];
        assert!(!is_linearizable(&calls));
    }

    #[test]
    fn a_write_without_an_answer_may_come_late_or_never() {
        let lost = call(Op::Write(7), 1, None);
        let calls = [lost, read(None, 2, 3), read(Some(7), 4, 5)];
        assert!(is_linearizable(&calls));
        assert!(is_linearizable(&calls[..2]));
        let twice = [calls.as_slice(), &[read(None, 6, 7)]].concat();
        assert!(!is_linearizable(&twice));
    }

    #[test]
    fn a_swap_and_a_sum_follow_the_value() {
        let swap =
            |old, new, begin, answer| call(Op::Swap { old, new }, begin, Some((begin + 1, answer)));
        let add = |begin, sum| {
            call(
                Op::Add(5),
                begin,
                Some((begin + 1, Answer::Value(Some(sum)))),
            )
        };
        let calls = [
            swap(None, 1, 1, Answer::Done),
            swap(None, 2, 3, Answer::Other),
        ];
        assert!(is_linearizable(&calls));
        assert!(is_linearizable(&[add(1, 5), add(3, 10)]));
        assert!(!is_linearizable(&[add(1, 5), add(3, 15)]));
    }

    #[test]
    fn the_search_goes_back_and_ends() {
        // All writes at the same time, and reads that want them in the order from the last.
        let mut calls: Vec<Call> = (0..10).map(|n| write(n, 1 + n as usize, 100)).collect();
        for n in 0..10 {
            let begin = 30 + 2 * n as usize;
            calls.push(read(Some(9 - n), begin, begin + 1));
        }
        assert!(is_linearizable(&calls));
        calls.push(read(Some(3), 90, 91));
        assert!(!is_linearizable(&calls));
    }
}
