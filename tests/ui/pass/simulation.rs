//! `ws::sim` is an attribute and a module. What it makes is a test, which only a test program has.

use ws::sim::{Disk, Sim, secs};

async fn node(_number: u32, disk: Disk) {
    assert!(disk.path().is_absolute());
}

fn hosts(sim: &Sim) {
    for i in 0..3 {
        sim.host(format!("n{i}"), move |disk| node(i, disk));
    }
    sim.host("closure", || async {});
    sim.host("fallible", |_: Disk| async { std::io::Result::Ok(()) });
    sim.client("c", async { ws::time::sleep(secs(1)).await });
}

#[ws::sim(seeds = 10)]
async fn is_compiled_in_tests_alone(sim: ws::sim::Sim) {
    no_such_name(sim)
}

fn main() {
    let sim = Sim::new(1);
    hosts(&sim);
    sim.try_run().unwrap();
}
