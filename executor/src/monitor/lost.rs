//! When the monitor looks for tasks that can never wake: only if a hook or a test wants to know.
//!
//! A look costs some 200 ns a task. So the next one comes a second after it at the earliest, and so
//! much later that all looks take one part in a hundred of a core. The last look comes when nothing
//! runs any more: before the monitor sleeps for good, it waits for the time of a look that is due
//! since a worker ran. In a test there is no last one, since a thread of the test's own may drop
//! what could have woken its root.

use std::{collections::HashSet, time::Duration};

use crate::{
    cell::{Id, quietly},
    policy::constants::{LOST_EVERY, LOST_PART},
    sched::{Shared, state::hooks::in_a_hook},
};

/// See the module's head.
pub(super) struct LostTasks {
    /// A hook or a test wants to know.
    wanted: bool,
    /// A worker ran since the last look.
    due: bool,
    /// Not before this time of the runtime's clock, in nanoseconds.
    not_before: u64,
    /// What was told to the hook and is alive still.
    told: HashSet<Id>,
}

impl LostTasks {
    pub(super) fn new(shared: &Shared) -> Self {
        let lost = &shared.config.lost;
        Self {
            wanted: lost.hook.is_some() || lost.fails_run,
            due: true,
            not_before: 0,
            told: HashSet::new(),
        }
    }

    /// The monitor has looked at the workers, and one of them ran.
    pub(super) fn something_ran(&mut self, shared: &Shared, now: u64) {
        if self.wanted {
            self.due = true;
            if now >= self.not_before {
                self.look(shared, now);
            }
        }
    }

    /// Nothing runs. How long it is until the next look, if there is one.
    pub(super) fn before_sleep(&mut self, shared: &Shared, now: u64) -> Option<Duration> {
        let again = shared.config.lost.fails_run;
        if self.due || (again && now >= self.not_before) {
            // A test fails at once.
            if now < self.not_before && !again {
                return Some(Duration::from_nanos(self.not_before - now));
            }
            self.look(shared, now);
        }
        again.then(|| Duration::from_nanos(self.not_before.saturating_sub(now)))
    }

    fn look(&mut self, shared: &Shared, now: u64) {
        self.due = false;
        let lost = shared.lost_tasks();
        let took = shared.time.clock().now_ns().saturating_sub(now);
        self.not_before = now + (LOST_PART * took).max(LOST_EVERY.as_nanos() as u64);
        if let Some(hook) = &shared.config.lost.hook {
            for lost in &lost {
                if !self.told.contains(&lost.task.id) {
                    in_a_hook(|| quietly("the `on_lost_task` hook", || hook(lost)));
                }
            }
            self.told.extend(lost.iter().map(|lost| lost.task.id));
            // A look may miss one that was told, and only the end of the task ends it.
            let mut alive = HashSet::new();
            shared.for_each_live(|task| _ = alive.insert(task.header().id()));
            self.told.retain(|id| alive.contains(id));
        }
        shared.fail_lost_root(&lost);
    }
}
