//! The order of steps: which ready task of which host runs next.
//!
//! # How it works
//!
//! A bug of order shows only if some tasks run in a certain order. How many such pairs "this step
//! before that one" it needs is its *depth*. An [`Order`] is a rule that draws one order from the
//! seed. The driver (`explore.rs`) tells the [`Chooser`] each task that becomes ready, and asks for
//! the next one. The chooser sees the host, the task's id, and what has run so far. It sees nothing
//! of what a step does.
//!
//! - *Random*: each ready task has the same chance, at each step.
//! - *PCT* (Burckhardt et al., ASPLOS 2010): each task has a random priority, and the ready task of
//!   the highest one runs. At `depth - 1` points the task that would run gets the lowest priority.
//!   Among n tasks and k steps a bug of depth d is found with a chance of at least
//!   1 / (n * k^(d-1)).
//! - *POS* (Yuan et al., CAV 2018): each step has a random priority, drawn when its task becomes
//!   ready, and the ready one with the highest runs. A step keeps its priority while it waits. So
//!   some steps wait for long, which they seldom do if each choice is new.
//! - *Round robin*: the task that is ready for the longest time runs.
//! - *Production*: a random host, and in it what the scheduler of that host runs next. The chooser
//!   is not asked.
//!
//! # The number of steps, and fairness
//!
//! PCT draws its points among k steps, and k is not known before the run. It also starves tasks: if
//! a task of a high priority polls in a loop until another has done something, it runs for ever. So
//! a run of PCT has *rounds*. A round has 16 to 32,767 steps: the exponent is random, so that short
//! and long runs are both met. With each round all priorities and points are drawn anew. Steps
//! without a choice do not count.
//!
//! The time moves when no task is ready, in each order. So a task that polls in a loop holds up the
//! timers, in the simulation as in no real system: such a run ends at the limit of steps.
//!
//! *Invariant*: the choices are a function of the seed and of the ready tasks, in the order in
//! which they became ready. The chooser has a generator of its own. So the network draws the same
//! numbers in each order.
//!
//! # Rejected
//!
//! - SURW (ASPLOS 2025), which weighs tasks by the steps that are left to them: it needs counts
//!   from a run before. Then a seed alone would not say what a run does.
//! - POS with races: a step that ran draws those anew that touch the same memory. The seam sees
//!   packets, and not memory. With "the same host" for "the same memory", it is *Random*.
//! - A priority for each host and not for each task: most planted bugs are within a host.

use crate::rng::Rng;

/// Which ready task runs next: a part of the seed. See [`Builder::order`](crate::Builder::order).
///
/// ```
/// use ws_sim::{Order, Sim};
///
/// let sim = Sim::builder().seed(7).order(Order::Pct { depth: 3 }).build();
/// sim.client("client", async { ws::task::yield_now().await });
/// sim.try_run()?;
/// # Ok::<(), ws_sim::Failure>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Each ready task of all hosts has the same chance.
    Random,
    /// Tasks have random priorities, which change at `depth - 1` random points. For bugs that need
    /// `depth` pairs of steps in a certain order: 2 or 3 for most.
    Pct {
        /// Points of change, and one.
        depth: u32,
    },
    /// Each step has a random priority, which it keeps while it waits.
    Pos,
    /// The task that has waited for the longest time. The seed decides on the network alone.
    RoundRobin,
    /// A random host, and in it the order of the scheduler that runs in production, with its steals
    /// between virtual workers. It is the fastest.
    Production,
    /// One of the others, drawn from the seed: `Random`, `Pct` of depth 2 to 4, `Pos`, or
    /// `Production`.
    Mixed,
}

impl Order {
    /// What a seed makes of it: for `Mixed` one of the others.
    pub(super) fn drawn(self, rng: &mut Rng) -> Self {
        match self {
            Self::Mixed => match rng.below(8) {
                0 => Self::Random,
                1 | 2 => Self::Pos,
                3 => Self::Production,
                4 | 5 => Self::Pct { depth: 2 },
                6 => Self::Pct { depth: 3 },
                _ => Self::Pct { depth: 4 },
            },
            other => other,
        }
    }
}

