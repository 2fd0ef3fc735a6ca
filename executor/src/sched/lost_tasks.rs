//! The look for tasks that can never wake; see `cell/lost.rs`.

use std::collections::HashMap;

use super::{Shared, lost::LostTask};
use crate::{
    cell::{Id, find_lost},
    policy::constants::NAMED_MAX,
};

impl Shared {
    /// From now on the task is the root of a `run` that fails if it is lost.
    pub(crate) fn watch_root(&self, root: Id) {
        if self.config.lost.fails_run {
            let _ = self.telling.watched_root.root.set(root);
        }
    }

    /// Why the watched root was aborted, if that was so.
    pub(crate) fn verdict_on_root(&self) -> Option<&str> {
        self.telling.watched_root.verdict.get().map(String::as_str)
    }

    /// Aborts the watched root if it is one of these.
    pub(crate) fn fail_lost_root(&self, lost: &[LostTask]) {
        let Some(&root) = self.telling.watched_root.root.get() else {
            return;
        };
        if !lost.iter().any(|lost| lost.task.id == root) {
            return;
        }
        let mut verdict = "nothing can wake this any more".to_owned();
        for lost in lost.iter().take(NAMED_MAX) {
            verdict += &format!("\n  {lost}");
        }
        if lost.len() > NAMED_MAX {
            verdict += &format!("\n  and {} more", lost.len() - NAMED_MAX);
        }
        let _ = self.telling.watched_root.verdict.set(verdict);
        self.for_each_live(|task| {
            if task.header().id() == root {
                task.abort();
            }
        });
    }

    /// The tasks that can never wake.
    pub(crate) fn lost_tasks(&self) -> Vec<LostTask> {
        let mut tasks = Vec::new();
        self.for_each_live(|task| tasks.push(task));
        let lost = find_lost(&tasks);
        let id = |at: usize| tasks[at].header().id();
        let id_of: HashMap<usize, Id> = lost
            .iter()
            .map(|&at| (tasks[at].number(), id(at)))
            .collect();
        // Which lost task waits for which other. The two cells of a pinned task are one.
        let mut waits_for: HashMap<Id, Vec<Id>> = HashMap::new();
        for &at in &lost {
            let Some(address) = tasks[at].header().joined_by() else {
                continue;
            };
            let is_other_cell = |joiner: Id| joiner == id(at) && address != tasks[at].number();
            if let Some(&joiner) = id_of.get(&address)
                && !is_other_cell(joiner)
            {
                waits_for.entry(joiner).or_default().push(id(at));
            }
        }
        let rows = self.dump_listed_by(|f| lost.iter().for_each(|&at| f(tasks[at].clone())));
        let lost = rows.into_iter().map(|task| LostTask {
            waits_for: waits_for.get(&task.id).cloned().unwrap_or_default(),
            ring: ring(task.id, &waits_for),
            task,
        });
        lost.collect()
    }
}

/// The way from what a task waits for back to the task, if there is one.
fn ring(task: Id, waits_for: &HashMap<Id, Vec<Id>>) -> Vec<Id> {
    let mut came_from = HashMap::new();
    let mut open = vec![task];
    while let Some(at) = open.pop() {
        for &next in waits_for.get(&at).map_or(&[][..], Vec::as_slice) {
            if came_from.contains_key(&next) {
                continue;
            }
            came_from.insert(next, at);
            if next == task {
                let mut way = vec![task];
                let mut at = at;
                while at != task {
                    way.push(at);
                    at = came_from[&at];
                }
                way.reverse();
                return way;
            }
            open.push(next);
        }
    }
    Vec::new()
}
