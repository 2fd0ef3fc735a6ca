//! Tasks that need not be `Send`, and that run while their set is polled.
//!
//! The tasks of [`spawn_local`](super::spawn_local) belong to a thread. Those of a [`LocalSet`]
//! belong to a value: they run where somebody polls it, and end when it is dropped. It has a queue
//! of its own, a [`TaskQueue`] (`owned.rs`), and its polls are those of a future:
//!
//! | poll of | does |
//! | --- | --- |
//! | [`run_until`](LocalSet::run_until) | notes the waker, polls its own future, then a *tick* |
//! | the set | notes the waker, then a tick; it is ready once no task is alive |
//!
//! *A tick* polls the tasks at the front of the queue, at most [`LOCAL_SET_TICK`]. If any are left,
//! or have yielded, it wakes its own waker: so the task that polls the set is polled again after
//! others have had their turn.
//!
//! *Pollers*: any number of `run_until` may be under way, each with a waker of its own, and the
//! queue knows the last of these alone. *Invariant*: if a `run_until` is under way, the queue has
//! the waker of one that is, or one that is has been woken and will be polled. A poll keeps that,
//! since it gives the queue its waker; so does a task that becomes ready, since it takes the
//! waker and wakes it. The end of a `run_until` takes one away: so it wakes another, which gives
//! the queue its own waker at its next poll.
//!
//! *Which set is current*: a list of the sets that the thread polls or has entered, innermost last.
//! As scopes of task-locals do, an entry counts at its own depth only (*Depth* in `local.rs`). So
//! a task that a `block_on` inside a poll of the set brings to this thread sees no set.
//!
//! Rejected: that [`spawn_local`](super::spawn_local) means the current set. The future would run
//! on if the set is polled, and not on if not, and that would depend on the caller's caller.
//!
//! Checked by `tests/interface/a_local_set_runs_where_it_is_polled.rs`.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    mem,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use super::{
    JoinHandle,
    queue::{Spawner, TaskQueue},
};
use crate::{
    budget,
    cell::{depth, drop_waker_quietly, wake_quietly},
    context, coop,
    policy::constants::LOCAL_SET_TICK,
};

