//! Programs that work on arrays: few joins, with much between them. The sorts end up waiting for
//! memory.
//!
//! The loops between the joins are the same machine code at the same address for all pools, and for
//! the plain calls: functions that are not inlined. In each pool's own copy of the program,
//! `join_quicksort_1w` took 280 or 296 ms, depending on where the linker had put that copy.

use std::hint::black_box;

use super::Program;
use crate::cli::Params;
use crate::joins::ForkJoin;

/// From so many numbers on a sort splits.
const SORT_CUT_OFF: usize = 64;
/// From so many numbers on a merge splits.
const MERGE_CUT_OFF: usize = 4096;
/// Rows of a matrix that one call does.
const BAND: usize = 16;
/// Rows of the second matrix that stay in the cache meanwhile.
const BLOCK: usize = 64;

fn random(length: usize) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .collect()
}

/// Depends on the order.
fn digest(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0, |digest: u64, number| digest.rotate_left(5) ^ number)
}

#[inline(never)]
fn sort_few(numbers: &mut [u64]) {
    for end in 1..numbers.len() {
        let number = numbers[end];
        let mut hole = end;
        while hole > 0 && numbers[hole - 1] > number {
            numbers[hole] = numbers[hole - 1];
            hole -= 1;
        }
        numbers[hole] = number;
    }
}

/// Its partition is one call, so the first halves of the work are not shared.
#[derive(Debug)]
pub(super) struct QuickSort;

impl Program for QuickSort {
    type Input = Vec<u64>;
    type Scratch = Vec<u64>;

    fn input(params: Params) -> Vec<u64> {
        random(params.size(8_000_000, 1_000_000))
    }

    fn scratch(input: &Vec<u64>) -> Vec<u64> {
        input.clone()
    }

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, _: &Vec<u64>, numbers: &mut Vec<u64>) -> u64 {
        quicksort::<J>(context, numbers);
        0
    }

    fn digest(_: u64, numbers: &Vec<u64>) -> u64 {
        assert!(numbers.is_sorted(), "it sorts");
        digest(numbers)
    }
}

fn quicksort<J: ForkJoin>(context: &mut J::Context<'_>, numbers: &mut [u64]) {
    if numbers.len() <= SORT_CUT_OFF {
        return sort_few(numbers);
    }
    let pivot = partition(numbers);
    let (left, right) = numbers.split_at_mut(pivot);
    J::join(
        context,
        |context| quicksort::<J>(context, left),
        |context| quicksort::<J>(context, &mut right[1..]),
    );
}

/// Lomuto's partition without a branch, around the median of three. Where the pivot is.
#[inline(never)]
fn partition(numbers: &mut [u64]) -> usize {
    let last = numbers.len() - 1;
    let middle = last / 2;
    if numbers[middle] < numbers[0] {
        numbers.swap(middle, 0);
    }
    if numbers[last] < numbers[0] {
        numbers.swap(last, 0);
    }
    if numbers[middle] < numbers[last] {
        numbers.swap(middle, last);
    }
    let pivot = numbers[last];
    let mut less = 0;
    for index in 0..last {
        let number = numbers[index];
        numbers.swap(index, less);
        less += usize::from(number < pivot);
    }
    numbers.swap(less, last);
    less
}

/// Its merges are shared too.
#[derive(Debug)]
pub(super) struct MergeSort;

impl Program for MergeSort {
    type Input = Vec<u64>;
    type Scratch = (Vec<u64>, Vec<u64>);

    fn input(params: Params) -> Vec<u64> {
        random(params.size(8_000_000, 1_000_000))
    }

    fn scratch(input: &Vec<u64>) -> (Vec<u64>, Vec<u64>) {
        (input.clone(), input.clone())
    }

    fn run<J: ForkJoin>(
        context: &mut J::Context<'_>,
        _: &Vec<u64>,
        (numbers, room): &mut (Vec<u64>, Vec<u64>),
    ) -> u64 {
        mergesort::<J>(context, numbers, room, Into::Place);
        0
    }

    fn digest(_: u64, (numbers, _): &(Vec<u64>, Vec<u64>)) -> u64 {
        assert!(numbers.is_sorted(), "it sorts");
        digest(numbers)
    }
}

/// Where the result goes.
#[derive(Clone, Copy, Debug)]
enum Into {
    Place,
    Room,
}

