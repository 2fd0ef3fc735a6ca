//! Which lines of cache go from CPU to CPU: atomics that count it, under `--cfg ws_lines`.
//!
//! # How it works
//!
//! A simulation of the scheduler runs all its virtual threads on one real one, and says before each
//! step which CPU takes it ([`on_cpu`]). Each access to an atomic, and each lock, looks up its line
//! of 64 bytes in a directory, as the protocol MESI does:
//!
//! - A read by a CPU that has no copy is a *fetch*. Then it has one.
//! - A write by a CPU that has not the only copy is a *claim*. Then it has the only one.
//! - All else is a hit, and not counted.
//!
//! Counts are kept for each place in the source. So a table of them names the code that makes lines
//! go around. A fetch is *far* if no CPU of the same node had a copy. A claim is far if a copy on
//! another node has to go.
//!
//! # What it leaves out
//!
//! Memory that is no atomic: the futures, and what is behind a lock. A line that is evicted. What
//! `std`, crossbeam and the kernel touch. Two CPUs at the same moment: no line is fought for.
//!
//! Memory is given again by one allocator, which is that of the one real thread. So the first write
//! to what another CPU has freed counts as a claim. And where memory lies differs from process to
//! process, so the counts of a seed do as well, by a few in a hundred.
//!
//! Rejected: performance counters of a real machine (`perf c2c`): there is none here with more than
//! two CPUs, and a figure would be that of one machine and one run.

use std::{
    cell::RefCell,
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    panic::Location,
};

/// The bytes of a line, as a power of two.
const LINE_BITS: u32 = 6;

/// What happened at a place, or at all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moves {
    /// Reads of a line, where the CPU had no copy.
    pub fetches: u64,
    /// Writes to a line, where other CPUs had copies too.
    pub claims: u64,
    /// Those of both that went to another node.
    pub far: u64,
}

impl Moves {
    /// All lines that went from one CPU to another, or back to one alone.
    #[must_use]
    pub fn all(self) -> u64 {
        self.fetches + self.claims
    }

    fn add(&mut self, write: bool, far: bool) {
        *(if write {
            &mut self.claims
        } else {
            &mut self.fetches
        }) += 1;
        self.far += u64::from(far);
    }
}

/// A place in the source, and what happened there.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file and the line.
    pub at: String,
    /// What happened there.
    pub moves: Moves,
    /// How many CPUs claimed a line there.
    pub writers: usize,
}

/// A set of CPUs.
#[derive(Clone, Debug, Default)]
struct Cpus(Vec<u64>);

impl Cpus {
    fn has(&self, cpu: usize) -> bool {
        self.0
            .get(cpu / 64)
            .is_some_and(|word| word & 1 << (cpu % 64) != 0)
    }

    fn insert(&mut self, cpu: usize) {
        if self.0.len() <= cpu / 64 {
            self.0.resize(cpu / 64 + 1, 0);
        }
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..64 * self.0.len()).filter(|cpu| self.has(*cpu))
    }
}

/// The CPUs that have a copy of a line.
#[derive(Debug, Default)]
struct Copies {
    cpus: Cpus,
    /// The nodes of these, a bit each.
    nodes: u64,
}

