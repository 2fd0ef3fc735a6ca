//! What all hosts of a simulation share, and which of them runs now.
//!
//! # How it works
//!
//! A simulation has one thread. The thread-local `WORLD` has the network, the descriptors and the
//! clocks. The thread-local `HOST` says which host runs: the driver (`sim.rs`) sets it around each
//! step of a host's machine. The functions of `kernel.rs` ask both.
//!
//! *Invariant*: at most one host runs at a time, and no borrow of the world is alive while code of
//! the user runs. The functions of the seam borrow it, call the network, and give it back before
//! they return. So a step may make any call.
//!
//! `HOST` has no destructor and needs none of the allocator, so a function that only asks for it
//! may run in a signal handler, and when the thread ends.
//!
//! # What still differs between two runs of a seed
//!
//! - Addresses of memory, and so the order of a map with addresses as keys.
//! - What a library keeps for a thread, if the thread ran another simulation before: rand's
//!   generator of the thread goes on where it was. Each thread that [`check()`](crate::check())
//!   starts is fresh. The keys of std's hash maps, fastrand's generator, and that of `select!` on
//!   tokio's names begin anew with each run on any thread.
//! - Ids of threads; environment variables.
//! - Processes and terminals, and the folders of the system: see `disk.rs`.
//! - System calls without libc.
//! - Signals for which a library asks the system itself, and not `ws::signal`.
//! - Statics that outlive a run, such as a counter of the program. `futures::select!` has one, from
//!   which it draws its order; `ws::select!` has none. So has the `StreamMap` of tokio-stream.
//! - What a program makes once in a process and then keeps, if it draws something for it: the keys
//!   of a static hash map, for one.
//!
//! A real thread inside a host is refused. So is a child process.
//!
//! # What hosts share
//!
//! All hosts are in one process and on one thread. So they share statics, thread-locals and
//! the environment. A crash does not reset these. A socket that outlives the
//! run is closed already, and its number is not used again by the next runs on this thread.

use std::{
    cell::{Cell, RefCell},
    hash::RandomState,
    rc::{Rc, Weak},
};

use ws_executor::sim::{Machine, take_time};

use crate::{
    clock::Clock,
    disk::Store,
    kernel::{CALENDAR, Files, keys, spin},
    network::{HostId, Network},
    pipe::Pipes,
    rng::Rng,
    unix::Sockets,
};

thread_local! {
    static HOST: Cell<Option<usize>> = const { Cell::new(None) };
    /// What the clocks of the host that runs show: see [`clocks`].
    static CLOCKS: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
    static WORLD: RefCell<Option<Rc<RefCell<World>>>> = const { RefCell::new(None) };
    /// What the body of a test draws, and its closures, beside the hosts: see [`seed_body`].
    static BODY: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// Random bytes of this thread follow from the seed from now on, also where no host runs. For
/// threads that run nothing but a seed.
pub(crate) fn seed_body(seed: u64) {
    /// As text it is "body".
    const BODY_SEED: u64 = 0x626f_6479;
    BODY.set(Some(Rng::new(seed ^ BODY_SEED)));
}

/// The generator of [`seed_body`]. None on other threads, and while it is in use.
pub(crate) fn with_random_of_body<R>(f: impl FnOnce(&mut Rng) -> R) -> Option<R> {
    let of_body = |place: &RefCell<Option<Rng>>| place.try_borrow_mut().ok()?.as_mut().map(f);
    BODY.try_with(of_body).ok().flatten()
}

/// Stands for a host where only random bytes are asked for.
const NOBODY: usize = usize::MAX;

/// The largest number of a process that Linux gives.
const LAST_PROCESS: i32 = 1 << 22;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) unix: Sockets,
    pub(crate) pipes: Pipes,
    pub(crate) files: Files,
    pub(crate) hosts: Vec<Host>,
    /// The number of the process that began last.
    processes: i32,
    /// For messages.
    pub(crate) seed: u64,
    /// Of each host: what its programs take for CPUs.
    pub(crate) workers: usize,
    pub(crate) random: Rng,
    /// Seeds of disks.
    disks: Rng,
}

