//! A simulation: hosts that run programs, their faults, and the run.
//!
//! # How it works
//!
//! Each host is a runtime without threads ([`Machine`]). The driver (`sim/drive.rs`) lets one host
//! take one step, then another, until none can. Then it moves the time to the next event: a packet
//! that arrives, a timer, or a closure of [`Sim::after`].
//!
//! ```text
//!   a host's program        std, mio, socket2, ws::net, any library
//!        |                        |
//!   Machine (ws-executor)   functions of libc (kernel.rs)
//!        |                        |
//!   the driver  ---------->  World: Network, descriptors, clocks
//! ```
//!
//! *Invariants*:
//!
//! 1. Only one host runs at a time, and between two steps none is in the middle of a poll.
//! 2. What runs next is drawn from generators that begin with the seed (`order.rs`). The time moves
//!    if no host can step. So a run is a function of the seed and the program. [`Sim::digest`] is a
//!    hash of all choices and all packets.
//!
//! What the seed does not decide is listed in `world.rs`.
//!
//! # A crash
//!
//! First the host's sockets vanish without a packet. Then its tasks are dropped. So destructors
//! run, and they reach nobody: their sockets and files answer `EBADF`, new sockets `ENETDOWN`, and
//! other calls of files `EIO`. Of the disk the seed draws what is left: see `disk.rs`.
//!
//! After [`Sim::crash_hard`] no destructor runs, as after a loss of power. The machine is kept
//! aside untouched, and ends after all others when the run is over. Its memory cannot be freed
//! without destructors: what was pinned must be dropped first, and tasks of other hosts may have a
//! waker of a task. Rejected: to leak it. It has 45 kB, and whatever its tasks own, perhaps this
//! simulation.
//!
//! # Rejected
//!
//! - A thread for each host, with a hand-over at each step: two changes of the thread at each
//!   event, some 10 us, where a step takes less than 1 us.
//! - One runtime for all hosts. See `sim.rs` of `ws-executor`.
//! - Time that moves while hosts can step: the cost of a poll is not known, and would differ
//!   between debug and release.

mod disks;
mod drive;
mod explore;
mod faults;
mod order;
mod planned;
mod signal;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    rc::{Rc, Weak},
    time::Duration,
};

use ws_executor::sim::Machine;

pub use self::order::Order;
use self::{drive::Digest, faults::Command, order::Chooser};
use crate::{
    Disk, Failure, HostProgram, Outcome, Plan, Recording, check,
    clock::Clock,
    kernel,
    plan::Fault,
    program::{self, Program},
    record::{self, Record},
    rng::Rng,
    world::{self, Host, World},
};

/// A simulation. Clones are the same one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ws::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}};
/// use ws_sim::Sim;
///
/// let sim = Sim::new(7);
/// sim.host("server", || async {
///     let listener = TcpListener::bind("0.0.0.0:80").await?;
///     let (mut peer, _) = listener.accept().await?;
///     peer.write_all(b"hello").await
/// });
/// sim.client("client", async {
///     let mut server = TcpStream::connect("server:80").await?;
///     let mut text = String::new();
///     server.read_to_string(&mut text).await?;
///     assert_eq!(text, "hello");
///     std::io::Result::Ok(())
/// });
/// sim.try_run()?;
/// // Four times over a link of 100 us: SYN, SYN-ACK, ACK, and the bytes.
/// assert_eq!(sim.elapsed(), Duration::from_micros(400));
/// # Ok::<(), ws_sim::Failure>(())
/// ```
#[derive(Clone)]
pub struct Sim {
    inner: Rc<Inner>,
}

struct Inner {
    seed: u64,
    workers: usize,
    time_limit: u64,
    event_limit: u64,
    world: Rc<RefCell<World>>,
    names: RefCell<BTreeMap<String, usize>>,
    hosts: RefCell<Vec<Slot>>,
    /// What hard crashes have left, each with the number of its host.
    lost: RefCell<Vec<(usize, Machine, Option<Program>)>>,
    /// Crashes and the like: done between two steps.
    commands: RefCell<VecDeque<Command>>,
    later: RefCell<BTreeMap<(u64, u64), Action>>,
    planned: Cell<u64>,
    plans: RefCell<Vec<Plan>>,
    /// The faults of the plans that happen, with their numbers.
    planned_faults: RefCell<Vec<(usize, Fault)>>,
    choices: RefCell<Rng>,
    /// None: the hosts' schedulers choose among their tasks.
    chooser: RefCell<Option<Chooser>>,
    digest: Cell<Digest>,
    events: Cell<u64>,
    phase: Cell<Phase>,
    record: Option<Record>,
}

type Action = Box<dyn FnOnce(&Sim)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Running,
    Over,
}

