//! What does a push and a pop of an ordered queue cost, with 1, 2 and 8 threads?
//!
//! No runtime is involved: it is the queue under `ws`'s priorities, used alone, beside the ordered
//! work-stealing queue of `open-coroutine-core` and a `BinaryHeap` under a mutex. Each thread has a
//! queue of its own where the design has one, and some entries in it; it pushes one of another
//! level and pops one, over and over. All three carry a box. The three take turns within one
//! process, and the figure of each is the median of its turns; that of the row is `ws`'s.
//!
//! With 1,000 levels no two entries in a row are equal, and `ws`'s buckets are of little use.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ws_queue::ordered::{Entry, Local, Queue};

use super::{Figure, Row};
use crate::BoxError;
use crate::cli::Params;
use crate::measure::{Meter, Outcome};
use crate::rt::{Rt, WsRt};

/// Entries that each thread's queue has all the time.
const FILLED: usize = 64;
/// Turns of each queue.
const TURNS: usize = 21;

pub(super) fn rows() -> [Row; 4] {
    const OPERATION: &str = "a push and a pop";
    [
        Row::new("ordered_queue_1", OPERATION, Figure::Time, |params| {
            measure(params, 1, 4)
        }),
        Row::new("ordered_queue_2", OPERATION, Figure::Time, |params| {
            measure(params, 2, 4)
        }),
        Row::new("ordered_queue_8", OPERATION, Figure::Time, |params| {
            measure(params, 8, 4)
        }),
        Row::new(
            "ordered_queue_8_levels_1000",
            OPERATION,
            Figure::Time,
            |params| measure(params, 8, 1_000),
        ),
    ]
    .map(|row| row.only(&[WsRt::NAME]))
}

/// Fills a queue, and takes the time.
type Timed = Box<dyn Fn() -> Duration>;

fn measure(params: Params, threads: usize, levels: u64) -> Result<Outcome, BoxError> {
    let rounds = params.size(100_000, 20_000) / threads;
    let mut queues: Vec<(&str, Timed)> = vec![
        ("ws_ns", Box::new(move || ours(threads, levels, rounds))),
        ("heap_ns", Box::new(move || heap(threads, levels, rounds))),
    ];
    #[cfg(feature = "open-coroutine")]
    queues.push((
        "open_coroutine_ns",
        Box::new(move || open_coroutine(threads, levels, rounds)),
    ));
    let ops = rounds * threads;
    let mut times = vec![Vec::new(); queues.len()];
    let meter = Meter::start();
    for turn in 0..TURNS {
        for at in 0..queues.len() {
            let at = (turn + at) % queues.len();
            let nanos = (queues[at].1)().as_nanos();
            times[at].push(nanos as f64 / ops as f64);
        }
    }
    let mut outcome = meter.stop(ops * TURNS * queues.len());
    for ((name, _), times) in queues.drain(..).zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let median = times[TURNS / 2];
        if name == "ws_ns" {
            outcome = outcome.by(median);
        }
        outcome = outcome.with(name, median);
    }
    Ok(Outcome::Measured(outcome))
}

/// Levels in no particular order.
struct Levels {
    state: u64,
    count: u64,
}

impl Levels {
    fn next(&mut self) -> i64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % self.count) as i64
    }
}

/// Runs `work` on so many threads at once, and takes the time from their common start to the last
/// one's end. What `prepare` makes of a thread's number is made and dropped outside of that.
fn timed<Q>(
    threads: usize,
    levels: u64,
    prepare: impl Fn(usize, &mut Levels) -> Q + Sync,
    work: impl Fn(&Q, &mut Levels) + Sync,
    finish: impl Fn(Q) + Sync,
) -> Duration {
    let barrier = Barrier::new(threads + 1);
    thread::scope(|scope| {
        for index in 0..threads {
            let (barrier, prepare, work, finish) = (&barrier, &prepare, &work, &finish);
            scope.spawn(move || {
                let mut levels = Levels {
                    state: 0x9E37_79B9_7F4A_7C15 ^ (index as u64 + 1),
                    count: levels,
                };
                let queue = prepare(index, &mut levels);
                barrier.wait();
                work(&queue, &mut levels);
                barrier.wait();
                // All are done: nobody steals from a queue that is being emptied.
                finish(queue);
            });
        }
        barrier.wait();
        let began = Instant::now();
        barrier.wait();
        began.elapsed()
    })
}

