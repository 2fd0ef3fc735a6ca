//! For tests in virtual time: calls that hold the clock, and calls that let it go on.
//!
//! In a [paused](crate::runtime::Builder::clock) runtime the clock jumps by itself as soon as all
//! tasks wait. That is all that most tests need. A [`Hold`] stops that, for a test that wants to
//! look around between two timers, or while a thread works that the runtime does not know.
//! [`advance`] then lets a given time pass. The rules are in `sched/paused.rs`.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use crate::context;
use crate::sched::Shared;
use crate::sync::Arc;
use crate::time::{Instant, current};

/// Stops the clock of a paused runtime until the guard is dropped.
///
/// The clock does not jump, however long all tasks wait; only [`advance`] moves it. There may be
/// several guards at a time. Keep one while a thread which is not the runtime's works on something
/// that a task waits for: otherwise timeouts come before it is done. In a runtime with real time it
/// does nothing, so that a library may use it.
///
/// # Panics
///
/// Panics outside of a runtime.
///
/// ```
/// use std::time::Duration;
/// use futures::channel::oneshot;
/// use ws::{
///     runtime::{Builder, Clock},
///     time,
/// };
///
/// let runtime = Builder::new().clock(Clock::Paused).build()?;
/// runtime.block_on(async {
///     let (send, receive) = oneshot::channel();
///     let hold = time::hold();
///     std::thread::spawn(move || send.send(7));
///     // Without the guard the clock would jump to the timeout before the thread has begun.
///     assert_eq!(time::timeout(Duration::from_secs(1), receive).await, Ok(Ok(7)));
///     drop(hold);
/// });
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[track_caller]
pub fn hold() -> Hold {
    let shared = shared("hold");
    shared.hold_clock();
    Hold { shared }
}

/// The guard of [`hold`].
#[must_use = "the clock goes on when the guard is dropped"]
pub struct Hold {
    shared: Arc<Shared>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.let_clock_go();
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}

/// Lets virtual time pass, also while a [`Hold`] stops it.
///
/// What is due meanwhile happens, at its own time and in its order, before this is ready. That
/// includes what is due at the very end: this is ready when the time has passed, and everything
/// waits again. Two advances that end at the same moment are ready together.
///
/// A runtime's clock lasts 500 years: an advance beyond them never ends.
///
/// # Panics
///
/// Panics if the time of the runtime is real, and outside of a runtime.
///
/// # Cancel safety
///
/// Dropped before its end, it leaves the clock where it is by then.
///
/// ```
/// use std::time::Duration;
/// use ws::{
///     runtime::{Builder, Clock},
///     time,
/// };
///
/// let runtime = Builder::new().clock(Clock::Paused).build()?;
/// runtime.block_on(async {
///     let _hold = time::hold();
///     let task = ws::spawn(time::sleep(Duration::from_secs(3)));
///     time::advance(Duration::from_secs(2)).await;
///     assert!(!task.is_finished());
///     time::advance(Duration::from_secs(1)).await;
///     assert!(task.is_finished());
/// });
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[track_caller]
pub fn advance(duration: Duration) -> impl Future<Output = ()> + Send {
    struct Leave {
        shared: Arc<Shared>,
        place: Option<usize>,
    }
    impl Drop for Leave {
        fn drop(&mut self) {
            if let Some(place) = self.place {
                self.shared.leave_advance(place);
            }
        }
    }
    let shared = shared("advance");
    assert!(
        shared.time.paused.is_some(),
        "`ws::time::advance` moves virtual time, and that of this runtime is real: build it with \
         `Builder::clock`, or write `#[ws::test(paused)]`"
    );
    let clock = shared.time.clock();
    let deadline = Instant::from_std(clock.now()).add_or_never(duration);
    let until = clock.to_ns(deadline.into_std());
    let mut advance = Leave {
        shared,
        place: None,
    };
    poll_fn(move |cx| {
        let Leave { shared, place } = &mut advance;
        shared.poll_advance(place, until, cx)
    })
}

/// The current runtime.
#[track_caller]
fn shared(function: &str) -> Arc<Shared> {
    // It panics with the message that all functions of this module have.
    current(function);
    context::with_current(|current| current.map(|(shared, _)| shared.clone()))
        .expect("who has timers has a runtime")
}