/// A host, as its system calls see it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: HostId,
    pub(crate) up: bool,
    /// Its monotonic clock, and what its calendar is ahead of that, in nanoseconds.
    pub(crate) clock: Clock,
    pub(crate) skew: i64,
    /// The number of the process of its program.
    pub(crate) process: i32,
    /// Whether it was told that a call would wait for ever.
    pub(crate) is_told: bool,
    /// What a step of it takes, in nanoseconds.
    pub(crate) step_time: u64,
    /// A call that slept, or a slow step, has moved it to this time: it takes no step before.
    pub(crate) busy_until: u64,
    /// Events that its epoll descriptors were told of so far.
    pub(crate) edges: u64,
    pub(crate) disk: Store,
    /// Its machine, and the time at which that began.
    pub(crate) machine: (Weak<Machine>, u64),
}

impl World {
    pub(crate) fn new(seed: u64, workers: usize) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            net: Network::new(rng.next_u64()),
            unix: Sockets::default(),
            pipes: Pipes::default(),
            files: Files::default(),
            hosts: Vec::new(),
            processes: LAST_PROCESS,
            seed,
            workers,
            random: Rng::new(rng.next_u64()),
            disks: Rng::new(rng.next_u64()),
        }
    }

    /// The time up to which a host has come, in nanoseconds since the begin.
    pub(crate) fn now(&self, host: usize) -> u64 {
        let busy_until = self.hosts.get(host).map_or(0, |host| host.busy_until);
        self.net.now().max(busy_until)
    }

    pub(crate) fn name(&self, host: usize) -> &str {
        self.hosts
            .get(host)
            .map_or("", |host| self.net.host_name(host.id))
    }

    /// What the monotonic clock of a host shows, in nanoseconds.
    pub(crate) fn shown(&self, host: usize) -> u64 {
        let now = self.now(host);
        self.hosts
            .get(host)
            .map_or(now, |host| host.clock.shows(now))
    }

    /// When so many nanoseconds have passed on the clock of a host.
    pub(crate) fn time_after(&self, host: usize, nanoseconds: u64) -> u64 {
        let shown = self.shown(host).saturating_add(nanoseconds);
        self.hosts[host].clock.time_of(shown)
    }

    /// A call of the host sleeps. In a `spawn_blocking` the call alone takes the time. Elsewhere it
    /// is the host: its clock goes on, and it takes no step until then.
    pub(crate) fn sleeps(&mut self, host: usize, until: u64) {
        // The runtime of the host counts by the host's clock, which may drift.
        let clock = &self.hosts[host].clock;
        let shown = self.shown(host);
        let now = match take_time(clock.shows(until).saturating_sub(shown)) {
            Some(taken) => {
                // What the rest of the call sends leaves then. The next step sets it back.
                let now = clock.time_of(shown.saturating_add(taken));
                self.net.set_busy(self.hosts[host].id, now);
                now
            }
            None => {
                self.is_held_up(host, until);
                self.now(host)
            }
        };
        let host = &self.hosts[host];
        CLOCKS.set((host.clock.shows(now), host.skew));
    }

    /// The host is busy until then: also for what is left of its step.
    fn is_held_up(&mut self, host: usize, until: u64) {
        let Host { id, busy_until, .. } = &mut self.hosts[host];
        *busy_until = until.max(*busy_until);
        self.net.set_busy(*id, *busy_until);
        let shown = self.shown(host);
        let (machine, base) = &self.hosts[host].machine;
        if let Some(machine) = machine.upgrade() {
            machine.jump_to(shown - base);
        }
    }

    /// A host was busy with a step for so many nanoseconds.
    pub(crate) fn is_busy(&mut self, host: usize, nanoseconds: u64) {
        let until = self.now(host).saturating_add(nanoseconds);
        self.hosts[host].busy_until = until;
    }

    /// A program of a host begins, as a process of its own.
    pub(crate) fn begins(&mut self, host: usize) {
        self.processes += 1;
        self.hosts[host].process = self.processes;
    }

    /// A disk for the next host.
    pub(crate) fn new_disk(&mut self) -> Store {
        let mut disk = Store::new(self.disks.next_u64());
        if self.net.log().is_some() {
            disk.keep_log();
        }
        disk
    }

    /// The disk of a host, at its time.
    pub(crate) fn disk_of(&mut self, host: usize) -> &mut Store {
        let (now, shown) = (self.now(host), self.shown(host));
        let host = &mut self.hosts[host];
        let calendar = i128::from(CALENDAR.saturating_add(shown)) + i128::from(host.skew);
        // As the clock of the calendar, it shows no time before 1970.
        host.disk.set_time(now, calendar.max(0));
        &mut host.disk
    }

    /// Lets the time pass that calls of the host's disk took.
    pub(crate) fn waits_for_disk(&mut self, host: usize) {
        let Host { id, disk, .. } = &mut self.hosts[host];
        for text in disk.take_said() {
            self.net.note_event(Some(*id), || text);
        }
        let cost = self.hosts[host].disk.take_cost();
        if cost > 0 {
            let until = self.now(host).saturating_add(cost);
            self.sleeps(host, until);
        }
    }
}

