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
//! - The keys of std's hash maps, if the thread made a hash map before the simulation. Each thread
//!   that [`check()`](crate::check()) starts is fresh.
//! - Ids of threads and of the process; the number of CPUs; environment variables.
//! - Pipes, processes and terminals, and the folders of the system: see `disk.rs`.
//! - System calls without libc.
//! - Signals for which a library asks the system itself, and not `ws::signal`.
//! - Statics that outlive a run, such as a counter of the program. `futures::select!` has one, from
//!   which it draws its order; `select_biased!` has none. So has the `StreamMap` of tokio-stream.
//! - On tokio's names: the first branch of `select!`, if the thread ran another simulation before.
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
    kernel::{CALENDAR, Files},
    network::{HostId, Network},
    rng::Rng,
    unix::Sockets,
};

thread_local! {
    static HOST: Cell<Option<usize>> = const { Cell::new(None) };
    /// What the clocks of the host that runs show: see [`clocks`].
    static CLOCKS: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
    static WORLD: RefCell<Option<Rc<RefCell<World>>>> = const { RefCell::new(None) };
}

/// Stands for a host where only random bytes are asked for.
const NOBODY: usize = usize::MAX;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) net: Network,
    pub(crate) unix: Sockets,
    pub(crate) files: Files,
    pub(crate) hosts: Vec<Host>,
    /// For messages.
    pub(crate) seed: u64,
    random: Rng,
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
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            net: Network::new(rng.next_u64()),
            unix: Sockets::default(),
            files: Files::default(),
            hosts: Vec::new(),
            seed,
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
        let now = self.now(host);
        let now = match take_time(until.saturating_sub(now)) {
            Some(taken) => {
                // What the rest of the call sends leaves then. The next step sets it back.
                let now = now.saturating_add(taken);
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

    /// A disk for the next host.
    pub(crate) fn new_disk(&mut self) -> Store {
        Store::new(self.disks.next_u64())
    }

    /// The disk of a host, at its time.
    pub(crate) fn disk_of(&mut self, host: usize) -> &mut Store {
        let (now, shown) = (self.now(host), self.shown(host));
        let host = &mut self.hosts[host];
        let calendar = i128::from(CALENDAR.saturating_add(shown)) + i128::from(host.skew);
        host.disk.set_time(now, calendar);
        &mut host.disk
    }

    /// Lets the time pass that calls of the host's disk took.
    pub(crate) fn waits_for_disk(&mut self, host: usize) {
        let cost = self.hosts[host].disk.take_cost();
        if cost > 0 {
            let until = self.now(host).saturating_add(cost);
            self.sleeps(host, until);
        }
    }

    pub(crate) fn fill_random(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.random.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
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
pub(crate) struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        let world = WORLD.try_with(|place| place.borrow_mut().take());
        drop(world);
    }
}

/// Gives the hash maps of this thread keys from the seed, unless they have keys already.
///
/// It draws nothing of what hosts draw later.
pub(crate) fn seed_hash_maps(world: &Rc<RefCell<World>>) {
    if let Some(_installed) = install(world) {
        let random = world.borrow().random.clone();
        as_host(NOBODY, || drop(RandomState::new()));
        world.borrow_mut().random = random;
    }
}

/// Gives this thread's generator of `fastrand` the seed of a run that begins.
pub(crate) fn seed_fastrand(world: &RefCell<World>) {
    let mut random = world.borrow().random.clone();
    // Its own seed would be a hash of the thread's id.
    fastrand::seed(random.next_u64());
}

/// Runs `f` as code of a host.
pub(crate) fn as_host<R>(host: usize, f: impl FnOnce() -> R) -> R {
    struct Back(Option<usize>);
    impl Drop for Back {
        fn drop(&mut self) {
            HOST.set(self.0);
        }
    }
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
    let _back = Back(HOST.replace(Some(host)));
    CLOCKS.set(clocks.flatten().unwrap_or_default());
    f()
}

/// What the clock of the host that runs shows, in nanoseconds, and what its calendar is ahead of
/// that. Only its own sleeps move it in a step.
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
