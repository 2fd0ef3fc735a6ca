//! What does a timer cost that never fires?
//!
//! Nearly every timer guards an operation that succeeds: it is made, polled once, and dropped. A
//! million of them, with deadlines from one to two minutes away: one after the other, and all armed
//! at the same time before they are dropped in the order in which they were made.

use std::pin::pin;
use std::time::Duration;

use super::{Figure, Row, in_task};
use crate::cli::Params;
use crate::measure::{Measure, Meter};
use crate::rt::Rt;

pub(super) fn rows<R: Rt>() -> [Row; 2] {
    let operation = "a timer made, polled, dropped";
    [
        Row::new("timers_arm_drop_1M", operation, Figure::Time, |params| {
            in_task::<R, _>(params, warm(size(params), arm_and_drop::<R>))
        }),
        Row::new("timers_live_1M", operation, Figure::Time, |params| {
            in_task::<R, _>(params, warm(size(params), arm_all_then_drop::<R>))
        })
        .full_only(),
    ]
}

fn size(params: Params) -> usize {
    params.size(1_000_000, 300_000)
}

async fn warm<F: Future<Output = ()>>(n: usize, work: fn(usize) -> F) -> Measure {
    work(n / 10).await;
    let meter = Meter::start();
    work(n).await;
    meter.stop(n)
}

async fn arm_and_drop<R: Rt>(n: usize) {
    for index in 0..n {
        let timer = pin!(timer::<R>(index));
        assert!(futures::poll!(timer).is_pending(), "it is a minute early");
    }
}

async fn arm_all_then_drop<R: Rt>(n: usize) {
    let mut timers = Vec::with_capacity(n);
    for index in 0..n {
        let mut timer = Box::pin(timer::<R>(index));
        assert!(
            futures::poll!(timer.as_mut()).is_pending(),
            "it is a minute early"
        );
        timers.push(timer);
    }
}

/// A timer whose deadline is somewhere in the minute that begins in a minute.
fn timer<R: Rt>(index: usize) -> R::Sleep {
    // A prime number of microseconds scatters them.
    let micros = 60_000_000 + index as u64 * 7_919 % 60_000_000;
    R::sleep(Duration::from_micros(micros))
}
