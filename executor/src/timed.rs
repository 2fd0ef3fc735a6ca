//! What a handle does that takes time.

use std::{
    future::{Future, poll_fn},
    time::Duration,
};

use crate::{
    runtime::{Handle, TaskDump},
    sched::Shared,
    sync::Arc,
    time::{sleep, timeout},
};

/// As long as it is there, each spawn, wake and poll is recorded.
struct RecordsAll(Arc<Shared>);

impl RecordsAll {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.record_for_viewer(true);
        Self(shared.clone())
    }
}

impl Drop for RecordsAll {
    fn drop(&mut self) {
        self.0.record_for_viewer(false);
    }
}

impl Handle {
    /// Records at level [`Full`](crate::trace::Level::Full) for a while, whatever
    /// [`record`](Self::record) says, and after that as it says then. Several such times may
    /// overlap.
    ///
    /// It is made for a trigger: a hook, a handler of HTTP, a condition that the program sees. A
    /// task of the runtime ends it, so it may last longer while all workers are stuck.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws::runtime::Handle;
    ///
    /// async fn on_a_slow_answer() {
    ///     let handle = Handle::current();
    ///     handle.record_all_for(Duration::from_secs(2));
    ///     ws::time::sleep(Duration::from_secs(2)).await;
    ///     handle.snapshot("a slow answer");
    /// }
    /// # let _ = on_a_slow_answer();
    /// ```
    #[track_caller]
    pub fn record_all_for(&self, duration: Duration) {
        let records = RecordsAll::begin(self.shared());
        drop(self.spawn(async move {
            sleep(duration).await;
            drop(records);
        }));
    }

    /// The same as [`dump`](Self::dump), with the place where each idle task is suspended, as a
    /// tree of the functions that wait: [`TaskDump::awaits`]. It takes `limit` at most.
    ///
    /// Each idle task is polled once more, by a worker and as after any wake, with a waker that
    /// notes where it is cloned. So it says where a future waits, of whatever library. A future
    /// that has a waker of its own for those in it, such as `join_all` of many, is the end of the
    /// tree: what is in it is not polled again before it is woken. 64 places of a task are shown at
    /// most.
    /// Functions that the compiler has inlined have short names.
    ///
    /// A task that was not idle, or was not polled within the limit, has no tree. There is none
    /// either where [stall reports](crate::runtime::Builder::on_stall) have no stack: then
    /// [`AwaitTree::error`](crate::runtime::AwaitTree::error) says why.
    ///
    /// It is for a look at a program that hangs, and not for each second: a poll of every task, and
    /// some 50 us for each place in which one waits.
    ///
    /// # Panics
    ///
    /// If it is awaited outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// The tasks are polled in any case. Nothing else happens.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// async fn waits_for_a_day() {
    ///     ws::time::sleep(Duration::from_secs(24 * 3600)).await;
    /// }
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let task = ws::spawn(waits_for_a_day());
    /// # while ws::runtime::Handle::current().dump()[0].account.idle_for.is_none() { ws::task::yield_now().await }
    /// let dump = ws::runtime::Handle::current().dump_awaits(Duration::from_secs(60)).await;
    /// let tree = dump[0].awaits.as_ref().unwrap();
    /// # if tree.error().is_some() { return }
    /// assert!(tree.to_string().contains("waits_for_a_day"), "{tree}");
    /// # drop(task);
    /// # });
    /// ```
    pub fn dump_awaits(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Vec<TaskDump>> + Send + 'static {
        let shared = self.shared().clone();
        async move {
            let ask = shared.trace_idle();
            // Also if it is not over: what has come so far is shown.
            let _ = timeout(limit, poll_fn(|cx| ask.poll(cx))).await;
            let mut trees = ask.take();
            let mut dump = shared.dump();
            for task in &mut dump {
                task.awaits = trees.remove(&task.id);
            }
            dump
        }
    }
}
