//! Sleeping, timeouts and intervals.
//!
//! - [`sleep()`] and [`sleep_until`] wait for a while or until a moment;
//! - [`timeout()`] and [`timeout_at`] limit the time of another future;
//! - [`interval()`] and [`interval_at`] tick again and again;
//! - [`hold()`] and [`advance()`] are for tests in virtual time.
//!
//! ```
//! use std::time::Duration;
//! use ws::{runtime::Runtime, time};
//!
//! let runtime = Runtime::new()?;
//! runtime.block_on(async {
//!     let start = time::Instant::now();
//!     time::sleep(Duration::from_millis(2)).await;
//!     assert!(start.elapsed() >= Duration::from_millis(2));
//!
//!     let never = std::future::pending::<()>();
//!     assert!(time::timeout(Duration::from_millis(1), never).await.is_err());
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Precision
//!
//! A timer never fires early. It fires when a worker looks next: typically less than a tenth of a
//! millisecond late on an idle machine, and under load when a worker has finished its current poll.
//! The timers of a worker that is stuck in a poll are fired by others, also if all others sleep:
//! the [monitor](crate::runtime::Builder::sysmon) sees to that. If tens of thousands a
//! second fire, they do so together, every 200 microseconds, and any other timer of that time with
//! them. To wake a thread for each handful would cost more than they do.
//!
//! Time is the system's monotonic clock, which on most systems stands still while the machine is
//! suspended. If no [`Instant`] can hold the end of a duration, as with [`Duration::MAX`], the
//! timer never fires. Under `faketime`, which shows a process another clock, timers do not fire.
//!
//! # Behind the scenes
//!
//! A [`Sleep`] arms its timer (`timer.rs`) on the P that polls it; the other futures here are made
//! of sleeps.
//!
//! [`Duration::MAX`]: std::time::Duration::MAX

mod advance;
mod instant;
mod interval;
mod sleep;
mod timeout;

/// A length of time: that of std, so that a program needs one import.
#[doc(no_inline)]
pub use std::time::Duration;

use crate::timer::TimerHandle;

/// The error of [`Sleep::try_poll`], for a package with another runtime's API.
#[doc(hidden)]
pub use crate::timer::shard::ShutDown;

pub use self::advance::{Hold, advance, hold};
pub use self::instant::Instant;
pub use self::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use self::sleep::{Sleep, sleep, sleep_until};
pub use self::timeout::{Elapsed, Timeout, timeout, timeout_at};

/// The timers of the current thread, for a function of this module that needs a runtime.
#[track_caller]
fn current(function: &str) -> TimerHandle {
    match crate::context::with_timers(|here| here.cloned()) {
        Some(timers) => TimerHandle::new(timers),
        None => panic!(
            "ws::time::{function} was called outside of a ws runtime: call it from a task, from \
             `block_on`, or after `Handle::enter`"
        ),
    }
}
