//! What a simulation is told before it is made.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use super::{Inner, Order, Phase, Sim, nanos, order::Chooser};
use crate::{
    clock::LATEST,
    kernel,
    record::{self, Record},
    rng::Rng,
    world::{self, World},
};

/// The most workers of a host: as of any runtime.
const WORKERS: usize = 1024;

/// Makes the seed of the order from that of the run: as text it is "order".
const ORDER: u64 = 0x006f_7264_6572;

/// Sets up a [`Sim`]. See [`Sim::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    order: Order,
    workers: usize,
    time_limit: Duration,
    event_limit: u64,
    moment_limit: u64,
    poll_limit: Duration,
    recording: bool,
}

impl Builder {
    /// The seed: 0 at first.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Which ready task runs next: [`Order::Pos`] at first, which found planted bugs in the fewest
    /// seeds.
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The workers of each host, 1 at first. They are virtual, and steal from each other. A host
    /// that asks for the number of its CPUs is told this number.
    ///
    /// # Panics
    ///
    /// If there are none, or more than 1024.
    #[track_caller]
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(
            (1..=WORKERS).contains(&workers),
            "a host cannot have {workers} workers: give a number from 1 to {WORKERS}"
        );
        self.workers = workers;
        self
    }

    /// The simulated time after which a run fails: one day at first, and at most 146 years.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// The number of steps after which a run fails: 100 million at first.
    pub fn event_limit(mut self, limit: u64) -> Self {
        self.event_limit = limit;
        self
    }

    /// The number of steps without any simulated time between them after which a run fails: one
    /// million at first. It ends a run in which a program tries something again and again at once.
    ///
    /// ```
    /// use ws_sim::Sim;
    ///
    /// let sim = Sim::builder().moment_limit(1_000).build();
    /// sim.client("client", async {
    ///     while std::hint::black_box(true) {
    ///         ws::task::yield_now().await;
    ///     }
    /// });
    /// let failure = sim.try_run().unwrap_err();
    /// assert!(failure.to_string().starts_with("no time passes: 1000 steps"));
    /// ```
    pub fn moment_limit(mut self, steps: u64) -> Self {
        self.moment_limit = steps;
        self
    }

    /// The processor time that one step of a host may take: 30 s at first. A step is a poll of a
    /// task, or a call of `spawn_blocking`. Then the process ends, and says on stderr where the
    /// step is: nothing can stop a loop that does not await.
    ///
    /// Programs with a handler for `SIGVTALRM` have no such limit.
    ///
    /// ```
    /// use ws_sim::{Sim, secs};
    ///
    /// let sim = Sim::builder().poll_limit(secs(600)).build();
    /// sim.client("client", async { /* a long computation */ });
    /// sim.try_run()?;
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    pub fn poll_limit(mut self, time: Duration) -> Self {
        self.poll_limit = time;
        self
    }

    /// Whether the run is recorded, for [`Sim::recording`]: no at first. It is the same run then,
    /// and takes more time and memory. [`check()`](crate::check()) needs no such word.
    pub fn recording(mut self, yes: bool) -> Self {
        self.recording = yes;
        self
    }

    /// Makes the simulation.
    ///
    /// # Panics
    ///
    /// If the program was linked so that the functions of the simulation are not called.
    pub fn build(self) -> Sim {
        assert!(
            kernel::is_linked(),
            "the program calls libc's functions and not those of ws-sim: link ws-sim statically"
        );
        let world = Rc::new(RefCell::new(World::new(self.seed, self.workers)));
        world::seed_hash_maps(&world);
        let recorded = self.recording || record::asked();
        let record = recorded.then(|| Record::new(&mut world.borrow_mut().net));
        Sim {
            inner: Rc::new(Inner {
                seed: self.seed,
                workers: self.workers,
                time_limit: nanos(self.time_limit).min(LATEST),
                event_limit: self.event_limit,
                moment_limit: self.moment_limit,
                poll_limit: self.poll_limit,
                world,
                names: RefCell::default(),
                hosts: RefCell::default(),
                lost: RefCell::default(),
                commands: RefCell::default(),
                later: RefCell::default(),
                planned: Cell::new(0),
                plans: RefCell::default(),
                planned_faults: RefCell::default(),
                kept: RefCell::default(),
                drawn: RefCell::default(),
                choices: RefCell::new(Rng::new(!self.seed)),
                chooser: RefCell::new(Chooser::new(self.order, Rng::new(self.seed ^ ORDER))),
                digest: Cell::default(),
                events: Cell::new(0),
                moment: Cell::new(0),
                phase: Cell::new(Phase::New),
                failed: RefCell::default(),
                record,
            }),
        }
    }
}

impl Sim {
    /// What a simulation may be told.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sim = ws_sim::Sim::builder().seed(7).time_limit(Duration::from_secs(60)).build();
    /// assert_eq!(sim.seed(), 7);
    /// ```
    pub fn builder() -> Builder {
        Builder {
            seed: 0,
            order: Order::Pos,
            workers: 1,
            time_limit: Duration::from_secs(24 * 60 * 60),
            event_limit: 100_000_000,
            moment_limit: 1_000_000,
            poll_limit: Duration::from_secs(30),
            recording: false,
        }
    }
}
