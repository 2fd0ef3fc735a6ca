//! How a thread in `block_on` becomes a worker.

use std::cell::{Cell, OnceCell};

use super::{Root, Shared, Worker, worker::Scope};
use crate::sync::Arc;

/// The worker of a thread in `block_on`: made by need, given up at the end.
pub(crate) struct LazyWorker<'a> {
    shared: &'a Arc<Shared>,
    root: &'a Arc<Root>,
    /// `None` inside: there is no P left.
    worker: OnceCell<Option<Worker>>,
    /// The root is in its first poll, in which the thread may become a worker.
    first_poll: Cell<bool>,
}

impl<'a> LazyWorker<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>, root: &'a Arc<Root>) -> Self {
        Self {
            shared,
            root,
            worker: OnceCell::new(),
            first_poll: Cell::new(true),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.shared
    }

    /// The worker, if it is made.
    pub(crate) fn worker(&self) -> Option<&Worker> {
        self.worker.get()?.as_ref()
    }

    /// The root was polled once.
    pub(crate) fn first_poll_ends(&self) {
        self.first_poll.set(false);
    }

    /// The worker, if it was made, at the end.
    pub(crate) fn into_worker(self) -> Option<Worker> {
        self.worker.into_inner()?
    }

    /// This thread's worker. None if the runtime has no P left: then the root runs without.
    pub(crate) fn become_worker(&self) -> Option<&Worker> {
        if self.worker.get().is_none() {
            // If there is none to be had, that is reported here and not below: a thread that
            // listens may spawn, and so become a worker.
            self.shared.ensure_keeper();
        }
        let worker = self.worker.get_or_init(|| {
            let processor = self.shared.take_processor()?;
            let (shared, root) = (self.shared.clone(), self.root.clone());
            let worker = Worker::new(shared, processor, Scope::Own, Some(root));
            worker.arrive();
            if self.shared.config.host.leaves_tasks() {
                worker.root_waits();
            }
            if self.first_poll.get() {
                // No step has counted it: the monitor would take it for what it saw of this P last.
                worker.p.tick();
                worker.begin_root();
                // It has its turn now: what it spawns comes before its next one.
                worker.root_has_its_turn();
            }
            Some(worker)
        });
        worker.as_ref()
    }
}
