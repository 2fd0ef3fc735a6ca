//! Victims of a thief's own node come before all others, and none is left out (`nodes.rs`).
//!
//! It fails if a search takes the victims in one order for all, if those of other nodes are left
//! out, or if a P whose thread woke up again is still passed by.

#[cfg(target_os = "linux")]
use ws_reactor::{CpuSet, ThreadId, current_cpu};

use super::{
    order::{runs, spawned},
    *,
};
use crate::nodes::Nodes;

/// Workers beside each other are on different nodes: a virtual thread has the CPU of its index.
const WORKERS: usize = 6;

fn of_two_nodes(seed: u64) -> (Runtime, Vec<Worker>) {
    let nodes = (0..WORKERS).map(|cpu| (cpu % 2) as u8).collect();
    let builder = Builder::new()
        .workers(WORKERS)
        .seed(seed)
        .sysmon(Sysmon::Off);
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

/// Keeps the calling thread off all CPUs of this remainder, if it may use others.
#[cfg(target_os = "linux")]
fn only_others(remainder: u32) -> Vec<CpuSet> {
    let mut sets = Vec::new();
    for cpu in (remainder..1024).step_by(2) {
        let mut set = CpuSet::default();
        if ThreadId::current().keep_off(cpu, &mut set) {
            sets.push(set);
        }
    }
    sets
}

// Fails if no thread of the system's is noted, or only where it began.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_wakes_up_on_another_node_is_noted_there() {
    // Neighbours are on two nodes.
    let nodes = Nodes::of_cpus((0..1024).map(|cpu| (cpu % 2) as u8).collect());
    let builder = Builder::new().workers(1).stall_threshold(None);
    let runtime = builder.nodes(nodes).build().unwrap();
    let handle = runtime.handle().clone();
    let moves = runtime.spawn(async move {
        for wanted in [0, 1, 0] {
            let sets = only_others(1 - wanted);
            let cpu = current_cpu().expect("Linux tells");
            if cpu % 2 != wanted {
                // This process may use CPUs of one node alone.
                return;
            }
            let placed = &handle.shared().processors.placed;
            let mut is_noted = false;
            for _ in 0..100 {
                crate::time::sleep(Duration::from_millis(1)).await;
                let on: Vec<_> = (0..4).filter_map(|index| placed.node_of(index)).collect();
                is_noted |= on.contains(&(wanted as usize));
            }
            for set in sets.iter().rev() {
                set.restore(ThreadId::current());
            }
            assert!(is_noted, "node {wanted}");
        }
    });
    runtime.block_on(moves).unwrap();
}
