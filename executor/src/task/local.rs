//! Values that belong to a task, as thread-locals belong to a thread.
//!
//! [`LocalKey::scope`] wraps a future together with its value. A task-local is a thread-local slot
//! that points to the value while that future is polled or dropped. So the value goes with the
//! future to whatever thread polls it, scopes nest, and outside of a scope there is nothing.
//!
//! A guard puts back what the slot held before, so a panic in the poll leaves the slot as it was.
//! The future is dropped inside its scope, where its destructors see the value; the value is
//! dropped after it, outside.
//!
//! A scope takes part in the budget as every combinator does: see `budget.rs`.
//!
//! # *Depth*
//!
//! A thread in a `block_on` polls tasks, and the `block_on` may lie inside a scope. That scope is
//! the caller's, and the root's, which is a part of the caller; the tasks must not see it. So each
//! scope notes the thread's depth, a scope of another depth counts as none, and a thread that polls
//! for others than its caller is one deeper ([`ScopeBarrier`](crate::cell::ScopeBarrier)). The
//! depth changes where such polls begin and end, and at each poll of the root between them. A poll
//! of a task costs nothing more.
//!
//! # Why the pointer is valid
//!
//! This is an unsafe island. A scope is a call of a closure: the value is borrowed until that call
//! ends, and before it ends the guard has put back the pointer of the scope below. So whatever the
//! slot points to belongs to a call that is still on this thread's stack. [`LocalKey::try_with`]
//! lends the value only to a closure, and the closure returns before that call does. All code that
//! reaches the value shares it; only the owner of the scope, which is in the call, could change it.
//! A scope inside [`LocalKey::with`] leaves the value below alone.
//!
//! The slot has no destructor, so it serves in those of thread-locals, too.
//!
//! Rejected: the value itself in the slot. `with` has to borrow the slot then, and a task that is
//! polled by a `block_on` inside `with` could enter no scope of the key.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, ready},
    thread,
};

use pin_project_lite::pin_project;

use crate::coop;
use crate::{budget, cell::depth};

/// Declares task-local keys: `static` items of type [`LocalKey`].
///
/// # Examples
///
/// ```
/// ws::task_local! {
///     /// Which request this task serves.
///     pub static REQUEST: u32;
///     static USER: String;
/// }
///
/// # let runtime = ws::runtime::Runtime::new().unwrap();
/// runtime.block_on(async {
///     let task = ws::spawn(REQUEST.scope(7, async {
///         ws::task::yield_now().await;
///         REQUEST.get()
///     }));
///     assert_eq!(task.await.unwrap(), 7);
///     assert!(REQUEST.try_with(|_| ()).is_err());
///     USER.sync_scope("ann".to_owned(), || assert_eq!(USER.get(), "ann"));
/// });
/// ```
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attribute])* $vis static $name: $type);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attribute:meta])* $vis:vis static $name:ident: $type:ty) => {
        $(#[$attribute])*
        $vis static $name: $crate::task::LocalKey<$type> = {
            ::std::thread_local! {
                static SLOT: $crate::task::__Slot<$type> =
                    const { $crate::task::__Slot::__new() };
            }
            $crate::task::LocalKey::__new(&SLOT)
        };
    };
}

/// The innermost scope of a key on this thread. See the module's head.
#[doc(hidden)]
pub struct Slot<T>(Cell<Entered<T>>);

impl<T> Slot<T> {
    #[doc(hidden)]
    pub const fn __new() -> Self {
        Self(Cell::new(Entered {
            value: None,
            depth: 0,
        }))
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

struct Entered<T> {
    /// None outside, and in a scope after its value was taken out.
    value: Option<NonNull<T>>,
    /// The thread's level when it was entered.
    depth: u32,
}

impl<T> Clone for Entered<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entered<T> {}

/// A key made by [`task_local!`](crate::task_local): gives each future that is run in a scope of it
/// a value of its own.
pub struct LocalKey<T: 'static> {
    slot: &'static thread::LocalKey<Slot<T>>,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(slot: &'static thread::LocalKey<Slot<T>>) -> Self {
        Self { slot }
    }

