//! Thousands of seeds, small and large.

use std::{cell::Cell, env, sync::atomic::Ordering::Relaxed};

use super::{
    Driver, Setting, driven,
    program::{Calls, Script, Taste, World},
    runtime,
};
use crate::{nodes::Nodes, permit::phase::ShutdownEnv, rng::Rng};

/// So many of the usual number of runs, or the one seed that is to be replayed. Without
/// optimisation, where a run takes several times as long, a third of them: what asserts are in the
/// shipped code is seen to there.
fn seeds(usual: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    match number("WS_SIM_SEED") {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => {
            let percent = number("WS_TEST_SCALE").unwrap_or(100);
            let all = (usual * percent).div_ceil(100);
            Box::new(
                0..if cfg!(debug_assertions) {
                    all.div_ceil(3)
                } else {
                    all
                },
            )
        }
    }
}

/// Plays a program; at the end, or in the middle of it, the runtime is shut down. How many steps
/// that took, and until when.
fn play(
    setting: &Setting,
    scripts: Vec<Script>,
    gates: usize,
    steps_max: Option<u64>,
) -> (u64, u64) {
    // One node, two or three, and Ps of each side by side.
    let count = 1 + setting.seed % 3;
    let nodes = (0..256).map(|cpu| (cpu % count) as u8).collect();
    let runtime = runtime(setting, Nodes::of_cpus(nodes));
    let world = World::new(gates);
    let calls = Calls {
        world: world.clone(),
        handle: runtime.handle().clone(),
        spawns: Cell::new(scripts),
        closed: Cell::new((0..gates).collect()),
    };
    let driver = Driver::new(setting, &runtime, Box::new(calls));
    let shared = driver.shared.clone();
    driven(&driver, || {
        match steps_max {
            None => driver.run(),
            Some(most) => {
                while !driver.has_failed() && driver.steps.get() < most && driver.step(None) {}
            }
        }
        if steps_max.is_none() && !driver.has_failed() {
            let left = shared.live_tasks();
            let (ended, aborted) = (world.ended.load(Relaxed), world.aborted.load(Relaxed));
            let spawned = world.spawned.load(Relaxed);
            if left > 0 {
                driver.fail(|| format!("L1: nothing happens any more, and {left} tasks are left"));
            }
            if ended + aborted < spawned {
                driver.fail(|| {
                    format!("S2: of {spawned} tasks {ended} ended and {aborted} were aborted")
                });
            }
        }
        if !driver.has_failed() {
            crate::context::as_another_thread(|| shared.end(None));
            // Wakers of what waits still may come, or none.
            driver.hung_up.set(setting.seed.is_multiple_of(2));
            driver.run();
            let (spawned, dropped) = (world.spawned.load(Relaxed), world.dropped.load(Relaxed));
            if spawned != dropped {
                driver.fail(|| format!("S7: of {spawned} futures {dropped} were dropped"));
            }
        }
    });
    let failure = driver.failure.borrow_mut().take();
    if let Some(failure) = failure {
        let (seed, steps) = (setting.seed, driver.steps.get());
        // What is left of this world has no end.
        std::mem::forget((driver, runtime));
        panic!("{failure}\nafter {steps} steps; replay it with WS_SIM_SEED={seed}");
    }
    let came_to = (driver.steps.get(), driver.now());
    drop(driver);
    runtime.shutdown_background();
    came_to
}

/// A random program for a seed.
fn program(seed: u64, gates: usize) -> Vec<Script> {
    let rng = Rng::new(seed, 1 << 33);
    let taste = Taste::random(&rng, gates);
    let mut tasks = 1 << rng.below(8);
    let mut scripts: Vec<_> = (0..1 + rng.below(12))
        .map(|_| Script::random(&rng, &taste, &mut tasks, 6))
        .collect();
    if rng.below(40) == 0 {
        scripts.push(Script::burst(300, rng.below(2) == 0));
    }
    scripts
}

fn small(seed: u64) -> Setting {
    let rng = Rng::new(seed, 1 << 34);
    let workers = [2, 2, 2, 3, 4, 6, 9, 16][rng.below(8)];
    // Some may not start a thread for every one that is stuck.
    let max_threads = match rng.below(8) {
        0 => workers + 1 + rng.below(3),
        _ => 8 * workers + 24,
    };
    Setting {
        seed,
        workers,
        max_threads,
        rush: rng.below(4) == 0,
    }
}

#[test]
fn random_programs_end_as_they_say() {
    for seed in seeds(3000) {
        play(&small(seed), program(seed, 4), 4, None);
    }
}

#[test]
fn a_shutdown_in_the_middle_drops_everything() {
    for seed in seeds(1000) {
        let most = Rng::new(seed, 1 << 35).below(300) as u64;
        play(&small(seed), program(seed, 4), 4, Some(most));
    }
}

#[test]
fn a_thousand_workers() {
    for seed in seeds(2) {
        let setting = Setting {
            seed,
            workers: 1024,
            max_threads: 8192,
            rush: true,
        };
        let rng = Rng::new(seed, 1 << 33);
        let taste = Taste::busy(16);
        let mut tasks = 1500;
        let scripts = (0..700).map(|_| Script::random(&rng, &taste, &mut tasks, 4));
        play(&setting, scripts.collect(), 16, None);
    }
}

#[test]
fn a_seed_replays() {
    for seed in seeds(50) {
        let [first, again] = [(); 2].map(|()| play(&small(seed), program(seed, 4), 4, None));
        assert_eq!(first, again, "seed {seed} went another way");
    }
}