thread_local! {
    /// The sets that this thread is in, the innermost last.
    static CURRENT: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    /// The number of the next entry or poller.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

struct Entered {
    spawner: Spawner,
    /// Tells this entry from others of the same set.
    number: u64,
    /// The thread's depth.
    depth: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Polls,
    Entered,
}

fn fresh_number() -> u64 {
    NEXT.replace(NEXT.get() + 1)
}

/// A set of tasks that need not be `Send`, and that run while the set is polled.
///
/// [`run_until`](Self::run_until) polls it beside a future, and the set is a future itself, which
/// waits until all tasks have ended. Nothing else runs them: if nobody polls the set, they stand
/// still. They are polled on the thread that the set is on, one after the other, with the
/// [budget](crate::task::coop) of any task.
///
/// Dropping the set drops the futures of its tasks, and their handles say that they were cancelled.
///
/// What differs from [`spawn_local`](crate::spawn_local): those tasks belong to the thread, run
/// whenever it has time, and need a runtime. The tasks of a set need none. They have no priority
/// and no name, and are in no [dump](crate::runtime::Handle::dump) and in no metrics. They are for
/// futures that belong together, such as those of one connection, or of one interpreter.
///
/// # Examples
///
/// ```
/// use std::{cell::Cell, rc::Rc};
/// use ws::task::LocalSet;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// runtime.block_on(async {
///     let set = LocalSet::new();
///     let sum = Rc::new(Cell::new(0));
///     for n in 1..=10 {
///         let sum = sum.clone();
///         set.spawn_local(async move {
///             ws::task::yield_now().await;
///             sum.set(sum.get() + n);
///         });
///     }
///     // They run while the set is polled.
///     let first = set.run_until(async { 1 }).await;
///     assert_eq!((first, sum.get()), (1, 0));
///     // To the end of all of them.
///     set.await;
///     assert_eq!(sum.get(), 55);
/// });
/// ```
///
/// # Cancel safety
///
/// To drop the future of `run_until`, or to stop polling the set by reference, stops no task: they
/// go on when it is polled again.
pub struct LocalSet {
    /// None in the middle of its drop.
    queue: Option<TaskQueue>,
    /// See *Pollers* in the module's head.
    pollers: RefCell<Vec<(u64, Waker)>>,
    _not_send: PhantomData<Rc<()>>,
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl LocalSet {
    /// A set without tasks. No runtime is needed.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queue: Some(TaskQueue::new()),
            pollers: RefCell::default(),
            _not_send: PhantomData,
        }
    }

    fn queue(&self) -> &TaskQueue {
        self.queue.as_ref().expect("it is there until the drop")
    }

    /// Spawns a task into the set. It runs while the set is polled.
    ///
    /// ```
    /// use ws::task::LocalSet;
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let set = LocalSet::new();
    /// let handle = set.spawn_local(async { 6 * 7 });
    /// assert_eq!(set.run_until(handle).await.unwrap(), 42);
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.queue().spawner().spawn_local(future)
    }

    /// A handle by which the set's own tasks may spawn others: see [`LocalSpawner`].
    #[must_use]
    pub fn spawner(&self) -> LocalSpawner {
        LocalSpawner::new(self.queue().spawner().clone())
    }

    /// The innermost set that this thread polls or has [entered](Self::enter), if there is one.
    ///
    /// A task that is polled by a `block_on` inside of a poll of the set does not see it; the
    /// future that the `block_on` waits for does.
    ///
    /// ```
    /// use ws::task::LocalSet;
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// assert!(LocalSet::current().is_none());
    /// let set = LocalSet::new();
    /// let task = set.run_until(async {
    ///     let set = LocalSet::current().expect("it polls this future");
    ///     set.spawn_local(async { "spawned" }).await
    /// });
    /// assert_eq!(task.await.unwrap(), "spawned");
    /// # });
    /// ```
    #[must_use]
    pub fn current() -> Option<LocalSpawner> {
        innermost(|_| true).map(LocalSpawner::new)
    }

    /// Whether this thread polls a set.
    #[doc(hidden)]
    #[must_use]
    pub fn is_polling() -> bool {
        innermost(|set| set.kind == Kind::Polls).is_some()
    }

    /// Makes this set the [current](Self::current) one on this thread, until the guard is dropped.
    ///
    /// ```
    /// use ws::task::LocalSet;
    ///
    /// let set = LocalSet::new();
    /// let entered = set.enter();
    /// let spawner = LocalSet::current().expect("it was entered");
    /// spawner.spawn_local(async {});
    /// drop(entered);
    /// assert!(LocalSet::current().is_none());
    /// assert_eq!(set.len(), 1);
    /// ```
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard::new(self.queue().spawner(), Kind::Entered)
    }

    /// Runs a future with the set's tasks beside it, until that future is ready.
    ///
    /// The future need not be `'static`. Several of them may be under way.
    ///
    /// # Panics
    ///
    /// If the future does. A panic of a task is in its handle.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let poller = Poller::new(self);
        poll_fn(|cx| {
            drop(ready!(coop::poll_proceed(cx)));
            poller.note(cx.waker());
            polling(self.queue().spawner(), || {
                let polled = budget::charged(|| future.as_mut().poll(cx));
                if polled.is_ready() {
                    return polled;
                }
                self.tick(cx.waker());
                Poll::Pending
            })
        })
        .await
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue().spawner().alive()
    }

    /// Whether all tasks have ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Polls the tasks that are ready, but not for ever.
    fn tick(&self, waker: &Waker) {
        let mut ran = 0;
        // The runtime in which it runs may be asked to end with the first panic.
        let panicked = || {
            context::with_current(|current| {
                if let Some((shared, _)) = current {
                    shared.task_panicked();
                }
            });
        };
        while ran < LOCAL_SET_TICK && self.queue().run_next_and(panicked) {
            ran += 1;
        }
        if self.queue().end_round() {
            waker.wake_by_ref();
        }
    }
}

/// Ready once no task of the set is alive.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let unit = ready!(coop::poll_proceed(cx));
        self.queue().register(cx.waker());
        polling(self.queue().spawner(), || self.tick(cx.waker()));
        if self.is_empty() {
            unit.made_progress();
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            // What its destructors spawn is refused by it, and not by another set.
            let spawner = queue.spawner().clone();
            polling(&spawner, || drop(queue));
        }
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alive = self.queue.as_ref().map(|queue| queue.spawner().alive());
        f.debug_struct("LocalSet")
            .field("alive", &alive)
            .finish_non_exhaustive()
    }
}

