//! A set of tasks, joined in the order in which they end.
//!
//! # How it works
//!
//! Each member's handle is polled once, when it comes into the set, with a waker that knows the
//! member's place in the set. When the task ends, that waker puts the place on the *ready list*,
//! and wakes the task that waits for the set. Joining takes the oldest place off the list and reads
//! that task's output. So a member costs a constant amount of work, however many there are: nothing
//! ever looks at all of them, and a `join_next` that is dropped has changed nothing.
//!
//! If a task has ended already when it comes into the set, it becomes no member. Its output waits
//! in `early`, and [`EARLY`] stands on the ready list in the place of a member's, so that it has
//! its turn.
//!
//! *Invariant*: a member's place is on the ready list, or a waker for it is registered with its
//! task. A task wakes its joiner once, so a place stands on the list at most once; and [`EARLY`] as
//! often as there are outputs in `early`.
//!
//! # What was rejected
//!
//! `FuturesUnordered<JoinHandle<T>>` is as cheap a member (one allocation, one queue operation
//! each), but registers at the first poll instead: the first `join_next` after 100,000 spawns polls
//! them all in one go. To ask it without waiting means to poll it with another waker. Then it
//! forgets the waker of the task that waits.
//!
//! The ready list has a lock, and each end of a task takes it for a few instructions. No waker is
//! cloned, woken or dropped under it (S8).

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    mem,
    panic::Location,
    pin::Pin,
    task::{Context, Poll, Wake, Waker, ready},
};

use slab::Slab;

use super::{
    builder::{spawn_at, spawn_local},
    join::{AbortHandle, JoinError, JoinHandle},
};
use crate::{
    budget,
    cell::{Id, drop_waker_quietly, wake_quietly},
    sync::{Arc, Mutex},
    task::coop,
};

/// On the ready list: the oldest output of `early`. No slab has so many members.
const EARLY: usize = usize::MAX;

/// Tasks that are joined in the order in which they end, and aborted together. One that has ended
/// before it comes into the set counts as one that ends then.
///
/// Dropping the set aborts all tasks in it.
///
/// # Examples
///
/// ```
/// use ws::task::JoinSet;
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// let mut set = JoinSet::new();
/// for n in 0..10 {
///     set.spawn(async move { n * n });
/// }
/// let mut sum = 0;
/// while let Some(square) = set.join_next().await {
///     sum += square.unwrap();
/// }
/// assert_eq!(sum, 285);
/// # });
/// ```
pub struct JoinSet<T> {
    members: Slab<JoinHandle<T>>,
    /// What was done already when it came into the set.
    /// The mutex makes the set `Sync` though the outputs may not be: none is reached by reference.
    early: Mutex<VecDeque<(Id, Result<T, JoinError>)>>,
    ready: Arc<Ready>,
}

// An output is never pinned in it.
impl<T> Unpin for JoinSet<T> {}

// As that of tokio: libraries keep sets in what threads share, and in futures.
const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<JoinSet<std::cell::Cell<u8>>>();
    const fn check_unpin<T: Unpin>() {}
    check_unpin::<JoinSet<std::marker::PhantomPinned>>();
};

/// The ready list; see the module's head.
#[derive(Debug, Default)]
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Debug, Default)]
struct ReadyState {
    places: VecDeque<usize>,
    waiter: Option<Waker>,
}

/// The waker of one member's task.
#[derive(Debug)]
struct Ended {
    ready: Arc<Ready>,
    place: usize,
}

impl Wake for Ended {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.push(self.place);
    }
}

impl Ready {
    /// A place that can be taken; wakes the task that waits.
    fn push(&self, place: usize) {
        let mut state = self.state.lock();
        state.places.push_back(place);
        let waiter = state.waiter.take();
        drop(state);
        if let Some(waiter) = waiter {
            wake_quietly(waiter);
        }
    }

    /// The place of a member that has ended.
    fn pop(&self) -> Option<usize> {
        self.state.lock().places.pop_front()
    }