/// Makes `world` that of this thread until the guard is dropped. None if a simulation runs here.
pub(crate) fn install(world: &Rc<RefCell<World>>) -> Option<Installed> {
    WORLD.with_borrow_mut(|place| {
        place.is_none().then(|| {
            *place = Some(world.clone());
            Installed(())
        })
    })
}

/// See [`install`]. What is left of its descriptors answers `EBADF` afterwards.
#[derive(Debug)]
pub(crate) struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        let world = WORLD.try_with(|place| place.borrow_mut().take());
        drop(world);
    }
}

/// Gives the hash maps of this thread keys from the seed, from now on. If they cannot be set, a
/// fresh thread has such keys nevertheless.
///
/// It draws nothing of what hosts draw later.
pub(crate) fn seed_hash_maps(world: &Rc<RefCell<World>>) {
    let mut random = world.borrow().random.clone();
    if let Some(_installed) = install(world) {
        as_host(NOBODY, || drop(RandomState::new()));
        world.borrow_mut().random = random.clone();
    }
    keys::set([random.next_u64(), random.next_u64()]);
}

/// Gives this thread's generator of `fastrand` the seed of a run that begins.
pub(crate) fn seed_fastrand(world: &RefCell<World>) {
    let mut random = world.borrow().random.clone();
    // Its own seed would be a hash of the thread's id.
    fastrand::seed(random.next_u64());
}

/// Makes it the host again that runs.
struct Back(Option<usize>);

impl Drop for Back {
    fn drop(&mut self) {
        HOST.set(self.0);
    }
}

/// Runs `f` as code of a host.
pub(crate) fn as_host<R>(host: usize, f: impl FnOnce() -> R) -> R {
    let clocks = with(|world| {
        let Host {
            id,
            busy_until,
            skew,
            ..
        } = *world.hosts.get(host)?;
        world.net.set_busy(id, busy_until);
        Some((world.shown(host), skew))
    });
    spin::step_begins();
    let _back = Back(HOST.replace(Some(host)));
    CLOCKS.set(clocks.flatten().unwrap_or_default());
    f()
}

/// Runs `f` as code of no host: with the files and the time of the machine.
pub(crate) fn outside<R>(f: impl FnOnce() -> R) -> R {
    let _back = Back(HOST.replace(None));
    f()
}

/// What the clock of the host that runs shows, in nanoseconds, and what its calendar is ahead of
/// that. In a step its own sleeps move it, and a loop that reads it: see `kernel/spin.rs`.
///
/// It borrows nothing: an allocator asks for the time, also while the world is borrowed.
pub(crate) fn clocks() -> Option<(u64, i64)> {
    HOST.get().map(|_| CLOCKS.get())
}

/// The world of this thread, if it has one. None also in the middle of another such call, from an
/// allocator or a handler of a signal.
pub(crate) fn with<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    let world = WORLD.try_with(|place| place.try_borrow().ok()?.clone());
    let world = world.ok()??;
    let mut world = world.try_borrow_mut().ok()?;
    Some(f(&mut world))
}

/// The host that runs now.
pub(crate) fn current_host() -> Option<usize> {
    HOST.get()
}

/// The world and the host that runs now, if one does.
pub(crate) fn with_host<R>(f: impl FnOnce(&mut World, usize) -> R) -> Option<R> {
    let host = HOST.get()?;
    with(|world| f(world, host))
}