/// An address is spread well enough by one multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, word: usize) {
        self.0 = (self.0.rotate_left(5) ^ word as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_usize(word as usize);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

struct Directory {
    /// The node of each CPU; those beyond are on node 0.
    nodes: Vec<u8>,
    cpu: Option<usize>,
    lines: Map<usize, Copies>,
    places: Map<(usize, u32), (&'static Location<'static>, Moves, Cpus)>,
    total: Moves,
}

thread_local! {
    static DIRECTORY: RefCell<Option<Directory>> = const { RefCell::new(None) };
}

/// Begins to count on this thread, with nothing in any cache. `nodes` has the node of each CPU,
/// below 64.
pub fn begin(nodes: Vec<u8>) {
    let directory = Directory {
        nodes,
        cpu: None,
        lines: Map::default(),
        places: Map::default(),
        total: Moves::default(),
    };
    DIRECTORY.with_borrow_mut(|it| *it = Some(directory));
}

/// Calls `f`, whose accesses are those of `cpu`.
pub fn on_cpu<R>(cpu: usize, f: impl FnOnce() -> R) -> R {
    let set = |cpu| {
        DIRECTORY.with_borrow_mut(|it| {
            it.as_mut()
                .and_then(|it| std::mem::replace(&mut it.cpu, cpu))
        })
    };
    let before = set(Some(cpu));
    let result = f();
    set(before);
    result
}

/// What happened since [`begin`], or since the last [`forget`].
#[must_use]
pub fn total() -> Moves {
    DIRECTORY.with_borrow(|it| it.as_ref().map_or_else(Moves::default, |it| it.total))
}

/// Counts anew; what is in the caches stays there.
pub fn forget() {
    DIRECTORY.with_borrow_mut(|it| {
        if let Some(it) = it {
            it.total = Moves::default();
            it.places.clear();
        }
    });
}

/// The places, those with most moves first.
#[must_use]
pub fn places() -> Vec<Place> {
    let mut places: Vec<Place> = DIRECTORY.with_borrow(|it| {
        let places = it.iter().flat_map(|it| it.places.values());
        places
            .map(|(at, moves, writers)| Place {
                at: format!("{}:{}", at.file(), at.line()),
                moves: *moves,
                writers: writers.len(),
            })
            .collect()
    });
    places.sort_by(|a, b| b.moves.all().cmp(&a.moves.all()).then(a.at.cmp(&b.at)));
    places
}

#[track_caller]
pub(crate) fn touch<T>(what: *const T, write: bool) {
    let at = Location::caller();
    // A destructor of a thread-local may come here after the directory has gone.
    let _ = DIRECTORY.try_with(|it| {
        if let Ok(mut it) = it.try_borrow_mut()
            && let Some(it) = &mut *it
        {
            it.touch(what.addr() >> LINE_BITS, write, at);
        }
    });
}

impl Directory {
    fn node(&self, cpu: usize) -> u64 {
        1 << self.nodes.get(cpu).copied().unwrap_or(0)
    }

    fn touch(&mut self, line: usize, write: bool, at: &'static Location<'static>) {
        let Some(cpu) = self.cpu else { return };
        let node = self.node(cpu);
        let copies = self.lines.entry(line).or_default();
        let has = copies.cpus.has(cpu);
        let is_alone = || copies.cpus.iter().all(|other| other == cpu);
        if copies.nodes == 0 {
            // It comes from memory, and goes to no other CPU.
        } else if !has || (write && !is_alone()) {
            let far = copies.nodes & node == 0 || (write && copies.nodes & !node != 0);
            self.total.add(write, far);
            let key = (std::ptr::from_ref(at.file()).addr(), at.line());
            let place = self
                .places
                .entry(key)
                .or_insert_with(|| (at, Moves::default(), Cpus::default()));
            place.1.add(write, far);
            if write {
                place.2.insert(cpu);
            }
        }
        if write {
            *copies = Copies::default();
        }
        copies.cpus.insert(cpu);
        copies.nodes |= node;
    }
}

/// The atomics of `std`, counted.
pub mod atomic {
    use super::touch;
    pub use std::sync::atomic::{Ordering, fence};

    macro_rules! counted {
        ($name:ident $(<$of:ident>)?, $value:ty, [$($op:ident)*]) => {
            /// As in `std`.
            #[repr(transparent)]
            pub struct $name $(<$of>)? (std::sync::atomic::$name $(<$of>)?);

            impl $(<$of>)? $name $(<$of>)? {
                pub const fn new(value: $value) -> Self {
                    Self(std::sync::atomic::$name::new(value))
                }

                #[track_caller]
                pub fn load(&self, order: Ordering) -> $value {
                    touch(self, false);
                    self.0.load(order)
                }

                #[track_caller]
                pub fn store(&self, value: $value, order: Ordering) {
                    touch(self, true);
                    self.0.store(value, order);
                }

                #[track_caller]
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    touch(self, true);
                    self.0.swap(value, order)
                }

                #[track_caller]
                pub fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    touch(self, true);
                    self.0.compare_exchange(from, to, success, failure)
                }

                #[track_caller]
                pub fn compare_exchange_weak(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    touch(self, true);
                    self.0.compare_exchange_weak(from, to, success, failure)
                }

                #[track_caller]
                pub fn fetch_update(
                    &self,
                    success: Ordering,
                    failure: Ordering,
                    f: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    touch(self, true);
                    self.0.fetch_update(success, failure, f)
                }

                pub fn get_mut(&mut self) -> &mut $value {
                    self.0.get_mut()
                }

                pub fn into_inner(self) -> $value {
                    self.0.into_inner()
                }

                $(
                    #[track_caller]
                    pub fn $op(&self, value: $value, order: Ordering) -> $value {
                        touch(self, true);
                        self.0.$op(value, order)
                    }
                )*
            }

            impl $(<$of>)? std::fmt::Debug for $name $(<$of>)? {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    self.0.fmt(f)
                }
            }

            impl $(<$of>)? Default for $name $(<$of>)?
            where
                std::sync::atomic::$name $(<$of>)?: Default,
            {
                fn default() -> Self {
                    Self(Default::default())
                }
            }
        };
    }

    macro_rules! numbers {
        ($($name:ident $value:ty,)*) => {
            $(counted!($name, $value, [
                fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min
            ]);)*
        };
    }

    numbers! {
        AtomicU8 u8,
        AtomicU32 u32,
        AtomicU64 u64,
        AtomicI64 i64,
        AtomicUsize usize,
    }
    counted!(AtomicBool, bool, [fetch_and fetch_or fetch_xor]);
    counted!(AtomicPtr<T>, *mut T, []);
}
