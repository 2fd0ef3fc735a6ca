//! What a runtime has counted.

use std::time::Duration;

use super::Handle;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/runtime/struct.RuntimeMetrics.html).
#[derive(Clone, Debug)]
pub struct RuntimeMetrics {
    handle: Handle,
}

impl RuntimeMetrics {
    pub(super) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    fn ws(&self) -> ws_executor::runtime::Metrics {
        self.handle.ws.metrics()
    }

    /// How many workers there are.
    pub fn num_workers(&self) -> usize {
        self.ws().workers
    }

    /// How many tasks are alive.
    pub fn num_alive_tasks(&self) -> usize {
        match self.handle.queue() {
            Some(queue) => queue.alive(),
            None => self.ws().live_tasks,
        }
    }

    /// How many tasks wait in the queue that all workers share.
    pub fn global_queue_depth(&self) -> usize {
        match self.handle.queue() {
            Some(queue) => queue.queued(),
            None => self.ws().global_queue,
        }
    }

    /// How long a worker was busy. `ws` does not measure it: zero.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.processor(worker, |_| 0);
        Duration::ZERO
    }

    /// How often a worker has slept.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.processor(worker, |processor| processor.parks)
    }

    /// How often a worker has slept, and how often it was woken.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        self.processor(worker, |processor| processor.parks + processor.wakeups)
    }

    /// A worker of tokio is a P of `ws`. One that was never needed has counted nothing.
    fn processor(
        &self,
        worker: usize,
        count: impl FnOnce(&ws_executor::runtime::ProcessorMetrics) -> u64,
    ) -> u64 {
        let metrics = self.ws();
        assert!(
            worker < metrics.workers.max(metrics.processors.len()),
            "there is no worker {worker}"
        );
        metrics.processors.get(worker).map_or(0, count)
    }
}
