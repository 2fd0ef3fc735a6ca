//! Does a runtime that has nothing to do use the processor?
//!
//! It is started, does a little so that all of it is up, and is left alone.

use std::thread;
use std::time::Duration;

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};

/// Until the workers have gone to sleep after the little work.
const SETTLE: Duration = Duration::from_millis(100);

pub(super) fn rows<R: Rt>() -> [Row; 1] {
    [Row::new(
        "idle_cpu",
        "a second of nothing",
        Figure::IdleCpu,
        idle::<R>,
    )
    .heavy()
    .also(&["ws-nosysmon"])]
}

fn idle<R: Rt>(params: Params) -> Result<Outcome, BoxError> {
    let seconds = params.size(5, 1);
    let runtime = R::build(params.workers);
    let handle = runtime.handle();
    for _ in 0..100 {
        handle.block_on(handle.spawn(async { R::sleep(Duration::from_micros(100)).await }));
    }
    thread::sleep(SETTLE);
    let meter = Meter::start();
    thread::sleep(Duration::from_secs(seconds as u64));
    let measure = meter.stop(seconds);
    let cpu_ns = measure.cpu_ns;
    Ok(Outcome::Measured(
        measure
            .by(cpu_ns)
            .with("cpu_total_us", cpu_ns * seconds as f64 / 1e3),
    ))
}
