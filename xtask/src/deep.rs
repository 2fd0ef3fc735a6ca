//! The checks that take too long, or want too many tools, for CI.
//!
//! `cargo xtask deep` runs all [`STEPS`], `cargo xtask deep NAME…` those that are named. What a
//! step's programs say goes to `target/deep/logs/`; what came of it is one line in a table at the
//! end. `docs/testing.md` has the last one.
//!
//! A tool that is not there is a failure that says how to install it: a step that was left out
//! looks too much like one that passed. Debian's packages are installed on the way.

mod clippy;
mod dynamic;
mod random;
mod repeat;
pub(crate) mod shop;

use std::{path::Path, time::Instant};

use crate::{
    Failure,
    mutants::{self, Which},
    targets, tokio,
};
use shop::Shop;

/// What came of a step, in a few words.
pub(crate) type Outcome = Result<String, Failure>;

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Shop) -> Outcome,
}

/// The quickest first, and what takes hours last.
const STEPS: &[Step] = &[
    Step {
        name: "musl",
        about: "the example serve as one static file, driven by curl",
        run: targets::musl::step,
    },
    Step {
        name: "windows",
        about: "the tests on Windows, under Wine",
        run: targets::windows::step,
    },
    Step {
        name: "oldest",
        about: "the crates need nothing newer than the promised Rust",
        run: targets::oldest::step,
    },
    Step {
        name: "targets",
        about: "what compiles for other systems and processors",
        run: targets::step,
    },
    Step {
        name: "emulated",
        about: "the unit and integration tests on other processors, under qemu",
        run: targets::emulated::step,
    },
    Step {
        name: "shuttle",
        about: "random schedules of the models, the large ones among them",
        run: random::shuttle,
    },
    Step {
        name: "clippy",
        about: "clippy over the workspaces of proofs and examples",
        run: clippy::clippy,
    },
    Step {
        name: "asan",
        about: "AddressSanitizer: use after free, out of bounds",
        run: dynamic::asan,
    },
    Step {
        name: "lsan",
        about: "LeakSanitizer: what nobody points to at the end of a test program",
        run: dynamic::lsan,
    },
    Step {
        name: "tsan",
        about: "ThreadSanitizer: accesses that nothing orders",
        run: dynamic::tsan,
    },
    Step {
        name: "gigabyte",
        about: "a trace of 1 GB is written and shown in little memory",
        run: dynamic::gigabyte,
    },
    Step {
        name: "many-seeds",
        about: "10,000 seeds of a simulation in one process, which does not grow",
        run: repeat::many_seeds,
    },
    Step {
        name: "tokio-servers",
        about: "libraries on tokio with real servers, on the package in compat/tokio",
        run: |shop| tokio::proofs::check(&shop.root, &[]).map(|()| "all passed".into()),
    },
    Step {
        name: "tokio-console",
        about: "tokio-console on ws and on that package, and tokio's own tests of its spans",
        run: |shop| tokio::console::check(&shop.root).map(|()| "all passed".into()),
    },
    Step {
        name: "tokio-programs",
        about: "programs that others wrote for tokio, with their own tests",
        run: |shop| tokio::programs::check(&shop.root, &[]).map(|()| "all as known".into()),
    },
    Step {
        name: "mutants",
        about: "the mutants of the models, of which CI tries a twelfth",
        run: |shop| mutants::check(&shop.root, Which::All).map(|()| "all killed".into()),
    },
    Step {
        name: "fuzz",
        about: "programs for the queues and the task that a fuzzer makes up",
        run: random::fuzz,
    },
    Step {
        name: "memcheck",
        about: "valgrind: use of what was never written, leaks",
        run: dynamic::memcheck,
    },
    Step {
        name: "repeat",
        about: "the scheduler's tests 30 times, and 10 times beside two busy loops",
        run: repeat::repeat,
    },
    Step {
        name: "loom-full",
        about: "the models with one preemption more than in CI, a minute each",
        run: random::loom_full,
    },
    Step {
        name: "mutants-auto",
        about: "cargo mutants over the queues, the tasks and the scheduler",
        run: random::mutants,
    },
];

/// The names of all steps.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

/// Runs the steps that are named, or all of them.
pub(crate) fn check(root: &Path, names: &[&str]) -> Result<(), Failure> {
    if let Some(name) = names.iter().find(|name| step(name).is_none()) {
        let all: Vec<_> = STEPS
            .iter()
            .map(|step| format!("  {:14} {}", step.name, step.about))
            .collect();
        return Err(format!(
            "no step is named {name}; there are\n{}",
            all.join("\n")
        ));
    }
    let shop = Shop::new(root)?;
    let mut table = Vec::new();
    let mut failed = 0;
    for step in STEPS {
        if !names.is_empty() && !names.contains(&step.name) {
            continue;
        }
        println!("==> {}: {}", step.name, step.about);
        let began = Instant::now();
        let outcome = (step.run)(&shop);
        failed += usize::from(outcome.is_err());
        let (verdict, words) = match outcome {
            Ok(words) => ("passed", words),
            Err(words) => ("FAILED", words),
        };
        println!("{words}");
        let summary = words.lines().next().unwrap_or_default();
        let seconds = began.elapsed().as_secs();
        table.push(format!(
            "{:14} {verdict} {seconds:6} s  {summary}",
            step.name
        ));
    }
    println!(
        "\n{}\nlogs are in {}",
        table.join("\n"),
        shop.logs.display()
    );
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} of {} steps failed", table.len()))
    }
}

fn step(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}
