//! Which order finds planted bugs soonest. For each order and bug: the median over 20 series of the
//! number of seeds until one fails. `cargo run --release -p ws-sim --example orders`.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[cfg(target_os = "linux")]
mod bugs;

#[cfg(target_os = "linux")]
fn main() {
    use std::panic;

    use bugs::BUGS;
    use ws_sim::{Order, Sim};

    const SERIES: u64 = 20;
    const CAP: u64 = 2_000;

    let orders = [
        ("production", Order::Production),
        ("random", Order::Random),
        ("round robin", Order::RoundRobin),
        ("PCT 2", Order::Pct { depth: 2 }),
        ("PCT 3", Order::Pct { depth: 3 }),
        ("PCT 4", Order::Pct { depth: 4 }),
        ("POS", Order::Pos),
        ("mixed", Order::Mixed),
    ];
    // The bugs panic.
    panic::set_hook(Box::new(|_| {}));
    print!("| bug | depth |");
    orders.iter().for_each(|(name, _)| print!(" {name} |"));
    println!("\n| --- | ---: |{}", " ---: |".repeat(orders.len()));
    for bug in &BUGS {
        print!("| {} | {} |", bug.name, bug.depth);
        for (_, order) in orders {
            let needed = |series: u64| {
                let fails = |number: &u64| {
                    let seed = series << 32 | number;
                    let sim = Sim::builder().seed(seed).order(order).build();
                    (bug.plant)(&sim);
                    sim.try_run().is_err()
                };
                (0..CAP).find(fails).map_or(u64::MAX, |number| number + 1)
            };
            let mut all: Vec<u64> = (0..SERIES).map(needed).collect();
            all.sort_unstable();
            match all[all.len() / 2] {
                u64::MAX => print!(" > {CAP} |"),
                median => print!(" {median} |"),
            }
        }
        println!();
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
