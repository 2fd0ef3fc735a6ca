//! What all live tasks are doing, and what was counted: dumps, await trees, metrics.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ws_reactor::Direction;

use super::{
    Shared,
    dump::{TaskDump, TaskState},
    processor::Peer,
    traces::Ask,
    waits::{Waits, WaitsFor},
};
use crate::{
    cell::{TaskRef, task_of},
    metrics::{Durations, Metrics, ProcessorMetrics},
    permit::{env::Env, phase::ShutdownEnv},
    queue::OrderedStealer,
    sync::atomic::Ordering::Relaxed,
};

impl Shared {
    /// All live tasks, as they are. Nothing is polled, and no thread waits.
    pub(crate) fn dump(&self) -> Vec<TaskDump> {
        self.dump_listed_by(|f| self.for_each_live(f))
    }

    /// The same of the tasks that `list` calls its argument with.
    pub(super) fn dump_listed_by(
        &self,
        list: impl FnOnce(&mut dyn FnMut(TaskRef)),
    ) -> Vec<TaskDump> {
        let running: Vec<u64> = self
            .peers()
            .map(|peer| peer.progress.running.load(Relaxed))
            .collect();
        let mut numbers = HashMap::new();
        let (mut tasks, mut carriers) = (Vec::new(), Vec::new());
        // The clock is read after the task was found: others are spawned meanwhile, and an age must
        // not be negative.
        list(&mut |task| {
            let row = TaskDump::new(&task, &running, self.now_ms());
            if row.state == TaskState::Idle {
                numbers.insert(row.id, task.number());
            }
            if task.header().is_carrier() {
                carriers.push(row);
            } else {
                tasks.push(row);
            }
        });
        if !carriers.is_empty() {
            let pinned: HashSet<_> = tasks.iter().map(|task| task.id).collect();
            tasks.extend(carriers.into_iter().filter(|row| !pinned.contains(&row.id)));
        }
        // After the rows: a task that is idle by now has its wakers where it waits.
        let mut waits = self.waits();
        for row in &mut tasks {
            if let Some(&number) = numbers.get(&row.id) {
                row.waits_for = waits.of(number);
            }
        }
        tasks
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let mut times: [Durations; 3] = Default::default();
        self.all_peers()
            .for_each(|peer| peer.times.add_to(&mut times));
        let [poll_time, wake_to_poll, steal_to_poll] = times;
        Metrics {
            workers: self.config.workers,
            threads: self.threads.counts.lock().count,
            threads_refused: self.threads.refusals.load(Relaxed),
            free_permits: self.idle.free(),
            spinning: self.idle.spinning(),
            live_tasks: self
                .live_tasks()
                .saturating_sub(self.foreign.carried.load(Relaxed)),
            global_queue: self.queues.grq.len(),
            ordered_queue: self.queues.ordered.len(),
            monitor_looks: self.monitor.looks(),
            accepts_delayed: self.io.accepts_delayed.load(Relaxed),
            facilities_refused: match self.time.clock().is_virtual() {
                true => 0,
                false => ws_reactor::refusals(),
            },
            poll_time,
            wake_to_poll,
            steal_to_poll,
            processors: self.all_peers().map(processor_metrics).collect(),
        }
    }

    /// Has the next poll of each task traced that is idle, or that another ask has woken.
    pub(crate) fn trace_idle(&self) -> Arc<Ask> {
        let ask = Arc::new(Ask::default());
        // One more than there are, so that it is not over before all are asked.
        ask.awaits_one_more();
        let mut tasks = Vec::new();
        self.for_each_live(|task| {
            if !task.header().is_carrier() {
                tasks.push(task);
            }
        });
        for task in tasks {
            self.telling.traces.trace(&ask, &task);
        }
        ask.is_told(None);
        ask
    }

    /// What all tasks wait for.
    pub(crate) fn waits(&self) -> Waits {
        let mut waits = Waits::default();
        let now = self.time.clock().now_ns();
        for shard in self.timer_shards() {
            shard.for_each(|waker, deadline| {
                let due = Duration::from_nanos(deadline.saturating_sub(now));
                waits.note(task_of(waker).map(usize::from), WaitsFor::Timer(due));
            });
        }
        self.io.netpoll.for_each_waiter(|waker, waiting| {
            let waits_for = match waiting.direction {
                Direction::Read => WaitsFor::Readable(waiting.descriptor),
                Direction::Write => WaitsFor::Writable(waiting.descriptor),
            };
            waits.note(task_of(waker).map(usize::from), waits_for);
        });
        let (mut ids, mut joined) = (HashMap::new(), Vec::new());
        self.for_each_live(|task| {
            let header = task.header();
            ids.insert(task.number(), header.id());
            if let Some(joiner) = header.joined_by() {
                joined.push((joiner, task.number(), header.id()));
            }
        });
        for (joiner, address, id) in joined {
            // A pinned task has two cells, and one waits for the other.
            let is_other_cell = joiner != address && ids.get(&joiner) == Some(&id);
            if !is_other_cell {
                waits.note(Some(joiner), WaitsFor::Task(id));
            }
        }
        waits
    }
}

fn processor_metrics(peer: &Peer) -> ProcessorMetrics {
    let counters = &peer.counters;
    ProcessorMetrics {
        polls: counters.polls.get(),
        spawned: (counters.spawned.get() + counters.spawned_for_all.get())
            .saturating_sub(counters.carried.get()),
        completed: counters.completed.get(),
        searches: counters.searches.get(),
        steals: counters.steals.get(),
        stolen: counters.stolen.get(),
        overflows: counters.overflows.get(),
        global: counters.global.get(),
        parks: counters.parks.get(),
        wakeups: counters.wakeups.get(),
        netpolls: counters.netpolls.get(),
        timers: counters.timers.get(),
        ordered: counters.ordered.get(),
        local_queue: peer.queues.lrq.len(),
        ordered_queue: peer.queues.ordered.get().map_or(0, OrderedStealer::len),
    }
}
