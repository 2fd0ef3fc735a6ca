//! A run from its begin to its end, at once or by parts.
//!
//! *Invariant*: while a [`Run`] is there, its world is that of the thread. So what is left of its
//! hosts is simulated as well when they end, also if code of the test panics between two parts.

use std::time::Duration;

use ws_executor::sim::own_ids;

use super::{Phase, Sim, nanos};
use crate::{
    Failure,
    kernel::spin::Watchdog,
    record,
    world::{self, Installed},
};

/// A run that goes on when it is told to: see [`Sim::begin`]. Its drop ends all hosts, and tells
/// nobody of a destructor that panics then.
#[derive(Debug)]
#[must_use = "its drop ends all hosts"]
pub struct Run {
    sim: Sim,
    _watchdog: Option<Watchdog>,
    _installed: Installed,
}

impl Sim {
    /// Begins a run that goes on by parts. Between them the test may look at what the hosts have
    /// done, crash some of them or cut their network, and add hosts. To run all of it at once, call
    /// [`try_run`](Self::try_run).
    ///
    /// Parts between which the test does nothing are the same run as the whole.
    ///
    /// ```
    /// use std::{cell::Cell, rc::Rc};
    /// use ws_sim::{Sim, secs};
    ///
    /// let (sim, count) = (Sim::new(1), Rc::new(Cell::new(0)));
    /// let counted = count.clone();
    /// sim.host("counter", move || {
    ///     let count = counted.clone();
    ///     async move {
    ///         loop {
    ///             ws::time::sleep(secs(1)).await;
    ///             count.set(count.get() + 1);
    ///         }
    ///     }
    /// });
    /// let mut run = sim.begin();
    /// run.advance(secs(10))?;
    /// assert_eq!(count.get(), 10);
    /// sim.pause("counter");
    /// run.advance(secs(10))?;
    /// assert_eq!(count.get(), 10);
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If a run of it has begun before, or if another simulation runs on this thread. It also
    /// panics if a plan of faults names a host that is not there, or may have too many faults: see
    /// [`Plan`](crate::Plan).
    pub fn begin(&self) -> Run {
        let inner = &self.inner;
        assert!(
            inner.phase.get() == Phase::New,
            "a simulation runs once: make another `Sim` with the same seed"
        );
        let Some(installed) = world::install(&inner.world) else {
            panic!("a simulation runs on this thread: start another one after its end");
        };
        own_ids(true);
        world::seed_hash_maps(&inner.world);
        world::seed_fastrand(&inner.world);
        let run = Run {
            sim: self.clone(),
            _watchdog: Watchdog::start(inner.poll_limit),
            _installed: installed,
        };
        inner.phase.set(Phase::Running);
        self.plan_faults();
        let count = inner.hosts.borrow().len();
        (0..count).for_each(|index| self.start(index));
        run
    }
}

impl Run {
    /// Goes on for so much simulated time, or until all clients are done. Tells whether they are:
    /// then the run is over. If nothing can go on, the time passes nevertheless.
    ///
    /// # Errors
    ///
    /// As [`Sim::try_run`]. Then the run is over, and each later call has the same error.
    pub fn advance(&mut self, time: Duration) -> Result<bool, Failure> {
        let until = nanos(self.sim.elapsed()).saturating_add(nanos(time));
        self.go(Some(until))
    }

    /// Goes on until all clients are done.
    ///
    /// ```
    /// use ws_sim::{Sim, secs};
    ///
    /// let sim = Sim::new(1);
    /// sim.client("client", async { ws::time::sleep(secs(3)).await });
    /// let mut run = sim.begin();
    /// assert!(!run.advance(secs(1))?);
    /// run.finish()?;
    /// assert_eq!(sim.elapsed(), secs(3));
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Sim::try_run`].
    pub fn finish(mut self) -> Result<(), Failure> {
        self.go(None).map(drop)
    }

    fn go(&mut self, until: Option<u64>) -> Result<bool, Failure> {
        let sim = &self.sim;
        if sim.inner.phase.get() == Phase::Over {
            return sim.failed().map_or(Ok(true), Err);
        }
        let went = sim.go(until);
        if went.as_ref().is_ok_and(|over| !over) {
            return went;
        }
        sim.end();
        // Also a destructor may have failed.
        let went = went.and_then(|over| sim.failed().map_or(Ok(over), Err));
        went.map_err(|mut failure| {
            if let Some(recording) = sim.recording() {
                failure.recorded = Some(Box::new(record::told(&recording)));
            }
            sim.inner.failed.replace(Some(failure.clone()));
            failure
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.sim.inner.phase.get() != Phase::Over {
            self.sim.end();
        }
        own_ids(false);
    }
}