/// A host, as the driver sees it.
struct Slot {
    name: String,
    main: Main,
    machine: Option<Rc<Machine>>,
    /// What its clock showed when its machine was made: zero of the machine's clock.
    base: u64,
    is_paused: bool,
    /// Signals that end its program when it goes on after a pause.
    signals: Vec<i32>,
    /// Its program has ended.
    is_done: bool,
    /// Tasks of it may be ready that were not found yet.
    has_news: Cell<bool>,
    /// Events of its epoll descriptors for which its poller was woken.
    woken_at: u64,
}

enum Main {
    /// Called at each start.
    Host(Rc<dyn Fn(Disk) -> Program>),
    /// Taken at the start.
    Client(Option<Program>),
}

impl Main {
    fn is_client(&self) -> bool {
        matches!(self, Self::Client(_))
    }
}

/// Sets up a [`Sim`]. See [`Sim::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    order: Order,
    workers: usize,
    time_limit: Duration,
    event_limit: u64,
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

    /// The workers of each host, 1 at first. They are virtual, and steal from each other.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The simulated time after which a run fails: one day at first.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// The number of steps after which a run fails: 100 million at first.
    pub fn event_limit(mut self, limit: u64) -> Self {
        self.event_limit = limit;
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
        let world = Rc::new(RefCell::new(World::new(self.seed)));
        world::seed_hash_maps(&world);
        let recorded = self.recording || record::asked();
        let record = recorded.then(|| Record::new(&mut world.borrow_mut().net));
        Sim {
            inner: Rc::new(Inner {
                seed: self.seed,
                workers: self.workers,
                time_limit: nanos(self.time_limit),
                event_limit: self.event_limit,
                world,
                names: RefCell::default(),
                hosts: RefCell::default(),
                lost: RefCell::default(),
                commands: RefCell::default(),
                later: RefCell::default(),
                planned: Cell::new(0),
                plans: RefCell::default(),
                planned_faults: RefCell::default(),
                choices: RefCell::new(Rng::new(!self.seed)),
                chooser: RefCell::new(Chooser::new(self.order, Rng::new(self.seed ^ ORDER))),
                digest: Cell::default(),
                events: Cell::new(0),
                phase: Cell::new(Phase::New),
                record,
            }),
        }
    }
}

