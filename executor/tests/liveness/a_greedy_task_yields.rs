//! F2: a task whose operations on resources of `ws` are always ready yields after its budget, and
//! the others get their turn; one that asks for no budget does not yield.
//!
//! It fails when `poll_proceed` in `coop.rs` is always ready, and when `with_budget` does not
//! fill the budget for each poll (then every operation yields), and when an operation alone does
//! not ask it: `poll_join_next`, say.

use crate::common;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
};

use ws_executor::{
    runtime::{Builder, Sysmon},
    task::{self, JoinHandle, coop},
    time::{Instant, sleep_until},
};

/// Units in a poll, as `budget.rs` has it.
const BUDGET: usize = 128;

/// Handles of tasks that have ended: joining one is ready at once.
async fn ended(count: usize) -> Vec<JoinHandle<usize>> {
    let handles: Vec<_> = (0..count)
        .map(|n| ws_executor::spawn(async move { n }))
        .collect();
    while !handles.iter().all(JoinHandle::is_finished) {
        task::yield_now().await;
    }
    handles
}

/// How many polls it takes.
async fn polls(future: impl Future<Output = ()>) -> usize {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        future.as_mut().poll(cx)
    })
    .await;
    polls
}

/// One that is ready at once, again and again: each is asked for its own unit.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Join,
    JoinSet,
    JoinSetWithId,
    /// What had ended when it came into the set.
    JoinSetEarly,
    Sleep,
}

impl Operation {
    async fn repeat(self, count: usize) -> usize {
        let mut set = task::JoinSet::new();
        match self {
            Self::Join => polls(join_all(ended(count).await)).await,
            Self::JoinSet | Self::JoinSetWithId => {
                let left = Arc::new(AtomicUsize::new(count));
                for n in 0..count {
                    let left = left.clone();
                    set.spawn(async move {
                        left.fetch_sub(1, SeqCst);
                        n
                    });
                }
                while left.load(SeqCst) > 0 {
                    task::yield_now().await;
                }
                // The last ones may be ending.
                polls(async {
                    for _ in 0..count {
                        if matches!(self, Self::JoinSet) {
                            set.join_next().await.unwrap().unwrap();
                        } else {
                            set.join_next_with_id().await.unwrap().unwrap();
                        }
                    }
                })
                .await
            }
            Self::JoinSetEarly => {
                for handle in ended(count).await {
                    set.insert(handle);
                }
                polls(async { while set.join_next().await.is_some() {} }).await
            }
            Self::Sleep => {
                let past = Instant::now();
                polls(async {
                    for _ in 0..count {
                        sleep_until(past).await;
                    }
                })
                .await
            }
        }
    }
}

async fn join_all(handles: Vec<JoinHandle<usize>>) {
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.await.unwrap(), n);
    }
}

common::with_workers! {
    fn after_its_budget(workers: usize) {
        let runtime = common::runtime(workers);
        let task = runtime.spawn(async {
            let polls = polls(join_all(ended(10 * BUDGET).await)).await;
            assert!(polls >= 10, "{polls} polls");
            // A slice that is over takes the rest away, which happens on a busy machine.
            assert!(polls <= 5 * BUDGET, "{polls} polls");
        });
        runtime.block_on(task).unwrap();
    }

    /// Each kind of operation alone: where several stand in one loop, one that pays is enough.
    /// Without a monitor nothing else ends a poll.
    fn each_operation_pays(workers: usize) {
        use Operation::{Join, JoinSet, JoinSetEarly, JoinSetWithId, Sleep};
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        for operation in [Join, JoinSet, JoinSetWithId, JoinSetEarly, Sleep] {
            let task = runtime.spawn(operation.repeat(10 * BUDGET));
            let polls = runtime.block_on(task).unwrap();
            assert!(polls >= 10, "{operation:?}: {polls} polls");
        }
    }

    /// Without a monitor nothing else ends its polls.
    fn unless_it_is_unconstrained(workers: usize) {
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let task = runtime.spawn(async {
            let handles = ended(10 * BUDGET).await;
            assert_eq!(polls(task::unconstrained(join_all(handles))).await, 1);
        });
        runtime.block_on(task).unwrap();
    }

    /// A neighbour in the same task that spends the whole budget in each poll keeps nobody from a
    /// begin.
    fn a_begin_is_refused_once(workers: usize) {
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let task = runtime.spawn(async {
            let has_begun = AtomicBool::new(false);
            let greedy = poll_fn(|cx| {
                while let Poll::Ready(unit) = coop::poll_proceed(cx) {
                    unit.made_progress();
                }
                if has_begun.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            });
            let begins = async {
                coop::consume_budget().await;
                has_begun.store(true, SeqCst);
            };
            futures::join!(greedy, begins);
        });
        runtime.block_on(task).unwrap();
    }

    /// Its neighbours in the queue go on: one that is never done, and others that only want a turn
    /// each.
    fn and_others_have_their_turn(workers: usize) {
        // Nobody takes a permit away: what runs, runs for the budget.
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let greedy: Vec<_> = (0..workers).map(|_| {
            let stop = stop.clone();
            runtime.spawn(async move {
                // A ready operation, again and again.
                while !stop.load(SeqCst) {
                    let mut set = task::JoinSet::new();
                    set.spawn(async {});
                    while set.join_next().await.is_some() {}
                }
            })
        }).collect();
        let turns = Arc::new(AtomicUsize::new(0));
        let modest: Vec<_> = (0..2 * workers).map(|_| {
            let turns = turns.clone();
            runtime.spawn(async move {
                for _ in 0..10 {
                    turns.fetch_add(1, SeqCst);
                    task::yield_now().await;
                }
            })
        }).collect();
        for task in modest {
            runtime.block_on(task).unwrap();
        }
        assert_eq!(turns.load(SeqCst), 20 * workers);
        stop.store(true, SeqCst);
        for task in greedy {
            runtime.block_on(task).unwrap();
        }
    }
}
