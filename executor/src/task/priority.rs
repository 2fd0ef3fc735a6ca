//! How urgent a task is.

use std::fmt;

use super::current;
use crate::cell::Header;

/// How urgent a task is: a worker takes the greater first. See *Order among equals* for the rest.
///
/// Any `i64` is a priority, and so is a deadline or a class of service that was turned into one. A
/// task that is given no priority has [`DEFAULT`](Self::DEFAULT), also if a task of another
/// priority spawns it. A child that is to inherit is given [`Priority::current`].
///
/// Set it with [`Builder::priority`](super::Builder::priority), and change it with
/// [`JoinHandle::set_priority`](super::JoinHandle::set_priority).
///
/// # What it means
///
/// A worker that is done with a poll takes, of what it knows, first tasks above the default
/// priority, then those of the default priority, then those below. A poll is never interrupted, and
/// a task that waits for a socket or a timer is in no queue, whatever its priority. Nothing is
/// inherited: a task that waits for one of a lower priority waits as long as that does.
///
/// What each worker knows is its own queue and the queue that all share, and, now and then, the
/// most urgent of the others'. So with several workers the order is not exact: a less urgent task
/// may run on one worker while a more urgent one waits, for a moment, on another. Tasks that are
/// pinned to a thread ([`spawn_local`](crate::spawn_local), [`spawn_pinned`](crate::spawn_pinned))
/// take turns among themselves, and their priority plays no part.
///
/// # Order among equals
///
/// Tasks of one priority that a worker has in its own queue run in the order in which they came
/// there. That queue has 256 places. What finds none goes to the queue that all share, and may run
/// after tasks that came later. Many different priorities at a time can fill the places sooner. Of
/// the default priority, the task that was spawned or woken last may run first, since it is what
/// the worker has in its caches.
///
/// # Fairness
///
/// However many others are ready, a worker polls one of the tasks of the lowest priority in its
/// reach at least once in 250 ticks (a tick is about a poll). Exception: a runtime that was built
/// with [strict priorities](crate::runtime::Builder::priorities). If several of that
/// priority wait, they take turns.
///
/// # Examples
///
/// ```
/// use ws::task::{self, Priority};
///
/// let builder = ws::runtime::Builder::new().workers(1);
/// # // The order is exact as long as the root keeps its permit.
/// # let builder = builder.sysmon(ws::runtime::Sysmon::Off);
/// let runtime = builder.build()?;
/// let (send, order) = std::sync::mpsc::channel();
/// # runtime.block_on(async {
/// let mut all = vec![];
/// for (name, priority) in [
///     ("batch", Priority::LOWEST),
///     ("request", Priority::DEFAULT),
///     ("prefetch", Priority::new(-5)),
///     ("health check", Priority::HIGHEST),
/// ] {
///     let send = send.clone();
///     let task = task::Builder::new().priority(priority).spawn(async move { send.send(name) });
///     all.push(task);
/// }
/// for task in all {
///     task.await.unwrap().unwrap();
/// }
/// # });
/// # drop(send);
/// let order: Vec<_> = order.iter().collect();
/// assert_eq!(order, ["health check", "request", "prefetch", "batch"]);
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(i64);

impl Priority {
    /// Above all others.
    pub const HIGHEST: Self = Self(i64::MAX);
    /// That of a task which was given no other.
    pub const DEFAULT: Self = Self(0);
    /// Below all others.
    pub const LOWEST: Self = Self(i64::MIN);

    /// The priority of this number; 0 is the default one.
    ///
    /// ```
    /// use ws::task::Priority;
    ///
    /// assert!(Priority::new(1) > Priority::DEFAULT);
    /// assert_eq!(Priority::new(i64::MIN), Priority::LOWEST);
    /// ```
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The priority of the task that is being polled on this thread, and [`DEFAULT`](Self::DEFAULT)
    /// where none is.
    ///
    /// It asks the table of live tasks: more than a load, and nothing for an inner loop. A root, a
    /// branch of [`join()`](crate::join) or [`scope`](crate::scope) that another worker took, and
    /// the closure of a [`compute`](crate::compute()) have none of their own, so they find the
    /// default: ask before the fork. Exception: the root of a `block_on` inside a task finds the
    /// task's.
    ///
    /// ```
    /// use ws::task::{Builder, Priority};
    ///
    /// # let runtime = ws::runtime::Runtime::new().unwrap();
    /// # runtime.block_on(async {
    /// let parent = Builder::new().priority(7).spawn(async {
    ///     let child = Builder::new().priority(Priority::current()).spawn(async {});
    ///     child.priority()
    /// });
    /// assert_eq!(parent.await.unwrap(), Priority::new(7));
    /// # });
    /// assert_eq!(Priority::current(), Priority::DEFAULT);
    /// ```
    pub fn current() -> Self {
        current::with_task(Header::priority).map_or(Self::DEFAULT, Self)
    }

    /// Its number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for Priority {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl From<Priority> for i64 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HIGHEST => f.write_str("Priority::HIGHEST"),
            Self::DEFAULT => f.write_str("Priority::DEFAULT"),
            Self::LOWEST => f.write_str("Priority::LOWEST"),
            Self(number) => write!(f, "Priority({number})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_a_number() {
        for number in [i64::MIN, -1, 0, 1, 17, i64::MAX] {
            let priority = Priority::from(number);
            assert_eq!(priority, Priority::new(number));
            assert_eq!((priority.get(), i64::from(priority)), (number, number));
            assert_eq!(priority.to_string(), number.to_string());
        }
    }

    #[test]
    fn what_has_a_name_is_shown_by_it() {
        let shown = [
            (Priority::HIGHEST, "Priority::HIGHEST"),
            (Priority::DEFAULT, "Priority::DEFAULT"),
            (Priority::LOWEST, "Priority::LOWEST"),
            (Priority::new(7), "Priority(7)"),
        ];
        for (priority, text) in shown {
            assert_eq!(format!("{priority:?}"), text);
        }
    }
}