/// Makes the seed of the order from that of the run: as text it is "order".
const ORDER: u64 = 0x006f_7264_6572;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Sim {
    /// Makes a simulation with the defaults of [`Builder`].
    ///
    /// # Panics
    ///
    /// As [`Builder::build`].
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

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
            recording: false,
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    pub(crate) fn is_new(&self) -> bool {
        self.inner.phase.get() == Phase::New
    }

    /// The simulated time since the begin.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.inner.world.borrow().net.now())
    }

    /// Steps of hosts and moves of the clock so far.
    pub fn events(&self) -> u64 {
        self.inner.events.get()
    }

    /// A hash of all choices and packets so far. Two runs with the same one were the same.
    pub fn digest(&self) -> u64 {
        let world = self.inner.world.borrow();
        let disks = world.hosts.iter().map(|host| host.disk.digest());
        let digest = self.inner.digest.get().with(world.net.digest());
        disks.fold(digest, Digest::with).value()
    }

    /// What has been recorded so far. None if its builder was not told to
    /// [record](Builder::recording).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let sim = ws_sim::Sim::builder().recording(true).build();
    /// sim.host("server", || std::future::pending::<()>());
    /// sim.client("client", async { ws::time::sleep(Duration::from_secs(3)).await });
    /// sim.after(Duration::from_secs(1), |sim| sim.crash("server"));
    /// sim.try_run()?;
    /// let text = sim.recording().expect("it was asked for").to_string();
    /// assert!(text.contains("1.000000 s  host \"server\" crashed\n"), "{text}");
    /// assert!(text.contains("3.000000 s  a timer fired\n"), "{text}");
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    pub fn recording(&self) -> Option<Recording> {
        let record = self.inner.record.as_ref()?;
        let hosts = self.inner.hosts.borrow();
        let running = hosts
            .iter()
            .enumerate()
            .filter_map(|(index, host)| Some((index, host.machine.clone()?)));
        let world = self.inner.world.borrow();
        let ids: Vec<_> = world.hosts.iter().map(|host| host.id).collect();
        Some(record.recording(self.seed(), &world.net, &ids, running))
    }

    /// Adds a host, which runs `main`; after a crash, [`restart`](Self::restart) calls it again.
    ///
    /// It has two addresses: the host of number `n`, counted from 1, has `10.0.x.y` and
    /// `fd00::x:y`, where `n` is 256 `x` + `y`. Other hosts find it by its name.
    ///
    /// The end of its program does not end its tasks. An error of it, or a panic, fails the run.
    ///
    /// `main` may take the host's [`Disk`]: see [`HostProgram`]. A host may also be added while the
    /// simulation runs, by a closure of [`after`](Self::after) or by a program.
    ///
    /// # Panics
    ///
    /// If there is a host of that name.
    #[track_caller]
    pub fn host<Takes>(&self, name: impl Into<String>, main: impl HostProgram<Takes>) {
        let main = move |disk| program::boxed(main.start(disk));
        self.add(name.into(), Main::Host(Rc::new(main)));
    }

    /// Adds a host that runs a program once. The run is over when all clients are.
    ///
    /// An error of it, or a panic, fails the run.
    ///
    /// # Panics
    ///
    /// If there is a host of that name.
    #[track_caller]
    pub fn client<Fut>(&self, name: impl Into<String>, main: Fut)
    where
        Fut: Future<Output: Outcome> + 'static,
    {
        self.add(name.into(), Main::Client(Some(program::boxed(main))));
    }

    #[track_caller]
    fn add(&self, name: String, main: Main) {
        assert!(
            self.inner.phase.get() != Phase::Over,
            "host {name:?} comes after the run: make another `Sim`"
        );
        let mut world = self.inner.world.borrow_mut();
        let index = world.hosts.len();
        let number = u16::try_from(index + 1).expect("at most 65535 hosts");
        let [x, y] = number.to_be_bytes();
        let addrs = [
            IpAddr::V4(Ipv4Addr::new(10, 0, x, y)),
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, x.into(), y.into())),
        ];
        let id = match world.net.add_host(&name, &addrs) {
            Ok(id) => id,
            Err(error) => panic!("{error}"),
        };
        let disk = world.new_disk();
        world.hosts.push(Host {
            id,
            up: true,
            clock: Clock::default(),
            skew: 0,
            step_time: 0,
            busy_until: 0,
            edges: 0,
            disk,
            machine: (Weak::new(), 0),
        });
        drop(world);
        self.inner.names.borrow_mut().insert(name.clone(), index);
        self.inner.hosts.borrow_mut().push(Slot {
            name,
            main,
            machine: None,
            base: 0,
            is_paused: false,
            signals: Vec::new(),
            is_done: false,
            has_news: Cell::new(true),
            woken_at: 0,
        });
        if self.inner.phase.get() == Phase::Running {
            self.command(Command::Start(index));
        }
    }

    /// Calls `what` between two steps, when the simulated time is `time` from now.
    pub fn after(&self, time: Duration, what: impl FnOnce(&Self) + 'static) {
        let now = self.inner.world.borrow().net.now();
        let number = self.inner.planned.get();
        self.inner.planned.set(number + 1);
        let at = now.saturating_add(nanos(time));
        let mut later = self.inner.later.borrow_mut();
        later.insert((at, number), Box::new(what));
    }

    /// A random number below `end`, from the seed: for a plan of faults.
    pub fn below(&self, end: u64) -> u64 {
        self.inner.choices.borrow_mut().below(end)
    }

    /// Runs until all clients are done, and panics if the run fails: for tests.
    ///
    /// It is `async` so that it reads as the rest of a test does. It never waits: when its first
    /// poll returns, the run is over.
    ///
    /// ```
    /// use ws_sim::{Sim, secs};
    ///
    /// // With the feature `sim` of `ws-runtime`, below `#[ws::sim(seeds = 1000)]`.
    /// async fn an_hour_takes_no_time(sim: Sim) {
    ///     sim.client("sleeper", async { ws::time::sleep(secs(3600)).await });
    ///     sim.run().await;
    ///     assert_eq!(sim.elapsed(), secs(3600));
    /// }
    /// # futures::executor::block_on(an_hour_takes_no_time(Sim::new(1)));
    /// ```
    ///
    /// # Panics
    ///
    /// With the text of the [`Failure`], where [`try_run`](Self::try_run) returns one. And where
    /// that one panics.
    pub async fn run(&self) {
        if let Err(failure) = self.try_run() {
            check::fail(&failure);
        }
    }

    /// Runs until all clients are done. It blocks the thread until then.
    ///
    /// # Errors
    ///
    /// - A program of a client or a host ended with an error or a panic.
    /// - A task of a host panicked, and nobody joins it.
    /// - Nothing can go on, and a client is not done.
    /// - A limit was reached: see [`Builder`].
    /// - There is no client.
    ///
    /// # Panics
    ///
    /// If it was called before, or if it is called inside a simulation.
    pub fn try_run(&self) -> Result<(), Failure> {
        drive::run(self)
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("seed", &self.inner.seed)
            .field("phase", &self.inner.phase.get())
            .field("elapsed", &self.elapsed())
            .finish_non_exhaustive()
    }
}