fn ours(threads: usize, levels: u64, rounds: usize) -> Duration {
    let (_queue, locals) = Queue::new(threads);
    let locals: Vec<Mutex<Option<Local<u64>>>> = locals
        .into_iter()
        .map(|local| Mutex::new(Some(local)))
        .collect();
    timed(
        threads,
        levels,
        |index, levels| {
            let local = locals[index].lock().expect("no panic").take();
            let local = local.expect("each is taken once");
            for _ in 0..FILLED {
                local.push(Entry::new(levels.next(), 0));
            }
            local
        },
        |local, levels| {
            let mut spare = Entry::new(0, 1);
            for _ in 0..rounds {
                spare.set_priority(levels.next());
                local.push(spare);
                spare = local.pop().expect("there is at least what was pushed");
            }
            black_box(spare);
        },
        drop,
    )
}

fn heap(threads: usize, levels: u64, rounds: usize) -> Duration {
    let heap = Mutex::new(BinaryHeap::new());
    // Equals are first in, first out here as well.
    let number = AtomicU64::new(0);
    let push = |level: i64, value: Box<u64>| {
        let number = Reverse(number.fetch_add(1, Relaxed));
        heap.lock().expect("no panic").push((level, number, value));
    };
    timed(
        threads,
        levels,
        |_, levels| (0..FILLED).for_each(|_| push(levels.next(), Box::new(0))),
        |(), levels| {
            let mut spare = Box::new(1);
            for _ in 0..rounds {
                push(levels.next(), spare);
                let popped = heap.lock().expect("no panic").pop();
                spare = popped.expect("there is at least what was pushed").2;
            }
            black_box(spare);
        },
        drop,
    )
}

#[cfg(feature = "open-coroutine")]
type Peer = open_coroutine_core::common::ordered_work_steal::OrderedWorkStealQueue<Box<u64>>;

/// The queue has a worker's end of a ring in it, which is not `Sync`; its own crate hands it to all
/// threads by raw pointers.
#[cfg(feature = "open-coroutine")]
#[derive(Debug)]
struct Everywhere(&'static Peer);

#[cfg(feature = "open-coroutine")]
impl Everywhere {
    fn get(&self) -> &'static Peer {
        self.0
    }
}

#[cfg(feature = "open-coroutine")]
#[expect(
    unsafe_code,
    reason = "a peer that is shared as its own crate shares it"
)]
// SAFETY: as far as that crate is sound, which shares it in the same way: each thread pushes to the
// local queue that it was given alone, and others reach that by its stealing end.
unsafe impl Sync for Everywhere {}

#[cfg(feature = "open-coroutine")]
fn open_coroutine(threads: usize, levels: u64, rounds: usize) -> Duration {
    // It panics in its drop if anything is left, and its count drifts: it is let go.
    let queue = Box::leak(Box::new(Peer::new(threads, 256)));
    let queue = Everywhere(queue);
    let queue = &queue;
    timed(
        threads,
        levels,
        |_, levels| {
            let local = queue.get().local_queue();
            for _ in 0..FILLED {
                local.push_with_priority(levels.next(), Box::new(0_u64));
            }
            local
        },
        |local, levels| {
            let mut spare = Box::new(1);
            for _ in 0..rounds {
                local.push_with_priority(levels.next(), spare);
                spare = local.pop().unwrap_or_else(|| Box::new(1));
            }
            black_box(spare);
        },
        std::mem::forget,
    )
}