/// Spawns tasks into a [`LocalSet`], on its own thread. It keeps no task alive: if the set was
/// dropped, a task that it spawns is cancelled at once.
///
/// # Examples
///
/// ```
/// use ws::task::LocalSet;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let set = LocalSet::new();
/// let spawner = set.spawner();
/// let outer = set.spawn_local({
///     let spawner = spawner.clone();
///     async move { spawner.spawn_local(async { 5 }).await.unwrap() }
/// });
/// assert_eq!(set.run_until(outer).await.unwrap(), 5);
/// drop(set);
/// assert!(spawner.spawn_local(async {}).await.unwrap_err().is_cancelled());
/// # });
/// ```
#[derive(Clone)]
pub struct LocalSpawner {
    spawner: Spawner,
    _not_send: PhantomData<Rc<()>>,
}

impl LocalSpawner {
    fn new(spawner: Spawner) -> Self {
        Self {
            spawner,
            _not_send: PhantomData,
        }
    }

    /// Spawns a task into the set. It runs while the set is polled.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawner.spawn_local(future)
    }

    /// The queue's end, for `compat/tokio`.
    #[doc(hidden)]
    #[must_use]
    pub fn into_spawner(self) -> Spawner {
        self.spawner
    }
}

impl fmt::Debug for LocalSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSpawner").finish_non_exhaustive()
    }
}

/// A `run_until` that is under way. See *Pollers* in the module's head.
struct Poller<'a> {
    set: &'a LocalSet,
    number: u64,
}

impl<'a> Poller<'a> {
    fn new(set: &'a LocalSet) -> Self {
        let number = fresh_number();
        Self { set, number }
    }

    /// It is polled: a task that becomes ready wakes this waker.
    fn note(&self, waker: &Waker) {
        self.set.queue().register(waker);
        let is_known =
            |(number, known): &(u64, Waker)| *number == self.number && known.will_wake(waker);
        if self.set.pollers.borrow().iter().any(is_known) {
            return;
        }
        // A clone and a drop are code of the user's, which may come here: not in a borrow.
        let new = (self.number, waker.clone());
        let mut pollers = self.set.pollers.borrow_mut();
        let stale = match pollers.iter_mut().find(|own| own.0 == self.number) {
            Some(own) => Some(mem::replace(own, new)),
            None => {
                pollers.push(new);
                None
            }
        };
        drop(pollers);
        if let Some((_, stale)) = stale {
            drop_waker_quietly(stale);
        }
    }
}

impl Drop for Poller<'_> {
    fn drop(&mut self) {
        let (own, next) = {
            let mut pollers = self.set.pollers.borrow_mut();
            let own = pollers.iter().position(|own| own.0 == self.number);
            (own.map(|own| pollers.swap_remove(own)), pollers.pop())
        };
        if let Some((_, own)) = own {
            drop_waker_quietly(own);
        }
        if let Some((_, next)) = next {
            wake_quietly(next);
        }
    }
}

/// The innermost set of this thread, at its depth, that is like this.
fn innermost(wanted: impl Fn(&Entered) -> bool) -> Option<Spawner> {
    // At the thread's end there is no set.
    let found = CURRENT.try_with(|current| {
        let depth = depth::current();
        let current = current.borrow();
        let mut own = current.iter().rev().filter(|set| set.depth == depth);
        Some(own.find(|set| wanted(set))?.spawner.clone())
    });
    found.ok().flatten()
}

/// Runs code of a set's tasks.
fn polling<R>(spawner: &Spawner, f: impl FnOnce() -> R) -> R {
    let _entered = LocalEnterGuard::new(spawner, Kind::Polls);
    f()
}

/// While it is there, a [`LocalSet`] is the current one of this thread: see [`LocalSet::enter`].
#[must_use = "the set is left when the guard is dropped"]
pub struct LocalEnterGuard {
    number: u64,
    _not_send: PhantomData<Rc<()>>,
}

impl LocalEnterGuard {
    fn new(spawner: &Spawner, kind: Kind) -> Self {
        let number = fresh_number();
        let entered = Entered {
            spawner: spawner.clone(),
            number,
            depth: depth::current(),
            kind,
        };
        // At the thread's end nobody finds a set.
        let _ = CURRENT.try_with(|current| current.borrow_mut().push(entered));
        Self {
            number,
            _not_send: PhantomData,
        }
    }
}

impl Drop for LocalEnterGuard {
    fn drop(&mut self) {
        // At the thread's end there is nothing to leave.
        let left = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let at = current
                .iter()
                .rposition(|entered| entered.number == self.number)?;
            Some(current.remove(at))
        });
        // It may be the last reference to a queue: not in the borrow.
        drop(left);
    }
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}