    fn wake_waiter(&self) {
        let waiter = self.state.lock().waiter.take();
        if let Some(waiter) = waiter {
            wake_quietly(waiter);
        }
    }

    /// As [`pop`](Self::pop), or `cx`'s task is woken when there is one.
    fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.state.lock();
        if let Some(place) = state.places.pop_front() {
            return Poll::Ready(place);
        }
        if state
            .waiter
            .as_ref()
            .is_some_and(|waiter| waiter.will_wake(cx.waker()))
        {
            return Poll::Pending;
        }
        drop(state);
        let waiter = cx.waker().clone();
        let mut state = self.state.lock();
        let popped = state.places.pop_front();
        let stale = match popped {
            Some(_) => Some(waiter),
            None => state.waiter.replace(waiter),
        };
        drop(state);
        // Its panic must not lose the member that was popped (S6).
        if let Some(stale) = stale {
            drop_waker_quietly(stale);
        }
        popped.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self {
            members: Slab::new(),
            early: Mutex::default(),
            ready: Arc::default(),
        }
    }

    /// How many tasks are in the set: those that were not joined yet, whether they run or are done.
    pub fn len(&self) -> usize {
        self.members.len() + self.early.lock().len()
    }

    /// Whether there is nothing to join.
    pub fn is_empty(&self) -> bool {
        // The lock is for the rare case.
        self.members.is_empty() && self.early.lock().is_empty()
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns a task onto the current runtime and into the set; see [`spawn`](crate::spawn).
    ///
    /// # Panics
    ///
    /// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(spawn_at(future, None, Location::caller()))
    }

    /// Spawns a task that stays on this thread, into the set; see
    /// [`spawn_local`](crate::spawn_local()).
    ///
    /// # Panics
    ///
    /// Where [`spawn_local`](crate::spawn_local()) does.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(spawn_local(future))
    }

    /// Runs a closure that blocks, as a member of the set; see
    /// [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Panics
    ///
    /// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(super::spawn_blocking(f))
    }

    /// Takes a task that was spawned in any other way into the set.
    ///
    /// A task that has ended already counts as one that ends now: several such tasks come in the
    /// order in which they were inserted.
    ///
    /// # Panics
    ///
    /// If the output of the task was taken already, by a poll of `handle` that was ready.
    ///
    /// ```
    /// use ws::task::{Builder, JoinSet};
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut set = JoinSet::new();
    /// set.insert(Builder::new().name("answer").spawn(async { 42 }));
    /// assert_eq!(set.join_next().await.unwrap().unwrap(), 42);
    /// # });
    /// ```
    pub fn insert(&mut self, mut handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let place = self.members.vacant_entry();
        let ended = Ended {
            ready: self.ready.clone(),
            place: place.key(),
        };
        let waker = Waker::from(Arc::new(ended));
        match poll_member(&mut handle, &waker) {
            Poll::Ready(result) => self.push_early(abort.id(), result),
            Poll::Pending => {
                place.insert(handle);
            }
        }
        abort
    }

    /// Waits for the next task to end, and gives its output; None if the set is empty.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the output of a task was not given, the task stays in the set.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`join_next`](Self::join_next), and says which task it was; an error says so by itself.
    ///
    /// # Cancel safety
    ///
    /// As [`join_next`](Self::join_next).
    ///
    /// ```
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut set = ws::task::JoinSet::new();
    /// let task = set.spawn(async { 1 });
    /// assert_eq!(set.join_next_with_id().await.unwrap().unwrap(), (task.id(), 1));
    /// # });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// The poll of [`join_next`](Self::join_next): ready with None if the set is empty.
    ///
    /// Pending may also mean that this task's budget is spent; it is woken in any case.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        let next = ready!(self.poll_join_next_with_id(cx));
        Poll::Ready(next.map(|result| result.map(|(_, output)| output)))
    }

    /// The poll of [`join_next_with_id`](Self::join_next_with_id).
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        let proceed = ready!(coop::poll_proceed(cx));
        if self.is_empty() {
            proceed.made_progress();
            return Poll::Ready(None);
        }
        let place = ready!(self.ready.poll_pop(cx));
        let (id, result) = self.take(place);
        proceed.made_progress();
        Poll::Ready(Some(result.map(|output| (id, output))))
    }

    /// The output of a task that has ended, if there is one; does not wait.
    ///
    /// None also if tasks are left, but none has ended.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        let next = self.try_join_next_with_id()?;
        Some(next.map(|(_, output)| output))
    }

    /// As [`try_join_next`](Self::try_join_next), and tells which task it was.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let mut set = ws::task::JoinSet::new();
    /// let id = set.spawn_on(async { 7 }, runtime.handle()).id();
    /// let joined = loop {
    ///     if let Some(joined) = set.try_join_next_with_id() {
    ///         break joined;
    ///     }
    /// };
    /// assert_eq!(joined.unwrap(), (id, 7));
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        let place = self.ready.pop()?;
        let (id, result) = self.take(place);
        Some(result.map(|output| (id, output)))
    }

    /// Waits for all tasks, and gives their outputs in the order in which they ended.
    ///
    /// # Panics
    ///
    /// If one of them panicked, with its payload; or if one was cancelled. The others are aborted
    /// then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: when it is dropped, all tasks are aborted and what they gave is lost.
    ///
    /// ```
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let set: ws::task::JoinSet<_> = (1..=3).map(|n| async move { n }).collect();
    /// assert_eq!(set.join_all().await.into_iter().sum::<i32>(), 6);
    /// # });
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result.map_err(JoinError::try_into_panic) {
                Ok(output) => outputs.push(output),
                Err(Ok(payload)) => std::panic::resume_unwind(payload),
                Err(Err(cancelled)) => panic!("{cancelled}: its output is missing from `join_all`"),
            }
        }
        outputs
    }

    /// Asks for all tasks to be cancelled; see [`JoinHandle::abort`]. They stay in the set, and
    /// joining them says how each ended.
    pub fn abort_all(&mut self) {
        for (_, member) in &self.members {
            member.abort();
        }
    }

    /// Aborts all tasks, and waits until each has ended; their outputs are dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe in that the tasks are aborted already, and stay in the set.
    ///
    /// ```
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let mut set = ws::task::JoinSet::new();
    /// set.spawn(std::future::pending::<()>());
    /// set.shutdown().await;
    /// assert!(set.is_empty());
    /// # });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Empties the set; the tasks go on by themselves.
    pub fn detach_all(&mut self) {
        let (members, early) = (mem::take(&mut self.members), mem::take(&mut self.early));
        // The wakers of the members that leave find a list that no code looks at.
        mem::take(&mut self.ready).wake_waiter();
        drop((members, early));
    }

    fn push_early(&mut self, id: Id, result: Result<T, JoinError>) {
        self.early.lock().push_back((id, result));
        self.ready.push(EARLY);
    }

    /// Takes what a place on the ready list stands for out of the set.
    fn take(&mut self, place: usize) -> (Id, Result<T, JoinError>) {
        if place == EARLY {
            let early = self.early.lock().pop_front();
            return early.expect("it stands on the list as often");
        }
        let mut member = self.members.remove(place);
        match poll_member(&mut member, Waker::noop()) {
            Poll::Ready(result) => (member.id(), result),
            Poll::Pending => unreachable!("a task wakes its joiner when it has ended"),
        }
    }
}

/// Polls a handle outside of the budget: a member is polled because it has ended, or to be
/// registered.
fn poll_member<T>(member: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    budget::unbudgeted(|| Pin::new(member).poll(&mut Context::from_waker(waker)))
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        for (_, member) in &self.members {
            member.abort();
        }
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Spawns each future onto the current runtime and into the set.
impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// # Panics
    ///
    /// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
    #[track_caller]
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        for future in futures {
            self.spawn(future);
        }
    }
}

/// Spawns each future onto the current runtime, into a new set.
impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// # Panics
    ///
    /// Outside of a runtime: see [`Handle::enter`](crate::runtime::Handle::enter).
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = Self::new();
        set.extend(futures);
        set
    }
}
