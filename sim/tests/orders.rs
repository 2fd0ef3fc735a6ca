//! What orders find: planted bugs in few seeds, and the same run for the same seed.
#![cfg(target_os = "linux")]

use ws_sim::{Order, Sim};

#[path = "../examples/orders/bugs.rs"]
mod bugs;

fn sim(seed: u64, order: Order) -> Sim {
    Sim::builder().seed(seed).order(order).build()
}

/// In how many of 400 seeds the bug of this name and depth is found.
fn found((name, depth): (&str, u32), order: Order) -> usize {
    let is_it = |bug: &&bugs::Bug| bug.name == name && bug.depth == depth;
    let bug = bugs::BUGS.iter().find(is_it);
    let bug = bug.expect("it is one of them");
    let fails = |seed: &u64| {
        let sim = sim(*seed, order);
        (bug.plant)(&sim);
        sim.try_run().is_err()
    };
    (0..400).filter(fails).count()
}

#[test]
fn priorities_find_a_bug_of_depth_3_in_fewer_seeds_than_random() {
    let bug = ("order of three tasks", 3);
    let pct = found(bug, Order::Pct { depth: 3 });
    let random = found(bug, Order::Random);
    assert!(
        pct > 20 && random < 4,
        "{pct} with priorities, {random} at random"
    );
}

#[test]
fn the_default_order_finds_what_needs_a_late_step_early() {
    let bug = ("deadlock by the order of locks", 2);
    let default = Sim::builder();
    assert!(format!("{default:?}").contains("order: Pos"), "{default:?}");
    let (pos, production) = (found(bug, Order::Pos), found(bug, Order::Production));
    assert!(pos > 8 && production == 0, "{pos} and {production}");
}

#[test]
fn all_orders_run_what_is_ready_and_repeat_it() {
    let orders = [
        Order::Random,
        Order::Pct { depth: 3 },
        Order::Pos,
        Order::RoundRobin,
        Order::Production,
        Order::Mixed,
    ];
    for order in orders {
        let run = |seed| {
            let sim = sim(seed, order);
            // It seldom fails.
            (bugs::BUGS[5].plant)(&sim);
            let failed = sim.try_run().err().map(|failure| failure.to_string());
            (sim.digest(), sim.events(), failed)
        };
        let first: Vec<_> = (0..20).map(run).collect();
        assert_eq!(first, (0..20).map(run).collect::<Vec<_>>(), "{order:?}");
    }
}
