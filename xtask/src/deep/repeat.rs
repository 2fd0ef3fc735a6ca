//! The scheduler's tests many times, alone and beside loops that take both cores from them: what
//! depends on which thread is scheduled when shows only sometimes.

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use super::{Outcome, shop::Shop};

const ALONE: usize = 30;
const BESIDE: usize = 10;
const BUSY_LOOPS: usize = 2;
const LIMIT: Duration = Duration::from_secs(20 * 60);

pub(super) fn repeat(shop: &Shop) -> Outcome {
    let mut failed = Vec::new();
    let mut tests = 0;
    let mut times = |count: usize, beside: &str| -> Result<(), crate::Failure> {
        for turn in 1..=count {
            let mut command = shop.cargo("repeat");
            command
                .args(["test", "--package", "ws-executor", "--lib", "--tests"])
                .arg("--no-fail-fast");
            let name = format!("repeat-{beside}-{turn}");
            let log = shop.run(&name, LIMIT, command)?;
            tests = tests.max(log.passed());
            if let Err(words) = log.tests(None) {
                println!("{name}: {words}");
                failed.push(name);
            }
        }
        Ok(())
    };
    times(ALONE, "alone")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BUSY_LOOPS {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let outcome = times(BESIDE, "busy");
        is_over.store(true, Relaxed);
        outcome
    })?;
    if failed.is_empty() {
        Ok(format!(
            "{tests} tests, {ALONE} times alone and {BESIDE} times beside {BUSY_LOOPS} busy loops"
        ))
    } else {
        Err(format!("failed: {}", failed.join(", ")))
    }
}

/// Many seeds of a simulation in one process.
pub(super) fn many_seeds(shop: &Shop) -> Outcome {
    let mut command = shop.cargo("many-seeds");
    let program = ["--package", "ws-sim", "--example", "many_seeds"];
    command.args(["run", "--release"]).args(program);
    let log = shop.run("many-seeds", LIMIT, command)?;
    log.success()?;
    let said = log.text.lines().rfind(|line| line.contains(" seeds: "));
    Ok(said.unwrap_or_default().to_owned())
}
