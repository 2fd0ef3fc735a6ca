//! Loom models of the protocols, one file for each.
//!
//! They drive the shipped types and the shipped steps. What surrounds those in the scheduler and cannot run
//! under loom (contexts, clocks, the netpoll) is what `sched/ground.rs` asks for, and `floor.rs` brings it.
//!
//! Each file says at its head what its models show, with how many preemptions, in what time, and
//! which mutants make them fail: `cargo xtask models` runs them, `cargo xtask mutants` sees to it
//! that they bite.

mod both_ways;
mod floor;
mod fork_join;
mod idle;
mod live;
mod ordered;
mod park;
mod permit;
mod queue;
mod shutdown;
mod task;

/// Explores `model` with at most `preemptions` of them, or fewer if `LOOM_MAX_PREEMPTIONS` says so. `WS_LOOM_MORE` is how
/// many more there are to be: then many models do not come to an end, and are left after a minute.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let limit = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(preemptions.min(limit));
    builder.max_branches = 10_000;
    if let Ok(more) = std::env::var("WS_LOOM_MORE") {
        let more: usize = more.parse().expect("WS_LOOM_MORE is a number");
        builder.preemption_bound = Some(preemptions + more);
        builder.max_duration = Some(std::time::Duration::from_secs(60));
    }
    builder.check(model);
}
