//! An API under overload: health checks come first, and batch work last.
//!
//! ```text
//! cargo run --release --example priorities
//! cargo run --release -p ws-bench --example priorities_beside_tokio
//! ```
//!
//! A thread stands for the network: requests come in, a little more than the half of what the
//! machine can serve, and every 10 ms a health check that an orchestrator would restart us for.
//! Meanwhile 500 tasks of batch work take every moment that they get. It runs once with all tasks
//! equal and once with priorities, in turns, and prints how long each kind took from its arrival to
//! its answer.
//!
//! The priorities are said in [`Ws::spawn`]; nothing else differs. Even so the batch work goes on,
//! and gets what is left over: a runtime with `Builder::priorities` would stop it while
//! requests wait.
//!
//! The second command has tokio beside both, under the same load. It is an example of the
//! benchmarks' package, so that this one needs no second runtime.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{error::Error, thread};

use ws::{
    runtime::{BuildError, Builder},
    task::{self, Priority},
};

use overload::{Class, Contender, Runtime};

#[path = "priorities/overload.rs"]
pub(crate) mod overload;

/// Says how urgent a task is, or does not.
struct Ws {
    runtime: ws::runtime::Runtime,
    ranked: bool,
}

impl Runtime for Ws {
    fn spawn(&self, class: Class, future: impl Future<Output = ()> + Send + 'static) {
        let mut task = task::Builder::new();
        if self.ranked {
            task = task.priority(match class {
                Class::HealthCheck => Priority::HIGHEST,
                Class::Request => Priority::DEFAULT,
                Class::Batch => Priority::LOWEST,
            });
        }
        drop(task.spawn_on(future, self.runtime.handle()));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        task::yield_now()
    }
}

/// `ws` with all tasks equal, and with priorities.
pub(crate) fn both(workers: usize) -> Result<[Contender; 2], BuildError> {
    let contender = |name, ranked| {
        let runtime = Builder::new().workers(workers).build()?;
        Ok(Contender::new(name, workers, Ws { runtime, ranked }))
    };
    Ok([
        contender("all equal", false)?,
        contender("priorities", true)?,
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let workers = thread::available_parallelism()?.get();
    overload::side_by_side(both(workers)?.into());
    Ok(())
}
