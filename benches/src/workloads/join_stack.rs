//! How much stack does a join take?
//!
//! A recursion with a join in each level, through its first branch, and one through its second,
//! beside the same with plain calls, which are not inlined. With one worker, so that all levels are
//! on one stack. What counts is the larger of the two, above plain calls.

use std::hint::black_box;

use super::{FORK_JOIN, Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::joins::{ForkJoin, Plain};
use crate::measure::{Meter, Outcome};

const LEVELS: usize = 1_000;

pub(super) fn rows<J: ForkJoin>() -> [Row; 1] {
    [
        Row::new("join_stack", "a level of joins", Figure::Bytes, weigh::<J>)
            .heavy()
            .only(FORK_JOIN),
    ]
}

/// Where the stack is.
#[inline(always)]
fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(black_box(&mark)).addr()
}

#[inline(never)]
fn first<J: ForkJoin>(context: &mut J::Context<'_>, levels: usize) -> usize {
    if black_box(levels) == 0 {
        return here();
    }
    let (deepest, one) = J::join(context, |context| first::<J>(context, levels - 1), |_| 1);
    black_box(one);
    deepest
}

#[inline(never)]
fn second<J: ForkJoin>(context: &mut J::Context<'_>, levels: usize) -> usize {
    if black_box(levels) == 0 {
        return here();
    }
    let (one, deepest) = J::join(context, |_| 1, |context| second::<J>(context, levels - 1));
    black_box(one);
    deepest
}

/// Bytes a level: through the first branch, and through the second.
fn levels<J: ForkJoin>() -> [f64; 2] {
    J::enter(&J::pool(1), |context| {
        let each = |deepest: usize, top: usize| (top - deepest) as f64 / LEVELS as f64;
        // The first join of a thread may make room.
        J::join(context, |_| (), |_| ());
        let top = here();
        [
            each(first::<J>(context, LEVELS), top),
            each(second::<J>(context, LEVELS), top),
        ]
    })
}

fn weigh<J: ForkJoin>(_: Params) -> Result<Outcome, BoxError> {
    let meter = Meter::start();
    let (plain, joined) = (levels::<Plain>(), levels::<J>());
    let measure = meter.stop(LEVELS);
    let above = [joined[0] - plain[0], joined[1] - plain[1]];
    Ok(Outcome::Measured(
        measure
            .by(above[0].max(above[1]))
            .with("first_bytes", above[0])
            .with("second_bytes", above[1])
            .with("plain_bytes", plain[0]),
    ))
}
