//! The keeper's thread in a runtime: how it is started, and what it does there.

use std::io;

use crate::{
    advice::{Advised, THREAD, advice},
    no_unwind::NoUnwind,
    permit::{
        idle::{Permit, Spinning},
        keeper::{Keeper, KeeperEnv},
    },
    sched::{Shared, processor::Processor, worker},
    sync::{Arc, thread},
};

impl KeeperEnv for Shared {
    type OwnedP = Box<Processor>;

    fn keeper(&self) -> &Keeper {
        &self.threads.keeper
    }

    fn has_reserve(&self) -> bool {
        !self.config.sysmon
    }

    fn could_have_a_thread(&self) -> bool {
        self.could_have_a_thread()
    }

    fn become_worker(&self, permit: Permit, spinning: Spinning) -> Option<Box<Processor>> {
        let (processor, kept) = self.begin_thread(permit, spinning)?;
        if let Some((permit, spinning)) = kept {
            self.put_off(permit, spinning);
        }
        Some(processor)
    }
}

impl Shared {
    /// Starts the first keeper.
    ///
    /// # Errors
    ///
    /// If the system refuses the thread.
    pub(crate) fn start_keeper(self: &Arc<Self>) -> io::Result<()> {
        self.threads.keeper.start(|| {
            let shared = self.clone();
            let mut builder = thread::Builder::new().name(format!("{}-mon", self.config.name));
            // It may have to run tasks.
            if let Some(bytes) = self.config.stack_size {
                builder = builder.stack_size(bytes);
            }
            self.start(builder, move || live(&shared))
        })
    }

    /// Starts another one if the role is free.
    pub(crate) fn ensure_keeper(self: &Arc<Self>) {
        let keeper = &self.threads.keeper;
        if keeper.is_taken() || self.end.phase.is_closing() || !keeper.may_try() {
            return;
        }
        if let Err(error) = self.start_keeper()
            && self.config.sysmon
            && keeper.may_report()
        {
            const WHAT: &str = "no thread for the monitor: stuck tasks hold up others";
            let advice = advice(THREAD, &error);
            let words = Advised(&error, advice);
            self.telling.reports.tell_limited(
                || tracing::warn!(%error, advice, "{WHAT}"),
                format_args!("{WHAT}: {words}"),
            );
        }
    }

    /// Whether a thread keeps the runtime, or none has to.
    pub(crate) fn has_a_keeper(&self) -> bool {
        self.threads.keeper.is_taken()
    }

    /// Whether there is a monitor, by the keeper's mark.
    pub(crate) fn is_monitored(&self) -> bool {
        self.config.sysmon && self.threads.keeper.is_taken()
    }
}

/// The life of a keeper.
fn live(shared: &Arc<Shared>) {
    let wait = || {
        if shared.config.sysmon {
            return (shared.config.above.watch)(shared);
        }
        let whole = NoUnwind;
        let processor = shared.wait_in_reserve();
        whole.over();
        processor
    };
    if shared.live_as_keeper(wait, |processor| worker::work(shared, processor, None)) {
        shared.join_the_one_before();
    }
    // Else the end joins it.
}
