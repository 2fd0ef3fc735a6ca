//! A simulation is given to the function by value, with one seed or with many.

use ws::sim::Sim;

#[ws::sim]
async fn takes_nothing() {}

#[ws::sim]
async fn takes_a_reference(sim: &Sim) {
    sim.run().await;
}

#[ws::sim]
async fn takes_more(sim: Sim, number: u32) {
    sim.run().await;
}

#[ws::sim(seeds = 0)]
fn no_seed(_sim: Sim) {}

#[ws::sim(seeds = "many")]
fn text(_sim: Sim) {}

#[ws::sim(seeds = 10, seed = 7)]
fn both(_sim: Sim) {}

#[ws::sim(paused)]
fn unknown(_sim: Sim) {}

#[ws::sim]
#[test]
fn twice(_sim: Sim) {}

#[ws::sim]
struct NoFunction;

fn main() {}