/// A task that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) host: usize,
    /// Its place in the pool of the host's machine.
    pub(super) ticket: u64,
    pub(super) task: u64,
    /// For [`Order::Pos`].
    priority: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Chooser {
    order: Order,
    rng: Rng,
    /// In the order in which they became ready.
    ready: Vec<Entry>,
    round: Round,
}

impl Chooser {
    /// None if the hosts' schedulers choose.
    pub(super) fn new(order: Order, mut rng: Rng) -> Option<Self> {
        let order = order.drawn(&mut rng);
        (order != Order::Production).then(|| Self {
            order,
            rng,
            ready: Vec::new(),
            round: Round::default(),
        })
    }

    pub(super) fn add(&mut self, host: usize, ticket: u64, task: u64) {
        let priority = match self.order {
            Order::Pos => self.rng.next_u64(),
            _ => 0,
        };
        self.ready.push(Entry {
            host,
            ticket,
            task,
            priority,
        });
    }

    /// A host's machine is gone.
    pub(super) fn forget(&mut self, host: usize) {
        self.ready.retain(|entry| entry.host != host);
    }

    /// Takes the one that runs next, of those whose hosts can run.
    pub(super) fn choose(&mut self, can_run: impl Fn(usize) -> bool) -> Option<Entry> {
        let can = |(place, entry): (usize, &Entry)| can_run(entry.host).then_some(place);
        let mut places = self.ready.iter().enumerate().filter_map(can);
        let first = places.next()?;
        let more = places.count() as u64;
        let place = if more == 0 {
            first
        } else {
            match self.order {
                Order::Random => {
                    let number = self.rng.below(more + 1) as usize;
                    let mut places = self.ready.iter().enumerate().filter_map(can);
                    places.nth(number).unwrap_or(first)
                }
                Order::Pct { depth } => {
                    let changes = self.round.next_step(depth, &mut self.rng);
                    if changes {
                        let highest = self.highest(first, &can_run);
                        self.round.lower(self.ready[highest].task);
                    }
                    self.highest(first, &can_run)
                }
                Order::Pos => self.highest(first, &can_run),
                Order::RoundRobin | Order::Production | Order::Mixed => first,
            }
        };
        Some(self.ready.remove(place))
    }

    fn highest(&self, first: usize, can_run: impl Fn(usize) -> bool) -> usize {
        let priority = |entry: &Entry| match self.order {
            Order::Pct { .. } => self.round.priority(entry.task),
            _ => entry.priority,
        };
        let entries = self.ready.iter().enumerate().skip(first);
        let entries = entries.filter(|(_, entry)| can_run(entry.host));
        let highest = entries.max_by_key(|(_, entry)| priority(entry));
        highest.map_or(first, |(place, _)| place)
    }
}

/// Exponents of the number of steps of a round: 2^4 to 2^15.
const EXPONENTS: (u64, u64) = (4, 15);

/// The priorities of PCT, for some steps.
#[derive(Debug, Default)]
struct Round {
    /// Makes priorities of ids.
    salt: u64,
    /// Steps that are left.
    left: u64,
    /// The points of change, as steps that are left then. The next one is the last.
    changes: Vec<u64>,
    /// Tasks with a low priority. The last one has the lowest.
    low: Vec<u64>,
}

impl Round {
    /// Counts a step. Tells whether priorities change before it.
    fn next_step(&mut self, depth: u32, rng: &mut Rng) -> bool {
        if self.left == 0 {
            let exponent = EXPONENTS.0 + rng.below(EXPONENTS.1 - EXPONENTS.0);
            let steps = (1 << exponent) + rng.below(1 << exponent);
            self.salt = rng.next_u64();
            self.left = steps;
            let points = u64::from(depth.saturating_sub(1)).min(steps);
            self.changes = (0..points).map(|_| 1 + rng.below(steps)).collect();
            self.changes.sort_unstable();
            self.low.clear();
        }
        let mut changes = false;
        // Two points may be at one step.
        while self.changes.last() == Some(&self.left) {
            self.changes.pop();
            changes = true;
        }
        self.left -= 1;
        changes
    }

    fn lower(&mut self, task: u64) {
        self.low.retain(|other| *other != task);
        self.low.push(task);
    }

