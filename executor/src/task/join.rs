//! Handles: awaiting a task, aborting it, letting it go.

use std::{
    any::Any,
    fmt,
    future::Future,
    io,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use super::priority::Priority;
use crate::cell::{AbortRef, Failure, Id, JoinCell};
use crate::coop;

/// Awaits a task's output. Dropping it lets the task go on by itself.
///
/// If the handle of a task was dropped and the task panics, that is
/// [reported](crate::runtime::Builder::reports). The panic hook has run before that in any case.
///
/// # Cancel safety
///
/// Awaiting it by reference, as `&mut handle`, is cancel safe: the output stays in the task until
/// it is taken.
///
/// # Examples
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// runtime.block_on(async {
///     let task = ws::spawn(async { 6 * 7 });
///     assert_eq!(task.await.unwrap(), 42);
/// });
/// ```
pub struct JoinHandle<T> {
    cell: JoinCell<T>,
}

// What fits into two registers is returned in them. A handle of four words, one of them with
// padding, cost a spawn 15 ns, for each time that it moved it was read with other widths than it
// was written with.
const _: () = assert!(size_of::<JoinHandle<String>>() == 2 * size_of::<usize>());

// Libraries keep handles in what threads share. The output need not be `Sync` for that: no method
// by reference reaches it.
const _: () = {
    const fn check<T: Send + Sync + Unpin + 'static>() {}
    check::<JoinHandle<std::cell::Cell<u8>>>();
    check::<AbortOnDrop<std::cell::Cell<u8>>>();
    const fn check_unwind<T: UnwindSafe + RefUnwindSafe>() {}
    check_unwind::<JoinHandle<std::cell::Cell<u8>>>();
    check_unwind::<AbortOnDrop<std::cell::Cell<u8>>>();
    check_unwind::<AbortHandle>();
};

// Neither reaches the future, and the output is taken by value. As in tokio.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> UnwindSafe for AbortOnDrop<T> {}
impl<T> RefUnwindSafe for AbortOnDrop<T> {}
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl<T> JoinHandle<T> {
    pub(crate) fn new(cell: JoinCell<T>) -> Self {
        Self { cell }
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.cell.header().id()
    }

    /// Asks for the task to be cancelled: a worker drops its future, soon, and joining it gives an
    /// error that says so. A task that is done, or becomes ready first, gives its output as usual.
    ///
    /// Cheap, from any thread, at any moment of the task's life. The future is never dropped in
    /// here.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// task.abort();
    /// assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    /// ```
    pub fn abort(&self) {
        self.cell.abort();
    }

    /// A handle that can abort the task, and no more.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            task: self.cell.abort_ref(),
        }
    }

    /// A handle that aborts the task when it is dropped.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let task = runtime.spawn(std::future::pending::<()>());
    /// let abort = task.abort_handle();
    /// drop(task.abort_on_drop());
    /// runtime.block_on(async { while !abort.is_finished() { ws::task::yield_now().await } });
    /// ```
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop { handle: self }
    }

    /// Whether the task is done: awaiting it would not wait.
    pub fn is_finished(&self) -> bool {
        self.cell.is_done()
    }

    /// The task's priority.
    pub fn priority(&self) -> Priority {
        Priority::new(self.cell.header().priority())
    }

    /// Changes the task's priority, from any thread, at any moment of its life.
    ///
    /// It counts when the task is queued the next time: a task that waits in a queue already may
    /// keep its place there until it has run.
    ///
    /// ```
    /// use ws::task::Priority;
    ///
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// runtime.block_on(async {
    ///     let task = ws::spawn(async { ws::task::yield_now().await });
    ///     assert_eq!(task.priority(), Priority::DEFAULT);
    ///     task.set_priority(Priority::LOWEST);
    ///     assert_eq!(task.priority(), Priority::LOWEST);
    ///     task.await.unwrap();
    /// });
    /// ```
    pub fn set_priority(&self, priority: impl Into<Priority>) {
        self.cell.header().set_priority(priority.into().get());
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    ///
    /// If it gave its output before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let proceed = ready!(coop::poll_proceed(cx));
        let output = ready!(self.cell.poll(cx));
        proceed.made_progress();
        Poll::Ready(output.map_err(|failure| JoinError::new(self.id(), failure)))
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// A [`JoinHandle`] whose drop aborts the task.
#[derive(Debug)]
#[must_use = "dropping it aborts the task"]
pub struct AbortOnDrop<T> {
    handle: JoinHandle<T>,
}

impl<T> AbortOnDrop<T> {
    /// The plain handle inside, for all that it offers by reference.
    pub fn handle(&self) -> &JoinHandle<T> {
        &self.handle
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Aborts a task without the right to join it. See [`JoinHandle::abort_handle`].
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let task = runtime.spawn(std::future::pending::<()>());
/// let aborter = task.abort_handle();
/// aborter.abort();
/// assert!(runtime.block_on(task).unwrap_err().is_cancelled());
/// assert!(aborter.is_finished());
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    task: AbortRef,
}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.task.abort();
    }

    /// As [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.task.header().snapshot().is_done()
    }

    /// As [`JoinHandle::set_priority`].
    pub fn set_priority(&self, priority: impl Into<Priority>) {
        self.task.header().set_priority(priority.into().get());
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.task.header().id()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// Why a task has no output: it was cancelled, or it panicked.
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let error = runtime.block_on(runtime.spawn(async { panic!("expected") })).unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert!(error.to_string().ends_with(r#"panicked with message "expected""#));
/// assert_eq!(error.into_panic().downcast_ref(), Some(&"expected"));
/// ```
pub struct JoinError {
    id: Id,
    /// None: cancelled. The mutex makes it `Sync`; it is locked for a look at the message.
    panic: Option<Mutex<Box<dyn Any + Send + 'static>>>,
}

impl JoinError {
    fn new(id: Id, failure: Failure) -> Self {
        Self {
            id,
            panic: failure.into_panic().map(Mutex::new),
        }
    }

    /// Of a panic of the task that runs, for a caller that has caught it and stands for its owner.
    ///
    /// # Panics
    ///
    /// Outside of a task.
    #[doc(hidden)]
    #[track_caller]
    pub fn of_panic(payload: Box<dyn Any + Send + 'static>) -> Self {
        Self::new(super::id(), Failure::panic(payload))
    }

    /// Whether the task was aborted, or its runtime shut down.
    pub fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// Whether the task panicked: in a poll, or in the drop of its future.
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The panic's payload, for [`std::panic::resume_unwind`].
    ///
    /// # Panics
    ///
    /// If the task was cancelled instead.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let error = runtime.block_on(runtime.spawn(async { panic!("no") })).unwrap_err();
    /// assert_eq!(error.into_panic().downcast_ref(), Some(&"no"));
    /// ```
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(_) => panic!("the task was cancelled, it did not panic: ask `is_panic` first"),
        }
    }

    /// The panic's payload.
    ///
    /// # Errors
    ///
    /// Gives itself back if the task was cancelled instead.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, Self> {
        match self.panic {
            Some(payload) => Ok(match payload.into_inner() {
                Ok(payload) => payload,
                Err(poisoned) => poisoned.into_inner(),
            }),
            None => Err(self),
        }
    }
}

