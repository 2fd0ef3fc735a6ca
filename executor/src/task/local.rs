//! Values that belong to a task, as thread-locals belong to a thread.
//!
//! A task-local is a thread-local slot that holds a value only while a future that was given one is
//! being polled or dropped: [`LocalKey::scope`] wraps the future together with its value, and swaps
//! the two, value and slot, at the begin and end of each poll. So it goes with the future to whatever
//! thread polls it, scopes nest, and outside of a scope there is nothing.
//!
//! The swap is undone by a guard, so a panic in the poll leaves the slot as it was. The future is dropped
//! inside its scope, where its destructors see the value; the value is dropped after it, outside. The
//! scheduler knows nothing of all this.
//!
//! A scope takes part in the budget as every combinator does: see `budget.rs`.

use std::{
    cell::RefCell,
    error::Error,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    thread,
};

use pin_project_lite::pin_project;

use crate::budget;

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
                static SLOT: ::std::cell::RefCell<::std::option::Option<$type>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }
            $crate::task::LocalKey::__new(&SLOT)
        };
    };
}

/// A key made by [`task_local!`](crate::task_local): gives each future that is run in a scope of it a
/// value of its own.
pub struct LocalKey<T: 'static> {
    slot: &'static thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(slot: &'static thread::LocalKey<RefCell<Option<T>>>) -> Self {
        Self { slot }
    }

    /// Gives `future` a value: while it is polled, and while it is dropped, the key holds that.
    ///
    /// It is not handed on to tasks that the future spawns: give it to them by a scope of their own.
    ///
    /// # Panics
    ///
    /// The returned future panics if it is polled inside of [`with`](Self::with) of the same key, and in
    /// destructors of thread-locals.
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
    /// # Panics
    ///
    /// If the closure does; inside of [`with`](Self::with) of the same key; and in destructors of
    /// thread-locals.
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        let mut value = Some(value);
        match self.enter(&mut value, f) {
            Ok(result) => result,
            Err((refused, _)) => refused.panic(),
        }
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
        self.slot
            .try_with(|slot| slot.borrow().as_ref().map(f))
            .ok()
            .flatten()
            .ok_or(AccessError(()))
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

    /// Runs `f` while `value` and the slot have changed places. Gives `f` back if they cannot.
    fn enter<R, F: FnOnce() -> R>(
        &'static self,
        value: &mut Option<T>,
        f: F,
    ) -> Result<R, (Refused, F)> {
        struct Leave<'a, T: 'static> {
            key: &'static LocalKey<T>,
            value: &'a mut Option<T>,
        }
        impl<T> Drop for Leave<'_, T> {
            fn drop(&mut self) {
                // No borrow is left: each ends inside `with`, and so before `f` did. And a slot that is
                // gone by now has dropped the value with it.
                let _ = self.key.swap(self.value);
            }
        }
        match self.swap(value) {
            Ok(()) => {
                let _leave = Leave { key: self, value };
                Ok(f())
            }
            Err(refused) => Err((refused, f)),
        }
    }

    fn swap(&'static self, value: &mut Option<T>) -> Result<(), Refused> {
        let swapped = self.slot.try_with(|slot| match slot.try_borrow_mut() {
            Ok(mut slot) => {
                mem::swap(&mut *slot, value);
                Ok(())
            }
            Err(_) => Err(Refused::Borrowed),
        });
        swapped.unwrap_or(Err(Refused::Gone))
    }
}

/// Why a scope could not be entered.
enum Refused {
    /// The slot is in use by a `with` further up the stack.
    Borrowed,
    /// The thread is at its end, and the slot was destroyed.
    Gone,
}

impl Refused {
    #[track_caller]
    fn panic(self) -> ! {
        match self {
            Self::Borrowed => {
                panic!("a task-local's scope was entered inside `with` of the same key")
            }
            Self::Gone => panic!(
                "a task-local's scope was entered while the thread ends, after its slot was destroyed"
            ),
        }
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
        // In the slot during a poll.
        value: Option<T>,
        // It has asked for a unit of the budget.
        begun: bool,
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some()
                && let Err((_, drop_it)) = this.key.enter(this.value, || this.future.set(None))
            {
                // There is no scope to be had; the future must go all the same.
                drop_it();
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
    /// If it gave its output before; and as [`LocalKey::scope`] says.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        ready!(budget::poll_begin(this.begun, cx));
        let polled = this.key.enter(this.value, || {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                panic!("a `TaskLocalFuture` was polled after it had given its output");
            };
            let polled = budget::charged(|| future.poll(cx));
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        });
        match polled {
            Ok(polled) => polled,
            Err((refused, _)) => refused.panic(),
        }
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