    fn priority(&self, task: u64) -> u64 {
        match self.low.iter().rev().position(|low| *low == task) {
            Some(place) => place as u64,
            None => Rng::new(self.salt ^ task).next_u64() | 1 << 63,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooser(order: Order, seed: u64) -> Chooser {
        Chooser::new(order, Rng::new(seed)).expect("it chooses")
    }

    /// Tasks that are always ready run for some steps.
    fn run(order: Order, seed: u64, tasks: u64, steps: usize) -> Vec<u64> {
        let mut chooser = chooser(order, seed);
        (0..tasks).for_each(|task| chooser.add(0, task, task));
        let mut step = || {
            let entry = chooser.choose(|_| true).expect("one is ready");
            chooser.add(entry.host, entry.ticket, entry.task);
            entry.task
        };
        (0..steps).map(|_| step()).collect()
    }

    #[test]
    fn round_robin_takes_turns() {
        assert_eq!(run(Order::RoundRobin, 1, 3, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    // Fails if two points at one step leave out the later ones.
    #[test]
    fn each_point_of_change_has_its_turn() {
        for seed in 0..200 {
            let (mut round, mut rng) = (Round::default(), Rng::new(seed));
            let depth = 9;
            let mut is_first = true;
            while is_first || round.left > 0 {
                is_first = false;
                round.next_step(depth, &mut rng);
            }
            assert_eq!(round.changes, [0; 0], "seed {seed}");
        }
    }

    #[test]
    fn with_priorities_one_task_runs_until_a_point_of_change() {
        let mut counts = [0; 4];
        for seed in 0..100 {
            let steps = run(Order::Pct { depth: 3 }, seed, 4, 16);
            let changes = steps.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes <= 2, "{steps:?}");
            counts[changes] += 1;
        }
        assert!(counts[..3].iter().all(|count| *count > 0), "{counts:?}");
    }

    #[test]
    fn no_task_starves_for_ever() {
        let steps = run(Order::Pct { depth: 2 }, 1, 3, 500_000);
        for task in 0..3 {
            assert!(steps.contains(&task), "task {task}");
        }
    }

    #[test]
    fn hosts_that_stand_still_are_left_out() {
        for order in [Order::Random, Order::Pos, Order::Pct { depth: 2 }] {
            let mut chooser = chooser(order, 1);
            (0..20).for_each(|task| chooser.add(task as usize % 2, task, task));
            for _ in 0..10 {
                let entry = chooser.choose(|host| host == 1);
                assert_eq!(entry.expect("ten are ready").host, 1);
            }
            assert_eq!(chooser.choose(|host| host == 1), None);
            chooser.forget(0);
            assert_eq!(chooser.choose(|_| true), None);
        }
    }

    #[test]
    fn the_same_seed_is_the_same_order_and_another_one_is_not() {
        for order in [Order::Random, Order::Pos, Order::Pct { depth: 2 }] {
            assert_eq!(run(order, 1, 9, 99), run(order, 1, 9, 99));
            assert_ne!(run(order, 1, 9, 99), run(order, 2, 9, 99));
        }
    }

    #[test]
    fn a_mixed_order_is_each_of_those_that_it_names() {
        let drawn = |seed| format!("{:?}", Order::Mixed.drawn(&mut Rng::new(seed)));
        let mut all: Vec<_> = (0..200).map(drawn).collect();
        all.sort();
        all.dedup();
        let pct = [2, 3, 4].map(|depth| format!("Pct {{ depth: {depth} }}"));
        let others = ["Pos", "Production", "Random"].map(str::to_owned);
        assert_eq!(all, [pct, others].concat());
    }

    #[test]
    fn at_random_each_task_may_be_the_next_also_the_last_one() {
        let steps = run(Order::Random, 1, 3, 300);
        let again = steps.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((60..140).contains(&again), "{again}");
    }

    #[test]
    fn rounds_are_short_and_long() {
        let steps = |seed| {
            let mut round = Round::default();
            round.next_step(2, &mut Rng::new(seed));
            round.left + 1
        };
        let all: Vec<u64> = (0..400).map(steps).collect();
        let (least, most) = (all.iter().min(), all.iter().max());
        assert!(least.is_some_and(|least| (16..32).contains(least)));
        assert!(most.is_some_and(|most| (16_384..32_768).contains(most)));
    }
}
