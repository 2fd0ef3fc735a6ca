//! Which task this thread polls.

use crate::{
    cell::{Header, Id},
    context, sched,
};

/// The id of the task that this thread polls.
///
/// It is known wherever the task's own code runs: in its future, in the destructor of that, in a
/// [`block_in_place`](crate::block_in_place()), and in the closure of a
/// [`spawn_blocking`](crate::spawn_blocking()), which is a task of its own. A root has none.
/// Exception: the root of a `block_on` inside a task has the task's. A branch of a
/// [`join()`](crate::join) or a [`scope`](crate::scope()) that another worker took has none either.
/// Nor have two destructors at an end: of the future of a `spawn_local` that is dropped when its
/// `block_on` returns, and of the closure of a `spawn_blocking` that is dropped before it began.
/// The future of a task that comes too late, when the runtime ends, has the id and no [`name`].
///
/// # Panics
///
/// Where no task is polled; [`try_id`] does not.
///
/// ```
/// use ws::task;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let spawned = ws::spawn(async { task::id() });
/// let id = spawned.id();
/// assert_eq!(spawned.await.unwrap(), id);
/// # });
/// ```
#[track_caller]
pub fn id() -> Id {
    match try_id() {
        Some(id) => id,
        None => panic!(
            "`ws::task::id` was called outside of a task: a root has no id, and `ws::task::try_id` says so"
        ),
    }
}

/// The id of the task that this thread polls, if it polls one; see [`id`].
///
/// ```
/// assert_eq!(ws::task::try_id(), None);
/// ```
pub fn try_id() -> Option<Id> {
    Id::current().or_else(of_worker)
}

fn of_worker() -> Option<Id> {
    context::with_worker(|worker| worker?.running_id())
}

/// An id for what is shown beside tasks, and is none; for `compat/tokio`.
pub fn fresh_id() -> Id {
    sched::fresh_id()
}

/// The name of the task that this thread polls, if it polls one that was given a
/// [name](crate::task::Builder::name); see [`id`].
///
/// ```
/// use ws::task;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let named = task::Builder::new().name("batch").spawn(async { task::name() });
/// assert_eq!(named.await.unwrap().as_deref(), Some("batch"));
/// # });
/// assert_eq!(task::name(), None);
/// ```
pub fn name() -> Option<String> {
    with_task(|header| header.name().map(str::to_owned))?
}

/// What the header of the task says that this thread polls. None in a task of a `LocalSet`, which
/// has no header.
pub(super) fn with_task<R>(f: impl FnOnce(&Header) -> R) -> Option<R> {
    context::with_worker(|worker| {
        let task = worker?.running_task()?;
        let header = task.header();
        let is_another = Id::current().is_some_and(|id| id != header.id());
        (!is_another).then(|| f(header))
    })
}