    /// Gives `future` a value: while it is polled, and while it is dropped, the key holds that.
    ///
    /// It is not handed on to tasks that the future spawns: give it to them by a scope of their
    /// own. Exception: a task of a [`LocalSet`](crate::task::LocalSet) that the future polls sees
    /// it, since it is polled by the future. Other tasks that this thread polls while the future is
    /// in a [`block_on`](crate::runtime::Handle::block_on) do not see it. The future that the
    /// `block_on` waits for sees it, for that is a part of its caller.
    ///
    /// # Panics
    ///
    /// The returned future panics if it is polled after it gave its output.
    ///
    /// ```
    /// ws::task_local! { static DEPTH: u32; }
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// runtime.block_on(DEPTH.scope(1, async {
    ///     let inner = DEPTH.scope(DEPTH.get() + 1, async { DEPTH.get() }).await;
    ///     assert_eq!((DEPTH.get(), inner), (1, 2));
    /// }));
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture {
            key: self,
            value: Some(value),
            begun: false,
            future: Some(future),
        }
    }

    /// Runs a closure in a scope.
    ///
    /// A [`block_on`](crate::runtime::Handle::block_on) in it is a part of the closure; the tasks
    /// that the thread polls meanwhile are not. The root of a
    /// [`Runtime::run`](crate::runtime::Runtime::run) is a task itself.
    ///
    /// # Panics
    ///
    /// If the closure does.
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut value = Some(value);
        self.enter(&mut value, f)
    }

    /// Calls `f` with the value.
    ///
    /// # Panics
    ///
    /// Outside of a scope of this key; and if `f` does.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Ok(result) => result,
            Err(_) => panic!(
                "a task-local was read outside of its scope: run the future in `LocalKey::scope`"
            ),
        }
    }

    /// Calls `f` with the value, if there is one.
    ///
    /// # Errors
    ///
    /// Outside of a scope of this key.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let entered = self.slot.with(|slot| slot.0.get());
        match entered.value {
            // SAFETY: see *Why the pointer is valid* in the module's head.
            Some(value) if entered.depth == depth::current() => Ok(f(unsafe { value.as_ref() })),
            _ => Err(AccessError(())),
        }
    }

    /// A copy of the value.
    ///
    /// # Panics
    ///
    /// Outside of a scope of this key.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Runs `f` while the slot points to `value`.
    fn enter<R>(&'static self, value: &mut Option<T>, f: impl FnOnce() -> R) -> R {
        struct Leave<T: 'static> {
            key: &'static LocalKey<T>,
            before: Entered<T>,
        }
        impl<T> Drop for Leave<T> {
            fn drop(&mut self) {
                self.key.slot.with(|slot| slot.0.set(self.before));
            }
        }
        let entered = Entered {
            value: value.as_ref().map(NonNull::from),
            depth: depth::current(),
        };
        let before = self.slot.with(|slot| slot.0.replace(entered));
        let _leave = Leave { key: self, before };
        f()
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

pin_project! {
    /// A future with a task-local value. See [`LocalKey::scope`].
    #[must_use = "futures do nothing unless polled"]
    pub struct TaskLocalFuture<T: 'static, F> {
        key: &'static LocalKey<T>,
        // The slot points to it during a poll.
        value: Option<T>,
        // It has asked for a unit of the budget.
        begun: bool,
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                this.key.enter(this.value, || this.future.set(None));
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out; the future, if it is polled on, has none any more.
    ///
    /// ```
    /// ws::task_local! { static LOG: std::cell::RefCell<Vec<u32>>; }
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// let mut logged = Box::pin(LOG.scope(Default::default(), async {
    ///     LOG.with(|log| log.borrow_mut().push(1));
    /// }));
    /// runtime.block_on(logged.as_mut());
    /// assert_eq!(logged.as_mut().take_value().unwrap().into_inner(), [1]);
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    /// # Panics
    ///
    /// If it gave its output before; and if the future does.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        ready!(coop::poll_begin(this.begun, cx));
        this.key.enter(this.value, || {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                panic!("a `TaskLocalFuture` was polled after it had given its output");
            };
            let polled = budget::charged(|| future.poll(cx));
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}

impl<T: 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").finish_non_exhaustive()
    }
}

/// There is no value: the task-local was read outside of its scope. See [`LocalKey::try_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(());

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task-local has no value outside of its scope")
    }
}

impl Error for AccessError {}
