//! What does a call into the runtime from a foreign thread cost, one at a time and many at once?
//!
//! A thread pool of another library, a C callback or a GUI calls into asynchronous code: an empty
//! call, and one that spawns a task and awaits it; from one thread and from 64. (The second is what
//! GHC's `callback001` and `callback002` measure.) smol's `block_on` polls on the spot and needs no
//! runtime, so its empty call is next to nothing. Time is for the whole number of calls, however
//! many threads share them.

use std::sync::Barrier;
use std::thread;

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Handle, Rt};

pub(super) fn rows<R: Rt>() -> [Row; 4] {
    [
        Row::new("call_foreign_1", "an empty call", Figure::Time, |params| {
            calls::<R>(params, 1, params.size(500_000, 200_000), empty::<R>)
        }),
        Row::new("call_foreign_64", "an empty call", Figure::Time, |params| {
            calls::<R>(params, 64, params.size(500_000, 200_000), empty::<R>)
        })
        .full_only(),
        Row::new(
            "call_spawn_foreign_1",
            "a call that spawns",
            Figure::Time,
            |params| calls::<R>(params, 1, params.size(10_000, 4_000), spawning::<R>),
        ),
        Row::new(
            "call_spawn_foreign_64",
            "a call that spawns",
            Figure::Time,
            |params| calls::<R>(params, 64, params.size(40_000, 20_000), spawning::<R>),
        ),
    ]
}

/// So many calls that spawn, from so many threads.
pub(super) fn spawning_calls<R: Rt>(
    params: Params,
    threads: usize,
    total: usize,
) -> Result<Outcome, BoxError> {
    calls::<R>(params, threads, total, spawning::<R>)
}

fn empty<R: Rt>(handle: &R::Handle) {
    handle.block_on(async {});
}

fn spawning<R: Rt>(handle: &R::Handle) {
    // The spawn is the handle's own, since not every runtime has a current one in `block_on`; it is
    // made inside the call, as a function that is called into the runtime would.
    handle.block_on(async { handle.spawn(async {}).await });
}

fn calls<R: Rt>(
    params: Params,
    threads: usize,
    total: usize,
    call: fn(&R::Handle),
) -> Result<Outcome, BoxError> {
    let each = total / threads;
    let runtime = R::build(params.workers);
    let (warm, gate) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let meter = thread::scope(|scope| {
        for _ in 0..threads {
            let (handle, warm, gate) = (runtime.handle(), &warm, &gate);
            scope.spawn(move || {
                for _ in 0..each / 10 {
                    call(&handle);
                }
                warm.wait();
                gate.wait();
                for _ in 0..each {
                    call(&handle);
                }
            });
        }
        warm.wait();
        // All are warm now, and wait for this thread: the clock starts before the first call.
        let meter = Meter::start();
        gate.wait();
        meter
    });
    Ok(Outcome::Measured(meter.stop(each * threads)))
}
