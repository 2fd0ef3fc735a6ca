//! The identity of a task.

use std::{cell::Cell, fmt};

thread_local! {
    /// The task whose code this thread runs, if it is one that no worker polls.
    static CURRENT: Cell<Option<Id>> = const { Cell::new(None) };
}

/// A number that no other task of this process has.
///
/// ```
/// let runtime = ws::runtime::Runtime::new().unwrap();
/// let (a, b) = (runtime.spawn(async {}), runtime.spawn(async {}));
/// assert_ne!(a.id(), b.id());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl Id {
    pub(crate) fn new(id: u64) -> Self {
        Self(id)
    }

    /// The task whose code this thread runs by [`runs`](Self::runs).
    pub(crate) fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Runs code of this task's.
    pub(crate) fn runs<R>(self, f: impl FnOnce() -> R) -> R {
        struct Back(Option<Id>);
        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _back = Back(CURRENT.replace(Some(self)));
        f()
    }

    /// The number, for `compat/tokio`.
    #[doc(hidden)]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_its_number() {
        let id = Id::new(17);
        assert_eq!((id.as_u64(), id.to_string().as_str()), (17, "17"));
    }
}
