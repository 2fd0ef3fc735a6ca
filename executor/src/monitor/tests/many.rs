//! A look at many workers that all compute: what it costs grows with their number, and not with
//! its square.
//!
//! It fails if each worker in a long poll walks over all others (`Needs` in `observe.rs`).

use super::{super::*, thread};
use crate::{
    policy::constants::{PACE_BUSY, SLICE_NS},
    runtime::{Builder, Runtime, Sysmon},
    sched::{shutdown::tests::end, worker::Worker},
    timer::Clock,
};

/// So many workers that are in a poll and compute, as one look after a slice sees them.
fn in_long_polls(workers: usize) -> (Runtime, Vec<Worker>, Monitor) {
    let builder = Builder::new().workers(workers).sysmon(Sysmon::Off);
    let builder = builder.stall_threshold(None);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let threads: Vec<_> = (0..workers).map(|_| thread(&runtime)).collect();
    for thread in &threads {
        thread.peer().progress.running.store(1, Relaxed);
    }
    let mut monitor = Monitor::new(runtime.handle().shared());
    let clock = runtime.handle().shared().time.clock();
    clock.advance(PACE_BUSY);
    monitor.look();
    clock.advance(Duration::from_nanos(2 * SLICE_NS));
    (runtime, threads, monitor)
}

fn over(runtime: Runtime, threads: Vec<Worker>) {
    for thread in &threads {
        thread.peer().progress.running.store(0, Relaxed);
    }
    end(runtime, threads);
}

#[test]
fn a_look_at_many_that_compute_visits_each_some_times() {
    let visits = |workers: usize| {
        let (runtime, threads, mut monitor) = in_long_polls(workers);
        let visits = &runtime.handle().shared().processors.visits;
        let before = visits.get();
        monitor.look();
        let visited = visits.get() - before;
        assert!(!runtime.handle().shared().any_work(), "nobody needs one");
        over(runtime, threads);
        visited as usize
    };
    for workers in [4, 64, 256] {
        let visited = visits(workers);
        assert!(visited <= 8 * workers, "{visited} visits of {workers}");
    }
}
