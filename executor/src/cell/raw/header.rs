//! What can be asked of a task without knowing its type.

use std::{fmt, panic::Location};

use super::{Account, Header, Id, Relaxed, SchedulerHandle, Snapshot};
use crate::cell::{meta::DEFAULT_PRIORITY, state::Wake};

impl Header {
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.meta.name()
    }

    pub(crate) fn location(&self) -> &'static Location<'static> {
        self.meta.location()
    }

    pub(crate) fn born_ms(&self) -> u32 {
        self.born_ms
    }

    /// How many milliseconds before `now_ms` the last poll began that left it idle, if it is idle.
    pub(crate) fn idle_for(&self, now_ms: u32) -> Option<u32> {
        self.next.idle_for(now_ms)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Whether it is one of the many that have no thread, name or priority of their own: the
    /// question that comes first wherever a task is queued.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.meta.is_plain()
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.meta.is_pinned()
    }

    /// Whether it carries another task to its thread; see `pinned.rs`.
    pub(crate) fn is_carrier(&self) -> bool {
        self.meta.is_carrier()
    }

    /// An abort by its handle: marks it as cancelled, or what it carries.
    pub(in crate::cell) fn abort(&self) -> Wake {
        let mark = || self.state.transition_to_cancelled();
        match self.meta.carries() {
            Some(carried) => carried.abort(mark),
            None => mark(),
        }
    }

    /// Whether a carrier has taken it to its thread; see `pinned.rs`.
    pub(crate) fn is_carried(&self) -> bool {
        self.meta.is_carried()
    }

    /// Whether it is pinned, and whether others may take it from the fork deque, where a priority
    /// plays no part.
    #[inline]
    pub(crate) fn ways(&self) -> (bool, bool) {
        if self.is_plain() {
            (false, true)
        } else {
            self.special_ways()
        }
    }

    #[cold]
    fn special_ways(&self) -> (bool, bool) {
        let pinned = self.is_pinned();
        (pinned, !pinned && self.priority() == DEFAULT_PRIORITY)
    }

    /// Whether its poll is code that blocks, and that is announced as such.
    pub(crate) fn blocks(&self) -> bool {
        self.vtable.blocks
    }

    /// Its priority, as a number.
    pub(crate) fn priority(&self) -> i64 {
        self.meta.priority()
    }

    /// Changes its priority. It counts when the task is queued the next time.
    pub(crate) fn set_priority(&self, priority: i64) {
        self.meta.set_priority(priority);
    }

    /// Whether it belongs into the ordered queues.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.is_plain()
            && !self.is_pinned()
            && self.priority() != DEFAULT_PRIORITY
            && !self.is_carrier()
    }

    /// The address of the task that waits for this one by its handle, or did a moment ago; as
    /// [`TaskRef::number`](crate::cell::TaskRef::number) gives it.
    pub(crate) fn joined_by(&self) -> Option<usize> {
        self.snapshot()
            .has_waker()
            .then(|| self.joiner.task())
            .flatten()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state.load()
    }

    /// Where the live table has this task: its scheduler handle's number and the index there.
    /// Never 0.
    pub(crate) fn address(&self) -> u64 {
        self.scheduler().address(self.index.load(Relaxed))
    }

    /// The place that takes this task when it is woken.
    pub(crate) fn scheduler(&self) -> &SchedulerHandle {
        // SAFETY: callers hold a `Task`: it is live, and so is its scheduler handle.
        unsafe { self.scheduler.as_ref() }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("spawned_at", &format_args!("{}", self.meta.location()))
            .field("state", &self.snapshot())
            .finish_non_exhaustive()
    }
}