/// As tokio shows it.
impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} ", self.id)?;
        let Some(payload) = &self.panic else {
            return f.write_str("was cancelled");
        };
        match message(&**payload.lock().unwrap_or_else(PoisonError::into_inner)) {
            Some(message) => write!(f, "panicked with message {message:?}"),
            None => f.write_str("panicked"),
        }
    }
}

/// As tokio shows it.
impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(payload) = &self.panic else {
            return write!(f, "JoinError::Cancelled({:?})", self.id);
        };
        match message(&**payload.lock().unwrap_or_else(PoisonError::into_inner)) {
            Some(message) => write!(f, "JoinError::Panic({:?}, {message:?}, ...)", self.id),
            None => write!(f, "JoinError::Panic({:?}, ...)", self.id),
        }
    }
}

/// What `panic!` was given, if it was called with text.
fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&'static str>().copied())
}

/// An error of [`ErrorKind::Other`](io::ErrorKind::Other) that has this one inside, for `?` where
/// an `io::Result` is expected.
///
/// ```
/// async fn sum() -> std::io::Result<u32> {
///     Ok(ws::spawn(async { 1 }).await? + ws::spawn_blocking(|| 2).await?)
/// }
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// assert_eq!(runtime.block_on(sum()).unwrap(), 3);
/// ```
impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

impl std::error::Error for JoinError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_of_two_things_happened_to_which_task() {
        let cancelled = JoinError::new(Id::new(7), Failure::cancelled());
        assert!(cancelled.is_cancelled() && !cancelled.is_panic());
        assert_eq!(cancelled.to_string(), "task 7 was cancelled");
        assert_eq!(format!("{cancelled:?}"), "JoinError::Cancelled(Id(7))");
        assert!(cancelled.try_into_panic().is_err());
        let panicked = JoinError::new(Id::new(8), Failure::panic(Box::new(5_i32)));
        assert!(panicked.is_panic() && !panicked.is_cancelled());
        assert_eq!(panicked.to_string(), "task 8 panicked");
        assert_eq!(format!("{panicked:?}"), "JoinError::Panic(Id(8), ...)");
        assert_eq!(panicked.into_panic().downcast_ref(), Some(&5_i32));
    }

    #[test]
    fn an_error_shows_the_message_of_the_panic() {
        let payloads: [Box<dyn Any + Send>; 2] =
            [Box::new("no \"way\""), Box::new(String::from("no \"way\""))];
        for payload in payloads {
            let error = JoinError::new(Id::new(7), Failure::panic(payload));
            let words = r#"task 7 panicked with message "no \"way\"""#;
            assert_eq!(error.to_string(), words);
            assert_eq!(
                format!("{error:?}"),
                r#"JoinError::Panic(Id(7), "no \"way\"", ...)"#
            );
            let error = io::Error::from(error);
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (io::ErrorKind::Other, words)
            );
            let inner = error.into_inner().unwrap().downcast::<JoinError>().unwrap();
            assert!(inner.is_panic());
        }
    }
}
