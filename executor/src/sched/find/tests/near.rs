//! Victims of a thief's own node come before all others, and none is left out (`nodes.rs`).
//!
//! It fails if a search takes the victims in one order for all, if those of other nodes are left
//! out, or if a P whose thread woke up again is still passed by.

use super::{
    order::{runs, spawned},
    *,
};
use crate::nodes::Nodes;

/// Workers beside each other are on different nodes: a virtual thread has the CPU of its index.
const WORKERS: usize = 6;

fn of_two_nodes(seed: u64) -> (Runtime, Vec<Worker>) {
    let nodes = (0..WORKERS).map(|cpu| (cpu % 2) as u8).collect();
    let builder = Builder::new().workers(WORKERS).seed(seed).sysmon(false);
    let builder = builder.stall_threshold(None).nodes(Nodes::of_cpus(nodes));
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let workers = (0..WORKERS).map(|_| thread(&runtime)).collect();
    (runtime, workers)
}

#[test]
fn near_victims_come_before_far_ones_and_all_are_tried() {
    for seed in 0..20 {
        let (runtime, workers) = of_two_nodes(seed);
        let thief = &workers[1];
        let mut tasks = Vec::new();
        for victim in workers.iter().filter(|it| it.index() != thief.index()) {
            let ids = spawned(victim, 3);
            tasks.extend(ids.into_iter().map(|id| (id, victim.index())));
        }
        // Two of each wait in its local queue, and a thief takes one of these at a time.
        let order: Vec<usize> = (0..2 * (WORKERS - 1))
            .map(|_| {
                let id = runs(thief);
                let of = tasks.iter().find(|(other, _)| *other == id);
                of.expect("it is one of these").1
            })
            .collect();
        let (near, far) = order.split_at(4);
        assert!(near.iter().all(|index| index % 2 == 1), "{seed}: {order:?}");
        assert!(far.iter().all(|index| index % 2 == 0), "{seed}: {order:?}");
        let mut all = order.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 0, 2, 2, 3, 3, 4, 4, 5, 5], "{seed}");
        end(runtime, workers);
    }
}

#[test]
fn a_thread_that_woke_up_is_a_victim_and_one_that_sleeps_is_passed_by() {
    let (runtime, workers) = of_two_nodes(7);
    let [thief, victim] = [&workers[1], &workers[3]];
    for other in &workers {
        if other.index() != thief.index() {
            assert!(!other.begin_park(), "there is nothing");
        }
    }
    let visits = &thief.peer().counters.victims;
    let before = visits.get();
    assert!(matches!(step(thief), Step::Park));
    assert_eq!(visits.get(), before, "all others sleep");
    // It wakes up by itself, as after a wait in the netpoll.
    assert!(victim.unpark_without_permit());
    assert!(victim.try_run());
    let ids = spawned(victim, 2);
    assert_eq!(runs(thief), ids[0]);
    end(runtime, workers);
}
