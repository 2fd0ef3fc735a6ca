//! What does a `join` cost, and what do two workers make of it?
//!
//! Eight programs, each once with one worker and once with two, on `ws`, rayon and chili: the same
//! source, in which only `join` is another one ([`crate::joins`]). An operation is the whole
//! program.
//!
//! | column | is |
//! | --- | --- |
//! | `joins` | how many there are in the program |
//! | `ns_per_join` | CPU time of all threads above that of plain calls, for each join; where there is little else |
//! | `plain_ms` | the program with plain calls, on this thread |
//! | `of_copies_%` | with two workers: their speed, of that of two copies of the program, each on a thread of its own with a pool of one worker. What is missing is what sharing costs |
//! | `of_plain_%` | the same of two copies with plain calls: here the price of the joins is in it too |
//!
//! The parts take turns within the process, and a median is taken of each, so that all of them see
//! the same machine.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::joins::{Counted, ForkJoin, Plain};
use crate::measure::{Measure, Meter, Outcome};
use crate::stats::median;

mod arrays;
pub(super) mod trees;

use arrays::{MatMul, MergeSort, QuickSort};
use trees::{Fib, NQueens, Skynet, TreeSum, Uts};

/// The runtimes that run these rows.
pub(crate) const ONLY: &[&str] = &["ws", "rayon", "chili"];

/// What there may be between two joins for their price to be seen.
const FINE_NS: f64 = 100.0;
/// How often the parts take their turns.
const TURNS: usize = 5;

/// A program with joins.
pub(super) trait Program: 'static {
    /// What it reads.
    type Input: Sync;
    /// What it writes, or sorts in place.
    type Scratch: Send;

    fn input(params: Params) -> Self::Input;

    /// Made anew for each run, outside of what is measured.
    fn scratch(input: &Self::Input) -> Self::Scratch;

    /// What is measured.
    fn run<J: ForkJoin>(
        context: &mut J::Context<'_>,
        input: &Self::Input,
        scratch: &mut Self::Scratch,
    ) -> u64;

    /// What it comes to, for comparison with plain calls.
    fn digest(result: u64, scratch: &Self::Scratch) -> u64;
}

pub(super) fn rows<J: ForkJoin>() -> Vec<Row> {
    macro_rules! on_1_2 {
        ($($name:literal: $program:ty),* $(,)?) => {
            vec![$(
                Row::new(concat!($name, "_1w"), "the whole program", Figure::Time, |params| {
                    on_one::<J, $program>(params)
                }).heavy().only(ONLY),
                Row::new(concat!($name, "_2w"), "the whole program", Figure::Time, |params| {
                    on_two::<J, $program>(params)
                }).heavy().only(ONLY),
            )*]
        };
    }
    on_1_2!(
        "join_fib": Fib,
        "join_nqueens": NQueens,
        "join_quicksort": QuickSort,
        "join_mergesort": MergeSort,
        "join_treesum": TreeSum,
        "join_matmul": MatMul,
        "join_uts": Uts,
        "join_skynet": Skynet,
    )
}

/// The program with plain calls, and how many joins there are in it.
struct Reference<P: Program> {
    input: P::Input,
    joins: f64,
    digest: u64,
}

impl<P: Program> Reference<P> {
    fn new(params: Params) -> Self {
        let input = P::input(params);
        let mut joins = 0;
        let mut scratch = P::scratch(&input);
        let result = P::run::<Counted>(&mut joins, &input, &mut scratch);
        Reference {
            joins: joins as f64,
            digest: P::digest(result, &scratch),
            input,
        }
    }

    /// One run in that pool.
    fn time<J: ForkJoin>(&self, pool: &J::Pool) -> Measure {
        let mut scratch = P::scratch(&self.input);
        let meter = Meter::start();
        let result = J::enter(pool, |context| {
            P::run::<J>(context, &self.input, &mut scratch)
        });
        let measure = meter.stop(1);
        let digest = P::digest(result, &scratch);
        assert_eq!(digest, self.digest, "with joins it comes to the same");
        measure
    }

    /// How many copies a nanosecond get done, if each of these pools has one.
    fn copies<J: ForkJoin>(&self, pools: &[J::Pool]) -> f64 {
        let begin = Barrier::new(pools.len());
        let copy = &|pool| {
            let mut scratch = P::scratch(&self.input);
            begin.wait();
            let began = Instant::now();
            let result = J::enter(pool, |context| {
                P::run::<J>(context, &self.input, &mut scratch)
            });
            let wall = began.elapsed();
            assert_eq!(
                P::digest(result, &scratch),
                self.digest,
                "a copy comes to the same"
            );
            1.0 / wall.as_nanos() as f64
        };
        thread::scope(|scope| {
            let copies: Vec<_> = pools
                .iter()
                .map(|pool| scope.spawn(move || copy(pool)))
                .collect();
            copies
                .into_iter()
                .map(|copy| copy.join().expect("no copy panics"))
                .sum()
        })
    }
}

fn on_one<J: ForkJoin, P: Program>(params: Params) -> Result<Outcome, BoxError> {
    let reference = Reference::<P>::new(params);
    let pool = J::pool(1);
    let (mut joined, mut plain) = (Vec::new(), Vec::new());
    reference.time::<J>(&pool);
    for _ in 0..TURNS {
        plain.push(reference.time::<Plain>(&()));
        joined.push(reference.time::<J>(&pool));
    }
    let plain_cpu = median(plain.iter().map(|measure| measure.cpu_ns));
    let mut measure = middle(joined).with("joins", reference.joins);
    if plain_cpu / reference.joins < FINE_NS {
        let above = measure.cpu_ns - plain_cpu;
        measure = measure.with("ns_per_join", above / reference.joins);
    }
    Ok(Outcome::Measured(measure.with("plain_ms", plain_cpu / 1e6)))
}

fn on_two<J: ForkJoin, P: Program>(params: Params) -> Result<Outcome, BoxError> {
    let reference = Reference::<P>::new(params);
    let pool = J::pool(2);
    let alone = [J::pool(1), J::pool(1)];
    let (mut joined, mut of_copies, mut of_plain) = (Vec::new(), Vec::new(), Vec::new());
    reference.time::<J>(&pool);
    for _ in 0..TURNS {
        let plain = reference.copies::<Plain>(&[(), ()]);
        let measure = reference.time::<J>(&pool);
        let copies = reference.copies::<J>(&alone);
        of_copies.push(100.0 / (measure.wall_ns * copies));
        of_plain.push(100.0 / (measure.wall_ns * plain));
        joined.push(measure);
    }
    Ok(Outcome::Measured(
        middle(joined)
            .with("of_copies_%", median(of_copies))
            .with("of_plain_%", median(of_plain)),
    ))
}

/// The one of the median time.
fn middle(mut measures: Vec<Measure>) -> Measure {
    measures.sort_by(|a, b| a.wall_ns.total_cmp(&b.wall_ns));
    measures.swap_remove(measures.len() / 2)
}
