//! A simulation is given to the function by value, with one seed or with many.

use ws_macros::sim;

struct Sim;

#[sim]
async fn takes_nothing() {}

#[sim]
async fn takes_a_reference(sim: &Sim) {
    drop(sim);
}

#[sim]
async fn takes_more(sim: Sim, number: u32) {
    drop(sim);
}

#[sim(seeds = 0)]
fn no_seed(_sim: Sim) {}

#[sim(seeds = "many")]
fn text(_sim: Sim) {}

#[sim(seeds = 10, seed = 7)]
fn both(_sim: Sim) {}

#[sim(paused)]
fn unknown(_sim: Sim) {}

#[sim]
#[test]
fn twice(_sim: Sim) {}

#[sim]
struct NoFunction;

fn main() {}
