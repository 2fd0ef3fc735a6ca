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
//! A panic fails the run wherever it comes from: from a destructor, or from a task of a host that
//! crashes before the driver has looked at it. So the end of a machine asks for what its tasks and
//! its program have ended with: see `ends.rs`.
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

mod builder;
mod disks;
mod drive;
mod ends;
mod explore;
mod faults;
mod order;
mod planned;
mod run;
mod signal;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    fmt,
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    panic::Location,
    rc::{Rc, Weak},
    time::Duration,
};

use ws_executor::sim::Machine;

pub use self::{builder::Builder, order::Order, run::Run};
use self::{drive::Digest, ends::Begins, faults::Command, order::Chooser};
use crate::{
    Disk, Failure, HostProgram, Outcome, Plan, Recording, check,
    clock::Clock,
    plan::{Drawn, Fault, Kept},
    program::{self, Program},
    record::Record,
    rng::Rng,
    world::{Host, World},
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
    moment_limit: u64,
    poll_limit: Duration,
    world: Rc<RefCell<World>>,
    /// In small letters.
    names: RefCell<BTreeMap<String, usize>>,
    hosts: RefCell<Vec<Slot>>,
    /// What hard crashes have left, each with the number of its host.
    lost: RefCell<Vec<(usize, Machine, Option<Begins>)>>,
    /// Crashes and the like: done between two steps.
    commands: RefCell<VecDeque<Command>>,
    later: RefCell<BTreeMap<(u64, u64), Action>>,
    planned: Cell<u64>,
    plans: RefCell<Vec<Plan>>,
    /// The faults of the plans that happen, with their numbers.
    planned_faults: RefCell<Vec<(usize, Fault)>>,
    /// The faults of its plans that happen, if not all do.
    kept: RefCell<Option<Kept>>,
    drawn: RefCell<Drawn>,
    choices: RefCell<Rng>,
    /// None: the hosts' schedulers choose among their tasks.
    chooser: RefCell<Option<Chooser>>,
    digest: Cell<Digest>,
    events: Cell<u64>,
    /// `events` when the time moved last.
    moment: Cell<u64>,
    phase: Cell<Phase>,
    failed: RefCell<Option<Failure>>,
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
    /// The line of the test that added it.
    place: &'static Location<'static>,
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

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    pub(crate) fn is_new(&self) -> bool {
        self.inner.phase.get() == Phase::New
    }

    /// What its run has failed with.
    pub(crate) fn failed(&self) -> Option<Failure> {
        self.inner.failed.borrow().clone()
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
    /// `fd00::x:y`, where `n` is 256 `x` + `y`. Other hosts find it by its name, in small or
    /// capital letters, and it is the name that the host itself gets from `gethostname`.
    ///
    /// The end of its program does not end its tasks. An error of it, or a panic, fails the run.
    ///
    /// `main` may take the host's [`Disk`]: see [`HostProgram`]. A host may also be added while the
    /// simulation runs, by a closure of [`after`](Self::after) or by a program.
    ///
    /// # Panics
    ///
    /// If there is a host of that name, or if it cannot be a name: if it is empty, longer than 64
    /// bytes, an address or `localhost`, if it ends with a dot, or has a space or a control
    /// character. Also after the run, and for the 65,536th host.
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
    /// If there is a host of that name, or if it cannot be a name: if it is empty, longer than 64
    /// bytes, an address or `localhost`, if it ends with a dot, or has a space or a control
    /// character. Also after the run, and for the 65,536th host.
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
        let Ok(number) = u16::try_from(index + 1) else {
            panic!(
                "host {name:?} is one too many: a simulation has at most {}, so make fewer, or \
                 restart one instead of a new one",
                u16::MAX
            )
        };
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
            process: 0,
            is_told: false,
            step_time: 0,
            busy_until: 0,
            edges: 0,
            disk,
            machine: (Weak::new(), 0),
        });
        drop(world);
        let key = name.to_ascii_lowercase();
        self.inner.names.borrow_mut().insert(key, index);
        self.inner.hosts.borrow_mut().push(Slot {
            name,
            place: Location::caller(),
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

    /// Calls `what` between two steps, when the simulated time is `time` from now. After the run
    /// there are no more steps, and it is dropped.
    pub fn after(&self, time: Duration, what: impl FnOnce(&Self) + 'static) {
        if self.inner.phase.get() == Phase::Over {
            return;
        }
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
    /// - A task of a host panicked, and nobody joins it. Or a destructor did, in a crash, after a
    ///   signal or at the end of the run.
    /// - Nothing can go on, and a client is not done.
    /// - A limit was reached: see [`Builder`].
    /// - There is no client.
    ///
    /// # Panics
    ///
    /// As [`begin`](Self::begin).
    pub fn try_run(&self) -> Result<(), Failure> {
        self.begin().finish()
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