fn mergesort<J: ForkJoin>(
    context: &mut J::Context<'_>,
    numbers: &mut [u64],
    room: &mut [u64],
    into: Into,
) {
    if numbers.len() <= SORT_CUT_OFF {
        sort_few(numbers);
        if let Into::Room = into {
            room.copy_from_slice(numbers);
        }
        return;
    }
    let middle = numbers.len() / 2;
    let other = match into {
        Into::Place => Into::Room,
        Into::Room => Into::Place,
    };
    let (left, right) = numbers.split_at_mut(middle);
    let (left_room, right_room) = room.split_at_mut(middle);
    J::join(
        context,
        |context| mergesort::<J>(context, left, left_room, other),
        |context| mergesort::<J>(context, right, right_room, other),
    );
    match into {
        Into::Place => merge::<J>(context, left_room, right_room, numbers),
        Into::Room => merge::<J>(context, left, right, room),
    }
}

fn merge<J: ForkJoin>(context: &mut J::Context<'_>, a: &[u64], b: &[u64], out: &mut [u64]) {
    if a.len() < b.len() {
        return merge::<J>(context, b, a, out);
    }
    if out.len() <= MERGE_CUT_OFF {
        return merge_few(a, b, out);
    }
    let (a_low, a_high) = a.split_at(a.len() / 2);
    let (b_low, b_high) = b.split_at(b.partition_point(|number| *number < a_high[0]));
    let (low, high) = out.split_at_mut(a_low.len() + b_low.len());
    J::join(
        context,
        |context| merge::<J>(context, a_low, b_low, low),
        |context| merge::<J>(context, a_high, b_high, high),
    );
}

#[inline(never)]
fn merge_few(mut a: &[u64], mut b: &[u64], out: &mut [u64]) {
    let mut out = out.iter_mut();
    while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
        let from_b = first_b < first_a;
        let slot = out.next().expect("the room is for both");
        *slot = if from_b { *first_b } else { *first_a };
        (a, b) = if from_b { (a, rest_b) } else { (rest_a, b) };
    }
    for (slot, number) in out.zip(a.iter().chain(b)) {
        *slot = *number;
    }
}

/// The product of two square matrices; a join halves the rows.
#[derive(Debug)]
pub(super) struct MatMul;

#[derive(Debug)]
pub(super) struct Factors {
    size: usize,
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Program for MatMul {
    type Input = Factors;
    type Scratch = Vec<f64>;

    fn input(params: Params) -> Factors {
        let size = params.size(1024, 512);
        let matrix = || {
            random(size * size)
                .into_iter()
                .map(|number| (number >> 44) as f64)
                .collect()
        };
        Factors {
            size,
            a: matrix(),
            b: matrix(),
        }
    }

    /// Written, not only zeroed: to read and then write a page that nobody has touched tells the
    /// other core by an interrupt, which took a third of the time of two threads that multiply,
    /// with a pool or without.
    fn scratch(factors: &Factors) -> Vec<f64> {
        factors.a.iter().map(|_| black_box(0.0)).collect()
    }

    fn run<J: ForkJoin>(context: &mut J::Context<'_>, factors: &Factors, c: &mut Vec<f64>) -> u64 {
        matmul::<J>(context, factors.size, &factors.a, &factors.b, c);
        0
    }

    fn digest(_: u64, c: &Vec<f64>) -> u64 {
        let bits: Vec<u64> = c.iter().map(|number| number.to_bits()).collect();
        digest(&bits)
    }
}

/// The rows of `c` that belong to these rows of `a`.
fn matmul<J: ForkJoin>(
    context: &mut J::Context<'_>,
    size: usize,
    a: &[f64],
    b: &[f64],
    c: &mut [f64],
) {
    let rows = a.len() / size;
    if rows <= BAND {
        return multiply(size, a, b, c);
    }
    let middle = rows / 2 * size;
    let (a_low, a_high) = a.split_at(middle);
    let (c_low, c_high) = c.split_at_mut(middle);
    J::join(
        context,
        |context| matmul::<J>(context, size, a_low, b, c_low),
        |context| matmul::<J>(context, size, a_high, b, c_high),
    );
}

#[inline(never)]
fn multiply(size: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
    for (block, rows_of_b) in b.chunks_exact(size * BLOCK).enumerate() {
        for (row_of_a, row_of_c) in a.chunks_exact(size).zip(c.chunks_exact_mut(size)) {
            let factors = &row_of_a[block * BLOCK..][..BLOCK];
            for (factor, row_of_b) in factors.iter().zip(rows_of_b.chunks_exact(size)) {
                for (sum, number) in row_of_c.iter_mut().zip(row_of_b) {
                    *sum += factor * number;
                }
            }
        }
    }
}
