//! What users are told of tasks that can never wake; see `cell/lost.rs`.

use std::{collections::HashMap, fmt};

use super::{Shared, dump::TaskDump};
use crate::cell::{Id, find_lost};

/// A task that can never be polled again, unless it is aborted: no waker of it is left, or the
/// only ones wait for tasks of which the same is true.
///
/// It is shown as a sentence. See [`Handle::lost_tasks`](crate::runtime::Handle::lost_tasks).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostTask {
    /// The task.
    pub task: TaskDump,
    /// The lost tasks that it waits for, by their handles. If it waits for none, it has no waker at
    /// all.
    pub waits_for: Vec<Id>,
    /// If it waits for itself through others: the ring of handles, from the task that it waits for
    /// to the task itself.
    pub ring: Vec<Id>,
}

impl fmt::Display for LostTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, can never wake: ", self.task)?;
        if let Some((first, others)) = self.ring.split_first() {
            write!(f, "it waits for task {first}")?;
            for id in others {
                write!(f, ", which waits for task {id}")?;
            }
            Ok(())
        } else if let Some(first) = self.waits_for.first() {
            write!(f, "it waits for task {first}, which can never wake")
        } else {
            write!(f, "it waits, and nothing has a waker of it")
        }
    }
}

impl Shared {
    /// The tasks that can never wake.
    pub(crate) fn lost_tasks(&self) -> Vec<LostTask> {
        let mut tasks = Vec::new();
        self.for_each_live(|task| tasks.push(task));
        let lost = find_lost(&tasks);
        let number_of: HashMap<usize, usize> =
            lost.iter().map(|&at| (tasks[at].number(), at)).collect();
        // Who waits for whom, among the lost.
        let mut waits_for: HashMap<usize, Vec<usize>> = HashMap::new();
        for &at in &lost {
            let joiner = tasks[at].header().joined_by();
            if let Some(&joiner) = joiner.and_then(|address| number_of.get(&address)) {
                waits_for.entry(joiner).or_default().push(at);
            }
        }
        let id = |at: usize| tasks[at].header().id();
        let rows = self.dump_listed_by(|f| lost.iter().for_each(|&at| f(tasks[at].clone())));
        let places: HashMap<Id, usize> = lost.iter().map(|&at| (id(at), at)).collect();
        let lost = rows.into_iter().map(|task| {
            let at = places[&task.id];
            let next = waits_for.get(&at).map_or(&[][..], Vec::as_slice);
            LostTask {
                waits_for: next.iter().map(|&at| id(at)).collect(),
                ring: ring(at, &waits_for).into_iter().map(id).collect(),
                task,
            }
        });
        lost.collect()
    }
}

/// The way from what a task waits for back to the task, if there is one.
fn ring(task: usize, waits_for: &HashMap<usize, Vec<usize>>) -> Vec<usize> {
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
