//! Parallel iterators on the workers that also serve: what becomes of a text's words.
//!
//! `cargo run --release --example parallel`
//!
//! The iterators are orx-parallel's; `ws::parallel::Workers` makes them run on this runtime. A task
//! ticks beside them all the while.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orx_parallel::*;
use ws::parallel::Workers;

#[ws::main]
async fn main() {
    let clock = ws::spawn(async {
        let mut ticks = ws::time::interval(Duration::from_millis(5));
        for _ in 0.. {
            ticks.tick().await;
        }
    });

    let result = ws::compute(|| {
        let numbers: Vec<u64> = (0..2_000_000).map(hash).collect();
        let odd = count_odd(&numbers);
        let (sum, largest) = sum_and_largest(&numbers);
        (odd, sum, largest, sorted(numbers))
    });
    let (odd, sum, largest, sorted) = result.await.expect("nothing here panics");
    clock.abort();

    assert_eq!(sorted.last(), Some(&largest));
    assert!(sorted.is_sorted());
    println!("{odd} odd numbers, their sum is {sum}, the largest of all is {largest}");
}

/// Some work for each number.
fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)) >> 20
}

/// Deals chunks of the items to the workers of this runtime.
fn on_the_workers() -> impl ParRunner {
    Runner::fixed_with_pool(Workers::current())
}

/// `for_each`, with an effect that may come from several threads.
fn count_odd(numbers: &[u64]) -> usize {
    let odd = AtomicUsize::new(0);
    numbers
        .par()
        .runner(on_the_workers())
        .filter(|number| *number % 2 == 1)
        .for_each(|_| {
            odd.fetch_add(1, Ordering::Relaxed);
        });
    odd.into_inner()
}

/// `map` and `reduce`.
fn sum_and_largest(numbers: &[u64]) -> (u64, u64) {
    let odd = numbers
        .par()
        .runner(on_the_workers())
        .filter(|number| *number % 2 == 1);
    let sum = odd.map(|number| *number).sum();
    let largest = numbers
        .par()
        .runner(on_the_workers())
        .map(|number| *number)
        .reduce(u64::max);
    (sum, largest.unwrap_or(0))
}

/// A sort is no iterator: it is a few lines around `ws::join`.
fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    fn sort(numbers: &mut [u64]) {
        if numbers.len() < 10_000 {
            return numbers.sort_unstable();
        }
        let middle = numbers.len() / 2;
        let (small, _, large) = numbers.select_nth_unstable(middle);
        ws::join(|| sort(small), || sort(large));
    }
    sort(&mut numbers);
    numbers
}
