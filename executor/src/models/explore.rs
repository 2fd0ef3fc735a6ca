//! How a model is explored: under loom all schedules with a bounded number of preemptions, under
//! shuttle random ones.

/// Explores `model` with at most `preemptions` of them, or fewer if `LOOM_MAX_PREEMPTIONS` says so.
/// `WS_LOOM_MORE` is how many more there are to be: then many models do not come to an end, and are
/// left after a minute.
#[cfg(not(ws_shuttle))]
pub(super) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
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

/// Runs `model` under shuttle, in random schedules and in such as PCT makes, which lets a thread go
/// as long as it can and changes its mind a few times. `WS_SHUTTLE_SCHEDULES` is how many of each.
/// A failing schedule is printed, and `WS_SHUTTLE_REPLAY` runs that one.
#[cfg(ws_shuttle)]
pub(super) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler, ReplayScheduler},
    };
    let config = || {
        let mut config = Config::new();
        config.stack_size = 0x2_0000;
        config
    };
    if let Ok(schedule) = std::env::var("WS_SHUTTLE_REPLAY") {
        let schedule = ReplayScheduler::new_from_encoded(&schedule);
        Runner::new(schedule, config()).run(model);
        return;
    }
    let schedules = match std::env::var("WS_SHUTTLE_SCHEDULES") {
        Ok(schedules) => schedules.parse().expect("WS_SHUTTLE_SCHEDULES is a number"),
        Err(_) => 10_000,
    };
    let model = std::sync::Arc::new(model);
    let again = model.clone();
    Runner::new(RandomScheduler::new(schedules), config()).run(move || again());
    Runner::new(PctScheduler::new(preemptions, schedules), config()).run(move || model());
}
